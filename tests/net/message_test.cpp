#include <gtest/gtest.h>

#include "net/message.hpp"
#include "net/wire.capnp.h"
#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {
using test::build_message;
using test::read_body;

/// The body of `m` in one piece, as a receiver sees it.
std::vector<uint64_t> body_of(const outgoing& m) {
  std::vector<uint64_t> words(m.body_bytes / 8);
  auto* to = reinterpret_cast<std::byte*>(words.data());
  std::memcpy(to, m.at + header_bytes, m.size - header_bytes);
  to += m.size - header_bytes;
  if (m.more)
    for (auto& p : *m.more)
      std::memcpy(std::exchange(to, to + p.size), p.at, p.size);
  return words;
}
message_view view_of(const std::vector<uint64_t>& words) {
  return {words.data(), static_cast<uint32_t>(words.size())};
}

TEST(Message, IsReadAsItWasBuilt) {
  auto words = body_of(build_message("hello"));
  ASSERT_TRUE(well_formed(view_of(words)));
  EXPECT_EQ(read_body(view_of(words)), "hello");
}

TEST(Message, TwoInARowLieBehindEachOther) {
  auto a = build_message("one");
  auto b = build_message("two");
  EXPECT_EQ(a.at + a.size, b.at);
  EXPECT_TRUE(a.memory == b.memory);
}

TEST(Message, AWrongGuessCostsPiecesAndNothingElse) {
  message_builder b{16};
  auto e = b.initRoot<wire::Envelope>();
  e.setInterface(42);
  auto list = e.getBody().initAs<capnp::List<capnp::Data>>(300);
  std::string text(1000, 'y');
  for (auto i = 0u; i < 300; ++i)
    list.set(i, kj::arrayPtr(reinterpret_cast<const capnp::byte*>(text.data()), text.size()));
  auto m = b.finish();
  ASSERT_TRUE(m.more);
  auto words = body_of(m);
  EXPECT_EQ(words.size() * 8, m.body_bytes);
  ASSERT_TRUE(well_formed(view_of(words)));
  envelope head;
  ASSERT_TRUE(read_envelope(view_of(words), head));
  EXPECT_EQ(head.interface, 42u);
  ASSERT_TRUE(read_envelope(m, head));
  EXPECT_EQ(head.interface, 42u);
  EXPECT_EQ(read_body(view_of(body_of(build_message("next")))), "next") << "the next one is not disturbed";
}

