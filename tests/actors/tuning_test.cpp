// Case M3: limits of a node are changed while it runs (`node::tune`).
#include <cstring>
#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/task.hpp>

#include "actors/session.hpp"
#include "tests/support/conversation.hpp"
#include "tests/support/keeper.hpp"

namespace weir::test {
namespace {

using ::testing::HasSubstr;
constexpr uint64_t kib = 1 << 10;
constexpr unsigned item_bytes = 1000;

/// Sends so many items, more when that grows.
struct work {
  uint64_t items = 1'000'000;
  unsigned bytes = item_bytes;
  uint64_t sent = 0;
};
weir::task produce(customer& c, ref<Item> to, work& w) {
  weir::outlet<Item> out{&c, to};
  for (;;) {
    while (w.sent < w.items)
      if (out.offer([&](Item::Builder b) { b.initData(w.bytes); }))
        ++w.sent;
      else if (!co_await weir::credit(out))
        co_return;
    co_await weir::sleep_for(1ms);
  }
}

/// Reads as it is, and notes how long the longest slice of a message was.
class watched_stream final : public net::stream {
public:
  watched_stream(std::unique_ptr<net::stream> from, uint32_t* longest)
      : from_(std::move(from)), longest_(longest) {}
  net::io_count read(std::byte* to, size_t n) override { return from_->read(to, n); }
  net::io_count write(const iovec* v, int n) override {
    auto r = from_->write(v, n);
    auto left = r.bytes;
    for (int i = 0; i < n && left != 0; ++i) {
      auto some = std::min(left, v[i].iov_len);
      auto* at = static_cast<const std::byte*>(v[i].iov_base);
      seen_.insert(seen_.end(), at, at + some);
      left -= some;
    }
    look();
    return r;
  }
  void when_readable(std::function<void()> f) override { from_->when_readable(std::move(f)); }
  void when_writable(std::function<void()> f) override { from_->when_writable(std::move(f)); }
  void close() override { from_->close(); }
  std::string describe() const override { return from_->describe(); }

private:
  void look() {
    size_t at = std::exchange(begun_, true) ? 0 : net::preamble_bytes;
    while (at + net::header_bytes <= seen_.size()) {
      auto h = net::load_header(seen_.data() + at);
      if (at + net::header_bytes + h.length > seen_.size())
        break;
      at += net::header_bytes + h.length;
      if (h.kind == net::frame_kind::fragment)
        *longest_ = std::max(*longest_, h.length);
    }
    seen_.erase(seen_.begin(), seen_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::unique_ptr<net::stream> from_;
  uint32_t* longest_;
  std::vector<std::byte> seen_;
  bool begun_ = false;
};

/// The node that is changed is the server, unless it says otherwise.
class M3 : public Conversation {
protected:
  M3() { ration = {256 * kib, 0, 4}; }
  ~M3() override {
    leases.clear();
    shut_down();
  }
  void serve_keeper() { serve<Item>(server(), "keeper", spawn<keeper>(server(), &leases)); }
  ref<Item> to_keeper() { return lookup<Item>("keeper"); }
  /// A stream to `to`, and what it is to send.
  work& start(node_under_test& at, const ref<Item>& to, uint64_t items = 1'000'000,
              unsigned bytes = item_bytes) {
    auto& w = works_.emplace_back(work{items, bytes});
    tell(customer_at(at), [to, &w](customer& c) { produce(c, to, w); });
    return w;
  }
  void tune(const tuning& t, node_under_test* at = nullptr) {
    auto r = (at ? *at : server()).node->tune(t);
    ASSERT_TRUE(r) << to_string(r.error());
    run();
  }
  uint64_t owed() { return server().budget().charged(net::charge::session); }
  std::vector<net::ration_options> of_sessions() {
    std::vector<net::ration_options> all;
    for (auto* s : server().loop->sessions)
      if (s->protocol())
        all.push_back(s->protocol()->in().options());
    return all;
  }
  uint64_t fits(uint64_t bytes) const { return bytes / item_bytes; }

  keeper::leases leases;

private:
  std::deque<work> works_;
};

TEST_F(M3, SessionsToComeBeginWithTheNewRation) {
  serve_keeper();
  tune({.ration = 32 * kib});
  start(client(), to_keeper());
  EXPECT_EQ(of_sessions().at(0).bytes, 32 * kib);
  EXPECT_EQ(of_sessions().at(0).messages, 256u) << "the messages go with it";
  EXPECT_EQ(owed(), 32 * kib);
  EXPECT_LE(leases.size(), fits(32 * kib));
}

TEST_F(M3, ASmallerRationIsAskedBackAndHoldsTheSenderAtOnce) {
  serve_keeper();
  auto& w = start(client(), to_keeper(), 10); // it has far more than it uses
  EXPECT_EQ(owed(), 256 * kib);
  tune({.ration = 32 * kib});
  EXPECT_EQ(of_sessions().at(0).bytes, 32 * kib);
  EXPECT_LE(owed(), 32 * kib);
  w.items = 1'000'000;
  advance(50ms);
  EXPECT_GT(leases.size(), 10u);
  EXPECT_LE(leases.size(), fits(32 * kib));
  leases.clear();
  advance(50ms);
  EXPECT_GT(leases.size(), 10u) << "what comes back is granted again";
  EXPECT_LE(leases.size(), fits(32 * kib));
}

TEST_F(M3, WhatWasUsedOfALargerRationFallsAsItComesBack) {
  serve_keeper();
  start(client(), to_keeper());
  auto all = leases.size();
  EXPECT_GT(all, fits(128 * kib));
  tune({.ration = 32 * kib});
  EXPECT_GT(owed(), 200 * kib) << "it is in memory";
  while (all > 2 * fits(32 * kib)) {
    leases.pop_front();
    advance(1ms);
    ASSERT_EQ(leases.size(), --all) << "nothing new while more than the ration is there";
  }
  leases.clear();
  advance(50ms);
  EXPECT_LE(owed(), 32 * kib);
  EXPECT_GT(leases.size(), 10u);
  EXPECT_LE(leases.size(), fits(32 * kib));
}

TEST_F(M3, ALargerRationIsGrantedAtOnce) {
  ration = {32 * kib, 0, 4};
  serve_keeper();
  start(client(), to_keeper());
  EXPECT_LE(leases.size(), fits(32 * kib));
  tune({.ration = 512 * kib});
  EXPECT_EQ(of_sessions().at(0).bytes, 512 * kib);
  EXPECT_GT(leases.size(), fits(512 * kib) * 7 / 10);
}

TEST_F(M3, TheMessagesOfARationCanBeChangedAlone) {
  serve_keeper();
  auto& w = start(client(), to_keeper(), 10);
  tune({.ration = 256 * kib});
  EXPECT_EQ(of_sessions().at(0).messages, 2048u);
  tune({.ration_messages = 16});
  EXPECT_EQ(of_sessions().at(0).messages, 16u);
  EXPECT_EQ(of_sessions().at(0).bytes, 256 * kib);
  EXPECT_EQ(server().node->options().ration_messages, 16u);
  w.items = 1'000'000;
  advance(50ms);
  EXPECT_GT(leases.size(), 10u);
  EXPECT_LE(leases.size(), 10u + 16) << "what it was told before is asked back";
  leases.clear();
  advance(50ms);
  EXPECT_EQ(leases.size(), 16u);
}

TEST_F(M3, SessionsWithinTheNodeAreHeldToItToo) {
  serve_keeper();
  start(server(), lookup_here<Item>("keeper"));
  auto all = leases.size();
  EXPECT_GT(all, fits(128 * kib));
  tune({.ration = 32 * kib});
  EXPECT_LE(owed(), 256 * kib);
  for (size_t i = 0; i < all - 20; ++i)
    leases.pop_front();
  advance(50ms);
  EXPECT_LE(leases.size(), 20 + fits(32 * kib));
  EXPECT_LE(owed(), 32 * kib);
  tune({.ration = 512 * kib});
  EXPECT_GT(leases.size(), fits(512 * kib) * 7 / 10);
  EXPECT_EQ(owed(), 512 * kib);
}

TEST_F(M3, FromFixedToItsNeedAndToTheWholeBudgetAndBack) {
  serve_keeper();
  start(client(), to_keeper(), 10);
  tune({.ration = automatic});
  EXPECT_EQ(of_sessions().at(0).bytes, net::tuner::start_bytes);
  EXPECT_LE(owed(), net::tuner::start_bytes);
  auto& s = **server().loop->sessions.begin();
  EXPECT_TRUE(s.protocol()->is_tuned());
  tune({.ration = infinite});
  EXPECT_FALSE(s.protocol()->is_tuned());
  EXPECT_GT(of_sessions().at(0).bytes, 10'000 * kib) << "a quarter of what is free";
  EXPECT_LE(server().budget().liability(), budget_bytes);
  tune({.ration = 64 * kib});
  EXPECT_EQ(of_sessions().at(0).bytes, 64 * kib);
  EXPECT_LE(owed(), 64 * kib);
  EXPECT_EQ(server().node->options().ration, 64 * kib);
}

TEST_F(M3, AServiceWithARationOfItsOwnKeepsIt) {
  ASSERT_TRUE(server().node->serve<Item>("own", spawn<keeper>(server(), &leases), {.ration = 128 * kib}));
  start(client(), lookup<Item>("own"), 10);
  tune({.ration = 32 * kib});
  EXPECT_EQ(of_sessions().at(0).bytes, 128 * kib);
}

TEST_F(M3, OfASmallerBudgetNothingNewIsGivenUntilWhatIsOwedFits) {
  serve_keeper();
  tune({.ration = 8 << 20});
  std::vector<ref<Item>> refs;
  for (int i = 0; i < 5; ++i)
    refs.push_back(to_keeper()), run();
  EXPECT_EQ(owed(), 40 << 20);
  start(client(), refs[0], 100); // a stream that finds its ref unused takes its session
  tune({.budget_bytes = 32 << 20});
  EXPECT_EQ(owed(), 40 << 20) << "nothing is taken from anybody";
  EXPECT_EQ(server().budget().free_bytes(), 0u);
  auto late = to_keeper();
  run();
  EXPECT_EQ(server().env->count.sessions_refused.load(), 1u);
  EXPECT_EQ(leases.size(), 100u) << "who is there goes on";
  leases.clear();
  refs.resize(1);
  advance(50ms);
  late = to_keeper();
  run();
  EXPECT_EQ(server().env->count.sessions_refused.load(), 1u) << "it fits again";
  EXPECT_EQ(owed(), 16 << 20);
  EXPECT_EQ(server().node->stats().budget, 32u << 20);
}

TEST_F(M3, ALargerBudgetIsThereAtOnce) {
  serve_keeper();
  tune({.ration = 16 << 20, .budget_bytes = 40 << 20});
  auto one = to_keeper(), two = to_keeper();
  run();
  EXPECT_EQ(server().env->count.sessions_refused.load(), 1u);
  tune({.budget_bytes = 64 << 20});
  auto three = to_keeper();
  run();
  EXPECT_EQ(server().env->count.sessions_refused.load(), 1u);
}

TEST_F(M3, TheNextMessageLeavesInTheNewSlices) {
  uint32_t longest = 0;
  serve_keeper();
  client().env->connect = [&, dial = client().env->connect](auto& l, auto& to, auto timeout, auto f) {
    return dial(l, to, timeout, [&, f = std::move(f)](auto r) {
      f(r ? result<std::unique_ptr<net::stream>>{std::make_unique<watched_stream>(std::move(*r), &longest)}
          : std::move(r));
    });
  };
  tune({.fragment = 32 << 10}, &client()); // before there is a link
  start(client(), to_keeper(), 1, 200'000);
  EXPECT_GT(longest, 30 * kib);
  EXPECT_LE(longest, 48 * kib) << "with a small rest";
  longest = 0;
  tune({.fragment = 4 << 10}, &client());
  start(client(), to_keeper(), 1, 200'000);
  EXPECT_EQ(leases.size(), 2u);
  EXPECT_GT(longest, 3 * kib);
  EXPECT_LE(longest, 6 * kib);
}

TEST_F(M3, WhatIsWrongIsNamedAndChangesNothing) {
  serve_keeper();
  start(client(), to_keeper(), 10);
  auto before = server().node->options();
  for (auto& [wrong, names] :
       {std::pair{tuning{.ration = 1}, "ration"}, std::pair{tuning{.ration = 60 << 20}, "ration"},
        std::pair{tuning{.ration = 32 * kib, .ration_messages = 1 << 30}, "ration-messages"},
        std::pair{tuning{.ration = 32 * kib, .budget_bytes = 1}, "budget-bytes"},
        std::pair{tuning{.ration = 32 * kib, .fragment = 100}, "fragment"}}) {
    auto r = server().node->tune(wrong);
    ASSERT_FALSE(r) << names;
    EXPECT_EQ(r.error().code, errc::bad_option);
    EXPECT_THAT(r.error().text, ::testing::StartsWith(names + std::string{": "}));
  }
  run();
  auto after = server().node->options();
  EXPECT_EQ(after.ration, before.ration);
  EXPECT_EQ(after.ration_messages, before.ration_messages);
  EXPECT_EQ(after.budget_bytes, before.budget_bytes);
  EXPECT_EQ(after.fragment, before.fragment);
  EXPECT_EQ(of_sessions().at(0).bytes, 256 * kib);
}

TEST_F(M3, AnActorOfTheNodeMayDoItForAllLoops) {
  loops = 2;
  serve_keeper();
  start(client(), to_keeper(), 10);
  start(client(), to_keeper(), 10);
  tell(customer_at(server()), [&](customer&) { EXPECT_TRUE(server().node->tune({.ration = 32 * kib})); });
  run();
  for (auto& l : server().env->loops)
    EXPECT_EQ(l->limits_now.rations.bytes, 32 * kib);
}

} // namespace
} // namespace weir::test
