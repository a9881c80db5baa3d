// How sessions hear that their service has ended, and what it costs that they are to hear of it.
#include <latch>

#include <gmock/gmock.h>

#include "actors/credit_manager.hpp"
#include "tests/support/conversation.hpp"
#include "tests/support/process.hpp"

namespace weir::test {

namespace {

/// Ends with its first call, which it answers when the test lets it.
class last_words final : public weir::service<Shop> {
public:
  struct moment {
    std::latch open{1}, over{1};
    caf::actor first; ///< is told something before the answer leaves
  };
  last_words(caf::actor_config& cfg, moment* m) : service(cfg), moment_(m) {}
  weir::handlers make_handlers() override {
    return {on<add>([this](add::in in, add::out out) {
              moment_->open.wait();
              put(moment_->first, nullptr, actors::lent{0});
              out.setSum(in.getA() + in.getB());
              quit();
            }),
            on<later>([](const weir::request<later>&) {}), on<fail>([](fail::in, fail::out) {}),
            on<give>([](give::in, give::out) {})};
  }

private:
  moment* moment_;
};

/// Says when its turn has come, and ends.
class turn final : public caf::event_based_actor {
public:
  turn(caf::actor_config& cfg, std::latch* over) : caf::event_based_actor(cfg), over_(over) {}
  caf::behavior make_behavior() override {
    over_->count_down();
    return {};
  }

private:
  std::latch* over_;
};

/// Counts the ends of sessions.
class mourner final : public pinnable {
public:
  mourner(caf::actor_config& cfg, std::map<caf::actor_id, int>* ends) : pinnable(cfg), ends_(ends) {}
  caf::behavior make_behavior() override {
    return {[](actors::reply&) {}};
  }
  void mourn(const caf::actor& session) {
    watch(session, [this, id = session.id()](const caf::error&) { ++(*ends_)[id]; });
  }

private:
  std::map<caf::actor_id, int>* ends_;
};

} // namespace

/// Sessions to a shop of the server: within the server, or across a link.
class WatchedServices : public Conversation, public ::testing::WithParamInterface<bool> {
protected:
  bool is_local() const { return GetParam(); }
  void open_shop() {
    service = spawn<shop>(server(), &state);
    serve<Shop>(server(), "shop", service);
    if (!who)
      who = customer_at(is_local() ? server() : client());
  }
  ref<Shop> shop_ref() { return is_local() ? lookup_here<Shop>("shop") : lookup<Shop>("shop"); }
  /// A session that has answered a call.
  ref<Shop> open_session() {
    auto to = shop_ref();
    ending e;
    call_add(who, to, 1, 1, e);
    EXPECT_EQ(e.value, 2);
    return to;
  }
  void kill_service() {
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(service), caf::exit_reason::kill);
    run();
    state.kept.clear();
    run();
  }
  size_t services_watched() { return server().loop->watched_services().size(); }
  size_t sessions_that_watch() {
    size_t all = 0;
    for (auto& [id, sessions] : server().loop->watched_services())
      all += sessions.size();
    return all;
  }
  void TearDown() override {
    expect_base_line();
    EXPECT_EQ(sessions_that_watch(), 0u);
  }

  caf::actor service, who;
};

TEST_P(WatchedServices, HaveSessionsWithoutNumberAndCostNoMemoryForThoseThatAreClosed) {
  open_shop();
  uint64_t before = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (i == 2'000)
      before = memory_bytes(getpid(), "VmRSS"); // everybody is warm
    auto to = open_session();
    ASSERT_EQ(sessions_that_watch(), 1u);
    to = {};
    run();
    ASSERT_EQ(sessions_that_watch(), 0u);
    ASSERT_EQ(services_watched(), 1u);
  }
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(memory_bytes(getpid(), "VmRSS"),
            before + (4 << 20)); // 230 bytes each; a session has 1 KiB and more
#else
  static_cast<void>(before);
#endif
}

TEST_P(WatchedServices, AreReportedOnceToEachOpenSessionWhenTheyEnd) {
  open_shop();
  constexpr size_t opened = 20, closed = 5;
  std::map<caf::actor_id, int> session_ends;
  std::vector<int> call_ends(opened);
  auto watcher = spawn<mourner>(is_local() ? server() : client(), &session_ends);
  std::vector<ref<Shop>> sessions;
  for (size_t i = 0; i < opened; ++i) {
    sessions.push_back(open_session());
    static_cast<mourner*>(caf::actor_cast<caf::abstract_actor*>(watcher))->mourn(sessions.back().handle());
  }
  for (size_t i = 0; i < closed; ++i)
    sessions[i * 3] = {};
  run();
  EXPECT_EQ(session_ends.size(), closed);
  EXPECT_EQ(sessions_that_watch(), opened - closed);
  std::vector<failure> why;
  for (size_t i = 0; i < opened; ++i)
    if (sessions[i])
      tell(who, [&, i](customer& c) {
        c.call<later>(sessions[i], [](later::args) {})
            .then([](later::result) { FAIL() << "nobody answers"; },
                  [&, i](const failure& f) {
                    ++call_ends[i];
                    why.push_back(f);
                  });
      });
  kill_service();
  EXPECT_EQ(services_watched(), 0u);
  EXPECT_EQ(why.size(), opened - closed);
  for (auto& w : why) {
    EXPECT_EQ(w.code, errc::service_down) << to_string(w);
    EXPECT_EQ(w.what, outcome::unknown);
    EXPECT_THAT(w.text, ::testing::HasSubstr("the service 'shop' is gone"));
  }
  for (size_t i = 0; i < opened; ++i)
    EXPECT_EQ(call_ends[i], sessions[i] ? 1 : 0);
  EXPECT_EQ(session_ends.size(), opened);
  for (auto& [id, times] : session_ends)
    EXPECT_EQ(times, 1);
  advance(1s);
  EXPECT_EQ(why.size(), opened - closed) << "once";
}

