// Forwarders: what comes in on one stream leaves on an outlet of its own.
#include <map>
#include <numeric>

#include <gmock/gmock.h>

#include <weir/relay.hpp>
#include <weir/task.hpp>

#include "tests/support/funnel.hpp"
#include "tests/support/shop.hpp"
#include "tests/support/virtual_nodes.hpp"

namespace weir::test {

using namespace std::chrono_literals;

namespace {

/// Takes every stream, but keeps what comes on the first one while it is told to.
class picky_shelf : public weir::sink<Item> {
public:
  struct seen {
    std::map<uint64_t, std::vector<uint64_t>> numbers; ///< by the order in which the streams were opened
    std::vector<weir::held<Item>> kept;
    bool keeps_first = false;
    std::vector<failure> ended;
  };
  picky_shelf(caf::actor_config& cfg, seen* s) : sink(cfg), seen_(s) {}
  void on_open(weir::inlet<Item> from) override { order_[from.id()] = next_++; }
  void on_message(weir::inlet<Item> from, Item::Reader item) override {
    auto which = order_[from.id()];
    seen_->numbers[which].push_back(item.getNumber());
    if (seen_->keeps_first && which == 0)
      seen_->kept.push_back(from.lease());
  }
  void on_ended(weir::inlet<Item>, const failure& why) override { seen_->ended.push_back(why); }

private:
  seen* seen_;
  std::map<uint64_t, uint64_t> order_;
  uint64_t next_ = 0;
};

/// How one stream of a producer went.
struct course {
  uint64_t sent = 0;
  std::optional<uint64_t> consumed;
  std::optional<failure> why;
};

class Relay : public virtual_nodes {
protected:
  Relay() { ration = {16 << 10, 16, 4}; }
  void tell(const caf::actor& who, std::function<void(customer&)> f) {
    put(who, nullptr, job{std::move(f)});
    run();
  }
  static weir::task produce(customer& c, ref<Item> to, uint64_t count, course& out) {
    weir::outlet<Item> items{&c, to};
    for (; out.sent < count; ++out.sent)
      while (!items.offer([&](Item::Builder b) {
        b.setNumber(out.sent);
        b.initData(20);
      }))
        if (!co_await weir::credit(items)) {
          out.why = (co_await items.close()).error();
          co_return;
        }
    auto end = co_await items.close();
    if (end)
      out.consumed = *end;
    else
      out.why = end.error();
  }
  void start(const caf::actor& who, const ref<Item>& to, uint64_t count, course& c) {
    tell(who, [&](customer& x) { produce(x, to, count, c); });
  }
  /// A shelf behind a relay, both on the server.
  void serve_both(weir::relay<Item>::transform f = {}) {
    serve<Item>(server(), "shelf", spawn<picky_shelf>(server(), &seen));
    serve<Item>(server(), "relay",
                spawn<weir::relay<Item>>(server(), lookup_here<Item>("shelf"), std::move(f)));
  }
  static std::vector<uint64_t> first_numbers(uint64_t n) {
    std::vector<uint64_t> all(n);
    std::iota(all.begin(), all.end(), uint64_t{0});
    return all;
  }

