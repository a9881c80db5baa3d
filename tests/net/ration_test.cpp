#include <deque>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "net/ration.hpp"

namespace weir::net {
namespace {
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr time_point start{seconds{1000}};
constexpr ration_options w{1000, 10, 4};

ration_out sender(uint64_t bytes, uint64_t messages) {
  ration_out out;
  EXPECT_TRUE(out.start({bytes, messages}));
  return out;
}

TEST(RationOut, BothLimitsMustAllow) {
  auto out = sender(300, 2);
  EXPECT_TRUE(out.covers(300));
  EXPECT_FALSE(out.covers(301));
  EXPECT_FALSE(out.covers(3, 3));
  out.charge(100);
  out.charge(100);
  EXPECT_FALSE(out.covers(1)) << "no message is left";
  EXPECT_EQ(out.left_bytes(), 100u);
}

TEST(RationOut, TakesTheMaximumWithinAnEpoch) {
  auto out = sender(300, 2);
  EXPECT_EQ(out.raise(0, {500, 1}), ration_out::effect::raised);
  EXPECT_EQ(out.limit(), (position{500, 2}));
  EXPECT_EQ(out.raise(0, {400, 2}), ration_out::effect::none) << "late or doubled";
}

TEST(RationOut, IgnoresOlderEpochs) {
  auto out = sender(300, 20);
  out.reclaim(1, 100, 5);
  EXPECT_EQ(out.raise(0, {900, 90}), ration_out::effect::none);
  EXPECT_EQ(out.limit(), (position{100, 5}));
}

TEST(RationOut, RefusesLimitsThatCouldWrap) {
  ration_out out;
  EXPECT_FALSE(out.start({offset_max + 1, 0}));
  EXPECT_TRUE(out.start({0, 0}));
  EXPECT_EQ(out.raise(0, {0, offset_max + 1}), ration_out::effect::overflow);
}

TEST(RationOut, KeepsAFloorAboveWhatItSentWhenAskedBack) {
  auto out = sender(1000, 10);
  out.charge(200);
  EXPECT_EQ(out.reclaim(1, 300, 4), (position{500, 5}));
  EXPECT_EQ(out.reclaim(1, 0, 0), (position{500, 5})) << "asked twice";
  EXPECT_EQ(out.reclaim(2, 5000, 50), (position{500, 5})) << "never more than it had";
}

TEST(RationOut, SaysThatItIsBlockedUntilItMayGoOn) {
  auto out = sender(100, 1);
  EXPECT_FALSE(out.report(start));
  out.block(400, 900, start);
  auto said = out.report(start);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->need, 400u);
  EXPECT_EQ(said->backlog, 900u);
  EXPECT_FALSE(out.report(start + milliseconds{199}));
  EXPECT_TRUE(out.report(start + milliseconds{200}));
  EXPECT_FALSE(out.report(start + milliseconds{599}));
  EXPECT_TRUE(out.report(start + milliseconds{600})) << "after twice as long";
  EXPECT_EQ(out.blocked_since(), start);
  out.raise(0, {400, 1});
  out.charge(400);
  EXPECT_FALSE(out.blocked());
  EXPECT_TRUE(out.take_unblocked());
  EXPECT_FALSE(out.take_unblocked()) << "only the first frame is flagged";
}

TEST(RationOut, RepeatsAtMostEveryFiveSeconds) {
  auto out = sender(100, 1);
  out.block(400, 400, start);
  auto at = start;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(out.report(at));
    EXPECT_LE(out.report_at() - at, seconds{5});
    at = out.report_at();
  }
  EXPECT_EQ(out.report_at() - at, duration{0});
}

TEST(RationOut, AFurtherFragmentDoesNotEndTheBlock) {
  auto out = sender(1000, 5);
  out.charge(100);
  out.block(5000, 5000, start);
  out.charge(100, 0);
  EXPECT_TRUE(out.blocked());
  EXPECT_FALSE(out.take_unblocked());
}

TEST(RationIn, GrantsAQuarterAtATime) {
  ration_in in{w};
  EXPECT_EQ(in.granted(), (position{1000, 10}));
  ASSERT_TRUE(in.arrive(400, 1));
  in.consume(249, 0);
  EXPECT_FALSE(in.grant_due());
  EXPECT_TRUE(in.unadvertised());
  in.consume(1, 0);
  EXPECT_TRUE(in.grant_due());
  EXPECT_EQ(in.take_grant(), (position{1250, 10}));
  EXPECT_FALSE(in.grant_due());
  EXPECT_FALSE(in.take_grant());
}

TEST(RationIn, GrantsMessagesAQuarterAtATime) {
  ration_in in{w};
  ASSERT_TRUE(in.arrive(2, 2));
  in.consume(1, 1);
  EXPECT_FALSE(in.grant_due());
  in.consume(1, 1);
  EXPECT_TRUE(in.grant_due());
}

