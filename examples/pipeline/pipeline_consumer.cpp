// The end of the pipeline (see pipeline_producer.cpp): checks every square, and ends after so many streams.

#include <map>
#include <thread>

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>

#include "pipeline.capnp.h"

struct consumer_config : weir::config {
  uint32_t streams = 1;
  std::chrono::microseconds pause{0};
  consumer_config() {
    add_option("streams", "end after so many streams", streams, 1, 1000);
    add_option("pause", "how long each square takes: a slow consumer", pause);
  }
};

struct tally {
  uint64_t squares = 0, sum = 0, wrong = 0;
};

class consumer : public weir::sink<Square> {
public:
  consumer(caf::actor_config& c, const consumer_config& cfg, uint64_t* wrong)
      : sink(c), left_(cfg.streams), pause_(cfg.pause), wrong_(wrong) {}

  void on_message(weir::inlet<Square> from, Square::Reader s) override {
    auto& t = streams_[from.id()];
    if (s.getValue() != ++t.squares || s.getSquare() != s.getValue() * s.getValue())
      ++t.wrong; // the numbers of a stream come in order, none is left out
    t.sum += s.getValue();
    if (pause_.count() > 0)
      std::this_thread::sleep_for(pause_);
  }

  void on_ended(weir::inlet<Square> from, const weir::failure& why) override {
    auto t = streams_[from.id()];
    streams_.erase(from.id());
    if (why.code != weir::errc::none) {
      fmt::print(stderr, "a stream is lost: {}\n", to_string(why));
      ++t.wrong;
    }
    fmt::print("consumed {} sum {} wrong {}\n", t.squares, t.sum, t.wrong);
    std::fflush(stdout);
    *wrong_ += t.wrong;
    if (--left_ == 0)
      quit();
  }

private:
  uint32_t left_;
  std::chrono::microseconds pause_;
  std::map<uint64_t, tally> streams_;
  uint64_t* wrong_;
};

int caf_main(caf::actor_system& sys, const consumer_config& cfg) {
  weir::node node{sys, cfg};
  uint64_t wrong = 0;                                      // written by the consumer, read when it has ended
  auto last = sys.spawn<consumer>(std::cref(cfg), &wrong); // on CAF's scheduler: its handler may take long
  node.serve<Square>("consumer", last);
  for (auto& at : node.addresses())
    fmt::print("READY {}\n", at);
  std::fflush(stdout);
  caf::scoped_actor { sys } -> wait_for(last);
  return wrong == 0 ? 0 : 1;
}

WEIR_MAIN()
