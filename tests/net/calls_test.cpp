#include <set>

#include <gtest/gtest.h>

#include "net/calls.hpp"

namespace weir::net {
namespace {
using std::chrono::seconds;
constexpr time_point start{seconds{1000}};

TEST(CallsOut, StopsAtThePeersLimit) {
  calls_out c;
  EXPECT_TRUE(c.full()) << "before hello";
  c.set_max(2);
  c.open(1, time_point::max(), 0, 0);
  EXPECT_FALSE(c.full());
  c.open(2, time_point::max(), 0, 0);
  EXPECT_TRUE(c.full());
}

TEST(CallsOut, FindsACallUntilItsEnd) {
  calls_out c;
  c.set_max(4);
  auto id = c.open(7, start, 100, 228);
  ASSERT_NE(c.find(id), nullptr);
  EXPECT_EQ(c.find(id)->token, 7u);
  EXPECT_EQ(c.find(id)->paid, 228u);
  c.close(id);
  EXPECT_EQ(c.find(id), nullptr);
  EXPECT_EQ(c.size(), 0u);
}

TEST(CallsOut, ASlotHasANewIdEachTime) {
  calls_out c;
  c.set_max(1);
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) {
    auto id = c.open(0, time_point::max(), 0, 0);
    EXPECT_NE(id, 0u);
    EXPECT_EQ(slot_of(id), 0u);
    EXPECT_TRUE(seen.insert(id).second);
    c.close(id);
  }
}

TEST(CallsOut, GenerationsBeginAgainWith1) {
  calls_out c;
  c.set_max(1);
  uint32_t id = 0;
  for (uint32_t expected = 1; expected <= 0xffff; ++expected) {
    id = c.open(0, time_point::max(), 0, 0);
    ASSERT_EQ(generation_of(id), expected);
    c.close(id);
  }
  EXPECT_EQ(generation_of(c.open(0, time_point::max(), 0, 0)), 1u);
}

TEST(CallsOut, ACancelledCallKeepsItsSlotButWaitsForNobody) {
  calls_out c;
  c.set_max(1);
  auto id = c.open(0, start, 0, 0);
  c.cancel(*c.find(id));
  EXPECT_TRUE(c.full());
  EXPECT_EQ(c.waiting(), 0u);
  std::vector<uint32_t> late;
  c.expired(start, late);
  EXPECT_TRUE(late.empty());
  c.close(id);
  EXPECT_FALSE(c.full());
}

TEST(CallsOut, NamesWhatIsPastItsDeadline) {
  calls_out c;
  c.set_max(8);
  auto a = c.open(0, start + seconds{1}, 0, 0);
  c.open(0, start + seconds{3}, 0, 0);
  c.open(0, time_point::max(), 0, 0);
  EXPECT_EQ(c.next_deadline(), start + seconds{1});
  std::vector<uint32_t> late;
  c.expired(start + seconds{1}, late);
  EXPECT_EQ(late, std::vector<uint32_t>{a});
  EXPECT_EQ(c.next_deadline(), start + seconds{3});
}

TEST(CallsIn, EnforcesTheLimitBySlot) {
  calls_in c;
  c.set_max(2);
  EXPECT_EQ(c.open(call_id(1, 1), 0), calls_in::verdict::taken);
  EXPECT_EQ(c.open(call_id(2, 1), 0), calls_in::verdict::above_limit);
  EXPECT_EQ(c.open(call_id(0, 0), 0), calls_in::verdict::bad_id);
  EXPECT_EQ(c.size(), 1u);
}

TEST(CallsIn, ASlotIsTakenUntilItsEnd) {
  calls_in c;
  c.set_max(2);
  auto first = call_id(0, 1), second = call_id(0, 2);
  EXPECT_EQ(c.open(first, 10), calls_in::verdict::taken);
  EXPECT_EQ(c.open(second, 10), calls_in::verdict::busy);
  EXPECT_EQ(c.find(second), nullptr);
  c.close(first);
  EXPECT_EQ(c.open(second, 10), calls_in::verdict::taken);
  EXPECT_EQ(c.find(first), nullptr) << "an answer to the old call finds nothing";
}

} // namespace
} // namespace weir::net
