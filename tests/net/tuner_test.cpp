// How a ration sizes itself: by what its receiver sees, first alone, then between two muxes.
#include <gtest/gtest.h>

#include "net/tuner.hpp"
#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {

using namespace test::words;

constexpr time_point start{seconds{1000}};
constexpr uint64_t kib = 1 << 10;

/// A receiver whose ration is tuned, and a sender that uses all of it.
struct receiver {
  explicit receiver(uint64_t bytes = 64 * kib, ration_range r = {16 * kib, 1024 * kib, true})
      : in(ration_options{bytes, bytes / 128, 4}), how(r) {}

  void arrive(uint64_t cost, bool waited = false) {
    how.arrives(in.received(), cost, waited);
    EXPECT_TRUE(in.arrive(cost, 1));
  }
  void arrive_all() {
    while (in.granted().bytes - in.received().bytes >= kib)
      arrive(kib);
  }
  void consume(uint64_t bytes, uint64_t messages) {
    in.consume(bytes, messages);
    resize(how.shrunk(in.options().bytes, in.consumed().bytes, in.received().bytes - in.consumed().bytes, now,
                      round_trip));
  }
  void consume_all() {
    consume(in.received().bytes - in.consumed().bytes, in.received().messages - in.consumed().messages);
  }
  void resize(uint64_t bytes) { in.set_ration(bytes, how.messages_for(bytes, in.options().messages)); }
  uint64_t grow() {
    resize(how.grown(in.options(), in.consumed(), in.granted()));
    return in.options().bytes;
  }

  ration_in in;
  tuner how;
  time_point now = start;
  duration round_trip{0};
};

TEST(Tuner, DoublesWhereTheServiceHadNothingToDoWhileTheSenderWaited) {
  receiver r;
  r.arrive_all();
  r.consume_all();
  r.in.take_grant();
  r.arrive(kib, true);
  EXPECT_EQ(r.grow(), 128 * kib);
  EXPECT_EQ(r.in.options().messages, 1024u) << "the messages follow";
}

TEST(Tuner, StaysWhereTheServiceStillHadSomething) {
  receiver r;
  r.arrive_all();
  r.consume(32 * kib, 32);
  r.in.take_grant();
  r.arrive(kib, true);
  EXPECT_EQ(r.grow(), 64 * kib);
}

TEST(Tuner, StaysWhereTheSenderDidNotWait) {
  receiver r;
  r.arrive_all();
  r.consume_all();
  r.in.take_grant();
  r.arrive(kib);
  EXPECT_EQ(r.grow(), 64 * kib);
}

TEST(Tuner, GrowsOnceForOneGrant) {
  receiver r;
  r.arrive_all();
  r.consume_all();
  r.in.take_grant();
  r.arrive(kib, true);
  EXPECT_EQ(r.grow(), 128 * kib);
  r.consume_all();
  EXPECT_EQ(r.grow(), 128 * kib) << "the same frame again";
  r.arrive(kib, true); // covered by what was granted before it grew
  EXPECT_EQ(r.grow(), 128 * kib) << "it waited before it could know of the growth";
  r.arrive_all();
  r.consume_all();
  r.in.take_grant();
  r.arrive(kib, true);
  EXPECT_EQ(r.grow(), 256 * kib);
}

TEST(Tuner, EndsAtItsCeiling) {
  receiver r;
  for (int i = 0; i < 10; ++i) {
    r.arrive_all();
    r.consume_all();
    r.in.take_grant();
    r.arrive(kib, true);
    r.grow();
  }
  EXPECT_EQ(r.in.options().bytes, 1024 * kib);
}

TEST(Tuner, GrowsNoLargerThanMessagesThatAreLimitedOtherwiseCanUse) {
  receiver r{64 * kib, {16 * kib, 1024 * kib, false}};
  r.in.set_ration(64 * kib, 80);
  for (int i = 0; i < 5; ++i) {
    r.arrive(kib);
    r.consume_all();
    r.in.take_grant();
    r.arrive(kib, true);
    r.grow();
  }
  EXPECT_EQ(r.in.options().bytes, 80 * kib);
  EXPECT_EQ(r.in.options().messages, 80u);
}

