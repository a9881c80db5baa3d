// Rations that size themselves, between nodes and within one.

#include <gtest/gtest.h>

#include <weir/client.hpp>
#include <weir/task.hpp>

#include "actors/session.hpp"
#include "tests/support/conversation.hpp"
#include "tests/support/keeper.hpp"

namespace weir::test {
namespace {

constexpr uint64_t kib = 1 << 10, floor = net::tuner::floor_bytes, first = net::tuner::start_bytes;
constexpr unsigned item_bytes = 1000;

struct producing {
  bool stop = false;
  uint64_t sent = 0;
};

/// Sends as much as it may until it is told to stop.
weir::task produce(customer& c, ref<Item> to, producing& p) {
  weir::outlet<Item> items{&c, to};
  while (!p.stop)
    if (items.offer([&](Item::Builder b) { b.setNumber(p.sent), b.initData(item_bytes); }))
      ++p.sent;
    else if (!co_await weir::credit(items))
      co_return;
  co_await weir::sleep_for(1h); // it stays open, idle
}

class Rations : public Conversation {
protected:
  Rations() {
    rations = actors::rationing::kind::tuned;
    ration = {0, 0, 4}; // they follow the need
  }
  ~Rations() override {
    leases.clear();
    shut_down();
  }
  void serve_shelf(uint64_t mailbox_messages = 0) {
    serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods), mailbox_messages);
  }
  void serve_keeper() { serve<Item>(server(), "keeper", spawn<keeper>(server(), &leases)); }
  caf::actor start(node_under_test& at, const ref<Item>& to, producing& how) {
    auto who = customer_at(at);
    tell(who, [to, &how](customer& c) { produce(c, to, how); });
    return who;
  }
  /// In steps, so that no moment is missed at which too much is owed.
  void pass(std::chrono::milliseconds d, std::function<void()> each = {}) {
    for (; d.count() > 0; d -= 1ms) {
      advance(1ms);
      if (each)
        each();
      ASSERT_LE(server().budget().liability(), server().budget().options().bytes);
    }
  }
  testing::paths between() {
    client();
    server();
    return net().between("client", "server");
  }
  uint64_t owed() { return server().budget().charged(net::charge::session); }
  /// What the sessions of the server have.
  std::vector<net::ration_options> of_sessions() {
    std::vector<net::ration_options> all;
    for (auto* s : server().loop->sessions)
      if (s->protocol())
        all.push_back(s->protocol()->in().options());
    return all;
  }
  net::ration_options of_session() {
    auto all = of_sessions();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? net::ration_options{} : all.front();
  }
  /// Until so little is free.
  void leave_free(uint64_t bytes) {
    held_ = server().budget().free_bytes() - bytes;
    ASSERT_TRUE(server().budget().take(net::charge::held, held_));
  }
  void free_again() { server().budget().give(net::charge::held, std::exchange(held_, 0)); }

  keeper::leases leases;
  producing p;

private:
  uint64_t held_ = 0;
};

TEST_F(Rations, OfAFastServiceFillTheirPath) {
  serve_shelf();
  constexpr size_t path = 256 * kib; // may be under way one way
  between().delay(20ms).capacity(path);
  start(client(), lookup<Item>("shelf"), p);
  pass(1s);
  auto before = goods.numbers.size();
  pass(1s);
  auto most = path / 20.0 * 1000 / (item_bytes + 40); // per second: all that the path lets through
  EXPECT_GT(goods.numbers.size() - before, 0.9 * most);
  EXPECT_GT(of_session().bytes, 8 * first) << "two delays of so much";
  EXPECT_EQ(of_session().messages, of_session().bytes / net::tuner::bytes_per_message);
  EXPECT_LE(of_session().bytes, net::tuner::ceiling_bytes);
}

TEST_F(Rations, OfASlowServiceShrinkToTheFloor) {
  serve_keeper();
  between().delay(20ms);
  start(client(), lookup<Item>("keeper"), p);
  int n = 0;
  pass(4s, [&] {
    if (++n % 10 == 0 && !leases.empty()) // a hundred in a second
      leases.pop_front();
  });
  EXPECT_EQ(of_session().bytes, floor);
  EXPECT_LE(leases.size(), floor / item_bytes);
  EXPECT_LE(owed(), floor);
  EXPECT_GT(leases.size(), 1u) << "it is never without work";
}

TEST_F(Rations, OfAServiceThatTakesNothingStay) {
  serve_keeper();
  start(client(), lookup<Item>("keeper"), p);
  pass(500ms);
  EXPECT_EQ(of_session().bytes, first);
  EXPECT_LE(owed(), first);
}

TEST_F(Rations, OfIdleSessionsGoBackToTheFloorAfterTwoSeconds) {
  serve_shelf();
  between().delay(20ms);
  start(client(), lookup<Item>("shelf"), p);
  pass(1s);
  p.stop = true;
  pass(200ms);
  auto grown = of_session().bytes;
  EXPECT_GT(grown, 8 * first);
  pass(1500ms);
  EXPECT_EQ(of_session().bytes, grown) << "not before its time";
  pass(1s); // what waited to be sent has come a little later
  EXPECT_EQ(of_session().bytes, floor);
  EXPECT_LE(owed(), floor);
}

