#include <set>

#include <gtest/gtest.h>

#include "net/mux.hpp"
#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {
using namespace test::words;

// ---- the end of a session

TEST(MuxLife, ReturnsToTheBaseLineAfterAClose) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "hello");
  p.client.link.close(s);
  p.exchange();
  EXPECT_EQ(p.client.end_of(token)->body, "hello");
  EXPECT_EQ(p.client.count(type::ended), 1u);
  EXPECT_EQ(p.server.count(type::ended), 1u);
  EXPECT_EQ(p.client.last(type::ended)->token, 1u) << "messages that the server consumed";
  p.expect_base_line();
  EXPECT_EQ(p.client.link.session_count(), 0u);
}

TEST(MuxLife, ACloseWaitsUntilEverythingWasConsumed) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, "last");
  p.client.link.close(s);
  p.exchange();
  EXPECT_EQ(p.server.count(type::finished), 1u);
  EXPECT_EQ(p.client.count(type::ended), 0u);
  p.server.consume_all();
  p.exchange();
  EXPECT_EQ(p.client.count(type::ended), 1u);
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::none);
  p.expect_base_line();
}

TEST(MuxLife, TheServiceMayCloseToo) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto first = p.client.call(s, "1");
  p.exchange();
  p.server.link.close(*p.server.last(type::request)->on);
  auto second = p.client.call(s, "2");
  p.exchange();
  p.server.answer(p.server.unanswered[0], "one");
  p.exchange();
  EXPECT_EQ(p.client.end_of(first)->body, "one");
  EXPECT_EQ(p.client.end_of(second)->body.substr(0, 14), "session_closed") << "refused, not lost";
  EXPECT_EQ(p.client.count(type::finished), 1u);
  EXPECT_EQ(p.client.count(type::ended), 1u);
  EXPECT_EQ(p.server.count(type::ended), 1u);
  p.expect_base_line();
}

TEST(MuxLife, ACallThatCrossesTheServicesCloseIsNotExecuted) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.client.call(s, "1");
  p.exchange();
  p.server.link.close(*p.server.last(type::request)->on);
  p.write(p.server, p.to_client); // `close` is on its way
  auto second = p.client.call(s, "2");
  p.write(p.client, p.to_server);
  p.exchange();
  EXPECT_EQ(p.client.end_of(second)->why.code, errc::session_closed);
  EXPECT_EQ(p.client.end_of(second)->why.what, outcome::not_executed);
  EXPECT_EQ(p.server.count(type::request), 1u);
  p.expect_base_line();
}

TEST(MuxLife, ACallThatComesBeforeTheServicesCloseCouldLeaveIsAnsweredFirst) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.client.call(s, "1");
  p.exchange();
  p.server.link.close(*p.server.last(type::request)->on);
  auto second = p.client.call(s, "2");
  p.write(p.client, p.to_server);
  p.to_server.deliver(p.server, SIZE_MAX, p.now);
  p.exchange();
  EXPECT_EQ(p.client.end_of(second)->what, type::reply);
  EXPECT_EQ(p.client.end_of(second)->body.substr(0, 14), "session_closed");
  EXPECT_EQ(p.client.link.late_frames(), 0u);
  EXPECT_EQ(p.client.count(type::ended), 1u);
  p.expect_base_line();
}

TEST(MuxLife, BothMayCloseAtOnce) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.client.call(s, "1");
  p.exchange();
  p.client.link.close(s);
  p.server.link.close(*p.server.last(type::request)->on);
  p.exchange();
  EXPECT_EQ(p.client.count(type::ended), 1u);
  EXPECT_EQ(p.server.count(type::ended), 1u);
  p.expect_base_line();
}

/// The client may have one session; it and the service have both said `close`, and the service, which is
/// done, `closed`. The client still keeps an item.
struct HalfClosed : testing::Test {
  mux_pair p{client_settings(), [] {
               auto narrow = server_settings();
               narrow.link.sessions_max = 1;
               return narrow;
             }()};
  session *s = nullptr, *there = nullptr;

