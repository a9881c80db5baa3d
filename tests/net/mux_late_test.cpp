// Users who come too late, too early or twice, and what was under way when a session ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/wire.capnp.h"
#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {
using namespace test::words;
using testing::HasSubstr;

std::vector<std::string> items(const peer& p) {
  std::vector<std::string> all;
  for (auto& e : p.events)
    if (e.what == type::item)
      all.push_back(e.body);
  return all;
}

// ---- too late, too early, twice

TEST(MuxLate, ASessionThatIsOverTakesEveryVerbAndDoesNothing) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "x");
  p.exchange();
  auto call = p.server.unanswered[0].call;
  auto& there = *p.server.unanswered[0].on;
  p.client.link.abort(s, errc::cancelled, {});
  p.server.link.abort(there, errc::cancelled, {});
  p.client.fetch();
  p.server.fetch();
  auto before = p.client.events.size() + p.server.events.size();
  for (auto* link : {&p.client.link, &p.server.link}) {
    auto& on = link == &p.client.link ? s : there;
    EXPECT_EQ(link->post(on, test::build_message("x"), lane::normal).error().code, errc::session_closed);
    EXPECT_EQ(link->call(on, test::build_message("x"), {}).error().code, errc::session_closed);
    EXPECT_FALSE(link->want_credit(on, 10));
    EXPECT_TRUE(link->accept(on, {}));
    link->refuse(on, errc::no_budget, "no", true);
    link->cancel(on, call, errc::cancelled);
    link->reply(on, call, test::build_message("x"));
    link->reply_failure(on, call, {errc::handler_failed, outcome::done, "x"});
    link->close(on);
    link->abort(on, errc::service_down, "again");
    link->reclaim(on);
    link->set_ration(on, 1 << 20, 1000);
  }
  p.expect_invariants();
  p.client.fetch();
  p.server.fetch();
  EXPECT_EQ(p.client.events.size() + p.server.events.size(), before);
  EXPECT_EQ(p.client.end_of(token)->why.code, errc::cancelled);
  p.exchange();
  p.expect_base_line();
}

TEST(MuxLate, ACallEndsOnceHoweverOftenItIsCancelled) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto id = p.client.link.call(s, test::build_message("x"), {.token = 7});
  p.exchange();
  p.client.link.cancel(s, *id, errc::cancelled);
  p.client.link.cancel(s, *id, errc::cancelled);
  p.exchange();
  p.client.link.cancel(s, *id, errc::cancelled); // it is forgotten by now
  p.exchange();
  EXPECT_EQ(p.client.count(type::failed), 1u);
  EXPECT_EQ(p.server.count(type::cancelled), 1u);
  p.server.link.reply_failure(*p.server.unanswered[0].on, p.server.unanswered[0].call,
                              {errc::handler_failed, outcome::done, "too late"});
  p.exchange();
  EXPECT_EQ(p.client.count(type::reply), 0u);
}

TEST(MuxLate, ARequestIsAnsweredOnce) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto token = p.client.call(p.client.open(), "x");
  p.exchange();
  p.server.answer(p.server.unanswered[0], "first");
  p.server.answer(p.server.unanswered[0], "second");
  p.server.link.reply_failure(*p.server.unanswered[0].on, p.server.unanswered[0].call,
                              {errc::handler_failed, outcome::done, "third"});
  p.exchange();
  EXPECT_EQ(p.client.end_of(token)->body, "first");
  EXPECT_EQ(p.client.count(type::reply), 1u);
}

TEST(MuxLate, WhatWasAcceptedIsNotRefusedAnyMore) {
  mux_pair p;
  p.connect();
  p.client.open();
  p.exchange();
  auto& there = *p.server.last(type::open)->on;
  p.server.link.refuse(there, errc::no_budget, "no", true);
  p.exchange();
  EXPECT_EQ(p.client.count(type::opened), 1u);
  EXPECT_EQ(p.client.count(type::ended), 0u);
}

TEST(MuxLate, ARationIsSetOnlyWhenThereIsOne) {
  mux_pair p;
  p.server.accepts = false;
  p.connect();
  auto token = p.client.call(p.client.open(), "x");
  p.exchange();
  auto& there = *p.server.last(type::open)->on;
  p.server.link.set_ration(there, 1 << 20, 1000);
  EXPECT_EQ(p.server.inbound.charged(charge::session), 0u);
  EXPECT_TRUE(p.server.link.accept(there, {64 << 10, 512, 4}));
  p.exchange();
  EXPECT_EQ(p.client.end_of(token)->body, "x");
  EXPECT_EQ(p.server.inbound.charged(charge::session), 64u << 10);
}

