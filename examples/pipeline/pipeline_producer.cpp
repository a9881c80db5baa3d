// Streams the numbers 1 to N into the stage, on several streams at the same time. Three processes make the
// pipeline:
//
//     pipeline_consumer --listen tcp://127.0.0.1:7002 --streams 3
//     pipeline_stage    --listen tcp://127.0.0.1:7001 --connect tcp://127.0.0.1:7002
//     pipeline_producer --connect tcp://127.0.0.1:7001 --streams 3 --numbers 100000

#include <vector>

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>

#include "pipeline.capnp.h"

struct producer_config : weir::config {
  uint64_t numbers = 100'000;
  uint32_t streams = 1;
  producer_config() {
    add_option("numbers", "how many numbers each stream has", numbers);
    add_option("streams", "how many streams there are", streams, 1, 1000);
  }
};

/// One stream. Each has an actor here, so that each goes as fast as its own consumer.
class producer : public weir::actor {
public:
  producer(caf::actor_config& c, const weir::ref<Number>& to, uint64_t numbers, int* failed)
      : actor(c), out_(this, to), numbers_(numbers), failed_(failed) {}

  caf::behavior make_behavior() override {
    out_.on_credit([this] { go_on(); });
    out_.on_failure([this](const weir::failure& why) { fail(why); });
    return actor::make_behavior();
  }

private:
  void go_on() {
    while (sent_ < numbers_ && out_.offer([this](Number::Builder n) { n.setValue(sent_ + 1); }))
      sum_ += ++sent_;
    if (sent_ == numbers_)
      out_.close().then(
          [this](uint64_t consumed) {
            fmt::print("produced {} sum {} consumed {}\n", sent_, sum_, consumed);
            quit();
          },
          [this](const weir::failure& why) { fail(why); });
  }
  void fail(const weir::failure& why) {
    fmt::print(stderr, "the stream is lost: {}\n", to_string(why));
    *failed_ = 1;
    quit();
  }

  weir::outlet<Number> out_;
  uint64_t numbers_, sent_ = 0, sum_ = 0;
  int* failed_;
};

int caf_main(caf::actor_system& sys, const producer_config& cfg) {
  weir::node node{sys, cfg};
  int failed = 0; // written on the node's loop, read when all have ended
  auto stage = node.lookup<Number>("stage");
  std::vector<caf::actor> all;
  for (uint32_t i = 0; i < cfg.streams; ++i)
    all.push_back(node.spawn<producer>(stage, cfg.numbers, &failed));
  caf::scoped_actor { sys } -> wait_for(all);
  return failed;
}

WEIR_MAIN()