  void SetUp() override {
    p.client.consumes = false;
    p.connect();
    s = &p.client.open("echo", false, {4096, 16, 4});
    p.exchange();
    there = p.server.last(type::open)->on;
    p.server.post(*there, "an item");
    p.exchange();
    p.client.link.close(*s);
    p.server.link.close(*there);
    p.write(p.client, p.to_server);
    p.write(p.server, p.to_client);
    p.to_server.deliver(p.server, SIZE_MAX, p.now);
    p.to_client.deliver(p.client, SIZE_MAX, p.now);
    p.write(p.server, p.to_client); // `closed`
    ASSERT_EQ(there->now(), session::state::closing);
  }
  void expect_that_its_place_is_free() {
    p.client.open();
    p.write(p.client, p.to_server);
    p.to_server.deliver(p.server, SIZE_MAX, p.now); // all at once, before the server can write
    EXPECT_TRUE(p.server.link.ready());
    p.exchange();
    EXPECT_EQ(p.client.count(type::opened), 2u);
    EXPECT_EQ(p.server.count(type::ended), 1u);
    EXPECT_EQ(p.client.count(type::ended), 1u);
    EXPECT_EQ(p.client.link.late_frames() + p.server.link.late_frames(), 0u);
    p.client.consume_all();
    p.expect_invariants();
  }
};

TEST_F(HalfClosed, AnAbortThatCrossesClosedIsAnsweredByIt) {
  p.client.link.abort(*s, errc::cancelled, {});
  p.write(p.client, p.to_server);
  p.to_client.deliver(p.client, SIZE_MAX, p.now);
  EXPECT_EQ(p.client.link.session_count(), 0u);
  expect_that_its_place_is_free();
}

TEST_F(HalfClosed, AnAbortBehindThePeersLastWordIsSaidAsClosed) {
  p.to_client.deliver(p.client, SIZE_MAX, p.now);
  p.client.link.abort(*s, errc::cancelled, {});
  p.client.fetch();
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::cancelled);
  p.write(p.client, p.to_server);
  EXPECT_EQ(p.client.link.session_count(), 0u);
  expect_that_its_place_is_free();
  EXPECT_EQ(p.server.last(type::ended)->why.code, errc::none) << "it had got everything";
}

TEST_F(HalfClosed, AnAbortBehindOurLastWordIsOursAlone) {
  p.server.link.abort(*there, errc::service_down, {});
  p.server.fetch();
  EXPECT_EQ(p.server.last(type::ended)->why.code, errc::service_down);
  EXPECT_FALSE(p.server.link.wants_write());
  EXPECT_EQ(there->now(), session::state::tombstone) << "until the client has said `closed`";
  p.to_client.deliver(p.client, SIZE_MAX, p.now);
  p.client.consume_all();
  p.write(p.client, p.to_server);
  EXPECT_EQ(p.client.link.session_count(), 0u);
  expect_that_its_place_is_free();
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::none);
}

TEST_F(HalfClosed, TwoAbortsThatCrossBehindClosedAreAnsweredByIt) {
  p.server.link.abort(*there, errc::service_down, {});
  p.client.link.abort(*s, errc::cancelled, {});
  p.write(p.client, p.to_server);
  p.to_client.deliver(p.client, SIZE_MAX, p.now);
  expect_that_its_place_is_free();
}

TEST(MuxLife, ComesBackToTheBaseLineAfterAnAbortAndNotBeforeTheMemoryDies) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 100; ++i)
    p.client.post(s, bytes(5000));
  p.exchange();
  EXPECT_LT(p.server.count(type::item), 100u);
  p.client.link.abort(s, errc::cancelled, "enough");
  p.exchange();
  EXPECT_EQ(p.server.last(type::ended)->why.code, errc::cancelled);
  EXPECT_EQ(p.server.last(type::ended)->why.text, "enough");
  EXPECT_GT(p.server.inbound.charged(charge::session), 0u);
  p.server.consume_all();
  p.expect_base_line();
}

TEST(MuxLife, TheReceiverMayAbortWhileDataIsUnderWay) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, bytes(100));
  p.exchange();
  for (int i = 0; i < 10; ++i)
    p.client.post(s, bytes(5000));
  p.write(p.client, p.to_server); // on its way
  auto& there = *p.server.last(type::item)->on;
  p.server.link.abort(there, errc::service_down, "gone");
  EXPECT_EQ(there.now(), session::state::tombstone);
  p.exchange();
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::service_down);
  EXPECT_GT(p.server.link.late_frames(), 0u);
  p.server.consume_all();
  p.expect_base_line();
}

