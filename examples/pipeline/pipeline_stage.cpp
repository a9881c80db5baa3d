// Squares what it gets and passes it on: the middle of the pipeline (see pipeline_producer.cpp).
//
// Each incoming stream has an outgoing one of its own. What cannot go on yet is kept by its lease: it stays
// charged to the stream that it came on, so the ration of that stream bounds what waits here, its producer
// waits when the ration is used up, and the other streams notice nothing.

#include <algorithm>
#include <deque>
#include <map>

#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>

#include "pipeline.capnp.h"

class stage : public weir::sink<Number> {
public:
  stage(caf::actor_config& c, weir::ref<Square> next) : sink(c), next_(std::move(next)) {}

  void on_open(weir::inlet<Number> from) override {
    auto id = from.id();
    auto& p = pairs_.try_emplace(id, this, next_).first->second;
    p.out.on_credit([this, id, &p] { go_on(id, p); });
    p.out.on_failure([this, id](const weir::failure& why) { lost(id, why); });
  }

  void on_message(weir::inlet<Number> from, Number::Reader number) override {
    auto i = pairs_.find(from.id());
    if (i == pairs_.end())
      return; // its other half is lost
    auto& p = i->second;
    if (!p.waiting.empty() || !pass_on(p, number))
      p.waiting.push_back(from.lease());
    p.waited_most = std::max(p.waited_most, p.waiting.size());
    ++p.numbers;
  }

  void on_finished(weir::inlet<Number> from) override {
    if (auto i = pairs_.find(from.id()); i != pairs_.end()) {
      i->second.finished = true;
      go_on(i->first, i->second);
    }
  }

  void on_ended(weir::inlet<Number> from, const weir::failure& why) override {
    if (why.code != weir::errc::none)
      lost(from.id(), why);
  }

private:
  struct pair {
    pair(stage* self, const weir::ref<Square>& next) : out(self, next) {}
    weir::outlet<Square> out;
    std::deque<weir::held<Number>> waiting;
    bool finished = false;
    uint64_t numbers = 0;
    size_t waited_most = 0;
  };

  static bool pass_on(pair& p, Number::Reader number) {
    return p.out.offer([&](Square::Builder s) {
      s.setValue(number.getValue());
      s.setSquare(number.getValue() * number.getValue());
    });
  }

  void go_on(uint64_t id, pair& p) {
    while (!p.waiting.empty() && pass_on(p, p.waiting.front().get()))
      p.waiting.pop_front(); // its credit returns now
    if (!p.finished || !p.waiting.empty())
      return;
    p.out.close().then(
        [this, id, &p](uint64_t consumed) {
          fmt::print("passed on {} consumed {} waited at most {}\n", p.numbers, consumed, p.waited_most);
          std::fflush(stdout);
          pairs_.erase(id);
        },
        [this, id](const weir::failure& why) { lost(id, why); });
  }

  void lost(uint64_t id, const weir::failure& why) {
    auto i = pairs_.find(id);
    if (i == pairs_.end())
      return;
    i->second.out.abort(why); // or the consumer would take a part for the whole
    pairs_.erase(i);
    fmt::print(stderr, "a stream is lost: {}\n", to_string(why));
  }

  weir::ref<Square> next_;
  std::map<uint64_t, pair> pairs_; // by the incoming stream
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
