#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/loop.hpp"

namespace weir::net {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;

/// A loop whose tasks are functions.
class tasks final : public loop {
public:
  explicit tasks(const loop_options& o) : loop(o) {}
  ~tasks() override { stop(); }

  size_t at_once_max = 4; // of one round
  int taken = 0;          // how often `take_remote` was called

  /// On the loop.
  void run(std::function<void()> f) { ready_.push_back(std::move(f)); }
  /// Any thread.
  void post(std::function<void()> f, bool wakes = true) {
    {
      std::lock_guard guard{mutex_};
      remote_.push_back(std::move(f));
    }
    wakes ? wake() : remind();
  }
  /// Runs `f` on the loop and waits for what it returns.
  template <class F>
  auto ask(F f) {
    std::packaged_task<decltype(f())()> task{std::move(f)};
    auto answer = task.get_future();
    post([&] { task(); });
    return answer.get();
  }
  using loop::run_stopped;

private:
  bool run_ready() override {
    for (size_t n = 0; n < at_once_max && !ready_.empty(); ++n) {
      auto f = std::move(ready_.front());
      ready_.pop_front();
      f();
    }
    return !ready_.empty();
  }
  bool has_ready() const override { return !ready_.empty(); }
  void take_remote() override {
    ++taken;
    std::lock_guard guard{mutex_};
    for (auto& f : std::exchange(remote_, {}))
      ready_.push_back(std::move(f));
  }

  std::deque<std::function<void()>> ready_;
  std::mutex mutex_;
  std::vector<std::function<void()>> remote_;
};

/// What was done, in order.
struct Loop : testing::Test {
  loop_options virtual_time{.virtual_time = true};
  tasks l{virtual_time};
  std::vector<std::string> done;

