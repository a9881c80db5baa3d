// Cases from public bug reports, and the right outcome here. The numbers are those of the list of cases.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "world.hpp"

namespace weir::net::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kib = 1 << 10, mib = 1 << 20;

plan large_plan(uint64_t message_bytes_max) {
  auto p = quiet_plan();
  for (auto& n : p.nodes) {
    n.link.message_bytes_max = message_bytes_max;
    n.inbound = {8 * message_bytes_max, 3 * message_bytes_max};
    n.outbound_bytes = 8 * message_bytes_max;
    n.receive_slab_bytes = 64 * kib;
    n.read_bytes = 256 * kib;
  }
  p.pipe_bytes = 256 * kib;
  return p;
}

bool answered(const world& w, uint64_t token) {
  auto& c = w.known.calls[token - 1];
  return !c.open && c.failed_with == errc::none;
}

// rust-yamux 227
TEST(CaseC2, BothSidesPushSixtyFourSessionsThroughSmallSocketsAndBytesMoveBothWaysAllTheTime) {
  auto p = quiet_plan();
  p.pipe_bytes = 4 * kib;
  for (auto& n : p.nodes)
    n.link.ping_interval = milliseconds{10}, n.inbound = {8 << 20, 2 << 20}, n.outbound_bytes = 64 << 20;
  world w{p};
  w.connect();
  for (int i = 0; i < 64; ++i) {
    auto& s = w.open(0, true, i % 2 != 0);
    s.offers_left = 1'000'000, s.offer_bytes = 300 + 100 * static_cast<uint32_t>(i % 7);
  }
  auto round = [&] {
    w.move_bytes();
    for (unsigned i = 0; i < 2; ++i) {
      for (int k = 0; k < 16; ++k)
        w.at(i).handle(false);
      for (auto* s : std::vector<side_of*>{w.ports[i]->live})
        s->index == 0 && !s->waits ? w.at(i).post_run(*s, 4, s->offer_bytes, lane::normal) : 0;
      w.touch(*w.ports[i]);
    }
    w.now += milliseconds{1};
    for (auto& x : w.ports)
      if (x->link->next_tick() <= w.now)
        w.doing(*x, [&] { x->link->tick(w.now); });
  };
  for (int slice = 0; slice < 4; ++slice) {
    std::array<uint64_t, 2> before{w.ports[0]->out.data_bytes, w.ports[1]->out.data_bytes};
    for (int ms = 0; ms < 500; ++ms)
      round();
    for (unsigned i = 0; i < 2; ++i)
      EXPECT_GT(w.ports[i]->out.data_bytes - before[i], 64u * kib) << "slice " << slice;
  }
  EXPECT_LT(w.link(0).round_trip(), milliseconds{500});
}

// dubbo 16443
TEST(CaseC4, MessagesAroundAndFarAboveARationAreDoneOrRefusedAtOnce) {
  auto p = large_plan(4 * mib);
  for (auto& n : p.nodes)
    n.ration = {4 * kib, 64, 4};
  world w{p};
  w.connect();
  std::vector<uint64_t> tokens;
  for (auto bytes : {1u, 4 * kib - 1, 4 * kib, 4 * kib + 1, mib})
    tokens.push_back(w.call(w.open(), {bytes}));
  failure why;
  EXPECT_EQ(w.at(0).call(w.open(), {64 * mib}, why), 0u);
  EXPECT_EQ(why.code, errc::message_too_large);
  auto start = w.now;
  w.drain();
  for (auto t : tokens)
    EXPECT_TRUE(answered(w, t)) << to_string(w.known.of_token(t).failed_with);
  EXPECT_LT(w.now - start, milliseconds{100});
  w.finish();
}