TEST(Tuner, GrowsToTwoOfItsMessagesAtOnce) {
  receiver r{64 * kib, {16 * kib, 16 * 1024 * kib, true}};
  r.in.peer_blocked({0, r.in.granted(), 1000 * kib, 1000 * kib});
  r.in.fund();
  r.in.take_grant();
  r.arrive(1000 * kib, true);
  EXPECT_EQ(r.grow(), 2000 * kib);
}

TEST(Tuner, AFixedOneNeverChanges) {
  receiver r{64 * kib, {}};
  r.arrive_all();
  r.consume_all();
  r.in.take_grant();
  r.arrive(kib, true);
  EXPECT_EQ(r.grow(), 64 * kib);
  for (int i = 0; i < 100; ++i, r.now += milliseconds{50})
    r.consume(1, 0);
  EXPECT_EQ(r.in.options().bytes, 64 * kib);
  EXPECT_EQ(r.in.options().messages, 512u);
}

/// The ration after `time` of a service that takes `bytes_per_ms`, from a sender that uses every grant at
/// once.
uint64_t ration_of_service(uint64_t bytes_per_ms, milliseconds time, receiver r) {
  uint64_t work = 0;
  for (auto end = r.now + time; r.now < end; r.now += milliseconds{1}) {
    r.in.take_grant();
    r.arrive_all();
    work += bytes_per_ms;
    auto n = std::min(work / kib, r.in.received().messages - r.in.consumed().messages);
    work -= n * kib;
    if (n != 0)
      r.consume(n * kib, n);
  }
  return r.in.options().bytes;
}

TEST(Tuner, ShrinksUntilWhatComesWaitsFor20Milliseconds) {
  EXPECT_EQ(ration_of_service(100, seconds{2}, receiver{}), 16 * kib) << "20 ms are 2000 bytes: the floor";
  auto of_faster = ration_of_service(5 * kib, seconds{2}, receiver{512 * kib});
  EXPECT_GE(of_faster, 80 * kib);
  EXPECT_LE(of_faster, 110 * kib);
  EXPECT_EQ(ration_of_service(64 * kib, seconds{2}, receiver{512 * kib}), 512 * kib) << "it waits for 8 ms";
}

TEST(Tuner, LooksNoMoreThanOnceInARoundTrip) {
  receiver r{512 * kib};
  r.round_trip = milliseconds{500};
  EXPECT_EQ(ration_of_service(100, milliseconds{400}, r), 512 * kib);
  EXPECT_EQ(ration_of_service(100, milliseconds{600}, r), 448 * kib);
}

TEST(Tuner, KeepsTwoOfItsRecentMessages) {
  receiver r{512 * kib};
  for (int i = 0; i < 500; ++i, r.now += milliseconds{50}) {
    r.in.take_grant();
    while (r.in.granted().bytes - r.in.received().bytes >= 40 * kib)
      r.arrive(40 * kib);
    r.consume(40 * kib, 1);
  }
  EXPECT_GE(r.in.options().bytes, 70 * kib);
  EXPECT_LE(r.in.options().bytes, 100 * kib);
}

TEST(Tuner, ThePauseBetweenTwoBurstsIsNoWaiting) {
  receiver r{512 * kib};
  for (int i = 0; i < 100; ++i, r.now += seconds{3}) {
    for (int k = 0; k < 4; ++k)
      r.arrive(kib);
    r.consume(4 * kib, 4);
    r.in.take_grant();
  }
  EXPECT_EQ(r.in.options().bytes, 512 * kib);
}

// ---- between two muxes

peer::settings tuned(uint64_t pool = 64 << 20) {
  auto s = with_budget(server_settings(), pool, 4 << 20);
  s.range = {tuner::floor_bytes, tuner::ceiling_bytes, true};
  return s;
}
auto plenty() {
  auto s = client_settings();
  s.outbound_bytes = 64 << 20;
  return s;
}

