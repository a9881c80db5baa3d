#include <gtest/gtest.h>

#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {
using namespace test::words;

// ---- large messages

TEST(Large, EverySizeAroundTheRationArrives) { // C4, C11
  for (uint64_t ration : {uint64_t{4096}, uint64_t{124} << 10, uint64_t{128} << 10, uint64_t{1} << 20}) {
    auto narrow = server_settings();
    narrow.ration = {ration, 16, 4};
    mux_pair p{client_settings(), narrow};
    p.checks = false;
    p.connect();
    for (uint64_t n :
         {uint64_t{1}, ration - 300, ration - 128, ration - 1, ration, ration + 1, uint64_t{1} << 20}) {
      auto& s = p.client.open();
      auto token = p.client.call(s, bytes(n), {.reply_room_bytes = 2 << 20});
      p.exchange();
      ASSERT_NE(p.client.end_of(token), nullptr) << n << " bytes, ration " << ration;
      EXPECT_EQ(p.client.end_of(token)->body.size(), n);
      p.client.link.close(s);
      p.exchange();
    }
    p.expect_base_line();
  }
}

TEST(Large, AMessageAboveTheLimitIsRefusedAtOnce) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  auto r = p.client.link.call(s, test::build_message(bytes(5 << 20)), {});
  EXPECT_EQ(r.error().code, errc::message_too_large);
  EXPECT_EQ(p.client.outbound.bytes(), 0u);
}

TEST(Large, TheServicesOwnLimitIsLearnedFromOpened) {
  auto picky = server_settings();
  picky.service_message_bytes_max = 1000;
  mux_pair p{client_settings(), picky};
  p.connect();
  auto& s = p.client.open();
  auto early = p.client.call(s, bytes(2000)); // before `opened` came
  p.exchange();
  EXPECT_EQ(p.client.end_of(early)->why.code, errc::message_too_large);
  EXPECT_EQ(p.client.link.message_bytes_max(s), 1000u);
  EXPECT_EQ(p.client.link.call(s, test::build_message(bytes(2000)), {}).error().code,
            errc::message_too_large);
  auto small = p.client.call(s, bytes(200));
  p.exchange();
  EXPECT_EQ(p.client.end_of(small)->body.size(), 200u);
}

TEST(Large, IsPaidFromTheReserveWhenThePoolIsEmpty) {
  mux_pair p{client_settings(), with_budget(server_settings(), 64 << 10, 2 << 20)};
  p.connect();
  auto& s = p.client.open("sink", true);
  p.exchange();
  EXPECT_EQ(p.server.inbound.free_bytes(), 0u) << "the ration is all";
  p.client.post(s, bytes(500'000));
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 1u);
  EXPECT_FALSE(p.server.inbound.reserve_taken(budget::reserve::request)) << "given back";
  p.client.link.close(s);
  p.exchange();
  p.expect_base_line();
}

TEST(Large, OneAtATimeHasTheReserveAndTheOthersWaitInLine) {
  mux_pair p{client_settings(), with_budget(server_settings(), 3 * 64 << 10, 2 << 20)};
  p.server.consumes = false;
  p.connect();
  session* all[3] = {&p.client.open("sink", true), &p.client.open("sink", true),
                     &p.client.open("sink", true)};
  p.exchange();
  for (auto* s : all)
    p.client.post(*s, bytes(1'000'000));
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 1u);
  EXPECT_EQ(all[1]->blocked_reason(), errc::no_budget) << "the peer says why";
  p.server.consume_all();
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 2u);
  p.server.consume_all();
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 3u);
  p.server.consume_all();
  for (auto* s : all)
    p.client.link.close(*s);
  p.exchange();
  p.expect_base_line();
}

TEST(Large, IsRefusedRetryableWhenItIsNotFundedInTime) {
  mux_pair p{client_settings(), with_budget(server_settings(), 2 * 64 << 10, 2 << 20)};
  p.server.consumes = false;
  p.connect();
  auto& first = p.client.open("sink", true);
  p.client.post(first, bytes(1'000'000));
  p.exchange();
  ASSERT_EQ(p.server.count(type::item), 1u);
  auto& s = p.client.open();
  auto token = p.client.call(s, bytes(1'000'000));
  p.exchange();
  p.advance(milliseconds{1900});
  EXPECT_EQ(p.client.end_of(token), nullptr);
  p.advance(milliseconds{200});
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->why.code, errc::no_budget);
  EXPECT_EQ(p.client.end_of(token)->why.what, outcome::not_executed);
  auto small = p.client.call(s, "small ones go on");
  p.exchange();
  EXPECT_NE(p.client.end_of(small), nullptr);
  EXPECT_EQ(p.client.outbound.bytes(), 0u);
}

