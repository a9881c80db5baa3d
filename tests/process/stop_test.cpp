// How a node stops, and what it answers afterwards.
#include <gmock/gmock.h>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// True: `f` has come to its end within a test's patience. A thread that hangs is left behind.
bool returns(std::function<void()> f) {
  auto done = std::make_shared<std::promise<void>>();
  auto end = done->get_future();
  std::thread{[f = std::move(f), done] {
    f();
    done->set_value();
  }}.detach();
  return end.wait_for(process::patience) == std::future_status::ready;
}

/// How one call ends that an actor of CAF's scheduler makes, which outlives every node.
failure call_from_scheduler(machine& m, const ref<Probe>& to) {
  auto done = std::make_shared<std::promise<failure>>();
  auto end = done->get_future();
  caf::actor who = m.system().spawn<hand>();
  put(who, nullptr, task{[to, done](hand& h) {
        h.call<echo>(to, data_of(1))
            .then([done](echo::result) { done->set_value({}); },
                  [done](const failure& why) { done->set_value(why); });
      }});
  if (end.wait_for(process::patience) != std::future_status::ready) {
    ADD_FAILURE() << "a call that never ends";
    return {};
  }
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(who), caf::exit_reason::user_shutdown);
  return end.get();
}

/// A service whose handler lasts until the test says so; not on a loop.
class patient : public weir::service<Probe> {
public:
  patient(caf::actor_config& c, std::shared_ptr<std::promise<void>> begun, std::shared_future<void> go_on)
      : service(c), begun_(std::move(begun)), go_on_(std::move(go_on)) {}
  handlers make_handlers() override {
    return {on<echo>([this](echo::in in, echo::out out) {
              begun_->set_value();
              go_on_.wait();
              out.setData(in.getData());
            }),
            on<throws>([](throws::in, throws::out) {}),
            on<ignore>([](const weir::request<ignore>&) {}),
            on<keep>([](const weir::request<keep>&) {}),
            on<reply>([](reply::in, reply::out) {}),
            on<nest>([](const weir::request<nest>&) {})};
  }

private:
  std::shared_ptr<std::promise<void>> begun_;
  std::shared_future<void> go_on_;
};

node_options with_loops(uint32_t n) {
  auto o = machine::listening();
  o.io_threads = n;
  return o;
}

class Stopping : public ::testing::TestWithParam<uint32_t> {
protected:
  node_options options() const { return with_loops(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Loops, Stopping, ::testing::Values(1, 3));

TEST_P(Stopping, AStoppedNodeAnswersEverybodyAtOnce) {
  machine m{options()};
  ASSERT_TRUE(m.node().serve<Probe>("probe", m.node().spawn<probe>()));
  caf::actor spare = m.system().spawn<probe>();
  m.node().stop();
  ASSERT_TRUE(returns([&] {
    EXPECT_EQ(m.node().stats().links, 0u);
    EXPECT_EQ(m.node().stats().sessions, 0u);
    EXPECT_EQ(m.node().listen("tcp://127.0.0.1:0").error().code, errc::shutting_down);
    EXPECT_EQ(m.node().connect("tcp://127.0.0.1:1").error().code, errc::shutting_down);
    EXPECT_EQ(m.node().serve<Probe>("other", spare).error().code, errc::shutting_down);
    m.node().stop();
  }));
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(spare), caf::exit_reason::user_shutdown);
  for (auto& at : {std::string{}, std::string{"tcp://127.0.0.1:1"}}) {
    auto to = at.empty() ? m.node().lookup<Probe>("probe") : m.node().lookup<Probe>("probe", at);
    for (int i = 0; i < 2; ++i) {
      auto why = call_from_scheduler(m, to);
      EXPECT_EQ(why.code, errc::shutting_down) << to_string(why);
      EXPECT_EQ(why.what, outcome::not_executed);
    }
    auto late = pour(m, m.node().lookup<Piece>("catcher"), 1, 1); // its actor ends with the node, too
  }
}

TEST_P(Stopping, StatsAreAnsweredWhileTheNodeStopsAndAfterwards) {
  machine m{options()};
  std::atomic<uint64_t> answered{0};
  std::atomic<bool> enough{false};
  std::vector<std::future<void>> readers;
  for (int i = 0; i < 2; ++i)
    readers.push_back(std::async(std::launch::async, [&] {
      for (; !enough; ++answered)
        EXPECT_EQ(m.node().stats().budget, m.node().options().budget_bytes);
    }));
  ASSERT_TRUE(eventually([&] { return answered > 100; }));
  ASSERT_TRUE(returns([&] { m.node().stop(); }));
  auto before = answered.load();
  EXPECT_TRUE(eventually([&] { return answered > before + 100; }));
  enough = true;
  for (auto& r : readers)
    ASSERT_EQ(r.wait_for(process::patience), std::future_status::ready);
}

TEST_P(Stopping, ALocalCallUnderWayEndsWellAndNoNewOneBegins) {
  machine m{options()};
  auto begun = std::make_shared<std::promise<void>>();
  std::promise<void> go_on;
  caf::actor slow = m.system().spawn<patient>(begun, go_on.get_future().share());
  ASSERT_TRUE(m.node().serve<Probe>("slow", slow));
  auto to = m.node().lookup<Probe>("slow");
  auto call = m.start<echo>(to, {}, data_of(1), [](echo::result) {});
  ASSERT_EQ(begun->get_future().wait_for(process::patience), std::future_status::ready);
  auto stop = std::async(std::launch::async, [&] { m.node().stop(); });
  EXPECT_TRUE(eventually([&] {
    auto late = m.start<echo>(m.node().lookup<Probe>("slow"), {.timeout = 10ms}, data_of(1), [](auto) {});
    return late.wait_for(process::patience) == std::future_status::ready &&
           late.get().code == errc::shutting_down;
  }));
  EXPECT_EQ(stop.wait_for(0s), std::future_status::timeout);
  EXPECT_EQ(call.wait_for(0s), std::future_status::timeout);
  go_on.set_value();
  ASSERT_EQ(call.wait_for(process::patience), std::future_status::ready);
  EXPECT_EQ(call.get(), failure{});
  ASSERT_EQ(stop.wait_for(process::patience), std::future_status::ready);
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(slow), caf::exit_reason::user_shutdown);
}