TEST(MuxLate, ARationThatTheBudgetCannotPayStaysAsItIs) {
  mux_pair p{client_settings(), with_budget(server_settings(), 100 << 10, 0)};
  p.connect();
  p.client.open();
  p.exchange();
  auto& there = *p.server.last(type::open)->on;
  p.server.link.set_ration(there, 200 << 10, 1000);
  EXPECT_EQ(there.in().options().bytes, 64u << 10);
  EXPECT_EQ(p.server.inbound.charged(charge::session), 64u << 10);
}

TEST(MuxLate, ANameThatIsTooLongOpensNothing) {
  mux_pair p;
  p.connect();
  failure why;
  EXPECT_EQ(p.client.link.open({.service = std::string(256, 's')}, why), nullptr);
  EXPECT_EQ(why.code, errc::no_such_service);
  EXPECT_THAT(why.text, HasSubstr("255"));
  EXPECT_NE(p.client.link.open({.service = std::string(255, 's')}, why), nullptr);
  p.exchange();
  EXPECT_EQ(p.server.last(type::open)->on->service(), std::string(255, 's'));
}

TEST(MuxLate, TheAcceptorSeesWhatWasOpened) {
  mux_pair p;
  p.connect();
  failure why;
  auto* s = p.client.link.open({.service = "ticks", .interface = 77, .stream = true, .tag = 5}, why);
  ASSERT_NE(s, nullptr);
  p.exchange();
  auto& there = *p.server.last(type::open)->on;
  EXPECT_EQ(there.service(), "ticks");
  EXPECT_EQ(there.interface(), 77u);
  EXPECT_TRUE(there.is_stream());
  EXPECT_FALSE(there.opened_here());
  EXPECT_EQ(s->tag(), 5u);
  EXPECT_EQ(s->blocked_reason(), errc::none);
}

TEST(MuxLate, ALinkThatIsDownOpensNothingAndWantsNoTick) {
  mux_pair p;
  p.connect();
  p.client.link.lost(errc::link_lost, "reset by peer");
  EXPECT_FALSE(p.client.link.ready());
  EXPECT_TRUE(p.client.link.is_down());
  EXPECT_EQ(p.client.link.next_tick(), time_point::max());
  failure why;
  EXPECT_EQ(p.client.link.open({}, why), nullptr);
  EXPECT_EQ(why.code, errc::link_lost);
  p.client.link.go_away(errc::shutting_down, {});
  p.client.link.fail(errc::shutting_down, {});
  p.client.link.tick(p.now + seconds{60});
  EXPECT_FALSE(p.client.link.wants_write());
  p.client.fetch();
  EXPECT_EQ(p.client.count(type::down), 1u);
}

TEST(MuxLate, IsDrainedWhenItSaidSoHasNoSessionsAndNothingToWrite) {
  mux_pair p;
  p.connect();
  EXPECT_FALSE(p.client.link.drained()) << "it does not want to";
  auto& s = p.client.open();
  p.exchange();
  p.client.link.go_away(errc::shutting_down, {});
  p.client.link.go_away(errc::shutting_down, {});
  EXPECT_FALSE(p.client.link.drained()) << "it has not said so";
  p.exchange();
  EXPECT_FALSE(p.client.link.drained()) << "a session is open";
  p.client.link.close(s);
  p.write(p.client, p.to_server);
  p.exchange();
  EXPECT_TRUE(p.client.link.drained());
  p.now += seconds{1};
  p.client.link.tick(p.now);
  EXPECT_FALSE(p.client.link.drained()) << "a ping wants to leave";
}

TEST(MuxLate, AnItemNeedsARationOfTheOpeners) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.client.open("echo", false, {4096, 16, 4});
  p.exchange();
  auto& there = *p.server.last(type::open)->on;
  EXPECT_TRUE(p.server.link.post(there, test::build_message("x"), lane::normal));
  session* without = nullptr;
  for (auto& e : p.server.events)
    if (e.what == type::open && e.on->id() == s.id())
      without = e.on;
  auto refused = p.server.link.post(*without, test::build_message("x"), lane::normal);
  EXPECT_EQ(refused.error().code, errc::bad_state);
  EXPECT_EQ(p.server.link.call(there, test::build_message("x"), {}).error().code, errc::bad_state);
  p.exchange();
  EXPECT_EQ(p.client.count(type::item), 1u);
}