TEST(Large, AnItemThatIsNotFundedIsToldToItsSender) {
  mux_pair p{client_settings(), with_budget(server_settings(), 64 << 10, 1 << 10)};
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, bytes(1'000'000));
  p.client.post(s, "next");
  p.exchange();
  p.advance(seconds{3}, milliseconds{50});
  ASSERT_EQ(p.client.count(type::failed), 1u);
  EXPECT_EQ(p.client.last(type::failed)->call, 0u);
  EXPECT_EQ(p.client.last(type::failed)->on, &s);
  EXPECT_EQ(p.server.last(type::item)->body, "next");
}

TEST(Large, StaysChargedUntilItDies) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, bytes(1'000'000));
  p.exchange();
  ASSERT_EQ(p.server.count(type::item), 1u);
  EXPECT_GT(p.server.inbound.charged(charge::large), 900'000u);
  p.server.consume_all();
  EXPECT_EQ(p.server.inbound.charged(charge::large), 0u);
}

TEST(Large, AnAbortInTheMiddleGivesEverythingBack) { // C8
  mux_pair p;
  p.connect();
  p.checks = false;
  for (int i = 0; i < 300; ++i) {
    auto& s = p.client.open("sink", true);
    p.client.post(s, bytes(1'000'000));
    for (int k = 0; k < 6 + i % 9; ++k) {
      p.to_server.capacity = 4096 + static_cast<size_t>(i) * 700;
      p.step();
    }
    p.client.link.abort(s, errc::cancelled, {});
    p.to_server.capacity = SIZE_MAX;
    p.exchange();
  }
  EXPECT_EQ(p.server.memory->alive_bytes(), 0u);
  p.expect_base_line();
}

TEST(Large, ACallThatIsCancelledInTheMiddleEndsVoid) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.exchange();
  auto id = p.client.link.call(s, test::build_message(bytes(2'000'000)), {.token = 9});
  p.to_server.capacity = 300'000;
  for (int i = 0; i < 5; ++i)
    p.step();
  p.client.link.cancel(s, *id, errc::cancelled);
  p.to_server.capacity = SIZE_MAX;
  p.exchange();
  EXPECT_EQ(p.client.end_of(9)->why.what, outcome::not_executed);
  EXPECT_EQ(p.server.count(type::request), 0u);
  EXPECT_EQ(p.server.memory->alive_bytes(), 0u);
  auto token = p.client.call(s, "and on it goes");
  p.exchange();
  EXPECT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(s.out().sent(), p.server.last(type::request)->on->in().received()) << "both count the same";
  p.client.link.close(s);
  p.exchange();
  p.expect_base_line();
}

TEST(Large, WhatWasPromisedIsSpentByNobodyBeforeTheVoidHasLeft) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.exchange();
  call_request in_bulk{.token = 9};
  in_bulk.in_lane = lane::bulk;
  auto id = p.client.link.call(s, test::build_message(bytes(1'000'000)), in_bulk);
  p.to_server.capacity = 300'000;
  for (int i = 0; i < 4; ++i)
    p.step();
  ASSERT_GT(p.server.memory->alive_bytes(), 0u) << "in the middle";
  p.client.link.cancel(s, *id, errc::cancelled);
  for (int i = 0; i < 200; ++i)
    p.client.post(s, bytes(5000)); // the lane before it
  p.to_server.capacity = SIZE_MAX;
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 200u);
  EXPECT_EQ(s.now(), session::state::open);
}

TEST(Large, ACloseByTheServiceEndsItVoid) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, "first");
  p.exchange();
  p.client.post(s, bytes(1'000'000));
  p.to_server.capacity = 200'000;
  for (int i = 0; i < 3; ++i)
    p.step();
  auto& there = *p.server.last(type::item)->on;
  p.server.link.close(there);
  p.server.link.reclaim(there);
  p.to_server.capacity = SIZE_MAX;
  p.exchange();
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::session_closed) << "not all was sent";
  EXPECT_EQ(p.server.last(type::ended)->why.code, errc::none);
  EXPECT_EQ(p.server.memory->alive_bytes(), 0u);
  p.expect_base_line();
}