  std::function<void()> note(std::string what) {
    return [this, what] { done.push_back(what); };
  }
};

struct once final : round_end {
  std::function<void()> f;
  explicit once(std::function<void()> then) : f(std::move(then)) {}
  void end_of_round() override { f(); }
};

// ---- virtual time

TEST_F(Loop, FiresTimersInTheOrderOfTheirTime) {
  auto start = l.now();
  l.at(start + 3s, note("three"));
  l.at(start + 1s, note("one"));
  l.at(start + 2s, [&] {
    EXPECT_EQ(l.now(), start + 2s);
    note("two")();
    l.at(l.now(), note("and at once"));
  });
  EXPECT_EQ(l.next_timer(), start + 1s);
  l.advance(2s);
  EXPECT_THAT(done, ElementsAre("one", "two", "and at once"));
  EXPECT_EQ(l.now(), start + 2s);
  EXPECT_EQ(l.fresh_now(), start + 2s);
  EXPECT_EQ(l.waiting_clock(), start + 2s);
  l.advance(10s);
  EXPECT_EQ(done.back(), "three");
  EXPECT_EQ(l.next_timer(), time_point::max());
}

TEST_F(Loop, ATimerThatIsCancelledDoesNotFire) {
  auto first = l.at(l.now() + 1s, note("first"));
  auto third = l.at(l.now() + 3s, note("third"));
  l.at(l.now() + 2s, [&] { l.cancel(third); });
  l.cancel(first);
  l.cancel(first);
  l.advance(5s);
  EXPECT_THAT(done, ElementsAre());
}

TEST_F(Loop, ARoundRunsWhatIsReadyAndThenEndsForThoseWhoAsked) {
  once end{note("end")};
  l.run([&] {
    note("ready")();
    l.at_end_of_round(end);
    l.run(note("ready too"));
  });
  l.step();
  EXPECT_THAT(done, ElementsAre("ready", "ready too", "end"));
  l.step();
  EXPECT_EQ(done.size(), 3u) << "it is told once";
}

TEST_F(Loop, WhatTheEndOfARoundMakesReadyRunsBeforeItRests) {
  once end{[&] { l.run(note("late")); }};
  l.at_end_of_round(end);
  EXPECT_FALSE(l.idle());
  l.run_until_idle();
  EXPECT_THAT(done, ElementsAre("late"));
  EXPECT_TRUE(l.idle());
}

TEST_F(Loop, TheEndOfARoundMayAskForAnother) {
  int rounds = 0;
  once end{[&] {
    if (++rounds < 3)
      l.at_end_of_round(end);
  }};
  l.at_end_of_round(end);
  l.run_until_idle();
  EXPECT_EQ(rounds, 3);
}

TEST_F(Loop, WhoeverIsForgottenIsNotTold) {
  once third{note("third")}, second{note("second")};
  once first{[&] {
    note("first")();
    l.forget(third); // in the middle of the round that would tell it
  }};
  l.at_end_of_round(first);
  l.at_end_of_round(second);
  l.at_end_of_round(third);
  l.forget(second);
  l.run_until_idle();
  EXPECT_THAT(done, ElementsAre("first"));
}

TEST_F(Loop, OneRoundIsBounded) {
  for (int i = 0; i < 10; ++i)
    l.run(note("x"));
  l.step();
  EXPECT_EQ(done.size(), l.at_once_max);
  EXPECT_FALSE(l.idle());
  l.run_until_idle();
  EXPECT_EQ(done.size(), 10u);
}

TEST_F(Loop, IsIdleUntilItsNextTimer) {
  EXPECT_TRUE(l.idle());
  l.at(l.now() + 1s, note("x"));
  EXPECT_TRUE(l.idle());
  l.set_time(l.now() + 1s);
  EXPECT_FALSE(l.idle());
  l.step();
  EXPECT_TRUE(l.idle());
  l.run(note("y"));
  EXPECT_FALSE(l.idle());
}

TEST_F(Loop, TakesWhatWasLeftWhenItWasReminded) {
  l.step();
  EXPECT_EQ(l.taken, 0);
  l.post(note("x"), false);
  EXPECT_FALSE(l.idle());
  l.step();
  EXPECT_EQ(l.taken, 1);
  EXPECT_THAT(done, ElementsAre("x"));
}

TEST_F(Loop, OnVirtualTimeBelongsToTheThreadThatMadeIt) {
  l.start();
  EXPECT_TRUE(l.is_virtual());
  EXPECT_TRUE(l.here());
  std::thread{[&] {
    EXPECT_FALSE(l.here());
    l.post(note("from elsewhere"));
  }}.join();
  EXPECT_THAT(done, ElementsAre());
  l.run_until_idle();
  EXPECT_THAT(done, ElementsAre("from elsewhere"));
  l.stop();
}

TEST_F(Loop, DrawsTheSameSeedsInEachRun) {
  tasks one{{.virtual_time = true, .seed = 77}}, same{{.virtual_time = true, .seed = 77}};
  std::set<uint64_t> drawn;
  for (int i = 0; i < 100; ++i) {
    auto seed = one.draw_seed();
    EXPECT_EQ(same.draw_seed(), seed);
    EXPECT_TRUE(drawn.insert(seed).second);
  }
}

TEST_F(Loop, WaitsOnlyWhereSomebodyMovesTheClock) {
  struct mover final : time_mover {
    bool moves = false;
    time_point until{};
    bool moving() const override { return moves; }
    bool move_on(time_point t) override {
      until = t;
      return true;
    }
  };
  EXPECT_FALSE(l.may_wait());
  EXPECT_FALSE(l.move_on(l.now() + 1s));
  auto m = std::make_shared<mover>();
  tasks moved{{.virtual_time = true, .mover = m}};
  EXPECT_TRUE(moved.may_wait());
  EXPECT_TRUE(moved.move_on(moved.now() + 1s));
  EXPECT_EQ(m->until, moved.now() + 1s);
  m->moves = true;
  EXPECT_FALSE(moved.may_wait());
}

// ---- read slabs

TEST_F(Loop, SocketsShareAReadSlabUntilItIsFull) {
  auto* first = l.read_slab(1000).get();
  EXPECT_EQ(first->size, loop::read_slab_bytes);
  EXPECT_EQ(l.pinned_slab_bytes(), 0u) << "nobody but the loop holds it";
  first->used = first->size - 1000;
  EXPECT_EQ(l.read_slab(1000).get(), first);
  auto held = l.read_slab(1000);
  EXPECT_EQ(l.pinned_slab_bytes(), loop::read_slab_bytes);
  auto* second = l.read_slab(1001).get();
  EXPECT_NE(second, first);
  EXPECT_EQ(l.pinned_slab_bytes(), loop::read_slab_bytes) << "the first one, still held";
  held.reset();
  EXPECT_EQ(l.pinned_slab_bytes(), 0u);
  EXPECT_GE(l.read_slab(1 << 20)->size, 1u << 20);
}

// ---- a thread of its own

TEST(LoopThread, RunsEverythingOnIt) {
  tasks l{{}};
  EXPECT_FALSE(l.here());
  EXPECT_TRUE(l.may_wait());
  l.start();
  EXPECT_TRUE(l.ask([&] { return l.here(); }));
  EXPECT_FALSE(l.ask([&] { return l.may_wait(); })) << "it would wait for itself";
  EXPECT_FALSE(l.here());
  l.stop();
  l.stop();
}

TEST(LoopThread, IsWokenFromItsSleep) {
  for (auto spin : {0us, 20us, 1000us}) {
    tasks l{{.spin = spin}};
    l.start();
    for (int i = 0; i < 200; ++i)
      ASSERT_EQ(l.ask([i] { return i; }), i);
  }
}

TEST(LoopThread, LosesNoneOfManyWakeUps) {
  tasks l{{}};
  l.start();
  std::atomic<int> left{4000};
  std::promise<void> all;
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i)
    others.emplace_back([&] {
      for (int k = 0; k < 1000; ++k)
        l.post([&] { --left == 0 ? all.set_value() : void(); });
    });
  for (auto& t : others)
    t.join();
  EXPECT_EQ(all.get_future().wait_for(20s), std::future_status::ready);
}