TEST_F(Rations, OfIdleSessionsGoBackSoonerWhenLittleIsLeft) {
  serve_shelf();
  between().delay(20ms);
  start(client(), lookup<Item>("shelf"), p);
  pass(1s);
  p.stop = true;
  pass(150ms);
  EXPECT_GT(of_session().bytes, 8 * first);
  leave_free(server().budget().pool_bytes() / 10);
  pass(500ms);
  EXPECT_EQ(of_session().bytes, floor);
  EXPECT_LE(owed(), floor);
  free_again();
}

TEST_F(Rations, BeginSmallOnceHalfOfTheBudgetIsUsed) {
  budget_bytes = 3 << 20;
  reserve_bytes = 1 << 20;
  serve_shelf();
  std::vector<ref<Item>> refs;
  for (int i = 0; i < 50; ++i)
    refs.push_back(lookup<Item>("shelf")), run();
  auto all = of_sessions();
  ASSERT_EQ(all.size(), 50u) << "there is room for all of them";
  auto begins = [&](uint64_t with) {
    return std::count_if(all.begin(), all.end(), [&](auto& r) { return r.bytes == with; });
  };
  EXPECT_GT(begins(first), 10);
  EXPECT_GT(begins(floor), 10);
  EXPECT_EQ(begins(first) + begins(floor), 50);
  EXPECT_LE(server().budget().liability(), budget_bytes);
}

TEST_F(Rations, AFifthIsLeftForThoseWhoComeLater) {
  budget_bytes = 9 << 20;
  reserve_bytes = 1 << 20;
  serve_shelf();
  between().delay(20ms).capacity(4 << 20);
  auto& b = server().budget();
  leave_free(b.pool_bytes() * 3 / 10);
  std::vector<producing> all(4);
  for (auto& each : all)
    start(client(), lookup<Item>("shelf"), each);
  pass(2s);
  EXPECT_GT(owed(), 16 * floor) << "they have grown";
  EXPECT_GE(b.pool_bytes() * 3 / 10 - owed(), b.pool_bytes() / 5);
  auto refused = server().env->count.sessions_refused.load();
  std::vector<ref<Item>> more;
  for (int i = 0; i < 50; ++i)
    more.push_back(lookup<Item>("shelf"));
  pass(100ms);
  EXPECT_EQ(server().env->count.sessions_refused.load(), refused);
  EXPECT_EQ(of_sessions().size(), 54u);
  free_again();
}

TEST_F(Rations, OfAServiceThatChoseItsOwnStay) {
  ASSERT_TRUE(server().node->serve<Item>("chosen", spawn<shelf>(server(), &goods), {.ration = 128 * kib}));
  between().delay(20ms);
  start(client(), lookup<Item>("chosen"), p);
  pass(1s);
  EXPECT_EQ(of_session().bytes, 128 * kib);
  p.stop = true;
  pass(2500ms);
  EXPECT_EQ(of_session().bytes, 128 * kib);
}

TEST_F(Rations, KeepTheMessagesThatAMailboxHasDealtOut) {
  serve_shelf(400);
  between().delay(20ms).capacity(4 << 20);
  start(client(), lookup<Item>("shelf"), p);
  pass(1s);
  EXPECT_EQ(of_session().messages, 100u) << "a quarter of what is free";
  EXPECT_LE(of_session().bytes, 120 * (item_bytes + 200)) << "more bytes would be of no use";
  p.stop = true;
  pass(2500ms);
  EXPECT_EQ(of_session().messages, 100u);
}

TEST_F(Rations, OfBlockingOutletsGrowToo) {
  serve_shelf();
  between().delay(20ms).capacity(4 << 20);
  auto to = lookup<Item>("shelf");
  weir::client producer{*client().node};
  weir::blocking_outlet<Item> items{producer, to};
  for (int i = 0; i < 10'000; ++i)
    ASSERT_TRUE(items.push([&](Item::Builder b) { b.initData(item_bytes); }));
  EXPECT_GT(owed(), 8 * first);
  EXPECT_EQ(*items.close(), 10'000u);
}

TEST_F(Rations, WithinANodeGrowAndAreGivenBack) {
  serve_keeper();
  start(server(), lookup_here<Item>("keeper"), p);
  EXPECT_EQ(owed(), first);
  for (int i = 0; i < 20 && owed() <= 8 * first; ++i)
    pass(1ms, [&] { leases.clear(); }); // it is never behind
  p.stop = true;
  pass(20ms, [&] { leases.clear(); });
  auto grown = owed();
  EXPECT_GT(grown, 8 * first);
  pass(1500ms);
  EXPECT_EQ(owed(), grown) << "not before its time";
  pass(700ms);
  EXPECT_EQ(owed(), first);
}

TEST_F(Rations, WithinANodeStayWhereNothingIsTaken) {
  serve_keeper();
  start(server(), lookup_here<Item>("keeper"), p);
  pass(500ms);
  EXPECT_EQ(owed(), first);
  leases.clear();
}

TEST_F(Rations, WithinANodeShrinkWhereTheServiceIsSlow) {
  serve_keeper();
  start(server(), lookup_here<Item>("keeper"), p);
  int n = 0;
  pass(4s, [&] {
    if (++n % 10 == 0 && !leases.empty())
      leases.pop_front();
  });
  EXPECT_EQ(owed(), floor);
  EXPECT_GT(leases.size(), 1u) << "it is never without work";
}

TEST_F(Rations, EndWithNothingOwed) {
  serve_shelf();
  between().delay(20ms);
  auto who = start(client(), lookup<Item>("shelf"), p);
  pass(1s);
  EXPECT_GT(owed(), first);
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(who), caf::exit_reason::kill);
  pass(200ms);
  expect_base_line();
}

} // namespace
} // namespace weir::test
