#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "tests/support/raw_peer.hpp"

// What a broken or hostile peer may say: refused with a reason that it can read, and the node is unharmed.
namespace weir::net {
namespace {
using std::chrono::seconds;
using test::raw_peer;
using test::server_settings;
using type = event::type;

struct Hostile : testing::Test {
  raw_peer p;

  /// The same from the beginning.
  void restart(const test::peer::settings& s = server_settings()) {
    std::destroy_at(&p);
    std::construct_at(&p, s);
  }
  void expect_down(errc e) {
    EXPECT_EQ(p.fault(), e);
    ASSERT_NE(p.host.last(type::down), nullptr);
    EXPECT_EQ(p.host.last(type::down)->why.code, e);
    EXPECT_EQ(p.host.inbound.liability(), p.host.with.inbound.reserve_bytes);
    EXPECT_EQ(p.host.memory->alive_bytes(), 0u);
  }
  /// The session is aborted, the link and its other session live.
  void expect_aborted(uint32_t id, errc e) {
    EXPECT_EQ(p.abort_of(id), e);
    ASSERT_NE(p.host.last(type::ended), nullptr);
    EXPECT_EQ(p.host.last(type::ended)->why.code, e);
    p.expect_lives();
  }
};

// ---- before hello

TEST_F(Hostile, WrongMagic) {
  p.bytes("GET / HTTP/1.1\r\n", 16);
  expect_down(errc::bad_magic);
}

TEST_F(Hostile, WrongVersion) {
  std::byte b[preamble_bytes];
  write_preamble(b);
  b[4] = std::byte{2};
  p.bytes(b, sizeof b);
  expect_down(errc::bad_version);
}

TEST_F(Hostile, NoVersionInCommon) {
  p.preamble();
  say::control c;
  c.hello = p.hello_fields();
  c.hello->version_min = 2, c.hello->version_max = 9;
  p.control(c);
  expect_down(errc::bad_version);
}

TEST_F(Hostile, WrongCluster) {
  p.preamble();
  say::control c;
  c.hello = p.hello_fields();
  c.hello->cluster = "other";
  p.control(c);
  expect_down(errc::wrong_cluster);
}

TEST_F(Hostile, AFrameLimitThatFitsNoControl) {
  p.preamble();
  say::control c;
  c.hello = p.hello_fields();
  c.hello->frame_max = 1024;
  p.control(c);
  expect_down(errc::malformed_control);
}

TEST_F(Hostile, ControlBeforeHello) {
  p.preamble();
  say::control c;
  c.ping = 1;
  p.control(c);
  expect_down(errc::bad_state);
}

TEST_F(Hostile, DataBeforeHello) {
  p.preamble();
  p.message(1, 0, 10);
  expect_down(errc::bad_state);
}

TEST_F(Hostile, HelloTwice) {
  p.hello();
  say::control c;
  c.hello = p.hello_fields();
  p.control(c);
  expect_down(errc::bad_state);
}

TEST_F(Hostile, HalfAHelloAndThenSilence) {
  p.preamble();
  p.bytes("\x40\0\0\0", 4);
  p.now += seconds{5};
  p.host.link.tick(p.now);
  p.host.fetch();
  expect_down(errc::hello_timeout);
}

// ---- frames

TEST_F(Hostile, UnknownKind) {
  p.two_sessions();
  p.frame({8, 1, frame_kind{9}, 1, 0, 0}, {0});
  expect_down(errc::malformed_frame);
}

TEST_F(Hostile, GarbageInsteadOfALength) { // L6
  p.two_sessions();
  p.frame({0xfffffff8, 1, frame_kind::message, 1, 0, 0}, {});
  expect_down(errc::frame_too_large);
}

TEST_F(Hostile, ALengthThatIsNotPadded) {
  p.two_sessions();
  p.frame({12, 1, frame_kind::message, 1, 0, 0}, {0, 0});
  expect_down(errc::malformed_frame);
}

TEST_F(Hostile, OversizeControl) {
  p.two_sessions();
  p.frame({control_bytes_max + 8, 0, frame_kind::control, 0, 0, 0}, {});
  expect_down(errc::control_too_large);
}

TEST_F(Hostile, FlagsThatCannotBeCostOnlyTheSession) {
  p.two_sessions();
  p.frame({8, 1, frame_kind::message, 0x21, 0, 0}, {0});
  expect_aborted(1, errc::malformed_frame);
}

TEST_F(Hostile, AHeaderIsJudgedBeforeItsBodyComes) {
  p.two_sessions();
  frame_header h{0x7ffffff8, 1, frame_kind::message, 1, 0, 0};
  p.bytes(&h, sizeof h);
  expect_down(errc::frame_too_large);
}

TEST_F(Hostile, AnUnknownSession) {
  p.two_sessions();
  p.message(5, 0, 10);
  expect_down(errc::unknown_session);
}

TEST_F(Hostile, ASessionOfOursThatWasNeverOpened) {
  p.two_sessions();
  p.message(2, 0, 10);
  expect_down(errc::unknown_session);
}

TEST_F(Hostile, ALateFrameIsDiscardedAndCounted) {
  p.two_sessions();
  say::control c;
  c.aborts.push_back({1, errc::cancelled, "", {}});
  p.control(c);
  p.said(); // `closed`
  p.message(1, 0, 10);
  p.message(1, 0, 10);
  EXPECT_FALSE(p.host.link.is_down());
  EXPECT_EQ(p.host.link.late_frames(), 2u);
}

// ---- messages

TEST_F(Hostile, MoreBytesThanGranted) {
  p.two_sessions();
  p.host.consumes = false;
  for (int i = 0; i < 3; ++i)
    p.message(1, 0, 20'000);
  EXPECT_EQ(p.abort_of(1), errc::none);
  p.message(1, 0, 20'000);
  p.host.consumes = true;
  p.host.consume_all();
  expect_aborted(1, errc::credit_exceeded);
}

TEST_F(Hostile, MoreMessagesThanGranted) {
  auto s = server_settings();
  s.ration = {64 << 10, 2, 4};
  restart(s);
  p.two_sessions();
  p.host.consumes = false;
  for (int i = 0; i < 3; ++i)
    p.message(1, 0, 8);
  EXPECT_EQ(p.abort_of(1), errc::credit_exceeded);
}

TEST_F(Hostile, ARunOfBytesThatIsNoMessage) {
  p.two_sessions();
  p.frame({24, 1, frame_kind::message, 1, 0, 0}, {~uint64_t{0}, 1, 2});
  expect_aborted(1, errc::malformed_message);
}

TEST_F(Hostile, ARequestWithoutAnEnvelope) {
  p.two_sessions();
  p.frame({16, 1, frame_kind::message, 1, 100, call_id(0, 1)}, {uint64_t{1} << 32, 0});
  expect_aborted(1, errc::malformed_message);
}

TEST_F(Hostile, AnAnswerToNobody) {
  p.two_sessions();
  p.message(1, call_id(0, 1), 10, lane::reply);
  expect_aborted(1, errc::bad_state);
}

TEST_F(Hostile, ARequestOnAStream) {
  p.two_sessions();
  p.open(5, true);
  p.message(5, call_id(0, 1), 10);
  expect_aborted(5, errc::bad_state);
}

TEST_F(Hostile, MoreCallsThanAllowed) {
  auto s = server_settings();
  s.link.calls_max = 4;
  restart(s);
  p.two_sessions();
  p.host.answers = false;
  for (uint16_t i = 0; i < 4; ++i)
    p.message(1, call_id(i, 1), 10);
  EXPECT_EQ(p.abort_of(1), errc::none);
  p.message(1, call_id(4, 1), 10);
  expect_aborted(1, errc::too_many_calls);
}

TEST_F(Hostile, ACallOnASlotThatIsTaken) {
  p.two_sessions();
  p.host.answers = false;
  p.message(1, call_id(0, 1), 10);
  p.message(1, call_id(0, 2), 10);
  expect_aborted(1, errc::bad_state);
}

TEST_F(Hostile, DataBeforeTheSessionWasAccepted) {
  p.two_sessions();
  p.host.accepts = false;
  p.open(5);
  p.message(5, 0, 10);
  auto said = p.said();
  ASSERT_EQ(said.refuseds.size(), 1u);
  EXPECT_EQ(said.refuseds[0].reason, errc::bad_state);
  EXPECT_EQ(p.host.last(type::ended)->on->id(), 5u);
  EXPECT_FALSE(p.host.link.is_down());
}

// ---- fragments

constexpr uint8_t normal = 1, last = 1 | flag::last, ends_void = 1 | flag::last | flag::void_;

TEST_F(Hostile, AMessageThatClaimsToBeEndless) { // M2
  p.two_sessions();
  p.first_fragment(1, uint64_t{1} << 40, 4096);
  expect_aborted(1, errc::message_too_large);
}

TEST_F(Hostile, ALargeMessageThatWasNotFunded) {
  p.two_sessions();
  p.first_fragment(1, 1 << 20, 4096);
  expect_aborted(1, errc::credit_exceeded);
}

TEST_F(Hostile, MoreFragmentsThanTheLengthSaid) {
  p.two_sessions();
  p.first_fragment(1, 8192, 4096);
  p.fragment(1, 4104);
  expect_aborted(1, errc::malformed_message);
}

TEST_F(Hostile, AnEndBeforeTheEnd) {
  p.two_sessions();
  p.first_fragment(1, 8192, 4096);
  p.fragment(1, 1024, last);
  expect_aborted(1, errc::malformed_message);
}

TEST_F(Hostile, NoEndAtTheEnd) {
  p.two_sessions();
  p.first_fragment(1, 8192, 8192);
  expect_aborted(1, errc::malformed_message);
}

TEST_F(Hostile, LengthsThatAreNoLengths) {
  for (uint64_t total : {uint64_t{0}, uint64_t{7}, uint64_t{16}, ~uint64_t{0}, ~uint64_t{7}}) {
    restart();
    p.two_sessions();
    p.first_fragment(1, total, 4096);
    EXPECT_NE(p.abort_of(1), errc::none) << total;
    EXPECT_FALSE(p.host.link.is_down());
  }
}

TEST_F(Hostile, AFirstFragmentWithoutALength) {
  p.two_sessions();
  p.fragment(1, 8);
  expect_aborted(1, errc::malformed_message);
}

TEST_F(Hostile, AMessageWithinAMessage) {
  p.two_sessions();
  p.first_fragment(1, 8192, 4096);
  p.message(1, 0, 10);
  expect_aborted(1, errc::bad_state);
}

TEST_F(Hostile, FragmentsOfTwoMessagesInOneLane) {
  p.two_sessions();
  p.first_fragment(1, 8192, 4096, normal, call_id(0, 1));
  p.fragment(1, 4096, last, call_id(1, 1));
  expect_aborted(1, errc::bad_state);
}

TEST_F(Hostile, TheEndOfNothing) {
  p.two_sessions();
  p.fragment(1, 0, ends_void);
  expect_aborted(1, errc::bad_state);
}

TEST_F(Hostile, FragmentsThatDoNotGoOn) {
  p.two_sessions();
  p.first_fragment(1, 8192, 4096);
  for (int i = 0; i < 11; ++i) { // it says other things meanwhile
    p.now += seconds{1};
    p.message(3, 0, 8);
    p.host.link.tick(p.now);
    p.host.fetch();
  }
  expect_aborted(1, errc::fragment_timeout);
}

TEST_F(Hostile, PromisedCreditIsNotSpentTwice) {
  p.two_sessions();
  p.host.consumes = false;
  p.first_fragment(1, 40'000, 4096);
  p.message(1, 0, 30'000, lane::bulk);
  EXPECT_EQ(p.abort_of(1), errc::credit_exceeded);
  p.host.consume_all();
  p.said();
  say::control c;
  c.closeds.push_back({1, 0, {4096 + 128, 1}});
  p.control(c);
  EXPECT_EQ(p.host.inbound.charged(charge::session), 64u << 10) << "of session 3";
}

TEST_F(Hostile, AReclaimedLimitBelowWhatItsFragmentsHavePromised) {
  p.hello();
  auto& s = p.open(1);
  p.open(3); // for the control
  p.first_fragment(1, 40'000, 4096);
  p.host.link.reclaim(s);
  ASSERT_EQ(p.said().reclaims.size(), 1u);
  say::control c;
  c.reclaimeds.push_back({1, 1, {4096 + 128, 1}});
  p.control(c);
  expect_aborted(1, errc::bad_state);
}

TEST_F(Hostile, AWrongEndLeavesNothingCharged) {
  p.two_sessions();
  p.first_fragment(1, 8192, 4096);
  p.fragment(1, 1024, last);
  EXPECT_EQ(p.abort_of(1), errc::malformed_message);
  say::control c;
  c.closeds.push_back({1, 0, {4096 + 1024 + 128, 1}});
  p.control(c);
  EXPECT_EQ(p.host.inbound.charged(charge::session), 64u << 10) << "of session 3";
}

// ---- control

TEST_F(Hostile, ControlThatIsNoMessage) {
  p.two_sessions();
  p.frame({16, 0, frame_kind::control, 0, 0, 0}, {~uint64_t{0}, 0});
  expect_down(errc::malformed_control);
}

TEST_F(Hostile, ASessionIdOfOurs) {
  p.hello();
  say::control c;
  c.opens.push_back({2, "echo", 0, false, 0, {}});
  p.control(c);
  expect_down(errc::bad_state);
}

TEST_F(Hostile, ASessionIdAgain) {
  p.two_sessions();
  say::control c;
  c.opens.push_back({3, "echo", 0, false, 0, {}});
  p.control(c);
  expect_down(errc::bad_state);
}

TEST_F(Hostile, MoreSessionsThanAllowed) {
  auto s = server_settings();
  s.link.sessions_max = 2;
  restart(s);
  p.two_sessions();
  say::control c;
  c.opens.push_back({5, "echo", 0, false, 0, {}});
  p.control(c);
  expect_down(errc::too_many_sessions);
}

TEST_F(Hostile, RefusalsThatArePiledUpCount) {
  auto s = server_settings();
  s.link.sessions_max = 10;
  restart(s);
  p.hello();
  p.host.accepts = false;
  for (uint32_t id = 1; id <= 19; id += 2) {
    auto& one = p.open(id);
    p.host.link.refuse(one, errc::no_such_service, "no", false);
  }
  EXPECT_FALSE(p.host.link.is_down());
  say::control c;
  c.opens.push_back({21, "echo", 0, false, 0, {}});
  p.control(c); // it has read none of them
  EXPECT_TRUE(p.host.link.is_down());
}

TEST_F(Hostile, AGrantThatOverflows) {
  p.two_sessions();
  say::control c;
  c.grants.push_back({1, 0, {~uint64_t{0}, 1}, 0, errc::none});
  p.control(c);
  expect_aborted(1, errc::grant_overflow);
}

TEST_F(Hostile, AnOpenWithALimitThatOverflows) {
  p.hello();
  say::control c;
  c.opens.push_back({1, "echo", 0, false, 0, {offset_max + 1, 0}});
  p.control(c);
  auto said = p.said();
  ASSERT_EQ(said.refuseds.size(), 1u);
  EXPECT_EQ(said.refuseds[0].reason, errc::grant_overflow);
}

TEST_F(Hostile, AGrantOfAnotherEpochLowersNothing) {
  p.two_sessions();
  auto& s = *p.host.last(type::open)->on;
  p.host.post(s, "x");
  p.said();
  say::control c;
  c.grants.push_back({3, 7, {1, 1}, 0, errc::none});
  p.control(c);
  EXPECT_EQ(s.out().limit(), (position{1 << 20, 1000}));
}

TEST_F(Hostile, APeerThatGrantsEverythingAndNeverReads) { // M2
  p.two_sessions();
  auto& s = *p.host.last(type::open)->on;
  say::control c;
  c.grants.push_back({3, 0, {offset_max, offset_max}, 0, errc::none});
  p.control(c);
  uint64_t posted = 0;
  while (p.host.link.post(s, test::build_message(std::string(10'000, 'x')), lane::normal))
    ++posted;
  EXPECT_LE(p.host.outbound.bytes(), p.host.with.outbound_bytes);
  EXPECT_GT(posted, 1000u);
}

TEST_F(Hostile, ANeedThatOverflows) {
  p.two_sessions();
  say::control c;
  c.blockeds.push_back({1, {0, {0, 0}, ~uint64_t{0}, 0}});
  p.control(c);
  expect_aborted(1, errc::grant_overflow);
}

TEST_F(Hostile, ANeedAboveEveryLimitIsAnswered) {
  p.two_sessions();
  say::control c;
  c.blockeds.push_back({1, {0, {64 << 10, 512}, uint64_t{1} << 40, 0}});
  p.control(c);
  auto said = p.said();
  ASSERT_EQ(said.unfundeds.size(), 1u);
  EXPECT_EQ(said.unfundeds[0].reason, errc::message_too_large);
  EXPECT_EQ(p.host.inbound.charged(charge::large), 0u);
}

TEST_F(Hostile, BlockedIsAlwaysAnswered) {
  p.two_sessions();
  say::control c;
  c.blockeds.push_back({1, {0, {64 << 10, 512}, 70'000, 0}});
  for (int i = 0; i < 3; ++i) {
    p.control(c);
    EXPECT_EQ(p.said().grants.size(), 1u);
  }
}

TEST_F(Hostile, FinalCountsThatCannotBe) {
  p.two_sessions();
  p.message(1, 0, 10);
  say::control c;
  c.aborts.push_back({1, errc::cancelled, "", {1, 1}});
  p.control(c);
  expect_down(errc::bad_state);
}

TEST_F(Hostile, ACloseThatForgetsData) {
  p.two_sessions();
  p.message(1, 0, 10);
  say::control c;
  c.closes.push_back({1, {0, 0}});
  p.control(c);
  expect_aborted(1, errc::bad_state);
}

TEST_F(Hostile, DataBehindAClose) {
  p.two_sessions();
  say::control c;
  c.closes.push_back({1, {0, 0}});
  p.control(c);
  p.message(1, 0, 10);
  EXPECT_EQ(p.abort_of(1), errc::bad_state);
}

TEST_F(Hostile, WordsThatAnswerNothing) {
  for (int i = 0; i < 5; ++i) {
    restart();
    p.two_sessions();
    say::control c;
    if (i == 0)
      c.openeds.push_back({1, {0, 0}, 0});
    if (i == 1)
      c.refuseds.push_back({1, errc::none, "", false});
    if (i == 2)
      c.closeds.push_back({1, 0, {0, 0}});
    if (i == 3)
      c.reclaimeds.push_back({1, 1, {0, 0}});
    if (i == 4)
      c.blockeds.push_back({1, {0, {0, 0}, ~uint64_t{0}, 0}});
    p.control(c);
    EXPECT_NE(p.abort_of(1), errc::none) << i;
    EXPECT_FALSE(p.host.link.is_down());
  }
}

TEST_F(Hostile, WordsAboutCallsNobodyMadeAreIgnored) {
  p.two_sessions();
  say::control c;
  c.cancels.push_back({1, 77});
  c.cancelleds.push_back({1, 77});
  c.needs.push_back({1, 77, 1 << 20});
  c.funds.push_back({1, 77, 1 << 20});
  c.unfundeds.push_back({1, 77, errc::no_budget});
  p.control(c);
  EXPECT_FALSE(p.host.link.is_down());
  EXPECT_EQ(p.host.count(type::ended), 0u);
}

TEST_F(Hostile, AFaultIsTheLastWord) {
  p.two_sessions();
  say::control c;
  c.fault = say::fault{errc::shutting_down, "bye"};
  p.control(c);
  EXPECT_EQ(p.host.last(type::down)->why.code, errc::shutting_down);
  EXPECT_EQ(p.host.last(type::down)->why.text, "bye");
  EXPECT_EQ(p.fault(), errc::none) << "it is not answered";
}

TEST_F(Hostile, OpenBehindFin) {
  p.hello();
  say::control c;
  c.fin = true;
  p.control(c);
  say::control again;
  again.opens.push_back({1, "echo", 0, false, 0, {}});
  p.control(again);
  expect_down(errc::bad_state);
}

// ---- a caller's view: an answering peer that lies

struct HostileCallee : Hostile {
  session* s = nullptr;
  uint32_t call = 0;

  void SetUp() override {
    p.hello();
    s = &p.host.open();
    p.said();
    say::control c;
    c.openeds.push_back({2, {1 << 20, 100}, 0});
    p.control(c);
    p.host.call(*s, "x");
    p.said();
    call = p.frames.back().id;
    ASSERT_NE(call, 0u);
    p.open(3); // for the control
    p.said();
  }
};

TEST_F(HostileCallee, AnAnswerBeyondItsRoom) {
  p.message(2, call, 10'000, lane::reply);
  expect_aborted(2, errc::credit_exceeded);
  EXPECT_EQ(p.host.inbound.charged(charge::reply_room), 0u);
}

TEST_F(HostileCallee, AnAnswerInFragmentsBeyondItsRoom) {
  p.first_fragment(2, 1 << 20, 4096, 0, call);
  expect_aborted(2, errc::credit_exceeded);
}

TEST_F(HostileCallee, TwoAnswers) {
  p.message(2, call, 10, lane::reply);
  p.message(2, call, 10, lane::reply);
  EXPECT_EQ(p.host.count(type::reply), 1u);
  EXPECT_EQ(p.host.link.late_frames(), 1u);
}

TEST_F(HostileCallee, ANeedThatIsNone) {
  say::control c;
  c.needs.push_back({2, call, 10});
  p.control(c);
  expect_aborted(2, errc::bad_state);
}

TEST_F(HostileCallee, ANeedTwice) {
  say::control c;
  c.needs.push_back({2, call, 100'000});
  p.control(c);
  EXPECT_EQ(p.said().funds.size(), 1u);
  c.needs[0].bytes = 200'000;
  p.control(c);
  expect_aborted(2, errc::bad_state);
}

TEST_F(HostileCallee, ANeedAboveEverything) {
  say::control c;
  c.needs.push_back({2, call, ~uint64_t{0}});
  p.control(c);
  auto said = p.said();
  ASSERT_EQ(said.funds.size(), 1u);
  EXPECT_EQ(said.funds[0].bytes, 0u);
}

TEST_F(HostileCallee, ANeedOfACallThatIsGivenUpIsNotAnsweredAnyMore) {
  say::control c;
  c.needs.push_back({2, call, 100'000});
  p.control(c);
  p.host.link.cancel(*s, call, errc::cancelled); // before the funds could be said
  auto said = p.said();
  EXPECT_EQ(said.cancels.size(), 1u);
  EXPECT_EQ(said.funds.size(), 0u);
}

TEST_F(HostileCallee, CancelledWithoutCancel) {
  say::control c;
  c.cancelleds.push_back({2, call});
  p.control(c);
  expect_aborted(2, errc::bad_state);
}

TEST_F(HostileCallee, AnItemWithoutARation) {
  p.message(2, 0, 10);
  expect_aborted(2, errc::credit_exceeded);
}

TEST_F(HostileCallee, ARequestOnOurSession) {
  p.message(2, call_id(0, 1), 10);
  expect_aborted(2, errc::bad_state);
}

} // namespace
} // namespace weir::net