TEST(Large, FundsThatAreNotUsedAreTakenBack) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.exchange();
  auto id = p.client.link.call(s, test::build_message(bytes(2'000'000)), {.token = 9});
  p.write(p.client, p.to_server); // `blocked`
  p.to_server.deliver(p.server, SIZE_MAX, p.now);
  EXPECT_GT(p.server.inbound.charged(charge::large), 1'900'000u);
  p.client.link.cancel(s, *id, errc::cancelled);
  p.exchange();
  EXPECT_GT(p.server.inbound.charged(charge::large), 1'900'000u);
  p.advance(seconds{11}, milliseconds{100});
  EXPECT_EQ(p.server.inbound.charged(charge::large), 0u);
  auto token = p.client.call(s, "and on it goes");
  p.exchange();
  EXPECT_NE(p.client.end_of(token), nullptr);
}

TEST(Large, SmallMessagesOfOthersPassBetweenItsFragments) {
  mux_pair p;
  p.connect();
  auto& big = p.client.open("sink", true);
  auto& s = p.client.open();
  p.exchange();
  p.client.post(big, bytes(4'000'000), lane::bulk);
  p.to_server.capacity = 100'000;
  for (int i = 0; i < 4; ++i)
    p.step();
  auto token = p.client.call(s, "quick");
  for (int i = 0; i < 8 && !p.client.end_of(token); ++i)
    p.step();
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.server.count(type::item), 0u) << "the large one is still under way";
  p.to_server.capacity = SIZE_MAX;
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 1u);
}

// ---- large answers

TEST(LargeReply, IsFundedByItsCaller) {
  mux_pair p;
  p.server.handler = [](auto&) { return bytes(1'000'000); };
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "much, please");
  p.exchange();
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->body.size(), 1'000'000u);
  p.client.link.close(s);
  p.exchange();
  p.expect_base_line();
}

TEST(LargeReply, OfAnUnreadRequestArrivesToo) { // C12
  auto narrow = server_settings();
  narrow.ration = {32 << 10, 16, 4};
  mux_pair p{client_settings(), narrow};
  p.server.consumes = false;
  p.server.handler = [](auto&) { return bytes(100 << 10); };
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, bytes(1 << 20));
  p.exchange();
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->body.size(), size_t{100 << 10});
}

TEST(LargeReply, FailsWhenTheCallerHasNoBudget) {
  mux_pair p{with_budget(client_settings(), 16 << 10, 0), server_settings()};
  p.server.handler = [](auto&) { return bytes(1'000'000); };
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "much, please");
  p.exchange();
  EXPECT_EQ(p.client.end_of(token), nullptr) << "it waits";
  p.advance(milliseconds{2100});
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->body.substr(0, 9), "no_budget");
  p.client.link.close(s);
  p.exchange();
  p.expect_base_line();
}

TEST(LargeReply, AboveWhatTheCallerTakesFailsAtOnce) {
  auto picky = client_settings();
  picky.link.message_bytes_max = 100'000;
  mux_pair p{picky, server_settings()};
  p.server.handler = [](auto&) { return bytes(1'000'000); };
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "much, please");
  p.exchange();
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->body.substr(0, 17), "message_too_large");
}

TEST(LargeReply, MayBeCancelledWhileItWaitsForFunds) {
  mux_pair p{with_budget(client_settings(), 16 << 10, 0), server_settings()};
  p.server.handler = [](auto&) { return bytes(1'000'000); };
  p.connect();
  auto& s = p.client.open();
  auto id = p.client.link.call(s, test::build_message("x"), {.token = 5});
  p.exchange();
  EXPECT_GT(p.server.outbound.bytes(), 1'000'000u);
  p.client.link.cancel(s, *id, errc::cancelled);
  p.exchange();
  EXPECT_EQ(p.server.outbound.bytes(), 0u);
  EXPECT_EQ(s.calls_open(), 0u);
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), 0u);
}