TEST(MuxLate, AnEnvelopeThatIsNotOursPaysForTheRoomThatTheCallNames) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  message_builder b{64};
  b.initRoot<wire::Failure>(); // a struct, but smaller than an Envelope
  ASSERT_TRUE(p.client.link.call(s, b.finish(), {.token = 1, .reply_room_bytes = 20'000}));
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), cost_of(20'000));
  p.exchange();
  EXPECT_NE(p.client.end_of(1), nullptr);
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), 0u);
}

// ---- under way when a session or a link ends

TEST(MuxLate, WhatWasNotFetchedIsGivenBackWhenTheLinkIsDestroyed) {
  budget in{{16 << 20, 8 << 20}};
  outbound_ledger out{16 << 20};
  slab_pool_owner memory{false};
  std::vector<uint64_t> words;
  {
    mux_pair p;
    auto with = client_settings();
    mux late{with.link, side::dialled, in, out, *memory, p.now};
    // `late` and the server of the pair, byte by byte, until a reply and an item have come.
    auto to_server = [&] {
      std::array<iovec, 64> v;
      auto n = late.gather(v, p.now);
      size_t all = 0;
      for (size_t i = 0; i < n; ++i) {
        p.to_server.push(v[i].iov_base, v[i].iov_len);
        all += v[i].iov_len;
      }
      late.wrote(all);
      p.to_server.deliver(p.server, SIZE_MAX, p.now);
    };
    auto to_late = [&] {
      std::vector<iovec> v(64);
      auto n = p.server.link.gather(v, p.now);
      std::vector<std::byte> all;
      for (size_t i = 0; i < n; ++i) {
        auto* at = static_cast<const std::byte*>(v[i].iov_base);
        all.insert(all.end(), at, at + v[i].iov_len);
      }
      p.server.link.wrote(all.size());
      words.resize((all.size() + 7) / 8);
      std::memcpy(words.data(), all.data(), all.size());
      EXPECT_EQ(late.receive(reinterpret_cast<std::byte*>(words.data()), all.size(), SIZE_MAX, p.now),
                all.size());
    };
    to_server();
    to_late();
    failure why;
    auto* s = late.open({.service = "echo", .replies_in = {64 << 10, 16, 4}}, why);
    ASSERT_NE(s, nullptr) << to_string(why);
    to_server();
    to_late();
    ASSERT_TRUE(late.call(*s, test::build_message("x"), {}));
    to_server();
    p.server.post(*p.server.last(type::open)->on, "an item");
    to_late();
    EXPECT_TRUE(late.has_events());
    EXPECT_GT(in.charged(charge::session), 0u);
    EXPECT_GT(in.charged(charge::reply_room), 0u);
  }
  EXPECT_EQ(in.charged(charge::session), 0u);
  EXPECT_EQ(in.charged(charge::reply_room), 0u);
  EXPECT_EQ(in.liability(), uint64_t{8 << 20});
  EXPECT_EQ(out.bytes(), 0u);
}

TEST(MuxLate, TheCheckSeesALedgerThatKnowsLessThanTheLink) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open("echo", false, {4096, 16, 4});
  p.exchange();
  p.client.call(s, bytes(1000));
  EXPECT_EQ(p.client.link.check(), "");
  p.client.inbound.give(charge::session, 1);
  EXPECT_THAT(p.client.link.check(), HasSubstr("the budget knows less of sessions (4095, 4096)"));
  p.client.inbound.give(charge::reply_room, 1);
  EXPECT_THAT(p.client.link.check(), HasSubstr("the budget knows less of reply rooms"));
  p.client.outbound.release(1);
  EXPECT_THAT(p.client.link.check(), HasSubstr("the outbound ledger knows less"));
  EXPECT_TRUE(p.client.inbound.take(charge::session, 1));
  EXPECT_TRUE(p.client.inbound.take(charge::reply_room, 1));
  p.client.outbound.add(1);
  EXPECT_EQ(p.client.link.check(), "");
}

TEST(MuxLate, ReasonsAreThereUntilTheyAreTaken) {
  mux_pair p;
  p.connect();
  EXPECT_FALSE(p.client.link.has_reasons());
  p.client.link.abort(p.client.open(), errc::cancelled, "enough");
  EXPECT_TRUE(p.client.link.has_reasons());
  std::vector<noted_reason> all;
  p.client.link.take_reasons(all);
  EXPECT_FALSE(p.client.link.has_reasons());
}