TEST(Message, WhatWasNotFinishedLeavesNoTrace) {
  build_message(std::string(40'000, 'x')); // from here the slab has room for all of this test
  auto before = build_message("before");
  {
    message_builder b{256};
    auto e = b.initRoot<wire::Envelope>();
    e.setInterface(~uint64_t{0});
    e.setTrace(~uint64_t{0});
    e.getBody().initAs<capnp::Data>(200'000); // lies in a segment that goes with the builder
  }
  message_builder b{256};
  b.initRoot<wire::Envelope>();
  auto m = b.finish();
  EXPECT_EQ(before.at + before.size, m.at);
  envelope head;
  ASSERT_TRUE(read_envelope(m, head));
  EXPECT_EQ(head.interface, 0u);
  EXPECT_EQ(head.trace, 0u);
}

TEST(Message, ABuilderInsideABuilderHasASlabOfItsOwn) {
  message_builder outer{64};
  auto e = outer.initRoot<wire::Envelope>();
  auto inner = build_message("inner");
  e.setInterface(3);
  auto m = outer.finish();
  EXPECT_FALSE(inner.memory == m.memory);
  EXPECT_EQ(read_body(view_of(body_of(inner))), "inner");
}

TEST(Message, RunsAreMadeOfNeighbours) {
  auto a = build_message("one"), b = build_message("two"), c = build_message("three");
  auto cost = a.cost() + b.cost();
  EXPECT_FALSE(a.extend(c));
  ASSERT_TRUE(a.extend(b));
  EXPECT_EQ(a.count, 2u);
  EXPECT_EQ(a.cost(), cost);
  EXPECT_TRUE(a.extend(c));
}

TEST(Message, ALargeMessageJoinsNoRun) {
  auto a = build_message(std::string(run_message_bytes_max, 'x'));
  auto b = build_message("two");
  EXPECT_FALSE(a.extend(b));
}

TEST(Message, ARunTakesNeighboursOfTheSameSlabOnly) {
  auto in_pieces = [] {
    message_builder b{16};
    b.initRoot<wire::Envelope>().getBody().initAs<capnp::Data>(200'000);
    return b.finish();
  };
  auto a = build_message("one"), b = build_message("two");
  auto pieces = in_pieces();
  ASSERT_TRUE(pieces.more);
  EXPECT_FALSE(a.extend(pieces));
  EXPECT_FALSE(pieces.extend(a));
  auto large = build_message(std::string(run_message_bytes_max, 'x'));
  auto behind = build_message("behind it");
  ASSERT_EQ(large.at + large.size, behind.at);
  EXPECT_FALSE(large.extend(behind));
  auto first = build_message("first");
  auto second = build_message(std::string(run_message_bytes_max, 'x'));
  ASSERT_EQ(first.at + first.size, second.at);
  EXPECT_FALSE(first.extend(second));
}

TEST(Message, ACopyIsTheSameInOnePiece) {
  message_builder b{16};
  auto list = b.initRoot<wire::Envelope>().getBody().initAs<capnp::List<capnp::Data>>(300);
  std::string text(1000, 'y');
  for (auto i = 0u; i < 300; ++i)
    list.set(i, kj::arrayPtr(reinterpret_cast<const capnp::byte*>(text.data()), text.size()));
  auto m = b.finish();
  ASSERT_TRUE(m.more);
  auto small = build_message("small");
  for (auto* from : {&m, &small}) {
    auto copy = copy_of(*from);
    EXPECT_FALSE(copy.more);
    EXPECT_FALSE(copy.memory == from->memory);
    EXPECT_EQ(copy.cost(), from->cost());
    EXPECT_EQ(copy.size, header_bytes + copy.body_bytes);
    EXPECT_EQ(body_of(copy), body_of(*from));
  }
}

TEST(Message, TheLastOneMayBeTakenBackAndItsPlaceIsUsedAgain) {
  build_message(std::string(40'000, 'x')); // from here the slab has room for all of this test
  auto before = build_message("before");
  auto kept = body_of(before);
  auto refused = build_message("refused, and not small either");
  auto* place = refused.at;
  message_builder::take_back(std::move(refused));
  message_builder b{256};
  b.initRoot<wire::Envelope>();
  auto m = b.finish();
  EXPECT_EQ(m.at, place);
  envelope head;
  ASSERT_TRUE(read_envelope(m, head));
  EXPECT_EQ(head.interface, 0u) << "the place is clean";
  EXPECT_EQ(body_of(before), kept);
}

TEST(Message, OnlyTheLastOneIsTakenBack) {
  build_message(std::string(40'000, 'x'));
  auto first = build_message("first");
  auto second = build_message("second");
  auto* end = second.at + second.size;
  auto kept = body_of(second);
  message_builder::take_back(std::move(first));
  EXPECT_EQ(build_message("third").at, end);
  EXPECT_EQ(body_of(second), kept);
  message_builder in_pieces{16};
  in_pieces.initRoot<wire::Envelope>().getBody().initAs<capnp::Data>(200'000);
  message_builder::take_back(in_pieces.finish());
  EXPECT_EQ(body_of(second), kept);
}

TEST(Message, ABuilderThatBuiltNothingLeavesNoTrace) {
  build_message(std::string(40'000, 'x'));
  auto before = build_message("before");
  { message_builder b{256}; }
  EXPECT_EQ(build_message("next").at, before.at + before.size);
}

TEST(Message, HasAtMost64Segments) {
  message_builder b{16};
  for (int i = 0; i < 64; ++i)
    EXPECT_GE(b.allocateSegment(1).size(), 1u);
  EXPECT_THROW(b.allocateSegment(1), std::bad_alloc);
}

TEST(Message, AnEnvelopeIsReadInBothLayouts) {
  wire::Envelope::Reader none;
  capnp::MallocMessageBuilder far{8}; // a first segment that is too small: the root points elsewhere
  auto e = far.initRoot<wire::Envelope>();
  e.setInterface(1), e.setType(2), e.setTrace(3), e.setMethod(4), e.setReplyRoom(5);
  auto flat = capnp::messageToFlatArray(far);
  message_view v{reinterpret_cast<const uint64_t*>(flat.begin()), static_cast<uint32_t>(flat.size())};
  envelope head;
  ASSERT_TRUE(read_envelope(v, head));
  EXPECT_EQ(head.interface, 1u);
  EXPECT_EQ(head.type, 2u);
  EXPECT_EQ(head.trace, 3u);
  EXPECT_EQ(head.method, 4u);
  EXPECT_EQ(head.reply_room_bytes, 5u);
}

TEST(Message, AnOlderAndSmallerEnvelopeIsReadWithDefaults) {
  std::vector<uint64_t> words{uint64_t{2} << 32, uint64_t{1} << 32, 77}; // a struct of one data word
  ASSERT_TRUE(well_formed(view_of(words)));
  envelope head;
  ASSERT_TRUE(read_envelope(view_of(words), head));
  EXPECT_EQ(head.interface, 77u);
  EXPECT_EQ(head.type, 0u);
}

TEST(Message, WhatIsNoEnvelopeIsRefusedQuietly) {
  envelope head;
  std::vector<uint64_t> no_words{0}; // a segment, but nothing in it
  EXPECT_TRUE(well_formed(view_of(no_words)));
  EXPECT_FALSE(read_envelope(view_of(no_words), head));
  std::vector<uint64_t> null_root{uint64_t{1} << 32, 0};
  EXPECT_FALSE(read_envelope(view_of(null_root), head));
  std::vector<uint64_t> list_root{uint64_t{2} << 32, 1 | uint64_t{2} << 32 | uint64_t{8} << 35, 5};
  EXPECT_FALSE(read_envelope(view_of(list_root), head));
  std::vector<uint64_t> beyond{uint64_t{1} << 32, uint64_t{0xfffc} | uint64_t{4} << 32};
  EXPECT_FALSE(read_envelope(view_of(beyond), head));
}

TEST(Message, OnlyAFittingSegmentTableIsWellFormed) {
  auto formed = [](std::vector<uint64_t> words) { return well_formed(view_of(words)); };
  EXPECT_FALSE(formed({}));
  EXPECT_TRUE(formed({uint64_t{1} << 32, 0}));
  EXPECT_FALSE(formed({uint64_t{2} << 32, 0})) << "longer than it is";
  EXPECT_FALSE(formed({0, 0})) << "shorter than it is";
  EXPECT_FALSE(formed({0xffffffff, 0})) << "2^32 segments";
  EXPECT_FALSE(formed({64, 0, 0, 0})) << "65 segments";
  EXPECT_FALSE(formed({1 | uint64_t{0xffffffff} << 32, 0xffffffff})) << "sums that wrap";
}

TEST(Message, AFailureArrivesAsItWas) {
  failure f{errc::overloaded, outcome::not_executed, "the mailbox of 'calculator' is full"};
  auto words = body_of(build_failure(f));
  envelope head;
  ASSERT_TRUE(read_envelope(view_of(words), head));
  EXPECT_EQ(head.type, failure_type());
  EXPECT_EQ(read_failure(view_of(words)), f);
}

TEST(Message, AFailuresTextIsCutAtACharacter) {
  std::string text(1023, 'a');
  text += "\xc3\xa4 and more";
  auto words = body_of(build_failure({errc::handler_failed, outcome::unknown, text}));
  EXPECT_LE(words.size() * 8, 1280u) << "it fits the smallest reply room";
  EXPECT_EQ(read_failure(view_of(words)).text, std::string(1023, 'a'));
}

TEST(Message, AFailuresTextOfNothingButHalvesOfCharactersIsEmpty) {
  auto words = body_of(build_failure({errc::handler_failed, outcome::unknown, std::string(2000, '\x80')}));
  EXPECT_EQ(read_failure(view_of(words)).text, "");
}

TEST(Message, AFailureOfANewerPeerKeepsItsReasonAndIsNotTakenForDone) {
  auto read = [](uint16_t reason, uint8_t what) {
    message_builder b{256};
    auto e = b.initRoot<wire::Envelope>();
    auto f = e.getBody().initAs<wire::Failure>();
    f.setReason(reason);
    f.setOutcome(what);
    return read_failure(view_of(body_of(b.finish())));
  };
  EXPECT_EQ(to_string(read(200, 0).code), "errc 200");
  EXPECT_EQ(read(200, 0).what, outcome::done);
  EXPECT_EQ(read(200, 77).what, outcome::unknown);
  EXPECT_EQ(read(0, 1).code, errc::handler_failed) << "there is no failure without a reason";
  EXPECT_EQ(read(0x1001, 1).code, errc::handler_failed);
}

TEST(Message, AFailureThatCannotBeReadIsAFailureToo) {
  std::vector<uint64_t> words{uint64_t{1} << 32, uint64_t{0x7ffffff0} | uint64_t{1} << 32};
  EXPECT_EQ(read_failure(view_of(words)).code, errc::malformed_message);
}

TEST(Message, ReadersStopAtTheirLimits) {
  auto words = body_of(build_message("x"));
  auto o = reader_options(view_of(words));
  EXPECT_EQ(o.nestingLimit, 64);
  EXPECT_EQ(o.traversalLimitInWords, words.size() * 8);
}

TEST(Errc, EveryCodeHasAName) {
  EXPECT_EQ(to_string(errc::no_budget), "no_budget");
  EXPECT_EQ(to_string(static_cast<errc>(77)), "errc 77");
  EXPECT_EQ(to_string(failure{errc::overloaded, outcome::not_executed, "full"}),
            "overloaded (not executed): full");
  EXPECT_EQ(to_string(failure{errc::link_lost, outcome::unknown, {}}), "link_lost (unknown)");
  EXPECT_EQ(to_string(failure{errc::no_budget, outcome::done, {}}), "no_budget (done)");
}

TEST(Errc, AFailureIsAnotherWhenAnyOfItsPartsIs) {
  failure f{errc::overloaded, outcome::not_executed, "full"};
  EXPECT_EQ(f, failure(f));
  EXPECT_NE(f, (failure{errc::no_budget, f.what, f.text}));
  EXPECT_NE(f, (failure{f.code, outcome::done, f.text}));
  EXPECT_NE(f, (failure{f.code, f.what, "empty"}));
}

} // namespace
} // namespace weir::net