TEST(LargeReply, MayBeCancelledInTheMiddle) {
  mux_pair p;
  p.server.handler = [](auto&) { return bytes(3'000'000); };
  p.connect();
  auto& s = p.client.open();
  auto id = p.client.link.call(s, test::build_message("x"), {.token = 5});
  p.to_client.capacity = 300'000;
  for (int i = 0; i < 8; ++i)
    p.step();
  EXPECT_GT(p.client.memory->alive_bytes(), 0u);
  p.client.link.cancel(s, *id, errc::cancelled);
  EXPECT_EQ(p.client.memory->alive_bytes(), 0u) << "at once";
  p.to_client.capacity = SIZE_MAX;
  p.exchange();
  EXPECT_EQ(s.calls_open(), 0u);
  EXPECT_EQ(p.client.count(type::reply), 0u);
  p.client.link.close(s);
  p.exchange();
  p.expect_base_line();
}

TEST(LargeReply, TheRoomOfACallMayBeSaidInAdvance) {
  mux_pair p;
  p.server.handler = [](auto&) { return bytes(1'000'000); };
  p.connect();
  auto& s = p.client.open();
  p.client.consumes = false;
  p.client.call(s, "x", {.reply_room_bytes = 1'100'000});
  EXPECT_GE(p.client.inbound.charged(charge::reply_room), 1'100'000u) << "paid before it leaves";
  p.exchange();
  EXPECT_EQ(p.client.last(type::reply)->cost, cost_of(1'100'000));
  p.client.consume_all();
  EXPECT_EQ(p.client.inbound.charged(charge::reply_room), 0u);
}

// ---- the outbound ledger

TEST(Outbound, WhatIsOnItsWayStaysChargedUntilItsLastByteWasWritten) {
  auto sender = client_settings();
  sender.link.fragment_bytes = 8192;
  for (size_t n : {size_t{1000}, size_t{40'000}}) { // whole, in fragments
    mux_pair p{sender};
    p.connect();
    auto& s = p.client.open("sink", true);
    p.exchange();
    p.client.post(s, bytes(n));
    auto charged = p.client.outbound.bytes();
    EXPECT_GT(charged, n);
    p.to_server.capacity = 500;
    p.write(p.client, p.to_server);
    EXPECT_EQ(s.queued_messages(), 0u) << "it was handed over";
    EXPECT_EQ(p.client.outbound.bytes(), charged);
    p.to_server.capacity = SIZE_MAX;
    p.write(p.client, p.to_server);
    EXPECT_EQ(p.client.outbound.bytes(), 0u);
  }
}

// ---- the budget

TEST(Credit, ACallThatCannotPayForItsAnswerIsRefused) {
  mux_pair p{with_budget(client_settings(), 10'000, 0), server_settings()};
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  p.client.call(s, "1");
  p.client.call(s, "2");
  EXPECT_EQ(p.client.link.call(s, test::build_message("3"), {}).error().code, errc::no_budget);
  EXPECT_EQ(p.client.outbound.bytes(), s.queued_bytes());
  p.exchange();
  p.server.answer(p.server.unanswered[0], "one");
  p.exchange();
  EXPECT_EQ(p.client.count(type::credit), 1u);
}

TEST(Credit, AnOpenThatCannotBeFundedIsRefusedRetryable) { // C6
  mux_pair p{client_settings(), with_budget(server_settings(), 2 * 64 << 10, 0)};
  p.connect();
  std::vector<session*> all;
  for (int i = 0; i < 5; ++i)
    all.push_back(&p.client.open());
  p.exchange();
  EXPECT_EQ(p.client.count(type::opened), 2u);
  EXPECT_EQ(p.client.count(type::ended), 3u);
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::no_budget);
  p.client.link.close(*all[0]);
  p.exchange();
  p.client.open();
  p.exchange();
  EXPECT_EQ(p.client.count(type::opened), 3u);
}

TEST(Credit, AReaderThatNeverReadsHoldsNoMoreThanTheRation) { // C14
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 2000; ++i)
    p.client.post(s, bytes(4000));
  p.exchange();
  p.advance(seconds{3}, milliseconds{100});
  auto& in = p.server.last(type::item)->on->in();
  EXPECT_LE(in.received().bytes, 64u << 10);
  EXPECT_EQ(s.blocked_reason(), errc::overloaded) << "the service is the reason";
  EXPECT_TRUE(s.out().blocked());
}

TEST(Credit, AStreamThroughAPipeSmallerThanTheRationDoesNotHang) { // C2, C13
  mux_pair p;
  p.to_server.capacity = p.to_client.capacity = 4096;
  p.checks = false;
  p.connect();
  auto& a = p.client.open("sink", true);
  auto& b = p.server.open("sink", true);
  for (int i = 0; i < 20; ++i)
    p.client.post(a, bytes(100'000)), p.server.post(b, bytes(100'000));
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 20u);
  EXPECT_EQ(p.client.count(type::item), 20u);
}

TEST(Credit, CallsBackOnTheSameLinkToAnyDepth) { // C5
  mux_pair p;
  p.connect();
  p.client.consumes = p.server.consumes = true;
  auto& down = p.client.open();
  auto& up = p.server.open();
  p.exchange();
  p.server.answers = p.client.answers = false;
  for (int depth = 0; depth < 64; ++depth) {
    p.client.call(down, bytes(1000));
    p.exchange();
    p.server.call(up, bytes(1000));
    p.exchange();
  }
  for (int depth = 63; depth >= 0; --depth) {
    p.client.answer(p.client.unanswered[static_cast<size_t>(depth)], "back");
    p.server.answer(p.server.unanswered[static_cast<size_t>(depth)], "back");
    p.exchange();
  }
  EXPECT_EQ(p.client.count(type::reply), 64u);
  EXPECT_EQ(p.server.count(type::reply), 64u);
}

TEST(Credit, BatchesAreSplitToTheMessagesAllowed) { // C9
  auto narrow = server_settings();
  narrow.ration = {1 << 20, 100, 4};
  mux_pair p{client_settings(), narrow};
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 2000; ++i)
    p.client.post(s, "small");
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 100u);
  while (p.server.count(type::item) < 2000) {
    p.server.consume_all();
    p.exchange();
  }
  EXPECT_EQ(s.queued_messages(), 0u);
}

