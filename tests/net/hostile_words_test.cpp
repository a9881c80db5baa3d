// Words and frames that are well made and not true: said too early, too late, twice, or of what they cannot
// be said.
#include <array>

#include <gtest/gtest.h>

#include "tests/support/raw_peer.hpp"

namespace weir::net {
namespace {
using std::chrono::seconds;
using test::raw_peer;
using test::server_settings;
using type = event::type;

constexpr uint8_t in_reply = 0, last_in_reply = flag::last, void_in_reply = flag::last | flag::void_;
constexpr uint8_t last_in_normal = 1 | flag::last, void_in_normal = 1 | flag::last | flag::void_;

/// A peer that opened session 1, which it may harm, and 3, which must not notice.
struct HostileWords : testing::Test {
  raw_peer p;
  session* harmed = nullptr;

  void SetUp() override { harmed = &p.two_sessions(); }
  template <class List, class Entry>
  void say(List list, Entry entry) {
    say::control c;
    (c.*list).push_back(std::move(entry));
    p.control(c);
  }
  void expect_aborted(uint32_t id, errc e) {
    EXPECT_EQ(p.abort_of(id), e) << to_string(p.abort_of(id));
    p.expect_lives();
  }
  void expect_down(errc e) {
    EXPECT_EQ(p.fault(), e) << to_string(p.fault());
    EXPECT_FALSE(p.host.link.ready());
    EXPECT_EQ(p.host.inbound.liability(), p.host.with.inbound.reserve_bytes);
  }
  /// Gathers one flight and writes nothing of it.
  void hand_over() {
    std::array<iovec, 64> v;
    p.host.link.gather(v, p.now);
  }
};

TEST_F(HostileWords, AHelloOfOlderVersionsOnly) {
  raw_peer old;
  old.preamble();
  say::control c;
  c.hello = old.hello_fields();
  c.hello->version_min = c.hello->version_max = 0;
  old.control(c);
  EXPECT_EQ(old.fault(), errc::bad_version);
}

TEST_F(HostileWords, AnOpenOfSession0) {
  say(&say::control::opens, say::open{0, "echo", 0, false, 0, {}});
  expect_down(errc::bad_state);
}

TEST_F(HostileWords, AWordAboutSession0) {
  say(&say::control::grants, say::grant{0, 0, {1, 1}, 0, errc::none});
  expect_down(errc::unknown_session);
}

TEST_F(HostileWords, AWordAboutASessionWhoseOpenHasNotLeft) {
  std::vector<say::control> all(13);
  size_t n = 0;
  all[n++].openeds.push_back({2, {1000, 10}, 0});
  all[n++].refuseds.push_back({2, errc::no_such_service, "", false});
  all[n++].grants.push_back({2, 0, {1000, 10}, 0, errc::none});
  all[n++].blockeds.push_back({2, {0, {}, 1000, 0}});
  all[n++].reclaims.push_back({2, 1});
  all[n++].reclaimeds.push_back({2, 0, {}});
  all[n++].aborts.push_back({2, errc::cancelled, "", {}});
  all[n++].closes.push_back({2, {}});
  all[n++].closeds.push_back({2, 0, {}});
  all[n++].cancels.push_back({2, call_id(0, 1)});
  all[n++].needs.push_back({2, call_id(0, 1), 1 << 20});
  all[n++].funds.push_back({2, call_id(0, 1), 1 << 20});
  all[n++].unfundeds.push_back({2, 1000, errc::no_budget});
  for (auto& c : all) {
    raw_peer q;
    q.two_sessions();
    auto& s = q.host.open();
    ASSERT_EQ(s.id(), 2u);
    q.host.call(s, "x");
    q.control(c);
    EXPECT_EQ(q.fault(), errc::unknown_session) << to_string(q.fault());
    EXPECT_EQ(q.host.inbound.liability(), q.host.with.inbound.reserve_bytes);
    EXPECT_EQ(q.host.count(type::failed), 1u);
  }
}

TEST_F(HostileWords, DataForASessionWhoseOpenHasNotLeft) {
  auto& s = p.host.open("echo", false, {4096, 16, 4});
  p.message(s.id(), 0, 10);
  expect_down(errc::unknown_session);
}

TEST_F(HostileWords, AnAnswerToAnOpenThatHasLeft) {
  auto& s = p.host.open();
  EXPECT_EQ(p.said().opens.size(), 1u);
  say(&say::control::openeds, say::opened{s.id(), {1000, 10}, 0});
  EXPECT_EQ(s.now(), session::state::open);
  p.expect_lives();
}

TEST_F(HostileWords, OpensBehindOurGoawayAreRefusedWhetherItHasLeftOrNot) {
  p.host.link.go_away(errc::shutting_down, {});
  for (uint32_t id : {5u, 7u}) { // the first one before it could be written
    say(&say::control::opens, say::open{id, "echo", 0, false, 0, {}});
    auto said = p.said();
    ASSERT_EQ(said.refuseds.size(), 1u);
    EXPECT_EQ(said.refuseds[0].reason, errc::going_away);
    EXPECT_TRUE(said.refuseds[0].retryable);
  }
  EXPECT_EQ(p.host.count(type::open), 2u) << "nobody is asked";
}

TEST_F(HostileWords, AnswersToItsOwnOpen) {
  p.host.accepts = false;
  for (uint32_t id : {5u, 7u}) {
    p.open(id);
    id == 5 ? say(&say::control::openeds, say::opened{id, {1, 1}, 0})
            : say(&say::control::refuseds, say::refused{id, errc::none, "", false});
    auto said = p.said();
    ASSERT_EQ(said.refuseds.size(), 1u) << "an abort of what was not accepted is said so";
    EXPECT_EQ(said.refuseds[0].reason, errc::bad_state);
  }
  p.expect_lives();
}

TEST_F(HostileWords, WhatComesBeforeARefusalCouldBeWrittenChangesNothing) {
  p.host.accepts = false;
  auto& s = p.open(5);
  p.host.link.refuse(s, errc::no_such_service, "no", false);
  say(&say::control::aborts, say::abort{5, errc::cancelled, "", {}});
  say(&say::control::closeds, say::closed{5, 0, {}});
  say(&say::control::closes, say::close{5, {}});
  auto said = p.said();
  EXPECT_EQ(said.refuseds.size(), 1u);
  EXPECT_TRUE(said.closeds.empty());
  p.expect_lives();
}

TEST_F(HostileWords, NoWordReachesATombstone) {
  p.host.answers = false;
  p.message(1, call_id(0, 1), 10);
  p.host.link.abort(*harmed, errc::cancelled, {});
  EXPECT_EQ(p.said().aborts.size(), 1u);
  say::control c;
  c.grants.push_back({1, 0, {~uint64_t{0}, 1}, 0, errc::none});
  c.blockeds.push_back({1, {0, {}, ~uint64_t{0}, 0}});
  c.reclaims.push_back({1, 1});
  c.reclaimeds.push_back({1, 1, {}});
  c.cancels.push_back({1, call_id(0, 1)});
  c.cancelleds.push_back({1, call_id(0, 1)});
  c.needs.push_back({1, call_id(0, 1), 1 << 20});
  c.funds.push_back({1, call_id(0, 1), 1 << 20});
  c.unfundeds.push_back({1, 77, errc::no_budget});
  p.control(c);
  EXPECT_TRUE(p.said().empty());
  p.expect_lives();
}

TEST_F(HostileWords, PongsThatWereNotAskedForMeasureNothing) {
  p.now += seconds{1};
  p.host.link.tick(p.now);
  auto ping = p.said().ping;
  ASSERT_NE(ping, 0u);
  p.now += std::chrono::milliseconds{30};
  say::control c;
  c.pong = ping + 1;
  p.control(c);
  EXPECT_EQ(p.host.link.round_trip(), duration{0});
  c.pong = ping;
  p.control(c);
  EXPECT_EQ(p.host.link.round_trip(), std::chrono::milliseconds{30});
  p.now += seconds{5};
  p.control(c);
  EXPECT_EQ(p.host.link.round_trip(), std::chrono::milliseconds{30}) << "the same one again";
}

TEST_F(HostileWords, GoawayIsToldOnce) {
  say::control c;
  c.goaway = say::goaway{errc::none, "", 0};
  p.control(c);
  p.control(c);
  ASSERT_EQ(p.host.count(type::going_away), 1u);
  EXPECT_EQ(p.host.last(type::going_away)->why.code, errc::going_away);
  EXPECT_EQ(p.host.last(type::going_away)->why.text, "said by the peer");
}

// ---- frames whose end is certain

TEST_F(HostileWords, FlagsThatCannotBeOnASessionThatIsOver) {
  say(&say::control::aborts, say::abort{1, errc::cancelled, "", {}});
  p.said();
  p.frame({8, 1, frame_kind::message, 0x21, 0, 0}, {0});
  p.expect_lives();
}

TEST_F(HostileWords, FlagsThatCannotBeOnASessionThatNeverWas) {
  p.frame({8, 9, frame_kind::fragment, 0x21, 0, 0}, {0});
  expect_down(errc::unknown_session);
}

TEST_F(HostileWords, FlagsThatCannotBeWithoutASession) {
  p.frame({8, 0, frame_kind::message, 0x21, 0, 0}, {0});
  expect_down(errc::malformed_frame);
}

TEST_F(HostileWords, FlagsThatCannotBeInAFrameThatIsNotPadded) {
  p.frame({12, 1, frame_kind::fragment, 0x21, 0, 0}, {0, 0});
  expect_down(errc::malformed_frame);
}

TEST_F(HostileWords, FlagsThatCannotBeBeforeHello) {
  raw_peer early;
  early.preamble();
  early.frame({8, 1, frame_kind::message, 0x21, 0, 0}, {0});
  EXPECT_EQ(early.fault(), errc::malformed_frame);
}

// ---- data

TEST_F(HostileWords, DataBehindFin) {
  say::control c;
  c.fin = true;
  p.control(c);
  p.message(1, 0, 10);
  EXPECT_EQ(p.abort_of(1), errc::bad_state);
}

TEST_F(HostileWords, AMessageAboveTheServicesLimit) {
  p.host.with.service_message_bytes_max = 1000;
  p.open(5);
  p.message(5, 0, 2000);
  expect_aborted(5, errc::message_too_large);
  p.open(7);
  p.first_fragment(7, 2048, 1024);
  expect_aborted(7, errc::message_too_large);
}

TEST_F(HostileWords, FragmentsWhenNoMessageIsLeft) {
  p.host.with.ration = {64 << 10, 2, 4};
  p.host.consumes = false;
  p.open(5);
  p.message(5, 0, 10);
  p.message(5, 0, 10);
  p.first_fragment(5, 2048, 1024);
  EXPECT_EQ(p.abort_of(5), errc::credit_exceeded);
}

TEST_F(HostileWords, MoreThanThereIsMemory) {
  auto s = server_settings();
  s.link.message_bytes_max = uint64_t{1} << 41;
  s.inbound = {uint64_t{1} << 43, 0};
  s.ration = {uint64_t{1} << 42, 512, 4};
  raw_peer large{s};
  large.hello();
  large.open(1);
  large.first_fragment(1, uint64_t{1} << 40, 4096);
  EXPECT_EQ(large.abort_of(1), errc::no_budget);
  EXPECT_FALSE(large.host.link.is_down());
}

TEST_F(HostileWords, AVoidOfAnotherMessage) {
  p.first_fragment(1, 8192, 4096, 1, call_id(0, 1));
  p.fragment(1, 0, void_in_normal, call_id(1, 1));
  expect_aborted(1, errc::bad_state);
}

TEST_F(HostileWords, NonsenseOnATombstoneCostsNothing) {
  p.host.link.abort(*harmed, errc::cancelled, {});
  p.said();
  auto owed = p.host.inbound.charged(charge::session);
  p.fragment(1, 8, 1); // no length
  p.first_fragment(1, 7, 1024);
  p.first_fragment(1, 0, 1024, last_in_normal);
  p.first_fragment(1, uint64_t{1} << 62, 1024);
  p.fragment(1, 0, void_in_normal);
  p.message(1, 0, 10, lane::reply);
  p.expect_lives();
  EXPECT_LE(p.host.inbound.charged(charge::session), owed);
}

TEST_F(HostileWords, AnItemBehindOurCloseIsDelivered) {
  p.host.link.close(*harmed);
  EXPECT_EQ(p.said().closes.size(), 1u);
  p.message(1, 0, 10);
  EXPECT_EQ(p.host.count(type::item), 1u);
  say(&say::control::closeds, say::closed{1, 0, harmed->in().received()});
  EXPECT_EQ(p.host.last(type::ended)->why.code, errc::none);
}

// ---- credit

TEST_F(HostileWords, BlockedBehindItsOwnClose) {
  p.host.consumes = false;
  p.message(1, 0, 10);
  say(&say::control::closes, say::close{1, harmed->in().received()});
  say(&say::control::blockeds, say::blocked{1, {0, {}, 1000, 0}});
  p.host.consumes = true;
  p.host.consume_all();
  expect_aborted(1, errc::bad_state);
}

TEST_F(HostileWords, NothingIsSaidOfCreditBehindItsClose) {
  auto limit = harmed->in().granted();
  p.message(1, 0, 30'000);                                             // worth a grant
  say(&say::control::blockeds, say::blocked{3, {0, {}, 64 << 20, 0}}); // and this one's is unfunded
  p.host.link.reclaim(*p.host.last(type::open)->on);
  say::control c;
  c.closes.push_back({1, harmed->in().received()});
  c.closes.push_back({3, {}});
  p.control(c);
  EXPECT_TRUE(harmed->in().granted().within(limit)) << "what was not used is back";
  auto said = p.said();
  EXPECT_EQ(said.closeds.size(), 2u);
  EXPECT_TRUE(said.grants.empty());
  EXPECT_TRUE(said.unfundeds.empty());
  EXPECT_TRUE(said.reclaims.empty());
}

TEST_F(HostileWords, AnAbortBehindOurClosedIsNotAnsweredAgain) {
  p.host.link.close(*harmed);
  EXPECT_EQ(p.said().closes.size(), 1u);
  say(&say::control::closes, say::close{1, {}});
  EXPECT_EQ(p.said().closeds.size(), 1u);
  say(&say::control::aborts, say::abort{1, errc::cancelled, "", {}});
  EXPECT_TRUE(p.said().closeds.empty());
  EXPECT_EQ(p.host.count(type::ended), 1u);
  EXPECT_EQ(p.host.link.session_count(), 1u);
  p.expect_lives();
}

TEST_F(HostileWords, AReclaimedLimitBelowWhatHasCome) {
  p.message(1, 0, 10'000);
  p.host.link.reclaim(*harmed);
  ASSERT_EQ(p.said().reclaims.size(), 1u);
  say(&say::control::reclaimeds, say::reclaimed{1, 1, {100, 1}});
  expect_aborted(1, errc::bad_state);
}

TEST_F(HostileWords, AReclaimThatCrossesOurCloseIsAnsweredByIt) {
  p.host.link.close(*harmed);
  EXPECT_EQ(p.said().closes.size(), 1u);
  say(&say::control::reclaims, say::reclaim{1, 1});
  EXPECT_TRUE(p.said().reclaimeds.empty());
  say(&say::control::closes, say::close{1, {}});
  EXPECT_EQ(p.said().closeds.size(), 1u);
  say(&say::control::reclaims, say::reclaim{1, 2});
  EXPECT_TRUE(p.said().reclaimeds.empty());
  p.expect_lives();
}

TEST_F(HostileWords, AReclaimThatIsNotAnswered) {
  p.host.link.reclaim(*harmed);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(p.abort_of(1), errc::none);
    p.now += seconds{1};
    p.message(3, 0, 8); // it says other things
    p.host.link.tick(p.now);
    p.host.fetch();
  }
  expect_aborted(1, errc::fragment_timeout);
}

TEST_F(HostileWords, ALargeMessageThatComesSlowlyKeepsItsFunds) {
  say(&say::control::blockeds, say::blocked{1, {0, harmed->in().granted(), 200'000, 200'000}});
  ASSERT_GE(p.host.inbound.charged(charge::large), 100'000u);
  auto later = [&](int s) {
    p.now += seconds{s};
    p.message(3, 0, 8);
    p.host.link.tick(p.now);
  };
  later(8);
  p.first_fragment(1, 200'000 - message_overhead_bytes, 65536);
  later(8); // since it was funded 16 s, since a fragment 8
  EXPECT_TRUE(p.said().reclaims.empty());
  p.fragment(1, 65536);
  later(8);
  p.fragment(1, 200'000 - message_overhead_bytes - 2 * 65536, last_in_normal);
  EXPECT_EQ(harmed->in().received().messages, 1u) << "of no Cap'n Proto message, but it came whole";
}

TEST_F(HostileWords, FundsThatAreAskedBackAlreadyAreNotAskedBackTwice) {
  say(&say::control::blockeds, say::blocked{1, {0, harmed->in().granted(), 200'000, 200'000}});
  auto later = [&](int s) {
    p.now += seconds{s};
    p.message(3, 0, 8);
    p.host.link.tick(p.now);
  };
  later(5);
  p.host.link.reclaim(*harmed);
  later(5);
  later(4);
  EXPECT_EQ(p.said().reclaims.size(), 1u);
  say(&say::control::reclaimeds, say::reclaimed{1, 1, {16 << 10, 16}});
  auto grants = p.said().grants;
  ASSERT_FALSE(grants.empty());
  EXPECT_EQ(grants.back().limit.bytes, 200'000u) << "it still waits, so it is funded again";
  p.expect_lives();
}

TEST_F(HostileWords, UnfundedWithoutAReasonIsNoBudget) {
  say(&say::control::opens, say::open{5, "source", 0, true, 0, {200, 1}});
  p.host.post(*p.host.last(type::open)->on, test::bytes(1000));
  for (auto reason : {errc::none, errc::message_too_large}) {
    auto said = p.said();
    ASSERT_EQ(said.blockeds.size(), 1u);
    say(&say::control::unfundeds, say::unfunded{5, said.blockeds[0].state.need, reason});
    ASSERT_NE(p.host.last(type::failed), nullptr);
    EXPECT_EQ(p.host.last(type::failed)->why.code,
              reason == errc::none ? errc::no_budget : errc::message_too_large);
    EXPECT_EQ(p.host.outbound.bytes(), 0u);
    p.host.post(*p.host.last(type::open)->on, test::bytes(1000));
  }
}

// ---- ends

TEST_F(HostileWords, ACloseWithinFragments) {
  p.first_fragment(1, 8192, 4096);
  say(&say::control::closes, say::close{1, harmed->in().received()});
  expect_aborted(1, errc::bad_state);
}

TEST_F(HostileWords, TwoCloses) {
  p.host.consumes = false;
  p.message(1, 0, 10);
  say(&say::control::closes, say::close{1, harmed->in().received()});
  say(&say::control::closes, say::close{1, harmed->in().received()});
  p.host.consumes = true;
  p.host.consume_all();
  expect_aborted(1, errc::bad_state);
}

TEST_F(HostileWords, TwoCloseds) {
  p.host.consumes = false;
  p.message(1, 0, 10);
  p.host.link.close(*harmed);
  EXPECT_EQ(p.said().closes.size(), 1u);
  say(&say::control::closes, say::close{1, harmed->in().received()});
  say(&say::control::closeds, say::closed{1, 0, harmed->in().received()});
  EXPECT_EQ(p.host.count(type::ended), 0u) << "we have to say it as well";
  say(&say::control::closeds, say::closed{1, 0, harmed->in().received()});
  ASSERT_EQ(p.host.count(type::ended), 1u);
  EXPECT_EQ(p.host.last(type::ended)->why.code, errc::bad_state);
  auto said = p.said();
  EXPECT_TRUE(said.aborts.empty());
  EXPECT_EQ(said.closeds.size(), 1u) << "what is said behind the peer's last word";
  p.host.consumes = true;
  p.host.consume_all();
  p.expect_lives();
}

TEST_F(HostileWords, FinalCountsOfAClosedThatCannotBe) {
  p.host.link.close(*harmed);
  p.said();
  say(&say::control::closeds, say::closed{1, 0, {offset_max, 1}});
  expect_down(errc::bad_state);
}

// ---- calls, as their callee

TEST_F(HostileWords, ACancelTwiceIsOne) {
  p.host.answers = false;
  p.message(1, call_id(0, 1), 10);
  say::control c;
  c.cancels = {{1, call_id(0, 1)}, {1, call_id(0, 1)}};
  p.control(c);
  EXPECT_EQ(p.host.count(type::cancelled), 1u);
  EXPECT_EQ(p.said().cancelleds.size(), 1u);
  p.expect_lives();
}

TEST_F(HostileWords, ACancelOfAnAnswerInTheMiddleEndsItVoidOnce) {
  p.host.answers = false;
  p.message(1, call_id(0, 1), 10);
  p.host.answer(p.host.unanswered[0], test::bytes(1'000'000));
  auto needs = p.said().needs;
  ASSERT_EQ(needs.size(), 1u);
  say(&say::control::funds, say::room{1, call_id(0, 1), needs[0].bytes});
  hand_over();
  say::control c;
  c.cancels = {{1, call_id(0, 1)}, {1, call_id(0, 1)}};
  p.control(c);
  p.frames.clear();
  EXPECT_TRUE(p.said().cancelleds.empty()) << "the void says it";
  size_t voids = 0;
  for (auto& f : p.frames)
    voids += (f.flags & flag::void_) != 0;
  EXPECT_EQ(voids, 1u);
  EXPECT_LT(p.frames.size(), 10u) << "not all of it";
  EXPECT_EQ(p.host.outbound.bytes(), 0u);
  EXPECT_EQ(harmed->answers_open(), 0u);
}

TEST_F(HostileWords, AFundThatNobodyNeeds) {
  p.host.answers = false;
  p.message(1, call_id(0, 1), 10);
  say(&say::control::funds, say::room{1, call_id(0, 1), 1 << 20});
  p.host.answer(p.host.unanswered[0], test::bytes(100'000));
  EXPECT_EQ(p.said().needs.size(), 1u) << "the room is what it was";
  p.expect_lives();
}

// ---- calls, as their caller

/// Session 2 is ours. Before `opened`, and with one call when it has come.
struct HostileAnswers : HostileWords {
  session* s = nullptr;
  uint32_t call = 0;

  void SetUp() override {
    HostileWords::SetUp();
    s = &p.host.open();
    p.said();
  }
  void opened(position limit = {4 << 20, 100}) {
    say(&say::control::openeds, say::opened{2, limit, 0});
    p.host.call(*s, "x");
    call = call_id(0, 1);
    p.said();
  }
  void cancel() {
    p.host.link.cancel(*s, call, errc::cancelled);
    EXPECT_EQ(p.said().cancels.size(), 1u);
  }
};

TEST_F(HostileAnswers, WordsBeforeOpened) {
  for (int i = 0; i < 3; ++i) {
    auto& early = p.host.open();
    p.said();
    if (i == 0)
      say(&say::control::reclaims, say::reclaim{early.id(), 1});
    if (i == 1)
      say(&say::control::blockeds, say::blocked{early.id(), {0, {}, 1000, 0}});
    if (i == 2)
      say(&say::control::closes, say::close{early.id(), {}});
    expect_aborted(early.id(), errc::bad_state);
  }
}

TEST_F(HostileAnswers, AnOpenedWhoseLimitOverflows) {
  say(&say::control::openeds, say::opened{2, {1, offset_max + 1}, 0});
  expect_aborted(2, errc::grant_overflow);
}

TEST_F(HostileAnswers, TwoOpeneds) {
  opened();
  say(&say::control::openeds, say::opened{2, {1, 1}, 0});
  expect_aborted(2, errc::bad_state);
}

TEST_F(HostileAnswers, ARefusalBehindOpened) {
  opened();
  say(&say::control::refuseds, say::refused{2, errc::no_budget, "no", true});
  expect_aborted(2, errc::bad_state);
}

TEST_F(HostileAnswers, AnAnswerWithoutACall) {
  opened();
  p.message(2, 0, 10, lane::reply);
  expect_aborted(2, errc::bad_state);
}

TEST_F(HostileAnswers, AnAnswerThatIsNoMessage) {
  opened();
  p.frame({24, 2, frame_kind::message, in_reply, 0, call}, {~uint64_t{0}, 1, 2});
  expect_aborted(2, errc::malformed_message);
}

TEST_F(HostileAnswers, AnAnswerInFragmentsThatIsNoMessage) {
  opened();
  p.first_fragment(2, 2048, 1024, in_reply, call);
  p.fragment(2, 1024, last_in_reply, call);
  expect_aborted(2, errc::malformed_message);
}

TEST_F(HostileAnswers, AnAnswerInFragmentsThatEndsTooEarly) {
  opened();
  p.first_fragment(2, 2048, 1024, in_reply, call);
  p.fragment(2, 512, last_in_reply, call);
  expect_aborted(2, errc::malformed_message);
}

TEST_F(HostileAnswers, AnAnswerToACallThatHasNotLeft) {
  for (auto in_fragments : {false, true}) {
    if (in_fragments) {
      s = &p.host.open();
      p.said();
    }
    say(&say::control::openeds, say::opened{s->id(), {100, 1}, 0});
    p.host.call(*s, "waits for credit");
    if (in_fragments)
      p.first_fragment(s->id(), 2048, 1024, in_reply, call_id(0, 1));
    else
      p.message(s->id(), call_id(0, 1), 10, lane::reply);
    expect_aborted(s->id(), errc::bad_state);
  }
}

TEST_F(HostileAnswers, AnAnswerToACallOfWhichAPartHasLeft) {
  for (auto in_fragments : {false, true}) {
    if (in_fragments) {
      s = &p.host.open();
      p.said();
    }
    say(&say::control::openeds, say::opened{s->id(), {4 << 20, 100}, 0});
    p.host.call(*s, test::bytes(1'000'000));
    hand_over();
    if (in_fragments)
      p.first_fragment(s->id(), 2048, 1024, in_reply, call_id(0, 1));
    else
      p.message(s->id(), call_id(0, 1), 10, lane::reply);
    EXPECT_EQ(p.host.last(type::ended)->why.code, errc::bad_state);
    EXPECT_EQ(p.host.last(type::failed)->why.what, outcome::not_executed);
  }
}

TEST_F(HostileAnswers, ANeedOfACallThatHasNotLeft) {
  opened({100, 1});
  say(&say::control::needs, say::room{2, call, 100'000});
  expect_aborted(2, errc::bad_state);
}

TEST_F(HostileAnswers, ANeedThatCrossesACancelIsNotAnswered) {
  opened();
  cancel();
  say(&say::control::needs, say::room{2, call, 100'000});
  EXPECT_TRUE(p.said().funds.empty());
  EXPECT_EQ(s->now(), session::state::open);
}

TEST_F(HostileAnswers, AnAnswerThatCrossesACancelEndsTheCall) {
  opened();
  p.first_fragment(2, 2048, 1024, in_reply, call);
  EXPECT_NE(p.host.memory->alive_bytes(), 0u);
  cancel();
  EXPECT_EQ(p.host.memory->alive_bytes(), 0u) << "nobody wants the rest";
  p.fragment(2, 1024, last_in_reply, call);
  EXPECT_EQ(s->calls_open(), 0u);
  EXPECT_EQ(p.host.count(type::reply), 0u);
  EXPECT_EQ(p.host.inbound.charged(charge::reply_room), 0u);
  p.expect_lives();
}

TEST_F(HostileAnswers, AnAnswerThatBeginsBehindACancelTakesNoMemory) {
  opened();
  cancel();
  p.first_fragment(2, 2048, 1024, in_reply, call);
  EXPECT_EQ(p.host.memory->alive_bytes(), 0u);
  p.fragment(2, 1024, last_in_reply, call);
  EXPECT_EQ(s->calls_open(), 0u);
  p.expect_lives();
}

TEST_F(HostileAnswers, AnAnswerToNobodyIsCountedToItsEnd) {
  opened();
  auto nobody = call_id(7, 7);
  p.first_fragment(2, 1 << 20, 1024, in_reply, nobody);
  p.fragment(2, 1024, in_reply, nobody);
  EXPECT_EQ(p.host.memory->alive_bytes(), 0u);
  p.fragment(2, 0, void_in_reply, nobody);
  p.first_fragment(2, 2048, 1024, in_reply, nobody);
  p.fragment(2, 1024, last_in_reply, nobody);
  EXPECT_EQ(p.host.link.late_frames(), 1u);
  EXPECT_EQ(s->calls_open(), 1u) << "ours still waits";
  p.expect_lives();
}

TEST_F(HostileAnswers, AnAnswerThatIsGivenUpUnasked) {
  opened();
  p.first_fragment(2, 2048, 1024, in_reply, call);
  p.fragment(2, 0, void_in_reply, call);
  expect_aborted(2, errc::bad_state);
}

} // namespace
} // namespace weir::net
