// A receiver that keeps nearly all of its ration gives credit back in parts that are worth no grant; its
// producer goes on all the same.
#include <deque>
#include <functional>

#include <gtest/gtest.h>

#include <weir/task.hpp>

#include "tests/support/shop.hpp"
#include "tests/support/virtual_nodes.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t ration_messages = 16;

/// Looks at the last `keeps` items together, and lets go of the oldest only when there is another.
class sliding_window : public weir::sink<Item> {
public:
  struct view {
    size_t keeps = 0;
    std::deque<weir::held<Item>> kept;
    uint64_t seen = 0, finished = 0;
  };
  sliding_window(caf::actor_config& c, view* v) : sink(c), view_(v) {}
  void on_message(weir::inlet<Item> from, Item::Reader item) override {
    EXPECT_EQ(item.getNumber(), view_->seen++);
    view_->kept.push_back(from.lease());
    while (view_->kept.size() > view_->keeps)
      view_->kept.pop_front();
  }
  void on_finished(weir::inlet<Item>) override { view_->kept.clear(), ++view_->finished; }

private:
  view* view_;
};

struct progress {
  uint64_t sent = 0;
  std::optional<uint64_t> consumed;
};

weir::task produce(customer& c, ref<Item> to, uint64_t count, progress& p) {
  weir::outlet<Item> items{&c, to};
  for (; p.sent < count; ++p.sent)
    while (!items.offer([&](Item::Builder b) { b.setNumber(p.sent); }))
      if (!co_await weir::credit(items))
        co_return;
  if (auto end = co_await items.close())
    p.consumed = *end;
}

/// Across a link, or within the node.
class SmallReturns : public virtual_nodes, public ::testing::WithParamInterface<bool> {
protected:
  SmallReturns() {
    ration = {64 << 10, ration_messages, 4};
    serve<Item>(server(), "window", spawn<sliding_window>(server(), &window_));
  }
  bool across() const { return GetParam(); }
  ref<Item> to_window() { return across() ? lookup<Item>("window") : lookup_here<Item>("window"); }
  auto& producers_node() { return across() ? client() : server(); }
  void start(uint64_t count) {
    who_ = spawn<customer>(producers_node());
    put(who_, nullptr, job{[&, count, to = to_window()](customer& c) { produce(c, to, count, progress_); }});
    run();
  }

  caf::actor who_;
  sliding_window::view window_;
  progress progress_;
};

TEST_P(SmallReturns, OfOneMessageEachKeepAStreamGoing) {
  window_.keeps = ration_messages - 1;
  start(1000);
  advance(5s);
  EXPECT_EQ(progress_.consumed, 1000u) << progress_.sent << " sent";
  EXPECT_EQ(window_.finished, 1u);
}

TEST_P(SmallReturns, ReachAProducerThatHasWaitedForLong) {
  window_.keeps = ration_messages;
  start(1000);
  advance(20s);
  EXPECT_EQ(progress_.sent, ration_messages);
  window_.kept.pop_front();
  advance(100ms);
  EXPECT_EQ(progress_.sent, ration_messages + 1);
  window_.keeps = 1;
  window_.kept.clear();
  advance(1s);
  EXPECT_EQ(progress_.consumed, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Ways, SmallReturns, ::testing::Bool(),
                         [](auto& i) { return i.param ? "AcrossALink" : "WithinANode"; });

} // namespace
} // namespace weir::test