TEST(RationIn, RefusesWhatWasNotGranted) {
  ration_in in{w};
  EXPECT_FALSE(in.arrive(1001, 1));
  EXPECT_FALSE(in.arrive(10, 11));
  EXPECT_TRUE(in.arrive(1000, 10));
  EXPECT_FALSE(in.arrive(1, 0));
  EXPECT_FALSE(in.arrive(~uint64_t{0}, 0));
}

TEST(RationIn, ServesABlockedPeerWithTheFirstByteThatReachesItsNeed) {
  ration_in in{w};
  ASSERT_TRUE(in.arrive(1000, 5));
  EXPECT_FALSE(in.peer_blocked({0, {1000, 10}, 1100, 100}));
  in.consume(99, 1);
  EXPECT_FALSE(in.grant_due());
  in.consume(1, 0);
  EXPECT_TRUE(in.grant_due());
}

TEST(RationIn, KnowsThatAGrantWasNotHeard) {
  ration_in in{w};
  EXPECT_TRUE(in.peer_blocked({0, {500, 10}, 600, 100}));
  EXPECT_TRUE(in.peer_blocked({0, {1000, 9}, 600, 100}));
}

TEST(RationIn, FundsALargeMessageAndLosesTheExtraByItself) {
  ration_in in{w};
  ASSERT_TRUE(in.arrive(500, 1));
  in.peer_blocked({0, {1000, 10}, 5500, 5000});
  EXPECT_EQ(in.unfunded_bytes(), 4500u);
  in.consume(500, 1);
  EXPECT_EQ(in.unfunded_bytes(), 4000u) << "what was consumed counts";
  in.fund();
  EXPECT_TRUE(in.grant_due());
  EXPECT_EQ(in.take_grant()->bytes, 5500u);
  EXPECT_EQ(in.unfunded_bytes(), 0u);
  EXPECT_EQ(in.liability(), 5000u);
  ASSERT_TRUE(in.arrive(5000, 1));
  EXPECT_EQ(in.funded_bytes(), 0u);
  in.consume(5000, 1);
  EXPECT_EQ(in.take_grant()->bytes, 6500u);
  EXPECT_EQ(in.liability(), 1000u);
}

TEST(RationIn, AMessageThatFitsWNeedsNoFunds) {
  ration_in in{w};
  ASSERT_TRUE(in.arrive(900, 1));
  in.peer_blocked({0, {1000, 10}, 1900, 1000});
  EXPECT_EQ(in.unfunded_bytes(), 0u);
  in.consume(900, 1);
  EXPECT_TRUE(in.grant_due());
}

TEST(RationIn, TakesBackWithAnEpoch) {
  ration_in in{w};
  ASSERT_TRUE(in.arrive(100, 1));
  in.consume(100, 1);
  EXPECT_EQ(in.reclaim(), 1u);
  EXPECT_FALSE(in.take_grant()) << "a grant would undo it";
  EXPECT_FALSE(in.reclaimed(2, {300, 3}));
  EXPECT_FALSE(in.reclaimed(1, {99, 3})) << "below what arrived";
  EXPECT_FALSE(in.reclaimed(1, {1001, 3})) << "above what was granted";
  EXPECT_TRUE(in.reclaimed(1, {300, 3}));
  EXPECT_EQ(in.liability(), 200u);
  EXPECT_FALSE(in.reclaimed(1, {300, 3})) << "twice";
}

TEST(RationIn, SettlesOnThePeersLastWord) {
  ration_in in{w};
  ASSERT_TRUE(in.arrive(100, 1));
  EXPECT_FALSE(in.settle({99, 1}));
  EXPECT_FALSE(in.settle({1001, 1}));
  EXPECT_TRUE(in.settle({150, 1}));
  EXPECT_EQ(in.liability(), 150u);
  in.consume(100, 1);
  EXPECT_FALSE(in.grant_due());
  EXPECT_EQ(in.liability(), 50u);
}

TEST(RationIn, ARationWithoutEndIsGrantedUpToTheHighestOffset) {
  ration_in in{ration_options{~uint64_t{0}, ~uint64_t{0}, 4}};
  EXPECT_EQ(in.granted(), (position{offset_max, offset_max}));
  ASSERT_TRUE(in.arrive(1000, 5));
  in.consume(1000, 5);
  EXPECT_FALSE(in.unadvertised()) << "there is nothing above it";
  ration_out out;
  EXPECT_TRUE(out.start(in.granted()));
}