TEST(MuxLife, BothMayAbortAtOnce) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.client.call(s, "1");
  p.exchange();
  auto& there = *p.server.last(type::request)->on;
  p.client.link.abort(s, errc::cancelled, {});
  p.server.link.abort(there, errc::service_down, {});
  p.exchange();
  EXPECT_EQ(p.client.count(type::ended), 1u);
  EXPECT_EQ(p.server.count(type::ended), 1u);
  p.expect_base_line();
}

TEST(MuxLife, AnAbortBeforeTheOpenWasWrittenSaysNothing) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  p.client.link.abort(s, errc::cancelled, {});
  p.exchange();
  EXPECT_EQ(p.server.count(type::open), 0u);
  auto& next = p.client.open();
  EXPECT_EQ(next.id(), 3u) << "ids are never used again";
  p.exchange();
  EXPECT_EQ(p.client.count(type::opened), 1u);
}

TEST(MuxLife, AnOpenMayBeTakenBackBeforeItsAnswer) {
  mux_pair p;
  p.server.accepts = false;
  p.connect();
  auto& s = p.client.open();
  p.exchange();
  ASSERT_EQ(p.server.count(type::open), 1u);
  auto& there = *p.server.last(type::open)->on;
  p.client.link.abort(s, errc::cancelled, {});
  p.exchange();
  EXPECT_EQ(p.server.count(type::ended), 1u);
  EXPECT_TRUE(p.server.link.accept(there, {})) << "without effect";
  p.exchange();
  p.expect_base_line();
}

TEST(MuxLife, ARefusalNamesItsReason) {
  mux_pair p;
  p.server.accepts = false;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "x");
  p.exchange();
  p.server.link.refuse(*p.server.last(type::open)->on, errc::no_such_service, "no 'echo' here", false);
  p.exchange();
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::no_such_service);
  EXPECT_EQ(p.client.last(type::ended)->why.text, "no 'echo' here");
  EXPECT_EQ(p.client.end_of(token)->why.what, outcome::not_executed);
  p.expect_base_line();
}

TEST(MuxLife, OpenCallsFailWhenTheirSessionIsAborted) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto sent = p.client.call(s, "sent");
  p.exchange();
  auto queued = p.client.call(s, "queued");
  p.client.link.abort(s, errc::session_aborted, "x");
  p.client.fetch();
  EXPECT_EQ(p.client.end_of(sent)->why.what, outcome::unknown);
  EXPECT_EQ(p.client.end_of(queued)->why.what, outcome::not_executed);
}

TEST(MuxLife, SessionsAreOpenedAndClosedForEver) {
  auto few = server_settings();
  few.link.sessions_max = 3;
  mux_pair p{client_settings(), few};
  p.connect();
  for (int i = 0; i < 200; ++i) {
    auto& s = p.client.open();
    p.client.call(s, "x");
    if (i % 3 == 0)
      p.exchange();
    if (i % 5 == 0)
      p.client.link.abort(s, errc::cancelled, {});
    else
      p.client.link.close(s);
    p.exchange();
  }
  p.expect_base_line();
  EXPECT_FALSE(p.server.link.is_down()) << "both count the same";
}

TEST(MuxLife, SessionsAboveThePeersLimitAreRefusedHere) {
  auto few = server_settings();
  few.link.sessions_max = 2;
  mux_pair p{client_settings(), few};
  p.connect();
  auto& a = p.client.open();
  p.client.open();
  failure why;
  EXPECT_EQ(p.client.link.open({.service = "x"}, why), nullptr);
  EXPECT_EQ(why.code, errc::too_many_sessions);
  p.exchange();
  p.client.link.close(a);
  p.exchange();
  p.client.open();
  p.exchange();
  EXPECT_FALSE(p.server.link.is_down());
}