/// grpctunnel 11: a handler calls back its caller while the caller's input is full.
void call_back(unsigned depth, ration_options ration) {
  auto p = quiet_plan();
  for (auto& n : p.nodes)
    n.ration = ration, n.users.nest_percent = 100, n.users.depth_max = depth;
  world w{p};
  w.connect();
  auto &full_a = w.open(0, true), &full_b = w.open(0, true, true);
  w.flow();
  full_a.other().reads = full_b.other().reads = false;
  for (auto* s : {&full_a, &full_b})
    s->offers_left = 10'000, s->offer_bytes = 500;
  w.flow();
  std::vector<uint64_t> tokens;
  auto& s = w.open();
  for (int i = 0; i < 4; ++i)
    tokens.push_back(w.call(s, {.body_bytes = 300, .depth = depth}));
  w.flow();
  for (auto t : tokens)
    EXPECT_TRUE(answered(w, t)) << to_string(w.known.of_token(t).failed_with);
  EXPECT_EQ(w.known.calls.size(), 4u * (depth + 1));
  full_a.offers_left = full_b.offers_left = 0;
  w.finish();
}
TEST(CaseC5, CallsBackToTheCallerReturnAtDepth8) { call_back(8, {2 * kib, 4, 4}); }
TEST(CaseC5, CallsBackToTheCallerReturnAtDepth64) { call_back(64, {2 * kib, 4, 4}); }
TEST(CaseC5, CallsBackToTheCallerReturnAtDepth64WithAnInfiniteRation) { call_back(64, {512 * kib, 4096, 4}); }

// quiche 1320
TEST(CaseC7, TenThousandSessionsAbortedByTheReceiverWithBytesInFlightLeaveNothingBehind) {
  auto p = quiet_plan();
  for (auto& n : p.nodes)
    n.ration = {64 * kib, 64, 4}, n.inbound = {16 << 20, 2 << 20}, n.outbound_bytes = 16 << 20;
  p.pipe_bytes = SIZE_MAX;
  world w{p};
  w.connect();
  for (int batch = 0; batch < 200; ++batch) {
    std::vector<side_of*> s;
    for (int i = 0; i < 50; ++i)
      s.push_back(&w.open(0, true));
    w.flow();
    for (auto* x : s)
      w.post(*x, 63 * kib);
    for (int i = 0; i < 8; ++i)
      w.write(*w.ports[0], SIZE_MAX);
    w.deliver(*w.ports[1], 256 * kib, SIZE_MAX);
    for (auto* x : s)
      if (x->other().live())
        w.abort(x->other());
    w.flow();
    for (auto* x : s)
      EXPECT_TRUE(x->ended);
    w.expect_base_line();
  }
  w.finish();
}

