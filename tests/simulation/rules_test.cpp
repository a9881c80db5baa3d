// Why it cannot deadlock: the rules of the design, each with what would happen without it.
#include <numeric>

#include <gtest/gtest.h>

#include "world.hpp"

namespace weir::net::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kib = 1 << 10;

plan unread_plan() {
  auto p = quiet_plan();
  p.nodes[1].users.unread_percent = 100;
  return p;
}

/// Posts until it is refused, or for long enough; how many were queued.
unsigned post_until_refused(world& w, side_of& s, uint32_t bytes, failure& why) {
  unsigned n = 0;
  while (n < 10'000 && s.at->of->post(s, bytes, lane::normal, why))
    ++n;
  w.touch(*s.at);
  return n;
}

bool answered(const world& w, uint64_t token) {
  auto& c = w.known.calls[token - 1];
  return !c.open && c.failed_with == errc::none;
}
errc failure_of(const world& w, uint64_t token) { return w.known.calls[token - 1].failed_with; }

// ---- R1: nobody waits

TEST(Rule1, WhatHasNoCreditIsParkedWithItsSenderUntilItsBufferIsFullAndThenRefused) {
  auto p = unread_plan();
  p.nodes[0].outbound_bytes = 100 * kib;
  world w{p};
  w.connect();
  auto& s = w.open(0, true);
  w.flow();
  failure why;
  auto n = post_until_refused(w, s, kib, why);
  EXPECT_GT(n, 50u);
  EXPECT_EQ(why.code, errc::overloaded);
  w.flow();
  EXPECT_LE(w.at(0).outbound.bytes(), w.at(0).outbound.bytes_max());
  EXPECT_LE(s.other().unconsumed_bytes, w.with.nodes[1].ration.bytes);
  w.finish();
}

TEST(Rule1, WhoWasRefusedIsToldWhenItMayGoOn) {
  auto p = unread_plan();
  p.nodes[0].outbound_bytes = 100 * kib;
  world w{p};
  w.connect();
  auto& s = w.open(0, true);
  failure why;
  post_until_refused(w, s, kib, why);
  s.waits = true;
  w.flow();
  EXPECT_TRUE(s.waits);
  s.other().reads = true;
  w.flow();
  EXPECT_FALSE(s.waits);
  w.finish();
}

// ---- R2: control needs no credit and leaves first

TEST(Rule2, ControlLeavesBeforeAllDataThatIsNotOnItsWayYet) {
  auto p = quiet_plan();
  p.nodes[1].ration = {4 << 20, 4096, 4};
  p.nodes[1].inbound = {16 << 20, 4 << 20};
  p.nodes[0].outbound_bytes = 4 << 20;
  p.pipe_bytes = 16 * kib;
  world w{p};
  w.connect();
  auto& s = w.open(0, true);
  w.flow();
  for (int i = 0; i < 64; ++i)
    w.post(s, 16 * kib);
  auto& out = w.ports[0]->out;
  w.write(*w.ports[0], SIZE_MAX);
  auto data_before = out.data_bytes, control_before = out.control_frames;
  w.open(0, true);
  while (out.control_frames == control_before)
    w.move_bytes();
  EXPECT_LE(out.data_bytes - data_before, 300u * kib) << "no more than one flight is in front of it";
  EXPECT_GT(s.with->queued_messages(), 0u) << "and data is still waiting";
  w.finish();
}

TEST(Rule2, SessionsOpenCloseCancelAndAbortWhileNoDataMayLeave) {
  auto p = unread_plan();
  p.nodes[1].ration = {kib, 1, 4};
  world w{p};
  w.connect();
  auto& stuck = w.open();
  w.flow();
  auto first = w.call(stuck, {500}), second = w.call(stuck, {500});
  w.flow();
  EXPECT_FALSE(w.known.of_token(second).delivered);
  auto& other = w.open(0, true);
  w.flow();
  w.close(other);
  w.flow();
  EXPECT_TRUE(other.ended);
  w.at(0).cancel(first);
  w.at(0).cancel(second);
  w.flow();
  EXPECT_EQ(failure_of(w, second), errc::cancelled);
  EXPECT_EQ(stuck.with->calls_open(), 0u) << "the callee has confirmed it";
  w.abort(stuck);
  w.flow();
  EXPECT_TRUE(stuck.other().ended);
  w.finish();
}

TEST(Rule2, WhatMustBeSaidIsAStateAndNotAQueue) {
  world w{quiet_plan()};
  w.connect();
  auto& s = w.open();
  w.flow();
  auto& out = w.ports[1]->out;
  out.capacity = 0;
  for (unsigned i = 0; i < 10'000; ++i)
    w.doing(*w.ports[1], [&] { w.link(1).set_ration(*s.other().with, (8 + i % 64) * kib, 64 + i % 64); });
  auto before = out.control_bytes;
  out.capacity = SIZE_MAX;
  w.flow();
  EXPECT_LE(out.control_bytes - before, kib);
  w.finish();
}

// ---- R3: reading never depends on writing

TEST(Rule3, ANodeThatCannotWriteGoesOnReading) {
  world w{quiet_plan()};
  w.connect();
  auto& s = w.open();
  w.flow();
  w.ports[1]->out.capacity = 0;
  uint64_t token = 0;
  for (int i = 0; i < 20; ++i) {
    token = w.call(s, {100});
    w.flow(); // the answers to those before are waiting by now
  }
  EXPECT_TRUE(w.known.of_token(token).executed);
  EXPECT_TRUE(w.known.of_token(token).open);
  w.ports[1]->out.capacity = SIZE_MAX;
  w.flow();
  EXPECT_TRUE(answered(w, token));
  w.finish();
}

TEST(Rule3, TwoNodesThatBothWriteMoreThanThePipesTakeGoOn) {
  auto p = quiet_plan();
  p.pipe_bytes = 64;
  world w{p};
  w.connect();
  auto &a = w.open(0, true), &b = w.open(0, true, true);
  for (auto* s : {&a, &b})
    s->offers_left = 200, s->offer_bytes = 2000, s->asks = false;
  w.flow();
  EXPECT_EQ(a.other().received, 200u);
  EXPECT_EQ(b.other().received, 200u);
  w.finish();
}

// ---- R4: a reply was paid by its call

TEST(Rule4, ARepliesRoomWasPaidBeforeItsCallLeft) {
  world w{quiet_plan()};
  w.connect();
  auto& s = w.open();
  w.flow();
  w.call(s, {100, 10'000});
  EXPECT_EQ(w.at(0).inbound.charged(charge::reply_room), cost_of(10'000));
  EXPECT_EQ(s.with->out().sent().messages, 0u);
  w.finish();
}

TEST(Rule4, ACallWhoseReplyCannotBePaidDoesNotLeave) {
  auto p = quiet_plan();
  p.nodes[0].inbound = {2 * kib + 4 * kib + 4000, 2 * kib};
  world w{p};
  w.connect();
  auto& s = w.open();
  w.flow();
  failure why;
  EXPECT_EQ(w.at(0).call(s, {100, 10'000}, why), 0u);
  EXPECT_EQ(why.code, errc::no_budget);
  EXPECT_FALSE(w.link(0).wants_write());
  w.finish();
}

TEST(Rule4, ARepliesNeedsNoRationAndNoFreeBudget) {
  auto p = quiet_plan();
  p.nodes[0].inbound = {2 * kib + 4 * kib + cost_of(4 * kib), 2 * kib};
  world w{p};
  w.connect();
  auto& s = w.open();
  w.flow();
  auto token = w.call(s, {100});
  EXPECT_EQ(w.at(0).inbound.free_bytes(), 0u);
  w.flow();
  EXPECT_TRUE(answered(w, token));
  w.finish();
}

TEST(Rule4, AReplyBeyondItsRoomIsFundedOrBecomesAFailureNeverAHang) {
  for (auto budget : {8u << 20, 2u << 20}) {
    auto p = quiet_plan();
    p.nodes[0].inbound = {budget, budget / 2};
    p.nodes[0].link.message_bytes_max = 4 << 20;
    p.nodes[1].users.large_percent = 0;
    p.nodes[1].users.answer_bytes = 0;
    world w{p};
    w.connect();
    auto& s = w.open();
    w.flow();
    w.at(1).handler = [&](letter& l) {
      w.at(1).answer(l, 3 << 20);
      return true;
    };
    auto token = w.call(s, {100});
    w.drain();
    EXPECT_FALSE(w.known.of_token(token).open);
    EXPECT_EQ(failure_of(w, token), budget == 8u << 20 ? errc::none : errc::no_budget);
    w.finish();
  }
}

// ---- R5: reserve before accept

TEST(Rule5, ASessionThatCannotBeFundedIsRefused) {
  auto p = quiet_plan();
  p.nodes[1].inbound = {2 * kib + 40 * kib, 2 * kib};
  world w{p};
  w.connect();
  std::array<side_of*, 4> s{};
  for (auto& x : s)
    x = &w.open(0, true);
  w.flow();
  EXPECT_EQ(std::count_if(s.begin(), s.end(), [](auto* x) { return x->ended; }), 2) << "16 KiB each of 40";
  w.close(*s[0]);
  w.flow();
  auto& again = w.open(0, true);
  w.flow();
  EXPECT_FALSE(again.ended);
  w.finish();
}

TEST(Rule5, WhatArrivesNeverExceedsTheBudgetHoweverMuchIsSent) {
  auto p = unread_plan();
  p.nodes[1].inbound = {256 * kib, 128 * kib};
  p.nodes[1].link.message_bytes_max = 48 * kib;
  world w{p};
  w.connect();
  for (int i = 0; i < 12; ++i) {
    auto& s = w.open(0, true);
    w.flow();
    if (!s.ended)
      s.offers_left = 50, s.offer_bytes = 4000 + 5000 * (i % 5), s.asks = false;
    w.flow();
    EXPECT_LE(w.at(1).inbound.liability(), 256u * kib);
  }
  w.pass(seconds{3});
  w.finish();
}

TEST(Rule5, AMessageBeyondAllThatIsFreeIsFundedByTheReserve) {
  auto p = quiet_plan();
  p.nodes[1].inbound = {2 * 200 * kib + 32 * kib, 2 * 200 * kib};
  world w{p};
  w.connect();
  auto &s = w.open(0, true), &other = w.open(0, true);
  w.flow();
  EXPECT_FALSE(other.ended);
  EXPECT_EQ(w.at(1).inbound.free_bytes(), 0u);
  for (int i = 0; i < 3; ++i) {
    w.post(s, 150 * kib);
    w.flow();
  }
  EXPECT_EQ(s.other().received, 3u);
  EXPECT_EQ(w.now, time_point{std::chrono::hours{1}}) << "nobody had to wait";
  w.finish();
}

TEST(Rule5, AnIdleSessionThatIsAskedGivesBackWhatItDidNotUse) {
  auto p = quiet_plan();
  p.nodes[1].ration = {512 * kib, 512, 4};
  world w{p};
  w.connect();
  auto& s = w.open(0, true);
  w.post(s, 1000);
  w.flow();
  auto& in = w.at(1).inbound;
  EXPECT_GE(in.charged(charge::session), 512u * kib);
  w.doing(*w.ports[1], [&] { w.link(1).reclaim(*s.other().with); });
  w.flow();
  EXPECT_LE(in.charged(charge::session), 16u * kib);
  s.offers_left = 100, s.offer_bytes = 3000;
  w.flow();
  EXPECT_EQ(s.other().received, 101u) << "and goes on with less";
  w.finish();
}

TEST(Rule5, WhatWasFundedForAMessageThatDoesNotComeIsAskedBack) {
  world w{quiet_plan()};
  w.connect();
  auto& s = w.open();
  w.flow();
  w.call(s, {.body_bytes = 100 * kib, .timeout = seconds{1}});
  w.write(*w.ports[0], SIZE_MAX); // `blocked`
  w.ports[1]->out.stalled_until = w.now + seconds{2};
  w.pass(milliseconds{1500});
  EXPECT_GT(w.at(1).inbound.charged(charge::large), 80u * kib);
  EXPECT_EQ(s.open_calls, 0u) << "it has expired meanwhile";
  w.pass(seconds{13});
  EXPECT_EQ(w.at(1).inbound.charged(charge::large), 0u);
  EXPECT_FALSE(s.ended);
  w.finish();
}

TEST(Rule5, AMessageThatStopsInTheMiddleIsGivenUp) {
  auto p = quiet_plan();
  p.nodes[0].link.fragment_bytes = kib;
  p.nodes[0].write_bytes = kib;
  world w{p};
  w.connect();
  auto& s = w.open(0, true);
  w.flow();
  w.post(s, 12 * kib);
  for (int i = 0; i < 3; ++i)
    w.move_bytes();
  w.ports[0]->out.stalled_until = w.now + seconds{12};
  w.pass(seconds{11});
  EXPECT_TRUE(s.ended) << "the receiver has aborted it";
  w.pass(seconds{2});
  w.expect_base_line();
  w.finish();
}

// ---- R6: held messages leave the session's charge

TEST(Rule6, HeldRequestsDoNotStarveTheirSession) {
  auto p = quiet_plan();
  p.nodes[1].ration = {2 * kib, 4, 4};
  p.nodes[1].users.held_percent = 100;
  world w{p};
  w.connect();
  auto& s = w.open();
  for (int i = 0; i < 100; ++i)
    w.call(s, {200});
  for (int i = 0; i < 400; ++i) {
    w.move_bytes();
    w.at(1).handle(false);
  }
  EXPECT_EQ(w.at(1).tasks.size(), 100u) << "all of them run, far beyond the ration";
  w.finish();
}

TEST(Rule6, AFullHeldAllowanceAnswersOverloadedAndNotExecuted) {
  auto p = quiet_plan();
  p.nodes[1].held_bytes_max = 2 * kib;
  p.nodes[1].users.held_percent = 100;
  world w{p};
  w.connect();
  auto& s = w.open();
  std::vector<uint64_t> tokens;
  for (int i = 0; i < 20; ++i)
    tokens.push_back(w.call(s, {200}));
  for (int i = 0; i < 100; ++i) {
    w.move_bytes();
    w.at(1).handle(false);
  }
  w.flow();
  auto refused = std::count_if(tokens.begin(), tokens.end(),
                               [&](auto t) { return failure_of(w, t) == errc::overloaded; });
  EXPECT_GT(refused, 10);
  EXPECT_LT(refused, 20);
  w.finish();
}

// ---- R7: a session without ration blocks only itself

TEST(Rule7, ASessionWithoutRationBlocksOnlyItself) {
  auto p = unread_plan();
  world w{p};
  w.connect();
  auto& stuck = w.open(0, true);
  w.flow();
  stuck.offers_left = 1000, stuck.offer_bytes = 1000, stuck.asks = false;
  w.at(1).with.users.unread_percent = 0;
  auto& s = w.open();
  w.flow();
  EXPECT_TRUE(stuck.with->out().blocked());
  for (int i = 0; i < 50; ++i) {
    auto token = w.call(s, {300});
    w.flow();
    EXPECT_TRUE(answered(w, token));
  }
  w.finish();
}

TEST(Rule7, TheBulkLaneWithoutCreditDoesNotStopTheReplies) {
  auto p = quiet_plan();
  p.nodes[0].users.unread_percent = 100;
  world w{p};
  w.connect();
  auto& s = w.open();
  w.flow();
  s.reads = false;
  failure why;
  while (w.at(1).post(s.other(), kib, lane::bulk, why) && s.other().posted < 100) {
  }
  w.touch(*w.ports[1]);
  auto token = w.call(s, {100});
  w.flow();
  EXPECT_TRUE(s.other().with->out().blocked());
  EXPECT_TRUE(answered(w, token));
  w.finish();
}

// ---- R9: every queue has a limit and an error for "full"

TEST(Rule9, SessionsAboveThePeersLimitAreRefusedBeforeTheyLeave) {
  auto p = quiet_plan();
  p.nodes[1].link.sessions_max = 8;
  world w{p};
  w.connect();
  for (int i = 0; i < 8; ++i)
    w.open(0, true);
  failure why;
  EXPECT_EQ(w.at(0).open(*w.ports[0], true, why), nullptr);
  EXPECT_EQ(why.code, errc::too_many_sessions);
  w.finish();
}

TEST(Rule9, CallsAboveThePeersLimitAreRefusedBeforeTheyLeave) {
  auto p = quiet_plan();
  p.nodes[1].link.calls_max = 8;
  p.nodes[1].users.unread_percent = 100;
  world w{p};
  w.connect();
  auto& s = w.open();
  for (int i = 0; i < 8; ++i)
    w.call(s, {10});
  failure why;
  EXPECT_EQ(w.at(0).call(s, {10}, why), 0u);
  EXPECT_EQ(why.code, errc::too_many_calls);
  w.finish();
}

TEST(Rule9, APeerThatNeverReadsPilesUpNoAnswersBeyondItsOpenCalls) {
  auto p = quiet_plan();
  p.nodes[1].link.calls_max = 16;
  world w{p};
  w.connect();
  auto& s = w.open();
  w.flow();
  w.ports[1]->out.capacity = 0;
  unsigned taken = 0;
  for (int i = 0; i < 1000; ++i) {
    failure why;
    auto token = w.at(0).call(s, {10}, why);
    taken += token != 0;
    if (token != 0)
      w.at(0).cancel(token);
    w.flow();
  }
  EXPECT_LE(taken, 16u + 1000u);
  EXPECT_LE(s.other().with->answers_open(), 16u);
  EXPECT_LE(w.at(1).outbound.bytes(), 16u * cost_of(1500));
  w.ports[1]->out.capacity = SIZE_MAX;
  w.finish();
}

TEST(Rule9, AControlFrameHasALimitAndWhatDoesNotFitFollows) {
  auto p = quiet_plan();
  for (auto& n : p.nodes)
    n.ration = n.back = {128, 1, 4};
  world w{p};
  w.connect();
  std::vector<side_of*> all;
  for (int i = 0; i < 1000; ++i)
    all.push_back(&w.open());
  w.flow();
  for (auto* s : all)
    w.doing(*s->at, [&] { w.link(0).abort(*s->with, errc::cancelled, std::string(900, 'x')); });
  w.flow();
  auto& out = w.ports[0]->out;
  EXPECT_LE(out.control_longest, control_bytes_max);
  EXPECT_GT(out.control_frames, 50u);
  w.expect_base_line();
  w.finish();
}

} // namespace
} // namespace weir::net::sim