TEST_P(WatchedServices, ThatHaveEndedHaveNoSessions) {
  open_shop();
  open_session();
  kill_service();
  ending e;
  auto to = shop_ref();
  call_add(who, to, 1, 1, e);
  expect_failed(e, errc::no_such_service, outcome::not_executed);
  EXPECT_EQ(services_watched(), 0u);
}

TEST_P(WatchedServices, AreWatchedOnWhenTheirLastSessionHasGoneAndAnotherComes) {
  open_shop();
  open_session();
  run();
  ASSERT_EQ(sessions_that_watch(), 0u);
  auto to = open_session();
  ending e;
  call_later(who, to, 10, e);
  kill_service();
  expect_failed(e, errc::service_down, outcome::unknown);
}

TEST_P(WatchedServices, ThatFollowOneOfTheSameNameAreWatchedLikeTheFirst) {
  for (int i = 0; i < 3; ++i) {
    open_shop();
    auto to = open_session();
    ending e;
    call_later(who, to, 10, e);
    EXPECT_EQ(services_watched(), 1u);
    kill_service();
    expect_failed(e, errc::service_down, outcome::unknown);
    EXPECT_EQ(services_watched(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, WatchedServices, ::testing::Bool(),
                         [](auto& i) { return i.param ? "Local" : "Remote"; });

/// Within one node.
class LocalServices : public Conversation {};

TEST_F(LocalServices, ThatAreServedAgainAndAgainCostNoMemory) {
  auto service = spawn<shop>(server(), &state);
  uint64_t before = 0;
  for (int i = 0; i < 55'000; ++i) {
    if (i == 5'000)
      before = memory_bytes(getpid(), "VmRSS"); // everybody is warm
    serve<Shop>(server(), i % 2 == 0 ? "shop" : "store", service);
    server().allowances.clear();
  }
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(memory_bytes(getpid(), "VmRSS"), before + (3 << 20)); // 60 bytes each; a watch has more than 100
#else
  static_cast<void>(before);
#endif
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(service), caf::exit_reason::kill);
  run();
  auto who = customer_at(server());
  for (auto* name : {"shop", "store"}) {
    ending e;
    call_add(who, lookup_here<Shop>(name), 1, 1, e);
    expect_failed(e, errc::no_such_service, outcome::not_executed);
  }
}

TEST_F(LocalServices, ThatEndWhileTheyAreFoundFailTheSession) {
  auto service = spawn<shop>(server(), &state);
  serve<Shop>(server(), "shop", service);
  auto who = customer_at(server());
  ending e;
  auto to = lookup_here<Shop>("shop"); // looks for it in the round that follows, in which it ends
  put(who, nullptr, job{[&](customer& c) {
        c.call<later>(to, [](later::args) {
         }).then([](later::result) {}, [&](const failure& f) { e.why = f; });
      }});
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(service), caf::exit_reason::kill);
  run();
  expect_failed(e, errc::service_down, outcome::unknown);
  EXPECT_EQ(server().loop->watched_services().size(), 0u);
}

TEST_F(LocalServices, ThatEndWithAnAnswerAreHeardToTheLastWord) {
  last_words::moment m;
  m.first = server().loop->credit_handle(); // which hears of the end: now it runs before the session does
  auto& scheduler = server().loop->system();
  caf::actor service = scheduler.spawn<last_words>(&m);
  serve<Shop>(server(), "shop", service);
  auto who = customer_at(server());
  auto to = lookup_here<Shop>("shop");
  ending e;
  call_add(who, to, 1, 1, e);
  ASSERT_FALSE(e.done());
  m.open.count_down(); // the loops rest until the scheduler, which has one thread, has done all of it
  scheduler.spawn<turn>(&m.over);
  m.over.wait();
  run();
  EXPECT_EQ(e.value, 2) << (e.why ? to_string(*e.why) : "no answer at all");
  EXPECT_EQ(server().loop->sessions.size(), 0u);
}

} // namespace weir::test
