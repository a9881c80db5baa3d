#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "net/backoff.hpp"

namespace weir::net {
namespace {

using namespace std::chrono_literals;

TEST(Splitmix64, GivesThePublishedNumbers) {
  splitmix64 random{1234567};
  for (uint64_t expected :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u})
    EXPECT_EQ(random(), expected);
}

TEST(Backoff, CeilingDoublesUpToTheCap) {
  backoff b{{.base = 50ms, .cap = 300ms}};
  splitmix64 random{1};
  for (auto ceiling : {50ms, 100ms, 200ms, 300ms, 300ms}) {
    EXPECT_EQ(b.ceiling(), ceiling);
    EXPECT_LE(b.next(random), ceiling);
  }
  EXPECT_EQ(b.attempts(), 5u);
}

TEST(Backoff, StartsAgainAfterASuccess) {
  backoff b{{.base = 50ms, .cap = 5s}};
  splitmix64 random{1};
  for (int i = 0; i < 10; ++i)
    b.next(random);
  b.reset();
  EXPECT_EQ(b.ceiling(), 50ms);
  EXPECT_EQ(b.attempts(), 0u);
}

TEST(Backoff, SameSeedSameDelays) {
  backoff one{{}}, other{{}};
  splitmix64 random_one{7}, random_other{7};
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(one.next(random_one), other.next(random_other));
}

// 200 clients that lost one server together: case L4 wants at most a quarter of them in any 100 ms once the
// cap is reached.
TEST(Backoff, ClientsThatFailedTogetherComeBackApart) {
  std::vector<std::chrono::nanoseconds> delays;
  for (uint64_t client = 0; client < 200; ++client) {
    backoff b{{.base = 50ms, .cap = 5s}};
    splitmix64 random{client};
    for (int i = 0; i < 8; ++i)
      b.next(random);
    delays.push_back(b.next(random));
  }
  std::ranges::sort(delays);
  for (size_t i = 0; i + 50 < delays.size(); ++i)
    EXPECT_GT(delays[i + 50] - delays[i], 100ms);
  EXPECT_LT(delays.front(), 500ms);
  EXPECT_GT(delays.back(), 4500ms);
}

TEST(Backoff, ReachesBothEnds) {
  backoff b{{.base = 3ns, .cap = 3ns}};
  splitmix64 random{5};
  std::set<int64_t> seen;
  for (int i = 0; i < 200; ++i)
    seen.insert(b.next(random).count());
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2, 3}));
}

RC_GTEST_PROP(Backoff, StaysWithinItsCeilingHoweverOftenItFails, (uint64_t seed)) {
  auto base = *rc::gen::inRange<int64_t>(1, int64_t{1} << 40);
  auto cap = *rc::gen::inRange<int64_t>(base, (int64_t{1} << 62) - 1);
  backoff b{{.base = std::chrono::nanoseconds{base}, .cap = std::chrono::nanoseconds{cap}}};
  splitmix64 random{seed};
  for (int i = 0; i < 100; ++i) {
    auto ceiling = b.ceiling();
    RC_ASSERT(ceiling.count() >= base);
    RC_ASSERT(ceiling.count() <= cap);
    auto delay = b.next(random);
    RC_ASSERT(delay.count() >= 0);
    RC_ASSERT(delay <= ceiling);
    RC_ASSERT(b.ceiling() >= ceiling);
  }
  RC_ASSERT(b.ceiling().count() == cap);
}

} // namespace
} // namespace weir::net