  picky_shelf::seen seen;
};

TEST_F(Relay, PassesOnEverythingInOrderAndTheEndBehindIt) {
  serve_both();
  auto who = spawn<customer>(client());
  course c;
  {
    auto to = lookup<Item>("relay");
    start(who, to, 1000, c);
    advance(200ms);
  }
  EXPECT_EQ(c.consumed, 1000u);
  EXPECT_EQ(seen.numbers[0], first_numbers(1000));
  ASSERT_EQ(seen.ended.size(), 1u);
  EXPECT_EQ(seen.ended[0].code, errc::none);
}

TEST_F(Relay, MakesWhatItsFunctionSays) {
  serve_both([](Item::Reader in, Item::Builder out) { out.setNumber(in.getNumber() * in.getNumber()); });
  auto who = spawn<customer>(client());
  course c;
  auto to = lookup<Item>("relay");
  start(who, to, 5, c);
  advance(50ms);
  EXPECT_EQ(seen.numbers[0], (std::vector<uint64_t>{0, 1, 4, 9, 16}));
}

TEST_F(Relay, AStreamThatIsNotTakenStopsItsOwnProducerOnly) {
  serve_both();
  seen.keeps_first = true;
  auto slow = spawn<customer>(client()), quick = spawn<customer>(client());
  course one, two;
  auto to = lookup<Item>("relay");
  start(slow, to, 1000, one);
  advance(50ms);
  EXPECT_EQ(seen.numbers[0].size(), 16u); // the ration of the shelf
  EXPECT_EQ(one.sent, 32u);               // and that of the relay, which keeps no more for it
  start(quick, to, 1000, two);
  advance(200ms);
  EXPECT_EQ(two.consumed, 1000u);
  EXPECT_EQ(one.sent, 32u);
  seen.keeps_first = false;
  seen.kept.clear();
  advance(200ms);
  EXPECT_EQ(one.consumed, 1000u);
  EXPECT_EQ(seen.numbers[0], first_numbers(1000));
}

TEST_F(Relay, PassesOnThatAStreamWasGivenUp) {
  serve_both();
  auto who = spawn<customer>(client());
  auto to = lookup<Item>("relay");
  tell(who, [&](customer& c) { c.outlets.push_back(std::make_unique<weir::outlet<Item>>(&c, to)); });
  tell(who, [](customer& c) { c.outlets[0]->offer([](Item::Builder b) { b.setNumber(0); }); });
  tell(who, [](customer& c) { c.outlets[0]->abort({errc::io_error, outcome::unknown, "the disk is gone"}); });
  advance(20ms);
  ASSERT_EQ(seen.ended.size(), 1u);
  EXPECT_EQ(seen.ended[0].code, errc::io_error);
  EXPECT_THAT(seen.ended[0].text, ::testing::HasSubstr("the disk is gone"));
}

TEST_F(Relay, TellsTheProducerThatTheNextOneIsLost) {
  auto last = spawn<picky_shelf>(server(), &seen);
  serve<Item>(server(), "shelf", last);
  serve<Item>(server(), "relay", spawn<weir::relay<Item>>(server(), lookup_here<Item>("shelf")));
  seen.keeps_first = true;
  auto who = spawn<customer>(client());
  course c;
  auto to = lookup<Item>("relay");
  start(who, to, 1000, c);
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(last), caf::exit_reason::kill);
  advance(20ms);
  ASSERT_TRUE(c.why);
  EXPECT_EQ(c.why->code, errc::service_down) << to_string(*c.why);
  EXPECT_LT(c.sent, 1000u);
  seen.kept.clear();
}

// ---- rings: three nodes, each sends to the one after the next, by way of the next

constexpr uint64_t ring_messages = 10'000;

TEST_F(Relay, ARingOfForwardersDeliversEverything) { // R8
  std::array<picky_shelf::seen, 3> shelves;
  std::array<course, 3> courses;
  auto name = [](const char* what, size_t i) { return what + std::to_string(i % 3); };
  for (size_t i = 0; i < 3; ++i)
    serve<Item>(server(), name("shelf", i), spawn<picky_shelf>(server(), &shelves[i]));
  for (size_t i = 0; i < 3; ++i)
    serve<Item>(server(), name("relay", i),
                spawn<weir::relay<Item>>(server(), lookup_here<Item>(name("shelf", i + 1))));
  for (size_t i = 0; i < 3; ++i)
    start(spawn<customer>(server()), lookup_here<Item>(name("relay", i + 1)), ring_messages, courses[i]);
  advance(1s);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(courses[i].consumed, ring_messages) << "node " << i;
    EXPECT_EQ(shelves[(i + 2) % 3].numbers[0], first_numbers(ring_messages)) << "node " << i;
  }
}

TEST_F(Relay, ARingWhoseForwardersShareAnOutletStopsWhichIsWhyThereIsARelay) { // R8, broken on purpose
  cycle_on_purpose = true;
  std::array<funnel_state<Item>, 3> states;
  auto name = [](size_t i) { return "funnel" + std::to_string(i % 3); };
  for (size_t i = 0; i < 3; ++i)
    serve<Item>(server(), name(i), spawn<funnel<Item>>(server(), &states[i]));
  std::array<course, 3> starts;
  for (size_t i = 0; i < 3; ++i) {
    states[i].own_messages = ring_messages;
    states[i].next = lookup_here<Item>(name(i + 1));
  }
  for (size_t i = 0; i < 3; ++i)
    start(spawn<customer>(server()), lookup_here<Item>(name(i)), 1, starts[i]);
  auto delivered = [&] {
    return std::accumulate(states.begin(), states.end(), uint64_t{0},
                           [](uint64_t n, auto& s) { return n + s.arrived; });
  };
  advance(1s);
  auto before = delivered();
  EXPECT_LT(before, 3 * ring_messages / 2);
  advance(10s);
  EXPECT_EQ(delivered(), before); // for ever
  for (auto& s : states)
    s = {};
  shut_down(); // what the funnels see goes now
}

} // namespace
} // namespace weir::test
