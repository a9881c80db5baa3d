#include <set>

#include <gtest/gtest.h>

#include "net/mux.hpp"
#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {
using namespace test::words;

// ---- hello

TEST(Mux, SaysHelloAndKnowsItsPeer) {
  mux_pair p;
  p.connect();
  EXPECT_EQ(p.client.link.peer().name, "server");
  EXPECT_EQ(p.server.link.peer().node, (node_id{1, 1}));
  EXPECT_EQ(p.client.link.peer().frame_bytes_max, (64 << 10) * 5 / 4u);
  EXPECT_EQ(p.client.count(type::ready), 1u);
}

TEST(Mux, OpensNothingBeforeHello) {
  mux_pair p;
  failure why;
  EXPECT_EQ(p.client.link.open({}, why), nullptr);
  EXPECT_EQ(why.code, errc::bad_state);
}

TEST(Mux, AnotherClusterIsRefusedWithAReasonThatThePeerReads) {
  auto other = server_settings();
  other.link.cluster = "elsewhere";
  mux_pair p{client_settings(), other};
  p.exchange();
  ASSERT_NE(p.client.last(type::down), nullptr);
  EXPECT_EQ(p.client.last(type::down)->why.code, errc::wrong_cluster);
  EXPECT_EQ(p.server.last(type::down)->why.code, errc::wrong_cluster);
}

TEST(Mux, DoesNotTalkToItself) {
  mux_pair p{client_settings(), client_settings()};
  p.exchange();
  EXPECT_EQ(p.client.last(type::down)->why.code, errc::self_connect);
}

TEST(Mux, GivesUpWhenHelloDoesNotCome) {
  mux_pair p;
  p.now += seconds{5};
  p.client.link.tick(p.now);
  p.client.fetch();
  EXPECT_EQ(p.client.last(type::down)->why.code, errc::hello_timeout);
}

// ---- calls

TEST(Mux, AnswersACall) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "hello");
  p.exchange();
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->body, "hello");
  EXPECT_EQ(s.now(), session::state::open);
  EXPECT_EQ(s.calls_open(), 0u);
}

TEST(Mux, AnswersWhateverThePipeDoesToTheBytes) {
  for (size_t n : {1, 7, 8, 16, 100, 4096}) {
    mux_pair p;
    p.read_bytes = n;
    p.write_bytes = n;
    p.entries_max = 1 + n % 3;
    p.checks = false;
    p.connect();
    auto& s = p.client.open();
    std::vector<uint64_t> tokens;
    for (size_t i = 0; i < 20; ++i)
      tokens.push_back(p.client.call(s, bytes(i * 100)));
    p.exchange();
    for (size_t i = 0; i < 20; ++i)
      EXPECT_EQ(p.client.end_of(tokens[i])->body.size(), i * 100);
    p.client.link.close(s);
    p.exchange();
    p.expect_base_line();
  }
}

TEST(Mux, BothSidesOpenSessions) {
  mux_pair p;
  p.connect();
  auto& from_client = p.client.open();
  auto& from_server = p.server.open();
  EXPECT_EQ(from_client.id(), 1u);
  EXPECT_EQ(from_server.id(), 2u);
  auto a = p.client.call(from_client, "a");
  auto b = p.server.call(from_server, "b");
  p.exchange();
  EXPECT_EQ(p.client.end_of(a)->body, "a");
  EXPECT_EQ(p.server.end_of(b)->body, "b");
}

TEST(Mux, MakesManyThousandCallsOnOneSession) {
  mux_pair p;
  p.checks = false;
  p.connect();
  auto& s = p.client.open();
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 100; ++i)
      p.client.call(s, bytes(100));
    p.exchange();
  }
  EXPECT_EQ(p.client.count(type::reply), 10'000u);
  p.expect_invariants();
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), 0u);
}

TEST(Mux, ACallAboveThePeersLimitIsRefusedHere) {
  auto few = server_settings();
  few.link.calls_max = 2;
  mux_pair p{client_settings(), few};
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  p.client.call(s, "1");
  p.client.call(s, "2");
  auto third = p.client.link.call(s, test::build_message("3"), {});
  EXPECT_EQ(third.error().code, errc::too_many_calls);
  p.exchange();
  EXPECT_EQ(p.client.count(type::credit), 0u);
  p.server.answer(p.server.unanswered[0], "one");
  p.exchange();
  EXPECT_EQ(p.client.count(type::credit), 1u) << "it may call again";
  p.client.call(s, "3");
}

