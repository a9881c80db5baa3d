// A service in one process, its caller (calculator_client.cpp) in another:
//
//     calculator_server --listen tcp://127.0.0.1:7000
//     calculator_client --connect tcp://127.0.0.1:7000

#include <stdexcept>

#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>

#include "calculator.capnp.h"

using add = weir::method<&Calculator::Client::addRequest>;
using divide = weir::method<&Calculator::Client::divideRequest>;

class calculator : public weir::service<Calculator> {
public:
  using service::service;
  weir::handlers make_handlers() override {
    return {on<add>([](add::in in, add::out out) { out.setSum(int64_t{in.getA()} + in.getB()); }),
            on<divide>([](divide::in in, divide::out out) {
              if (in.getDivisor() == 0)
                throw std::domain_error{"division by zero"}; // what the caller gets; the service lives on
              out.setQuotient(int64_t{in.getDividend()} / in.getDivisor());
            })};
  }
};

void caf_main(caf::actor_system& sys, const weir::config& cfg) {
  weir::stop_signal stop;
  weir::node node{sys, cfg};
  node.serve<Calculator>("calculator", node.spawn<calculator>());
  for (auto& at : node.addresses())
    fmt::print("READY {}\n", at);
  std::fflush(stdout);
  stop.wait();
}

WEIR_MAIN()
