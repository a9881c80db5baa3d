#include <deque>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "net/ledger.hpp"

namespace weir::net {
namespace {
constexpr budget_options small{1000, 200};

TEST(Budget, KeepsItsReserveFree) {
  budget b{small};
  EXPECT_EQ(b.free_bytes(), 800u);
  EXPECT_TRUE(b.take(charge::session, 800));
  EXPECT_FALSE(b.take(charge::session, 1));
  EXPECT_EQ(b.refused(), 1u);
}

TEST(Budget, TakesBackWhatWasGiven) {
  budget b{small};
  ASSERT_TRUE(b.take(charge::held, 300));
  b.give(charge::held, 300);
  EXPECT_EQ(b.liability(), small.reserve_bytes);
}

TEST(Budget, CountsPinnedSlabsAgainstNewCharges) {
  budget b{small};
  b.set_pinned(700);
  EXPECT_TRUE(b.take(charge::session, 100));
  EXPECT_FALSE(b.take(charge::session, 1));
  b.set_pinned(2000);
  EXPECT_EQ(b.free_bytes(), 0u);
}

TEST(Budget, LendsHalfOfTheReserveToOneOwner) {
  budget b{small};
  ASSERT_TRUE(b.take(charge::session, 800));
  EXPECT_FALSE(b.take_reserve(budget::reserve::request, charge::large, 101));
  EXPECT_TRUE(b.take_reserve(budget::reserve::request, charge::large, 100));
  EXPECT_FALSE(b.take_reserve(budget::reserve::request, charge::large, 1));
  EXPECT_TRUE(b.take_reserve(budget::reserve::reply, charge::reply_room, 50));
  EXPECT_EQ(b.liability(), 1000u);
}

TEST(Budget, FillsTheReserveBeforeAnythingElse) {
  budget b{small};
  ASSERT_TRUE(b.take(charge::session, 800));
  ASSERT_TRUE(b.take_reserve(budget::reserve::request, charge::large, 100));
  b.give(charge::session, 60);
  EXPECT_EQ(b.free_bytes(), 0u) << "it went into the reserve";
  EXPECT_TRUE(b.reserve_taken(budget::reserve::request));
  b.give(charge::large, 100);
  EXPECT_FALSE(b.reserve_taken(budget::reserve::request));
  EXPECT_EQ(b.free_bytes(), 60u);
}

TEST(Budget, MovesAChargeWithoutAsking) {
  budget b{small};
  ASSERT_TRUE(b.take(charge::large, 500));
  b.move(charge::large, charge::session, 500);
  b.give(charge::session, 500);
  EXPECT_EQ(b.liability(), small.reserve_bytes);
}

TEST(Budget, ThePinnedMayFillTheReserveAgain) {
  budget b{small};
  ASSERT_TRUE(b.take(charge::session, 700));
  b.set_pinned(100);
  EXPECT_EQ(b.pinned(), 100u);
  ASSERT_TRUE(b.take_reserve(budget::reserve::request, charge::large, 100));
  b.set_pinned(0);
  EXPECT_FALSE(b.reserve_taken(budget::reserve::request));
  EXPECT_EQ(b.free_bytes(), 0u);
}

TEST(Budget, LendsToAnotherLoopOnlyWhatIsFree) {
  budget lender{small}, borrower{small};
  ASSERT_TRUE(lender.take(charge::session, 500));
  EXPECT_EQ(lender.shrink(100), 100u);
  EXPECT_EQ(lender.shrink(1000), 200u) << "neither what is charged nor the reserve";
  EXPECT_EQ(lender.shrink(1), 0u);
  EXPECT_FALSE(lender.take(charge::session, 1));
  borrower.grow(300);
  EXPECT_TRUE(borrower.take(charge::session, 1100));
  EXPECT_FALSE(borrower.take(charge::session, 1));
  EXPECT_EQ(lender.options().bytes + borrower.options().bytes, 2 * small.bytes);
}

TEST(Budget, WhatIsTakenFromItOrGivenToItCountsBesideWhatWasLent) {
  budget lender{small}, borrower{small};
  borrower.grow(lender.shrink(500));
  lender.change(1000, 700);
  borrower.change(1000, 700);
  EXPECT_EQ(lender.options().bytes, 200u) << "its reserve";
  EXPECT_EQ(borrower.options().bytes, 1200u);
  lender.change(700, 600);
  EXPECT_EQ(lender.options().bytes, 200u) << "there is no more to take";
  EXPECT_EQ(lender.free_bytes(), 0u);
  lender.grow(borrower.shrink(500));
  EXPECT_EQ(lender.options().bytes, 600u) << "what it still had to give up is gone with that";
  borrower.change(700, 1000);
  EXPECT_EQ(borrower.options().bytes, 1000u);
}

TEST(Budget, OwesNoNewThingWhileItOwesMoreThanItHas) {
  budget b{small};
  ASSERT_TRUE(b.take(charge::session, 700));
  b.change(1000, 600);
  EXPECT_EQ(b.free_bytes(), 0u);
  EXPECT_FALSE(b.take(charge::session, 1));
  b.give(charge::session, 400);
  EXPECT_EQ(b.free_bytes(), 100u);
}

TEST(Budget, NamesItsCharges) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < charges; ++i)
    names.insert(to_string(static_cast<charge>(i)));
  EXPECT_EQ(names, (std::set<std::string_view>{"session", "large", "held", "reply_room"}));
}

TEST(Outbound, AdmitsUpToItsLimit) {
  outbound_ledger o{100};
  EXPECT_TRUE(o.admit(60));
  EXPECT_FALSE(o.admit(41));
  EXPECT_TRUE(o.admit(40));
  o.release(100);
  EXPECT_EQ(o.bytes(), 0u);
  EXPECT_EQ(o.peak(), 100u);
}

TEST(Outbound, CountsAnswersWithoutAsking) {
  outbound_ledger o{100};
  o.add(150);
  EXPECT_EQ(o.bytes(), 150u);
  EXPECT_FALSE(o.admit(1));
}

TEST(Outbound, DoesNotWrap) {
  outbound_ledger o{100};
  EXPECT_FALSE(o.admit(~uint64_t{0}));
}

/// Any order of takings and givings: the sum is never above the budget, and after everything came back
/// nothing is missing.
RC_GTEST_PROP(Budget, OwesNeverMoreThanItHasAndComesBackToItsBaseLine, ()) {
  budget b{{10'000, 4'000}};
  struct owed {
    charge what;
    uint64_t bytes;
  };
  std::deque<owed> all;
  auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1'000'000));
  for (auto step : steps) {
    auto what = static_cast<charge>(step % 4);
    auto bytes = static_cast<uint64_t>(step / 4 % 3000);
    switch (step % 7) {
    case 0:
    case 1:
    case 2:
      if (b.take(what, bytes))
        all.push_back({what, bytes});
      break;
    case 3:
      if (b.take_reserve(static_cast<budget::reserve>(step % 2), what, bytes))
        all.push_back({what, bytes});
      break;
    default:
      if (all.empty())
        break;
      b.give(all.front().what, all.front().bytes);
      all.pop_front();
    }
    RC_ASSERT(b.liability() <= 10'000u);
  }
  for (auto& o : all)
    b.give(o.what, o.bytes);
  RC_ASSERT(b.liability() == 4'000u);
  RC_ASSERT(!b.reserve_taken(budget::reserve::request));
  RC_ASSERT(!b.reserve_taken(budget::reserve::reply));
}

} // namespace
} // namespace weir::net
