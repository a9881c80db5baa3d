// Nodes with several loops: work and budget are spread over them.
#include <set>

#include <gmock/gmock.h>

#include "actors/session.hpp"
#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

TEST(Loops, LookupsSpreadOverThemAndMeetTheActorsThatUseThem) {
  node_options o;
  o.io_threads = 3;
  machine m{o};
  caf::actor more[] = {m.node().spawn<hand>(), m.node().spawn<hand>()}; // with the machine's own: a round
  std::set<const actors::loop*> homes;
  for (uint32_t i = 0; i < o.io_threads; ++i) {
    auto to = m.node().lookup<Probe>("probe");
    caf::actor user = m.node().spawn<hand>();
    auto* home = &to.guard()->raw()->home();
    homes.insert(home);
    EXPECT_EQ(actors::loop::of(*static_cast<hand*>(caf::actor_cast<caf::abstract_actor*>(user))), home);
  }
  EXPECT_EQ(homes.size(), o.io_threads);
}

TEST(Loops, WhatARoundBringsToActorsOfTheSchedulerReachesEachOfThem) {
  machine m;
  std::vector<caf::actor> all;
  for (int i = 0; i < 100; ++i)
    all.push_back(m.system().spawn<hand>());
  for (size_t at_once : {1u, 2u, 100u}) {
    std::atomic<size_t> ran{0};
    m.tell([&](hand&) {
      for (size_t i = 0; i < at_once; ++i)
        put(all[i], nullptr, task{[&](hand&) { ++ran; }});
    });
    EXPECT_TRUE(eventually([&] { return ran == at_once; })) << ran << " of " << at_once;
  }
}

TEST(Loops, LocalSessionsBorrowWhatOtherLoopsHaveFree) {
  auto one = [](uint32_t loops) {
    node_options o;
    o.io_threads = loops;
    o.budget_bytes = 32 << 20;
    o.reserve_bytes = 2 << 20;
    o.message_max = 1 << 20;
    o.held_bytes = 4096;
    o.ration = 1 << 20;
    return o;
  };
  machine m{one(4)};
  ASSERT_TRUE(m.node().serve<Probe>("probe", m.node().spawn<probe>()));
  auto sessions = std::make_shared<std::promise<std::vector<ref<Probe>>>>();
  m.tell([&, sessions](hand&) { // looked up on one loop, whose share has room for 6
    std::vector<ref<Probe>> all;
    for (int i = 0; i < 12; ++i)
      all.push_back(m.node().lookup<Probe>("probe"));
    sessions->set_value(std::move(all));
  });
  auto all = sessions->get_future().get();
  for (auto& to : all)
    EXPECT_EQ(m.call<echo>(to, data_of(100)), failure{});
  EXPECT_EQ(m.node().stats().sessions, all.size());
  all.clear();
  EXPECT_TRUE(m.is_at_base_line());
}

} // namespace
} // namespace weir::test
