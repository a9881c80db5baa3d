#include <cstring>

#include <gtest/gtest.h>

#include "net/reassembly.hpp"

namespace weir::net {
namespace {
constexpr time_point now{std::chrono::seconds{1000}};

struct Reassembly : testing::Test {
  slab_pool_owner pool{false};
  reassembly part;
  uint64_t words[64] = {};

  errc append(uint32_t n, bool last = false) {
    return part.append(reinterpret_cast<std::byte*>(words), n, last, now);
  }
};

TEST_F(Reassembly, PutsSlicesTogether) {
  ASSERT_EQ(part.begin(24, 5, now, *pool), errc::none);
  words[0] = 11, words[1] = 22;
  EXPECT_EQ(append(16), errc::none);
  EXPECT_FALSE(part.complete());
  words[0] = 33;
  EXPECT_EQ(append(8, true), errc::none);
  ASSERT_TRUE(part.complete());
  auto v = part.view();
  ASSERT_EQ(v.count, 3u);
  EXPECT_EQ(v.words[0], 11u);
  EXPECT_EQ(v.words[2], 33u);
  EXPECT_EQ(part.id(), 5u);
}

TEST_F(Reassembly, RefusesMoreThanWasSaid) {
  ASSERT_EQ(part.begin(24, 5, now, *pool), errc::none);
  EXPECT_EQ(append(32), errc::malformed_message);
}

TEST_F(Reassembly, RefusesAnEndThatIsNone) {
  ASSERT_EQ(part.begin(24, 5, now, *pool), errc::none);
  EXPECT_EQ(append(16, true), errc::malformed_message);
}

TEST_F(Reassembly, RefusesToGoOnBehindTheEnd) {
  ASSERT_EQ(part.begin(24, 5, now, *pool), errc::none);
  EXPECT_EQ(append(24, false), errc::malformed_message);
}

TEST_F(Reassembly, GivesItsMemoryBack) {
  ASSERT_EQ(part.begin(24, 5, now, *pool), errc::none);
  EXPECT_NE(pool->alive_bytes(), 0u);
  part.reset();
  EXPECT_EQ(pool->alive_bytes(), 0u);
  EXPECT_FALSE(part.active());
}

TEST_F(Reassembly, CountsOnWithoutMemoryWhenNobodyWantsIt) {
  ASSERT_EQ(part.begin(24, 5, now, *pool), errc::none);
  ASSERT_EQ(append(8), errc::none);
  part.discard();
  EXPECT_EQ(pool->alive_bytes(), 0u);
  EXPECT_TRUE(part.discarding());
  EXPECT_EQ(append(16, true), errc::none);
  EXPECT_TRUE(part.complete());
}

TEST_F(Reassembly, SaysWhenMemoryIsNotToBeHad) {
  EXPECT_EQ(part.begin(uint64_t{1} << 40, 5, now, *pool), errc::no_budget);
  EXPECT_FALSE(part.active());
}

} // namespace
} // namespace weir::net