TEST(Mux, ACallThatWaitedTooLongFailsUnsent) {
  mux_pair p;
  p.server.accepts = false;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "late", {.deadline = p.now + milliseconds{50}});
  p.exchange();
  p.advance(milliseconds{60});
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->why.code, errc::deadline_exceeded);
  EXPECT_EQ(p.client.end_of(token)->why.what, outcome::not_executed);
  EXPECT_EQ(s.queued_messages(), 0u);
}

TEST(Mux, ACallThatRunsTooLongFailsAndIsCancelledThere) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "slow", {.deadline = p.now + milliseconds{50}});
  p.exchange();
  EXPECT_TRUE(p.server.last(type::request)->deadline);
  p.advance(milliseconds{60});
  EXPECT_EQ(p.client.end_of(token)->why.code, errc::deadline_exceeded);
  EXPECT_EQ(p.client.end_of(token)->why.what, outcome::unknown);
  EXPECT_EQ(p.server.count(type::cancelled), 1u);
  EXPECT_EQ(s.calls_open(), 0u) << "confirmed";
  p.server.answer(p.server.unanswered[0], "too late");
  p.exchange();
  EXPECT_EQ(p.client.count(type::reply), 0u);
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), 0u);
}

TEST(Mux, ACancelledCallThatWaitsLeavesNoTrace) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  auto id = p.client.link.call(s, test::build_message("x"), {.token = 7});
  p.client.link.cancel(s, *id, errc::cancelled);
  p.exchange();
  EXPECT_EQ(p.client.end_of(7)->why.what, outcome::not_executed);
  EXPECT_EQ(p.server.count(type::request), 0u);
  p.client.link.close(s);
  p.exchange();
  p.expect_base_line();
}

TEST(Mux, ACancelThatCrossesTheAnswerIsHarmless) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto id = p.client.link.call(s, test::build_message("x"), {.token = 7});
  p.exchange();
  p.server.answer(p.server.unanswered[0], "y");
  p.write(p.server, p.to_client);
  p.client.link.cancel(s, *id, errc::cancelled);
  p.exchange();
  EXPECT_EQ(p.client.count(type::reply), 0u);
  EXPECT_EQ(p.client.count(type::failed), 1u);
  EXPECT_EQ(s.calls_open(), 0u);
  p.client.link.close(s);
  p.exchange();
  p.expect_base_line();
}

TEST(Mux, ACancelBeforeTheAnswerLeftDropsIt) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto id = p.client.link.call(s, test::build_message("x"), {.token = 7});
  p.exchange();
  p.client.link.cancel(s, *id, errc::cancelled);
  p.write(p.client, p.to_server);
  p.server.answer(p.server.unanswered[0], "y"); // waits in the queue when `cancel` comes
  p.exchange();
  EXPECT_EQ(p.client.count(type::reply), 0u);
  EXPECT_EQ(s.calls_open(), 0u);
  EXPECT_EQ(p.server.outbound.bytes(), 0u);
}

TEST(Mux, AFailureIsAnAnswerToo) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "x");
  p.exchange();
  p.server.link.reply_failure(s.id() == 1 ? *p.server.unanswered[0].on : s, p.server.unanswered[0].call,
                              {errc::handler_failed, outcome::done, "it threw"});
  p.exchange();
  EXPECT_EQ(p.client.end_of(token)->body, "handler_failed (done): it threw");
}

// ---- one-way messages

TEST(Mux, MovesMuchMoreThanARationAsOnewayMessages) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 1000; ++i)
    p.client.post(s, bytes(1000));
  p.client.link.close(s);
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 1000u);
  EXPECT_EQ(p.server.count(type::finished), 1u);
  EXPECT_EQ(p.client.last(type::ended)->token, 1000u);
  p.expect_base_line();
}

