// Calls the service of calculator_server.cpp: calculator_client --connect tcp://127.0.0.1:7000

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>

#include "calculator.capnp.h"

using add = weir::method<&Calculator::Client::addRequest>;
using divide = weir::method<&Calculator::Client::divideRequest>;

class customer : public weir::actor {
public:
  customer(caf::actor_config& c, weir::ref<Calculator> calc) : actor(c), calc_(std::move(calc)) {}

  caf::behavior make_behavior() override {
    call<add>(calc_, {.timeout = std::chrono::seconds{5}}, [](add::args a) { a.setA(20), a.setB(22); })
        .then([this](add::result r) { note(fmt::format("20 + 22 = {}", r.getSum())); },
              [this](const weir::failure& why) { note(fmt::format("20 + 22: {}", to_string(why))); });
    call<divide>(calc_, [](divide::args a) { a.setDividend(1), a.setDivisor(0); })
        .then([this](divide::result r) { note(fmt::format("1 / 0 = {}", r.getQuotient())); },
              [this](const weir::failure& why) { note(fmt::format("1 / 0: {}", to_string(why))); });
    return actor::make_behavior();
  }

private:
  void note(const std::string& answer) {
    fmt::print("{}\n", answer);
    if (++answers_ == 2)
      quit();
  }
  weir::ref<Calculator> calc_;
  int answers_ = 0;
};

void caf_main(caf::actor_system& sys, const weir::config& cfg) {
  weir::node node{sys, cfg};
  caf::scoped_actor { sys } -> wait_for(node.spawn<customer>(node.lookup<Calculator>("calculator")));
}

WEIR_MAIN()