TEST(RationIn, KeepsNoWordOfAPeerThatCannotBeTrue) {
  ration_in in{w};
  EXPECT_FALSE(in.peer_blocked({1, {1000, 10}, 1100, 100})) << "of an epoch that has not begun";
  EXPECT_FALSE(in.peer_is_blocked());
  EXPECT_FALSE(in.peer_blocked({0, {1000, 10}, offset_max + 1, 100}));
  EXPECT_FALSE(in.peer_is_blocked());
  ASSERT_TRUE(in.settle({0, 0}));
  EXPECT_FALSE(in.peer_blocked({0, {0, 0}, 1100, 100})) << "behind its last word";
  EXPECT_FALSE(in.peer_is_blocked());
}

TEST(RationIn, WhatHasComeAlreadyNeedsNoFunds) {
  ration_in in{w};
  ASSERT_TRUE(in.arrive(1000, 1));
  in.peer_blocked({0, {500, 10}, 900, 100});
  EXPECT_EQ(in.unfunded_bytes(), 0u);
  in.reclaim(); // the limit goes below what it waits for
  ASSERT_TRUE(in.reclaimed(1, {1000, 10}));
  in.peer_blocked({1, {1000, 10}, 900, 100});
  EXPECT_EQ(in.unfunded_bytes(), 0u);
}

TEST(RationIn, NothingIsGrantedWithoutARation) {
  ration_in in{ration_options{0, 0, 4}};
  EXPECT_EQ(in.granted(), (position{}));
  EXPECT_FALSE(in.arrive(0, 1));
  EXPECT_FALSE(in.unadvertised());
}

// ---- both halves against each other, over a wire that doubles, loses and delays grants

struct model {
  ration_out out;
  ration_in in{w};
  std::deque<uint64_t> held;   // costs that arrived and live
  std::deque<position> grants; // said, not heard
  uint64_t sent = 0;

  model() { out.start(in.granted()); }
  void send(uint64_t cost) {
    if (!out.covers(cost))
      return;
    out.charge(cost);
    RC_ASSERT(in.arrive(cost, 1)); // what the sender may send is never refused
    held.push_back(cost);
  }
  void die() {
    if (held.empty())
      return;
    in.consume(held.front(), 1);
    held.pop_front();
  }
  void say() {
    if (auto g = in.take_grant())
      grants.push_back(*g);
  }
  void hear(bool again) {
    if (grants.empty())
      return;
    out.raise(in.epoch(), grants.front());
    if (!again)
      grants.pop_front();
  }
};

RC_GTEST_PROP(Ration, NeverGrantsMoreThanW, ()) {
  model m;
  auto steps = *rc::gen::container<std::vector<uint32_t>>(rc::gen::arbitrary<uint32_t>());
  for (auto step : steps) {
    switch (step % 5) {
    case 0:
    case 1:
      m.send(1 + step / 5 % 400);
      break;
    case 2:
      m.die();
      break;
    case 3:
      m.say();
      break;
    case 4:
      m.hear(step / 5 % 2 == 0);
      break;
    }
    RC_ASSERT(m.in.liability() <= w.bytes);
    RC_ASSERT(m.in.consumed().within(m.in.received()));
    RC_ASSERT(m.in.received().within(m.in.granted()));
    RC_ASSERT(m.out.limit().within(m.in.granted()));
  }
}

RC_GTEST_PROP(Ration, NeverStopsForGood, ()) {
  model m;
  auto costs = *rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(1, w.bytes + 1));
  for (auto cost : costs) {
    for (int i = 0; i < 3 && !m.out.covers(cost); ++i) {
      m.out.block(cost, cost, start);
      m.in.peer_blocked(*m.out.report(m.out.report_at()));
      while (!m.held.empty())
        m.die();
      RC_ASSERT(m.in.grant_due() || m.out.limit() != m.in.granted());
      m.say();
      while (!m.grants.empty())
        m.hear(false);
    }
    RC_ASSERT(m.out.covers(cost));
    m.send(cost);
  }
}

RC_GTEST_PROP(Ration, FundingRaisesItByWhatIsMissingAndNoMore, ()) {
  auto before = *rc::gen::inRange<uint64_t>(1, w.bytes + 1);
  auto consumed = *rc::gen::inRange<uint64_t>(0, before + 1);
  auto cost = *rc::gen::inRange<uint64_t>(w.bytes + 1, 1 << 30);
  ration_in in{w};
  RC_ASSERT(in.arrive(before, 1));
  in.consume(consumed, 0);
  in.peer_blocked({0, in.granted(), before + cost, cost});
  auto beyond = in.unfunded_bytes();
  RC_ASSERT(beyond > 0u);
  in.fund();
  in.take_grant();
  RC_ASSERT(in.liability() == w.bytes + beyond);
  RC_ASSERT(in.arrive(cost, 1));
  in.consume(before - consumed + cost, 2);
  in.take_grant();
  RC_ASSERT(in.liability() == w.bytes);
}

} // namespace
} // namespace weir::net