TEST(MuxLate, AnAbortDropsAnAnswerThatWaitsForFunds) {
  mux_pair p{with_budget(client_settings(), 16 << 10, 0), server_settings()};
  p.server.handler = [](auto&) { return bytes(1'000'000); };
  p.connect();
  p.client.call(p.client.open(), "much, please");
  p.exchange();
  EXPECT_GT(p.server.outbound.bytes(), 1'000'000u);
  p.server.link.abort(*p.server.last(type::request)->on, errc::service_down, {});
  EXPECT_EQ(p.server.outbound.bytes(), 0u);
  p.exchange();
  p.expect_base_line();
}

TEST(MuxLate, AnAbortDropsAnAnswerInTheMiddle) {
  mux_pair p;
  p.server.handler = [](auto&) { return bytes(3'000'000); };
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "x");
  p.to_client.capacity = 300'000;
  for (int i = 0; i < 8; ++i)
    p.step();
  ASSERT_GT(p.client.memory->alive_bytes(), 0u);
  p.client.link.abort(s, errc::cancelled, {});
  EXPECT_EQ(p.client.memory->alive_bytes(), 0u) << "at once";
  p.client.fetch();
  EXPECT_EQ(p.client.end_of(token)->why.what, outcome::unknown);
  p.to_client.capacity = SIZE_MAX;
  p.exchange();
  p.expect_base_line();
}

TEST(MuxLate, OfAnItemThatHasLeftInPartNobodyKnows) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.exchange();
  p.client.link.post(s, test::build_message(bytes(1'000'000)), lane::normal, 1);
  p.client.link.post(s, test::build_message("behind it"), lane::normal, 2);
  p.to_server.capacity = 200'000;
  for (int i = 0; i < 4; ++i)
    p.step();
  ASSERT_GT(p.server.memory->alive_bytes(), 0u) << "in the middle";
  p.client.link.abort(s, errc::cancelled, {});
  p.client.fetch();
  ASSERT_EQ(p.client.count(type::failed), 2u);
  EXPECT_EQ(p.client.end_of(1)->why.what, outcome::unknown);
  EXPECT_EQ(p.client.end_of(2)->why.what, outcome::not_executed);
  p.to_server.capacity = SIZE_MAX;
  p.exchange();
  p.expect_base_line();
}

TEST(MuxLate, ACallWhoseTimeIsOverDoesNotLeaveEvenBeforeTheTick) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.exchange();
  auto token = p.client.call(s, "late", {.deadline = p.now + milliseconds{50}});
  p.now += milliseconds{50};
  p.exchange();
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->why.code, errc::deadline_exceeded);
  EXPECT_EQ(p.client.end_of(token)->why.what, outcome::not_executed);
  EXPECT_EQ(p.server.count(type::request), 0u);
}

// ---- in line for funds

/// The server has funds for one large message at a time, and one has them.
struct InLine : testing::Test {
  mux_pair p{client_settings(), with_budget(server_settings(), 3 * 64 << 10, 2 << 20)};
  std::vector<session*> s, there;

  void SetUp() override {
    p.server.consumes = false;
    p.connect();
    for (int i = 0; i < 3; ++i)
      s.push_back(&p.client.open("sink", true));
    p.exchange();
    for (auto& e : p.server.events)
      if (e.what == type::open)
        there.push_back(e.on);
    for (auto* one : s)
      p.client.post(*one, bytes(1'000'000));
    p.exchange();
    ASSERT_EQ(p.server.count(type::item), 1u);
    ASSERT_EQ(s[1]->blocked_reason(), errc::no_budget);
  }
  void expect_second_is(size_t i) {
    p.server.consume_all();
    p.exchange();
    ASSERT_EQ(p.server.count(type::item), 2u);
    EXPECT_EQ(p.server.last(type::item)->on, there[i]);
  }
};

TEST_F(InLine, WhoeverIsFirstIsNext) { expect_second_is(1); }

TEST_F(InLine, WhoeverHasEndedHasNoTurn) {
  p.server.link.abort(*there[1], errc::service_down, {}); // and the peer has not confirmed it
  p.server.fetch();
  expect_second_is(2);
}

TEST_F(InLine, WhoeverHasBeenAskedForCreditHasNoTurn) {
  p.server.link.reclaim(*there[1]); // until it has answered
  p.server.consume_all();
  EXPECT_TRUE(there[1]->in().is_reclaiming());
  p.exchange();
  ASSERT_EQ(p.server.count(type::item), 2u);
  EXPECT_EQ(p.server.last(type::item)->on, there[2]);
}

TEST_F(InLine, WhoeverWaitsForSomethingSmallerNowHasNoTurn) {
  p.client.link.close(*s[1]);
  p.client.link.abort(*s[1], errc::cancelled, {});
  p.exchange();
  expect_second_is(2);
}