// netty 7040, pekko-http 1259
TEST(CaseC8, TenThousandAbortsInTheMiddleOfAMessageLeaveNothingBehind) {
  auto p = quiet_plan();
  for (auto& n : p.nodes)
    n.link.fragment_bytes = kib, n.ration = {16 * kib, 64, 4}, n.read_bytes = 2 * kib,
    n.write_bytes = 3 * kib;
  world w{p};
  w.connect();
  unsigned in_the_middle = 0;
  for (int i = 0; i < 10'000; ++i) {
    auto& s = w.open(0, true);
    w.post(s, 100);
    w.post(s, 10'000);
    w.post(s, 2'000, lane::bulk);
    for (unsigned k = 0; k < 3 + static_cast<unsigned>(i) % 5; ++k)
      w.move_bytes();
    in_the_middle += s.with->out().sent().messages > s.other().received && s.other().received > 0;
    w.abort(s);
    w.flow();
    if (i % 1000 == 0)
      w.expect_base_line();
  }
  w.expect_base_line();
  EXPECT_GT(in_the_middle, 2000u);
  w.finish();
}

// Pulsar 6054, 24418
TEST(CaseC9, ABatchOfTwoThousandIsSplitToACreditOfOneHundred) {
  auto p = quiet_plan();
  p.nodes[1].ration = {64 * kib, 100, 4};
  p.nodes[1].users.unread_percent = 100;
  world w{p};
  w.connect();
  auto& s = w.open(0, true);
  w.flow();
  while (s.posted < 2000)
    ASSERT_GT(w.at(0).post_run(s, static_cast<unsigned>(2000 - s.posted), 16, lane::normal), 0u);
  w.flow();
  EXPECT_EQ(s.other().received, 100u);
  s.other().reads = true;
  w.flow();
  EXPECT_EQ(s.other().received, 2000u);
  w.finish();
}

// JERI mux
TEST(CaseC11, UploadsOfOneMebibyteCompleteWithEveryRation) {
  for (auto ration : {124 * kib, 126 * kib, 127 * kib, 128 * kib, 256 * kib, 4 * mib}) {
    auto p = large_plan(4 * mib);
    for (auto& n : p.nodes)
      n.ration = {ration, 512, 4};
    world w{p};
    w.connect();
    auto& s = w.open();
    for (int i = 0; i < 4; ++i) {
      auto token = w.call(s, {mib});
      for (int ms = 0; ms < 100 && !answered(w, token); ++ms) // less than any time-out
        w.pass(milliseconds{1});
      ASSERT_TRUE(answered(w, token)) << "ration " << ration;
    }
    w.finish();
  }
}

// JERI mux
TEST(CaseC12, ALargeReplyToALargeRequestThatNobodyReadsArrives) {
  auto p = large_plan(4 * mib);
  for (auto& n : p.nodes)
    n.ration = {32 * kib, 512, 4};
  world w{p};
  w.connect();
  std::vector<letter> ignored;
  w.at(1).handler = [&](letter& l) {
    auto& s = *l.to;
    auto& c = w.known.of_token(l.token);
    c.executed = c.answered = true;
    c.answer_bytes = 100 * kib;
    s.at->link->reply(*s.with, l.call,
                      build({s.of->number, 0, l.token, kind::reply, lane::reply, false}, 100 * kib, 0, 0));
    ignored.push_back(std::move(l));
    return true;
  };
  auto& s = w.open();
  auto token = w.call(s, {mib});
  w.drain();
  EXPECT_TRUE(answered(w, token));
  EXPECT_EQ(s.with->queued_messages(), 0u);
  ASSERT_EQ(ignored.size(), 1u);
  w.at(1).die(ignored[0]);
  w.finish();
}

// JERI mux
TEST(CaseC13, AStreamingEchoWhoseCallerSendsAllBeforeItReadsCompletes) {
  auto p = quiet_plan();
  for (auto& n : p.nodes)
    n.ration = n.back = {32 * kib, 512, 4}, n.outbound_bytes = 4 << 20;
  p.nodes[0].users.unread_percent = 100;
  world w{p};
  w.connect();
  auto& s = w.open();
  s.reads = false;
  failure why;
  w.at(1).handler = [&](letter& l) {
    EXPECT_TRUE(w.at(1).post(*l.to, 16 * kib, lane::normal, why)) << to_string(why);
    w.at(1).die(l);
    return true;
  };
  for (int i = 0; i < 64; ++i)
    w.post(s, 16 * kib);
  w.flow();
  ASSERT_EQ(s.other().received, 64u) << "all was sent";
  EXPECT_LT(s.received, 64u);
  s.reads = true;
  w.flow();
  EXPECT_EQ(s.received, 64u);
  w.finish();
}

// JERI mux
TEST(CaseC14, ASessionThatNobodyReadsStopsAtItsRationAndMemoryIsFlat) {
  auto p = quiet_plan();
  p.nodes[1].users.unread_percent = 100;
  world w{p};
  w.connect();
  auto& flood = w.open(0, true);
  w.flow();
  w.at(1).with.users.unread_percent = 0;
  flood.offers_left = 64 * 1024, flood.offer_bytes = kib;
  auto& s = w.open();
  w.flow();
  EXPECT_LE(flood.with->out().sent().bytes, p.nodes[1].ration.bytes);
  auto memory = w.at(1).receive_pool->alive_bytes();
  for (int i = 0; i < 200; ++i) {
    auto token = w.call(s, {200});
    w.flow();
    EXPECT_TRUE(answered(w, token));
  }
  EXPECT_LE(w.at(1).receive_pool->alive_bytes(), memory + 128 * kib);
  EXPECT_LE(w.at(0).outbound.bytes(), 4u * kib);
  flood.offers_left = 0;
  w.finish();
}

TEST(Grants, LostDoubledAndLateOnesDoNoHarm) {
  auto p = quiet_plan();
  for (auto& n : p.nodes)
    n.ration = {2 * kib, 8, 4};
  p.with_grants = {60, 30, 50};
  world w{p};
  w.connect();
  auto &a = w.open(0, true), &b = w.open(0, true, true);
  for (auto* s : {&a, &b})
    s->offers_left = 300, s->offer_bytes = 700, s->asks = s == &a;
  for (int i = 0; i < 3000 && a.other().received + b.other().received < 600; ++i)
    w.pass(milliseconds{100});
  EXPECT_EQ(a.other().received, 300u);
  EXPECT_EQ(b.other().received, 300u);
  w.finish();
}

/// What comes in on one session leaves on an outlet of that session alone, when that has credit; what waits
/// stays where it is.
class forwarders {
public:
  explicit forwarders(world& w) : world_(w) {
    for (auto& n : w.nodes)
      n->handler = [this](letter& l) {
        auto pair = outlets_.find(l.to);
        if (pair == outlets_.end())
          return false;
        pair->second.waiting.push_back(std::move(l));
        return true;
      };
  }
  void join(side_of& inlet, side_of& outlet) { outlets_[&inlet].outlet = &outlet; }
  bool pump() {
    auto did = false;
    for (auto& [inlet, pair] : outlets_)
      did = pump(pair) || did;
    return did;
  }

private:
  struct pair_of {
    side_of* outlet = nullptr;
    std::deque<letter> waiting;
  };
  bool pump(pair_of& p) {
    auto did = false;
    auto& out = *p.outlet->at;
    while (!p.waiting.empty() && out.link->want_credit(*p.outlet->with, p.waiting.front().cost)) {
      auto l = std::move(p.waiting.front());
      p.waiting.pop_front();
      stamp st;
      uint32_t bytes = 0;
      read(l.message, st, bytes);
      world_.post(*p.outlet, bytes);
      out.of->die(l);
      world_.touch(*l.to->at);
      did = true;
    }
    world_.touch(out);
    return did;
  }

  world& world_;
  std::map<side_of*, pair_of> outlets_;
};

// Zeek Broker 165: rings of forwarders that shared an outlet delivered 1-7 % and stopped.
TEST(Rule8, ARingOfThreeForwardersWithPairedSessionsDeliversEverything) {
  auto p = quiet_plan(3);
  p.links.emplace_back(2, 0);
  for (auto& n : p.nodes)
    n.ration = {2 * kib, 8, 4};
  world w{p};
  w.connect();
  forwarders relay{w};
  std::vector<side_of*> sources, sinks;
  for (unsigned origin = 0; origin < 3; ++origin) { // each goes once around: origin, +1, +2, and home
    auto* s = &w.open(origin, true);
    w.flow();
    sources.push_back(s);
    for (unsigned hop = 1; hop < 3; ++hop) {
      auto& next = w.open((origin + hop) % 3, true);
      w.flow();
      relay.join(s->other(), next);
      s = &next;
    }
    sinks.push_back(&s->other());
  }
  for (auto* s : sources)
    s->offers_left = 500, s->offer_bytes = 300;
  do
    w.flow();
  while (relay.pump());
  for (auto* s : sinks)
    EXPECT_EQ(s->received, 500u);
  w.finish();
}

} // namespace
} // namespace weir::net::sim
