// Squares what it gets and passes it on: the middle of the pipeline (see pipeline_producer.cpp).
//
// A relay gives each incoming stream an outgoing one of its own. What cannot go on yet stays charged to the
// stream that it came on, so the ration of that stream bounds what waits here, its producer waits when the
// ration is used up, and the other streams notice nothing.

#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>
#include <weir/relay.hpp>

#include "pipeline.capnp.h"

class stage : public weir::relay<Number, Square> {
public:
  stage(caf::actor_config& c, weir::ref<Square> next) : relay(c, std::move(next), square) {}

protected:
  void on_passed(const weir::relayed& s) override {
    if (s.why.code == weir::errc::none)
      fmt::print("passed on {} consumed {} waited at most {}\n", s.messages, s.consumed, s.waited_most);
    else
      fmt::print(stderr, "a stream is lost: {}\n", to_string(s.why));
    std::fflush(stdout);
  }

private:
  static void square(Number::Reader number, Square::Builder s) {
    s.setValue(number.getValue());
    s.setSquare(number.getValue() * number.getValue());
  }
};

void caf_main(caf::actor_system& sys, const weir::config& cfg) {
  weir::stop_signal stop;
  weir::node node{sys, cfg};
  node.serve<Number>("stage", node.spawn<stage>(node.lookup<Square>("consumer")));
  for (auto& at : node.addresses())
    fmt::print("READY {}\n", at);
  std::fflush(stdout);
  stop.wait();
}

WEIR_MAIN()
