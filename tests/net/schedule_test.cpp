#include <map>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "net/schedule.hpp"

namespace weir::net {
namespace {

/// Members that always have more, with frames of a fixed size.
struct line_up {
  struct one {
    schedule::member m;
    uint64_t frame;
    uint64_t sent = 0;
  };
  schedule s;
  std::vector<std::unique_ptr<one>> all;

  one& add(lane in_lane, uint64_t frame) {
    auto& x = *all.emplace_back(std::make_unique<one>());
    x.m.in_lane = in_lane;
    x.m.owner = &x;
    x.frame = frame;
    s.add(x.m);
    return x;
  }
  void run(uint64_t bytes) {
    for (uint64_t total = 0; total < bytes;) {
      auto* m = s.next();
      ASSERT_NE(m, nullptr);
      auto& x = *static_cast<one*>(m->owner);
      uint64_t n = 0;
      while (static_cast<int64_t>(n) < m->deficit)
        n += x.frame;
      x.sent += n;
      total += n;
      s.sent(*m, n, true);
    }
  }
};

TEST(Schedule, RepliesGoFirst) {
  line_up l;
  l.add(lane::bulk, 100);
  l.add(lane::normal, 100);
  auto& reply = l.add(lane::reply, 100);
  EXPECT_EQ(l.s.next(), &reply.m);
}

TEST(Schedule, NormalKeepsAQuarterAndBulkATwentieth) {
  line_up l;
  auto& reply = l.add(lane::reply, 500);
  auto& normal = l.add(lane::normal, 500);
  auto& bulk = l.add(lane::bulk, 64 << 10);
  l.run(100 << 20);
  auto total = static_cast<double>(reply.sent + normal.sent + bulk.sent);
  EXPECT_GE(normal.sent / total, 0.245);
  EXPECT_GE(bulk.sent / total, 0.049);
  EXPECT_GE(reply.sent / total, 0.65) << "the rest is theirs";
}

TEST(Schedule, BulkHasEverythingWhenNobodyElseWants) {
  line_up l;
  auto& bulk = l.add(lane::bulk, 1000);
  l.run(1 << 20);
  EXPECT_GE(bulk.sent, uint64_t{1} << 20);
  auto& reply = l.add(lane::reply, 1000);
  EXPECT_EQ(l.s.next(), &reply.m) << "and no claim for later";
}

TEST(Schedule, AMemberWithLargeFramesGetsNoMoreThanOneWithSmallOnes) {
  line_up l;
  auto& small = l.add(lane::normal, 64);
  auto& large = l.add(lane::normal, 80 << 10);
  l.run(100 << 20);
  EXPECT_NEAR(static_cast<double>(small.sent) / static_cast<double>(large.sent), 1.0, 0.02);
}

TEST(Schedule, WhoHasNothingLeftLeaves) {
  line_up l;
  auto& a = l.add(lane::normal, 10);
  auto* m = l.s.next();
  l.s.sent(*m, 10, false);
  EXPECT_TRUE(l.s.empty(true));
  EXPECT_FALSE(a.m.waiting);
  EXPECT_EQ(l.s.next(), nullptr);
}

TEST(Schedule, RemovingOneKeepsTheOthersOrder) {
  line_up l;
  auto& a = l.add(lane::normal, 10);
  auto& b = l.add(lane::normal, 10);
  auto& c = l.add(lane::normal, 10);
  l.s.remove(b.m);
  l.s.sent(*l.s.next(), 10, false);
  EXPECT_EQ(l.s.next(), &c.m);
  l.s.remove(a.m); // not there any more: nothing happens
  EXPECT_FALSE(l.s.empty(true));
}

RC_GTEST_PROP(Schedule, AllOfOneLaneGetTheSame, ()) {
  auto frames = *rc::gen::container<std::vector<uint64_t>>(5, rc::gen::inRange<uint64_t>(16, 80 << 10));
  line_up l;
  for (auto f : frames)
    l.add(lane::bulk, f);
  l.run(20 << 20);
  auto least = UINT64_MAX, most = uint64_t{0};
  for (auto& x : l.all)
    least = std::min(least, x->sent), most = std::max(most, x->sent);
  RC_ASSERT(most - least <= 2u * ((80 << 10) + schedule::turn_bytes));
}

} // namespace
} // namespace weir::net