class Tuned : public ::testing::Test {
protected:
  explicit Tuned(peer::settings server = tuned()) : p(plenty(), server) {
    p.connect();
    s = &p.client.open("sink", true);
    p.exchange();
  }
  session& there() { return *const_cast<session*>(p.server.last(type::open)->on); }
  /// The sender always has more.
  void pour(int rounds, size_t body = 1000) {
    for (int i = 0; i < rounds; ++i) {
      while (s->queued_bytes() < 64 * kib && s->now() == session::state::open)
        p.client.post(*s, bytes(body));
      p.exchange();
      p.advance(milliseconds{1}, milliseconds{1});
    }
  }

  mux_pair p;
  session* s = nullptr;
};

TEST_F(Tuned, AServiceThatIsFasterThanItsCreditGetsMore) {
  pour(50);
  EXPECT_GT(there().in().options().bytes, 64 * kib);
  EXPECT_EQ(there().in().options().messages, there().in().options().bytes / 128);
}

TEST_F(Tuned, AServiceThatTakesNothingGetsNoMore) {
  p.server.consumes = false;
  pour(50);
  EXPECT_EQ(there().in().options().bytes, 64 * kib);
  EXPECT_LE(p.server.inbound.charged(charge::session), 64 * kib);
}

TEST_F(Tuned, WhoHadToWaitBeforeItBuiltWhatComesSaysSoWithThat) {
  p.client.link.waited(*s);
  p.client.post(*s, bytes(10));
  p.exchange();
  EXPECT_EQ(p.server.count(type::resumed), 1u);
  EXPECT_EQ(there().in().options().bytes, 128 * kib);
}

TEST_F(Tuned, AFixedRationSaysNothingOfWaiting) {
  p.server.with.range = {};
  auto& fixed = p.client.open("sink", true);
  p.exchange();
  p.client.link.waited(fixed);
  p.client.post(fixed, bytes(10));
  p.exchange();
  EXPECT_EQ(p.server.count(type::resumed), 0u);
}

TEST_F(Tuned, WhatIsReclaimedFallsToTheFloorAndGrowsAgain) {
  pour(50);
  auto grown = there().in().options().bytes;
  p.exchange();
  p.server.link.reclaim(there());
  p.exchange();
  EXPECT_EQ(there().in().options().bytes, tuner::floor_bytes);
  EXPECT_EQ(there().in().options().messages, 128u);
  EXPECT_LE(p.server.inbound.charged(charge::session), 2 * tuner::floor_bytes);
  pour(50);
  EXPECT_GE(there().in().options().bytes, grown);
}

class TunedInASmallBudget : public Tuned {
protected:
  static constexpr uint64_t pool = 1 << 20;
  TunedInASmallBudget() : Tuned(tuned(pool)) {}
};

TEST_F(TunedInASmallBudget, AFifthStaysForThoseWhoHaveNotBegun) {
  auto others = p.server.inbound.free_bytes() - (pool / 5 + 20 * kib);
  ASSERT_TRUE(p.server.inbound.take(charge::held, others));
  pour(200);
  EXPECT_EQ(there().in().options().bytes, 64 * kib) << "although there is room for twice as much";
  p.server.inbound.give(charge::held, others);
  pour(200);
  EXPECT_GT(there().in().options().bytes, 64 * kib);
}

TEST_F(TunedInASmallBudget, ALinkOwesNoMoreThanWhatIsLeft) {
  pour(200);
  EXPECT_LE(p.server.inbound.charged(charge::session), pool / 2);
  std::vector<session*> more;
  for (int i = 0; i < 20; ++i)
    more.push_back(&p.client.open("sink", true));
  p.exchange();
  EXPECT_EQ(p.server.count(type::open), 21u);
  EXPECT_GE(p.client.count(type::opened), 8u) << "there is room for others";
}

} // namespace
} // namespace weir::net
