// Where waits go in a circle.
#include <random>

#include <gmock/gmock.h>

#include "actors/wait_graph.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre, ::testing::IsEmpty;

class WaitGraph : public testing::Test {
protected:
  using way = std::vector<uint64_t>;

  /// `who` waits for `on` since `since`.
  void wait(waiter who, waiter on, net::duration since = 0s) {
    graph.add({who, on, net::time_point{since}, "to " + std::to_string(on.actor)});
  }
  void wait(uint64_t who, uint64_t on, net::duration since = 0s) { wait(waiter{who}, waiter{on}, since); }
  /// The actors of each cycle, in order.
  std::vector<way> cycles() const {
    std::vector<way> all;
    for (auto& c : graph.cycles()) {
      way actors;
      for (size_t i = 0; i < c.waits.size(); ++i) {
        EXPECT_EQ(c.waits[i].on, c.waits[(i + 1) % c.waits.size()].who) << "not a cycle";
        actors.push_back(c.waits[i].who.actor);
      }
      all.push_back(actors);
    }
    return all;
  }

  wait_graph graph;
};

TEST_F(WaitGraph, WithoutWaitsThereIsNoCycle) { EXPECT_THAT(cycles(), IsEmpty()); }

TEST_F(WaitGraph, AChainIsNone) {
  wait(1, 2);
  wait(2, 3);
  wait(1, 3);
  wait(4, 2);
  EXPECT_THAT(cycles(), IsEmpty());
}

TEST_F(WaitGraph, TwoThatWaitForEachOtherAreOne) {
  wait(7, 3);
  wait(3, 7);
  EXPECT_THAT(cycles(), ElementsAre(way{3, 7}));
}

TEST_F(WaitGraph, WhoWaitsForItselfIsOne) {
  wait(5, 5);
  EXPECT_THAT(cycles(), ElementsAre(way{5}));
}

TEST_F(WaitGraph, ThoseWhoOnlyWaitForACycleAreNotInIt) {
  wait(1, 2);
  wait(2, 3);
  wait(3, 4);
  wait(4, 2);
  wait(4, 9);
  EXPECT_THAT(cycles(), ElementsAre(way{2, 3, 4}));
}

TEST_F(WaitGraph, CyclesThatShareAWaiterAreOne) {
  wait(1, 2);
  wait(2, 3);
  wait(3, 1);
  wait(2, 1);
  EXPECT_THAT(cycles(), ElementsAre(way{1, 2}));
}

TEST_F(WaitGraph, CyclesThatDoNotMeetAreFoundInOrder) {
  wait(30, 31);
  wait(31, 30);
  wait(10, 11);
  wait(11, 10);
  wait(10, 30); // one way only
  EXPECT_THAT(cycles(), ElementsAre(way{10, 11}, way{30, 31}));
}

TEST_F(WaitGraph, StreamsThroughOneActorAreWaitersOfTheirOwn) {
  wait({1, 100}, {2, 200});
  wait({2, 201}, {1, 101});
  EXPECT_THAT(cycles(), IsEmpty());
  wait({2, 200}, {1, 100});
  EXPECT_THAT(cycles(), ElementsAre(way{1, 2}));
}

TEST_F(WaitGraph, ACycleIsThereSinceItsLastWait) {
  wait(1, 2, 3s);
  wait(2, 3, 9s);
  wait(3, 1, 5s);
  auto found = graph.cycles();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].since(), net::time_point{9s});
  EXPECT_EQ(found[0].waits[0].name, "to 2");
  EXPECT_EQ(found[0].waits[2].name, "to 1");
}

TEST_F(WaitGraph, AVeryLongCycleTakesNoStack) {
  constexpr uint64_t length = 300'000;
  for (uint64_t i = 0; i < length; ++i)
    wait(i, (i + 1) % length);
  auto found = graph.cycles();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].waits.size(), length);
}

/// Whether it goes in a circle at all, found the slow way: what waits for nobody is taken away until nothing
/// changes.
bool has_cycle(std::vector<std::pair<uint64_t, uint64_t>> edges) {
  for (size_t before = edges.size() + 1; edges.size() != before;) {
    before = edges.size();
    std::erase_if(edges, [&](auto e) {
      return std::none_of(edges.begin(), edges.end(), [&](auto next) { return next.first == e.second; });
    });
  }
  return !edges.empty();
}

TEST_F(WaitGraph, FindsOneExactlyWhereThereIsOne) {
  std::mt19937 random{1};
  auto draw = [&](size_t below) { return random() % below; };
  int with = 0;
  constexpr int rounds = 2000;
  for (int i = 0; i < rounds; ++i) {
    graph = {};
    std::vector<std::pair<uint64_t, uint64_t>> edges;
    for (size_t n = draw(12), k = 0; k < n; ++k) {
      edges.emplace_back(draw(9), draw(9));
      wait(edges.back().first, edges.back().second);
    }
    auto found = cycles();
    EXPECT_EQ(!found.empty(), has_cycle(edges)) << "round " << i;
    EXPECT_EQ(found, cycles()) << "round " << i;
    with += found.empty() ? 0 : 1;
  }
  EXPECT_GT(with, rounds / 10); // both are there
  EXPECT_LT(with, rounds * 9 / 10);
}

} // namespace
} // namespace weir::actors