/// The caller cannot fund an answer.
struct AnswerInLine : testing::Test {
  mux_pair p{with_budget(client_settings(), 16 << 10, 0), server_settings()};
  session* s = nullptr;
  uint32_t call = 0;

  void SetUp() override {
    p.server.handler = [](auto&) { return bytes(1'000'000); };
    p.connect();
    s = &p.client.open();
    call = *p.client.link.call(*s, test::build_message("x"), {.token = 5});
    p.exchange();
    ASSERT_EQ(p.client.end_of(5), nullptr) << "it waits";
  }
};

TEST_F(AnswerInLine, AnEndedSessionHasNoTurn) {
  p.client.link.abort(*s, errc::cancelled, {});
  p.client.inbound.grow(2 << 20); // there would be enough now
  p.client.link.tick(p.now);
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), 0u);
  p.exchange();
  EXPECT_EQ(p.client.inbound.liability(), 0u);
}

TEST_F(AnswerInLine, ACancelledCallHasNoTurn) {
  p.client.link.cancel(*s, call, errc::cancelled);
  auto paid = p.client.inbound.charged(charge::reply_room);
  p.client.inbound.grow(2 << 20);
  p.client.link.tick(p.now);
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), paid);
  p.exchange();
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), 0u);
}

TEST_F(AnswerInLine, IsFundedAsSoonAsThereIsEnough) {
  p.client.inbound.grow(2 << 20);
  p.advance(milliseconds{10});
  ASSERT_NE(p.client.end_of(5), nullptr);
  EXPECT_EQ(p.client.end_of(5)->body.size(), 1'000'000u);
}

TEST_F(AnswerInLine, IsServedWhenDataDies) {
  auto& other = p.client.open("echo", false, {4096, 16, 4});
  p.exchange();
  p.client.consumes = false;
  p.server.post(*p.server.last(type::open)->on, "an item");
  p.exchange();
  p.client.inbound.grow(2 << 20);
  EXPECT_EQ(p.client.end_of(5), nullptr);
  p.client.link.consumed(other, p.client.last(type::item)->cost, 1);
  p.exchange();
  EXPECT_NE(p.client.end_of(5), nullptr);
}

// ---- runs

struct Runs : testing::Test {
  mux_pair p{client_settings(), [] {
               auto narrow = server_settings();
               narrow.ration = {2000, 10, 4};
               return narrow;
             }()};
  session* s = nullptr;

  void SetUp() override {
    p.server.consumes = false;
    p.connect();
    s = &p.client.open("sink", true);
    p.exchange();
  }
};

TEST_F(Runs, DoNotTakeTheRationFromTheLaneThatWaits) {
  p.client.post(*s, bytes(1200), lane::bulk);
  p.client.post(*s, "large" + bytes(1300), lane::bulk);
  p.exchange();
  ASSERT_TRUE(s->out().blocked());
  ASSERT_TRUE(p.client.link.post(*s, run_for(*s, {"a", "b", "c"}), lane::normal));
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 1u) << "there is room for all of the run";
  for (int i = 0; i < 5; ++i) {
    p.server.consume_all();
    p.exchange();
  }
  auto all = items(p.server);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[1].substr(0, 5), "large");
  EXPECT_EQ(all[4], "c");
}

TEST_F(Runs, MayPassWhatIsOnlyWished) {
  p.client.post(*s, bytes(1200), lane::bulk);
  p.exchange();
  EXPECT_FALSE(p.client.link.want_credit(*s, 1500));
  ASSERT_TRUE(p.client.link.post(*s, run_for(*s, {"a", "b"}, lane::bulk), lane::bulk));
  p.exchange();
  EXPECT_EQ(p.server.last(type::item)->body, "b");
}

TEST_F(Runs, LoseOnlyTheirFirstMessageWhenItIsRefused) {
  auto poor = with_budget(server_settings(), 2000, 0);
  poor.ration = {600, 10, 4};
  mux_pair q{client_settings(), poor};
  q.connect();
  auto& on = q.client.open();
  q.exchange();
  auto run = run_for(on, {bytes(3000), "b", "c"});
  ASSERT_TRUE(q.client.link.post(on, std::move(run), lane::normal, 9));
  q.exchange();
  q.advance(milliseconds{2100});
  ASSERT_EQ(q.client.count(type::failed), 1u);
  EXPECT_EQ(q.client.end_of(9)->why.code, errc::no_budget);
  EXPECT_EQ(items(q.server), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(q.client.outbound.bytes(), 0u);
}

} // namespace
} // namespace weir::net