TEST(Mux, KeepsTheOrderWithinALane) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 300; ++i)
    p.client.post(s, std::to_string(i) + bytes(i % 7 == 0 ? 90'000 : 50), lane::bulk);
  p.exchange();
  int next = 0;
  for (auto& e : p.server.events) {
    if (e.what == type::item) {
      EXPECT_EQ(std::stoi(e.body), next++);
    }
  }
  EXPECT_EQ(next, 300);
}

TEST(Mux, TakesARunAsOneAndDeliversItsMessages) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.exchange();
  ASSERT_TRUE(p.client.link.post(s, run_for(s, {"a", "b", "c"}), lane::normal));
  EXPECT_EQ(s.queued_messages(), 3u);
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 3u);
  EXPECT_EQ(p.server.last(type::item)->body, "c");
}

TEST(Mux, SplitsARunToTheRation) {
  auto narrow = server_settings();
  narrow.ration = {2000, 3, 4};
  mux_pair p{client_settings(), narrow};
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.exchange();
  ASSERT_TRUE(p.client.link.post(s, run_for(s, {"1", "2", "3", "4", "5", "6", "7"}), lane::normal));
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 3u);
  EXPECT_EQ(s.queued_messages(), 4u);
  p.server.consume_all();
  p.exchange();
  p.server.consume_all();
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 7u);
  EXPECT_EQ(p.server.last(type::item)->body, "7");
}

TEST(Mux, OnlyTheFirstFrameAfterABlockIsFlagged) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 40; ++i)
    p.client.post(s, bytes(4000));
  p.exchange();
  EXPECT_TRUE(s.out().blocked());
  EXPECT_TRUE(p.server.last(type::item)->on->in().peer_is_blocked());
  p.server.consume_all();
  p.exchange();
  p.server.consumes = true;
  p.server.consume_all();
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 40u);
  EXPECT_GE(p.client.count(type::credit), 1u);
}

TEST(Mux, ASessionWithoutRationBlocksOnlyItself) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& stuck = p.client.open("sink", true);
  for (int i = 0; i < 100; ++i)
    p.client.post(stuck, bytes(4000));
  p.exchange();
  ASSERT_TRUE(stuck.out().blocked());
  p.server.consumes = true; // what comes from now on; the sink's messages are still held
  auto& s = p.client.open();
  auto token = p.client.call(s, "still alive");
  p.write(p.client, p.to_server);
  p.exchange();
  EXPECT_EQ(p.client.end_of(token)->body, "still alive");
}

TEST(Mux, ARefusedPostIsFollowedByCredit) {
  auto narrow = client_settings();
  narrow.outbound_bytes = 10'000;
  mux_pair p{narrow, server_settings()};
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, bytes(5000));
  auto second = p.client.link.post(s, test::build_message(bytes(5000)), lane::normal);
  EXPECT_EQ(second.error().code, errc::overloaded);
  EXPECT_EQ(p.client.count(type::credit), 0u);
  p.exchange();
  EXPECT_EQ(p.client.count(type::credit), 1u);
  p.client.post(s, bytes(5000));
}

TEST(Mux, WhatIsQueuedDoesNotWaitForWhatIsOnlyWanted) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 15; ++i)
    p.client.post(s, bytes(4000));
  p.exchange();
  EXPECT_FALSE(p.client.link.want_credit(s, 50'000));
  p.exchange();
  p.client.post(s, "small", lane::bulk);
  p.exchange();
  EXPECT_EQ(p.server.last(type::item)->body, "small");
}

TEST(Mux, WantedCreditIsAskedForAndTold) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.exchange();
  EXPECT_TRUE(p.client.link.want_credit(s, 10'000));
  for (int i = 0; i < 15; ++i)
    p.client.post(s, bytes(4000));
  p.exchange();
  auto before = p.client.count(type::credit);
  EXPECT_FALSE(p.client.link.want_credit(s, 10'000));
  p.exchange();
  EXPECT_EQ(p.client.count(type::credit), before);
  EXPECT_TRUE(p.server.last(type::item)->on->in().peer_is_blocked()) << "the peer knows";
  p.server.consume_all();
  p.exchange();
  EXPECT_GT(p.client.count(type::credit), before);
  EXPECT_TRUE(p.client.link.want_credit(s, 10'000));
}

} // namespace
} // namespace weir::net