TEST(MuxLife, AnAbortThatCrossesACloseFreesItsPlace) {
  auto few = server_settings();
  few.link.sessions_max = 1;
  mux_pair p{client_settings(), few};
  p.server.consumes = false;
  p.connect();
  for (int i = 0; i < 10; ++i) {
    auto& s = p.client.open("sink", true);
    p.client.post(s, "x");
    p.client.link.close(s);
    p.exchange(); // `close` came, `closed` has to wait
    p.server.link.abort(*p.server.last(type::item)->on, errc::service_down, {});
    p.exchange();
    p.server.consume_all();
  }
  EXPECT_FALSE(p.server.link.is_down());
  p.expect_base_line();
}

TEST(MuxLife, AnAbortAfterBothClosesStillSaysTheLastWord) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.client.post(s, "x");
  p.exchange();
  auto& there = *p.server.last(type::item)->on;
  p.server.link.close(there);
  p.write(p.server, p.to_client); // its `close` is on its way
  p.client.link.close(s);
  p.write(p.client, p.to_server); // and ours
  p.to_client.deliver(p.client, SIZE_MAX, p.now);
  p.write(p.client, p.to_server); // `closed`, to the first
  p.server.link.abort(there, errc::service_down, {});
  p.to_server.deliver(p.server, SIZE_MAX, p.now); // before the abort could be written
  p.exchange();
  EXPECT_EQ(p.client.count(type::ended), 1u);
  EXPECT_EQ(p.client.link.session_count(), 0u);
  p.server.consume_all();
  p.expect_base_line();
}

TEST(MuxLife, WaitingForCreditEndsWithClose) {
  mux_pair p;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 15; ++i)
    p.client.post(s, bytes(4000));
  p.exchange();
  EXPECT_FALSE(p.client.link.want_credit(s, 10'000));
  p.client.link.close(s);
  p.exchange();
  p.advance(seconds{2}, milliseconds{100}); // no `blocked` behind `close`
  p.server.consume_all();
  p.exchange();
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::none);
  p.expect_base_line();
}

// ---- what leaves first

/// The kinds of the frames in the next flight, in order.
std::vector<frame_kind> next_flight(mux_pair& p, size_t& total) {
  std::vector<iovec> v(256);
  std::vector<std::byte> all;
  auto n = p.client.link.gather(v, p.now);
  for (size_t i = 0; i < n; ++i) {
    auto* at = static_cast<const std::byte*>(v[i].iov_base);
    all.insert(all.end(), at, at + v[i].iov_len);
  }
  total = all.size();
  p.to_server.write(v.data(), n, total);
  p.client.link.wrote(total);
  std::vector<frame_kind> kinds;
  for (size_t at = 0; at < all.size();) {
    auto h = load_header(all.data() + at);
    kinds.push_back(h.kind);
    at += header_bytes + h.length;
  }
  return kinds;
}

TEST(MuxLife, ControlLeavesBeforeData) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.exchange();
  p.client.post(s, "data");
  p.client.open();
  size_t total = 0;
  EXPECT_EQ(next_flight(p, total), (std::vector{frame_kind::control, frame_kind::message}));
}

TEST(MuxLife, WhatSpeaksOfDataLeavesBehindIt) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  p.exchange();
  p.client.post(s, "data");
  p.client.link.close(s);
  size_t total = 0;
  EXPECT_EQ(next_flight(p, total), (std::vector{frame_kind::message, frame_kind::control}));
}