TEST_P(Stopping, AKeptEndpointDialsNoMoreAndTheNodeStopsAtOnce) {
  machine server{options()};
  ASSERT_TRUE(server.node().serve<Probe>("probe", server.node().spawn<probe>()));
  auto o = options();
  o.reconnect_base = 1ms;
  o.drain_timeout = 20s;
  machine client{o};
  for (auto at : {server.address(), std::string{"tcp://127.0.0.1:1"}}) // one that works, one that never does
    ASSERT_TRUE(client.node().connect(at));
  ASSERT_EQ(client.call<echo>(client.node().lookup<Probe>("probe", server.address()), data_of(1)), failure{});
  auto start = std::chrono::steady_clock::now();
  client.node().stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, o.drain_timeout / 2);
  EXPECT_EQ(client.node().stats().links, 0u);
}

TEST_P(Stopping, AConnectedNodeFindsAPeerAgainThatWasRestarted) {
  auto server = std::make_unique<machine>(options());
  ASSERT_TRUE(server->node().serve<Probe>("probe", server->node().spawn<probe>()));
  auto o = options();
  o.connect_timeout = 30s;
  o.connect = {server->address()};
  machine client{o};
  ASSERT_EQ(client.call<echo>(client.node().lookup<Probe>("probe"), data_of(1)), failure{});
  server.reset();
  auto again = options();
  again.listen = o.connect; // the same port
  server = std::make_unique<machine>(again);
  ASSERT_TRUE(server->node().serve<Probe>("probe", server->node().spawn<probe>()));
  EXPECT_TRUE(eventually([&] { return client.node().stats().links == o.io_threads; })); // nobody asked
  EXPECT_EQ(client.call<echo>(client.node().lookup<Probe>("probe"), data_of(1)), failure{});
}

TEST_P(Stopping, APeerThatIsNotThereFailsTheCallsAtOnce) {
  auto o = options();
  o.connect_timeout = 60s;
  machine m{o};
  for (std::string at : {"tcp://127.0.0.1:1", "unix:///no/such/file"}) {
    auto done = std::make_shared<std::promise<failure>>();
    auto end = done->get_future();
    m.tell([&m, at, done](hand& h) { // the call is there before the answer
      h.call<echo>(m.node().lookup<Probe>("probe", at), data_of(1))
          .then([done](echo::result) { done->set_value({}); },
                [done](const failure& f) { done->set_value(f); });
    });
    ASSERT_EQ(end.wait_for(process::patience), std::future_status::ready);
    auto why = end.get();
    EXPECT_EQ(why.code, errc::connect_failed) << to_string(why);
    EXPECT_EQ(why.what, outcome::not_executed);
  }
}

} // namespace
} // namespace weir::test
