#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "net/slab.hpp"

namespace weir::net {
namespace {

bool all_zero(slab_ref& s) {
  return std::all_of(s->data(), s->data() + s->size, [](std::byte b) { return b == std::byte{0}; });
}

TEST(Slab, HasAtLeastWhatWasAskedFor) {
  slab_pool_owner pool{false};
  for (size_t n : {size_t{1}, slab_pool::smallest, slab_pool::smallest + 1, size_t{1} << 20}) {
    auto s = pool->take(n);
    EXPECT_GE(s->size, n);
    EXPECT_EQ(s->used, 0u);
    EXPECT_EQ(pool->alive_bytes(), s->size);
  }
  EXPECT_EQ(pool->alive_bytes(), 0u);
}

TEST(Slab, TooMuchIsRefused) {
  slab_pool_owner pool{false};
  EXPECT_THROW(pool->take(size_t{1} << 40), std::bad_alloc);
  EXPECT_EQ(pool->alive_bytes(), 0u);
}

TEST(Slab, ComesBackToItsPoolAndOutAgain) {
  slab_pool_owner pool{false};
  auto s = pool->take(5000);
  auto* place = s.get();
  auto other = s;
  s.reset();
  EXPECT_EQ(pool->alive_bytes(), place->size) << "somebody holds it";
  EXPECT_TRUE(other.sole());
  other.reset();
  EXPECT_EQ(pool->take(5000).get(), place);
}

TEST(Slab, OfAZeroingPoolIsZeroEachTime) {
  slab_pool_owner pool{true};
  auto s = pool->take(5000);
  EXPECT_TRUE(all_zero(s));
  auto* place = s.get();
  std::fill_n(s->data(), 5000, std::byte{7});
  s->used = 5000;
  s.reset();
  auto again = pool->take(5000);
  ASSERT_EQ(again.get(), place);
  EXPECT_TRUE(all_zero(again));
}

TEST(Slab, APoolKeepsSomeAndGivesTheRestBack) {
  slab_pool_owner pool{true};
  constexpr size_t bytes = size_t{1} << 20, kept = slab_pool::kept_bytes_max / bytes;
  std::vector<slab_ref> all;
  for (size_t i = 0; i < 4 * kept; ++i) {
    all.push_back(pool->take(bytes));
    all.back()->data()[0] = std::byte{1}; // and it is not said: a slab of the system's is zero all the same
  }
  all.clear();
  EXPECT_EQ(pool->alive_bytes(), 0u);
  size_t old = 0;
  for (size_t i = 0; i < 4 * kept; ++i) {
    all.push_back(pool->take(bytes));
    old += all.back()->data()[0] == std::byte{1};
  }
  EXPECT_EQ(old, kept);
}

TEST(Slab, OutlivesTheOwnerOfItsPool) {
  slab_ref s;
  {
    slab_pool_owner pool{false};
    s = pool->take(100);
    s->data()[99] = std::byte{9};
  }
  EXPECT_EQ(s->data()[99], std::byte{9});
}

} // namespace
} // namespace weir::net