TEST(LoopThread, FiresTimersWhileItSleeps) {
  tasks l{{.spin = 0us}};
  l.start();
  std::promise<time_point> fired;
  auto due = l.ask([&] {
    auto t = l.fresh_now() + 2ms;
    l.at(t, [&] { fired.set_value(l.now()); });
    return t;
  });
  EXPECT_GE(fired.get_future().get(), due);
  EXPECT_GE(l.waiting_clock(), due);
}

TEST(LoopThread, WakesItselfWithoutASystemCall) {
  tasks l{{.spin = 0us}};
  l.start();
  std::promise<void> second;
  l.post([&] { l.post([&] { second.set_value(); }); }); // from the loop to itself
  EXPECT_EQ(second.get_future().wait_for(20s), std::future_status::ready);
}

TEST(LoopThread, StopsAlthoughThereIsAlwaysMoreToRun) {
  tasks l{{}};
  l.start();
  std::function<void()> restless = [&] { l.run(restless); };
  l.post(restless);
  l.ask([] { return 0; });
  l.stop();
  auto ran = false;
  l.post([&] { ran = true; });
  EXPECT_FALSE(ran);
}

TEST(LoopThread, ThatHasStoppedIsRunByOthersForABoundedNumberOfRounds) {
  tasks l{{}};
  l.start();
  l.stop();
  auto end = false;
  l.post([&] {
    EXPECT_TRUE(l.here());
    end = true;
  });
  l.run_stopped();
  EXPECT_TRUE(end);
  EXPECT_FALSE(l.here());
  int rounds = 0;
  once again{[&] {
    ++rounds;
    l.at_end_of_round(again);
  }};
  l.at_end_of_round(again);
  l.run_stopped();
  EXPECT_GE(rounds, 10);
  EXPECT_LE(rounds, 10'000);
  l.forget(again);
}

} // namespace
} // namespace weir::net