TEST(Credit, LittleCreditComesBackOnTheTick) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, "one");
  p.exchange();
  auto before = s.out().limit();
  p.advance(milliseconds{20});
  EXPECT_GT(s.out().limit().bytes, before.bytes);
  EXPECT_EQ(s.out().limit().messages, before.messages + 1);
}

TEST(Credit, AnIdlePeerGivesBackWhatItDidNotUse) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, bytes(100));
  p.exchange();
  auto& there = *p.server.last(type::item)->on;
  p.server.link.reclaim(there);
  p.exchange();
  EXPECT_EQ(p.server.inbound.charged(charge::session), 16u << 10);
  EXPECT_LE(s.out().left_bytes(), 16u << 10);
  for (int i = 0; i < 100; ++i)
    p.client.post(s, bytes(1000));
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 101u) << "and it goes on with less";
  p.server.link.set_ration(there, 128 << 10, 1024);
  p.advance(milliseconds{20});
  EXPECT_GT(s.out().left_bytes(), 100u << 10);
  p.client.link.close(s);
  p.exchange();
  p.expect_base_line();
}

TEST(Credit, AReclaimThatCrossesDataIsHarmless) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, bytes(100));
  p.exchange();
  auto& there = *p.server.last(type::item)->on;
  for (int i = 0; i < 30; ++i)
    p.client.post(s, bytes(2000));
  p.write(p.client, p.to_server);
  p.server.link.reclaim(there);
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 31u);
  EXPECT_FALSE(p.server.link.is_down());
  EXPECT_EQ(there.now(), session::state::open);
}

TEST(Credit, AReclaimThatCrossesACloseIsHarmless) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, bytes(100));
  p.exchange();
  p.client.link.close(s);
  p.write(p.client, p.to_server);
  p.server.link.reclaim(*p.server.last(type::item)->on);
  p.exchange();
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::none);
  p.expect_base_line();
}

TEST(Credit, ManyAbortedSessionsLeaveNothingBehind) { // C7
  mux_pair p;
  p.checks = false;
  p.server.consumes = false;
  p.connect();
  for (int i = 0; i < 2000; ++i) {
    auto& s = p.client.open("sink", true);
    for (int k = 0; k < 16; ++k)
      p.client.post(s, bytes(4000));
    if (i % 2 == 0)
      p.exchange();
    else
      p.step();
    if (i % 3 == 0 && p.server.last(type::item))
      p.server.link.abort(*p.server.last(type::open)->on, errc::cancelled, {});
    else
      p.client.link.abort(s, errc::cancelled, {});
    p.exchange();
    if (s.now() != session::state::over)
      p.client.link.abort(s, errc::cancelled, {});
    if (i % 10 == 0)
      p.server.consume_all();
    p.server.events.clear();
  }
  p.exchange();
  p.server.consume_all();
  p.expect_base_line();
}

} // namespace
} // namespace weir::net