TEST(MuxLife, AFlightIsBounded) {
  auto wide = server_settings();
  wide.ration = {4 << 20, 10'000, 4};
  mux_pair p{client_settings(), wide};
  p.connect();
  auto& s = p.client.open("sink", true);
  p.exchange();
  for (int i = 0; i < 100; ++i)
    p.client.post(s, bytes(20'000));
  size_t total = 0;
  next_flight(p, total);
  EXPECT_GE(total, size_t{256 << 10});
  EXPECT_LE(total, size_t{256 << 10} + 20'200);
}

// ---- the end of a link

TEST(MuxLife, GoesAwayWhenEverythingIsDone) {
  mux_pair p;
  p.server.answers = false;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "x");
  p.exchange();
  p.server.link.go_away(errc::shutting_down, "maintenance");
  p.exchange();
  EXPECT_EQ(p.client.last(type::going_away)->why.text, "maintenance");
  failure why;
  EXPECT_EQ(p.client.link.open({}, why), nullptr);
  EXPECT_EQ(why.code, errc::going_away);
  EXPECT_FALSE(p.server.link.drained());
  p.server.answer(p.server.unanswered[0], "done");
  p.client.link.close(s);
  p.exchange();
  EXPECT_EQ(p.client.end_of(token)->body, "done") << "what came before is answered";
  EXPECT_TRUE(p.server.link.drained());
}

TEST(MuxLife, AnOpenThatCrossesGoawayIsRefusedRetryable) {
  mux_pair p;
  p.connect();
  p.client.open();
  p.write(p.client, p.to_server);
  p.server.link.go_away(errc::shutting_down, {});
  p.exchange();
  EXPECT_EQ(p.client.last(type::ended)->why.code, errc::going_away);
  EXPECT_EQ(p.client.last(type::ended)->why.what, outcome::not_executed);
}

TEST(MuxLife, ALostLinkEndsEverySessionFirst) {
  mux_pair p;
  p.server.answers = false;
  p.server.consumes = false;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, bytes(5000));
  p.exchange();
  p.client.link.lost(errc::link_lost, "reset by peer");
  p.server.link.lost(errc::link_lost, "reset by peer");
  p.client.fetch();
  p.server.fetch();
  EXPECT_EQ(p.client.end_of(token)->why.what, outcome::unknown);
  EXPECT_EQ(p.client.events.back().what, type::down);
  EXPECT_EQ(p.server.last(type::ended)->why.code, errc::link_lost);
  p.server.consume_all();
  p.expect_base_line();
}

TEST(MuxLife, TellsThePeerWhyItFails) {
  mux_pair p;
  p.connect();
  p.server.link.fail(errc::shutting_down, "out of here");
  p.exchange();
  EXPECT_EQ(p.client.last(type::down)->why.code, errc::shutting_down);
  EXPECT_EQ(p.client.last(type::down)->why.text, "out of here");
}

TEST(MuxLife, GivesEverythingBackWhenItIsDestroyed) {
  budget in{{16 << 20, 8 << 20}};
  outbound_ledger out{16 << 20};
  {
    mux_pair p;
    p.connect();
  }
  slab_pool_owner memory{false};
  auto settings = client_settings();
  {
    mux link{settings.link, side::dialled, in, out, *memory, time_point{}};
    EXPECT_TRUE(link.wants_write());
  }
  EXPECT_EQ(in.liability(), uint64_t{8 << 20});
  EXPECT_EQ(out.bytes(), 0u);
}

// ---- time

TEST(MuxLife, MeasuresTheRoundTrip) {
  mux_pair p;
  p.connect();
  p.now += seconds{1};
  p.client.link.tick(p.now);
  p.write(p.client, p.to_server);
  p.now += milliseconds{30};
  p.exchange();
  EXPECT_EQ(p.client.link.round_trip(), milliseconds{30});
}

TEST(MuxLife, AQuietPeerIsDead) {
  mux_pair p;
  p.connect();
  p.now += seconds{15};
  p.client.link.tick(p.now);
  p.client.fetch();
  EXPECT_EQ(p.client.last(type::down)->why.code, errc::peer_silent);
}

TEST(MuxLife, PingsKeepAnIdleLinkAlive) {
  mux_pair p;
  p.connect();
  p.advance(seconds{40}, milliseconds{500});
  EXPECT_FALSE(p.client.link.is_down());
  EXPECT_FALSE(p.server.link.is_down());
}

TEST(MuxLife, SaysWhenItWantsToBeWoken) {
  mux_pair p;
  EXPECT_EQ(p.client.link.next_tick(), p.now + seconds{5}) << "hello";
  p.connect();
  EXPECT_EQ(p.client.link.next_tick(), p.now + seconds{1}) << "ping";
  auto& s = p.client.open();
  p.client.call(s, "x", {.deadline = p.now + milliseconds{300}});
  EXPECT_EQ(p.client.link.next_tick(), p.now + milliseconds{300}) << "a deadline";
}

} // namespace
} // namespace weir::net
