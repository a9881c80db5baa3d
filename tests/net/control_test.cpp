#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include "net/control.hpp"
#include "net/wire.capnp.h"
#include "tests/support/mux_pair.hpp"

namespace weir::net::say {
namespace {

struct Control : testing::Test {
  control out;
  std::string why;

  /// Encodes, checks the frame's size and decodes.
  control round_trip(const control& c) {
    auto m = encode(c);
    EXPECT_FALSE(m.more) << "control fits one piece";
    EXPECT_LE(m.body_bytes, control_bytes_max);
    EXPECT_EQ(decode(view(m), out, why), errc::none) << why;
    return out;
  }
  static message_view view(const outgoing& m) {
    return {reinterpret_cast<const uint64_t*>(m.at + header_bytes), m.body_bytes / 8};
  }
  errc decode_words(const std::vector<uint64_t>& words) {
    return decode({words.data(), static_cast<uint32_t>(words.size())}, out, why);
  }
};

TEST_F(Control, HelloArrivesAsItWas) {
  control c;
  c.hello = hello{1, 2, "cluster", "name", 3, 4, 5, 6, 7, 8, 9};
  auto back = round_trip(c);
  ASSERT_TRUE(back.hello);
  EXPECT_EQ(back.hello->cluster, "cluster");
  EXPECT_EQ(back.hello->name, "name");
  EXPECT_EQ(back.hello->version_max, 2);
  EXPECT_EQ(back.hello->node_low, 4u);
  EXPECT_EQ(back.hello->features, 5u);
  EXPECT_EQ(back.hello->message_max, 6u);
  EXPECT_EQ(back.hello->calls_max, 9u);
}

TEST_F(Control, EveryListArrivesAsItWas) {
  control c;
  c.opens = {{1, "service", 2, true, 3, {4, 5}}};
  c.openeds = {{1, {2, 3}, 4}};
  c.refuseds = {{1, errc::no_budget, "text", true}};
  c.grants = {{1, 2, {3, 4}, 5, errc::overloaded}, {6, 7, {8, 9}, 10, errc::none}};
  c.blockeds = {{1, {2, {3, 4}, 5, 6}}};
  c.reclaims = {{1, 2}};
  c.reclaimeds = {{1, 2, {3, 4}}};
  c.aborts = {{1, errc::bad_state, "why", {2, 3}}};
  c.closes = {{1, {2, 3}}};
  c.closeds = {{1, 2, {3, 4}}};
  c.cancels = {{1, 2}};
  c.cancelleds = {{3, 4}};
  c.needs = {{1, 2, 3}};
  c.funds = {{4, 5, 6}};
  c.unfundeds = {{1, 2, errc::no_budget}};
  c.ping = 11, c.pong = 12, c.fin = true;
  c.goaway = goaway{errc::shutting_down, "bye", 9};
  c.fault = fault{errc::malformed_frame, "oh"};
  auto back = round_trip(c);
  EXPECT_EQ(back.opens.at(0).service, "service");
  EXPECT_EQ(back.opens.at(0).limit, (position{4, 5}));
  EXPECT_TRUE(back.opens.at(0).stream);
  EXPECT_EQ(back.openeds.at(0).message_max, 4u);
  EXPECT_EQ(back.refuseds.at(0).reason, errc::no_budget);
  EXPECT_TRUE(back.refuseds.at(0).retryable);
  EXPECT_EQ(back.grants.at(1).limit, (position{8, 9}));
  EXPECT_EQ(back.grants.at(0).reason, errc::overloaded);
  EXPECT_EQ(back.blockeds.at(0).state, (blocked_state{2, {3, 4}, 5, 6}));
  EXPECT_EQ(back.reclaims.at(0).epoch, 2u);
  EXPECT_EQ(back.reclaimeds.at(0).limit, (position{3, 4}));
  EXPECT_EQ(back.aborts.at(0).text, "why");
  EXPECT_EQ(back.aborts.at(0).final, (position{2, 3}));
  EXPECT_EQ(back.closes.at(0).final, (position{2, 3}));
  EXPECT_EQ(back.closeds.at(0).consumed, 2u);
  EXPECT_EQ(back.cancels.at(0).id, 2u);
  EXPECT_EQ(back.cancelleds.at(0).id, 4u);
  EXPECT_EQ(back.needs.at(0).bytes, 3u);
  EXPECT_EQ(back.funds.at(0).bytes, 6u);
  EXPECT_EQ(back.unfundeds.at(0).bytes, 2u);
  EXPECT_EQ(back.ping, 11u);
  EXPECT_EQ(back.pong, 12u);
  EXPECT_TRUE(back.fin);
  EXPECT_EQ(back.goaway->last_session, 9u);
  EXPECT_EQ(back.fault->text, "oh");
}

TEST_F(Control, AFullFrameFitsItsLimit) {
  control c;
  size_t left = entries_bytes_max;
  for (uint32_t i = 0;; ++i) {
    open o{i, std::string(255, 's'), 1, false, 1, {1, 1}};
    if (encoded_bytes(o) > left)
      break;
    left -= encoded_bytes(o);
    c.opens.push_back(o);
  }
  EXPECT_GT(c.opens.size(), 40u);
  EXPECT_LE(encode(c).body_bytes, control_bytes_max);
}

TEST_F(Control, AFrameFullOfAnythingFitsItsLimit) {
  auto fill = [](auto entry, auto list) {
    control c;
    for (auto left = entries_bytes_max; encoded_bytes(entry) <= left; left -= encoded_bytes(entry))
      (c.*list).push_back(entry);
    EXPECT_LE(encode(c).body_bytes, control_bytes_max);
  };
  fill(opened{}, &control::openeds);
  fill(refused{1, errc::none, "1234567", true}, &control::refuseds);
  fill(grant{}, &control::grants);
  fill(blocked{}, &control::blockeds);
  fill(reclaim{}, &control::reclaims);
  fill(reclaimed{}, &control::reclaimeds);
  fill(say::abort{1, errc::none, std::string(1024, 'x'), {}}, &control::aborts);
  fill(close{}, &control::closes);
  fill(closed{}, &control::closeds);
  fill(call{}, &control::cancels);
  fill(room{}, &control::needs);
  fill(unfunded{}, &control::unfundeds);
}

TEST_F(Control, AFullFrameFitsWhereverInItsSlabItIsBuilt) {
  control opens, aborts;
  open o{1, "sink", 1, false, 1, {1, 1}};
  for (auto left = entries_bytes_max; encoded_bytes(o) <= left; left -= encoded_bytes(o))
    opens.opens.push_back(o);
  say::abort a{1, errc::none, "text", {1, 1}};
  for (auto left = entries_bytes_max; encoded_bytes(a) <= left; left -= encoded_bytes(a))
    aborts.aborts.push_back(a);
  for (int i = 0; i < 100; ++i) {
    test::build_message("a little further");
    round_trip(opens);
    ASSERT_EQ(out.opens.size(), opens.opens.size());
    round_trip(aborts);
    ASSERT_EQ(out.aborts.size(), aborts.aborts.size());
    ASSERT_FALSE(HasFailure()) << "the " << i << "th time";
  }
}

TEST_F(Control, TextsAreCut) {
  control c;
  c.fault = fault{errc::io_error, std::string(5000, 'x')};
  EXPECT_EQ(round_trip(c).fault->text.size(), text_bytes_max);
}

TEST_F(Control, TextsAreCutAtACharacter) {
  control c;
  c.fault = fault{errc::io_error, std::string(1023, 'x') + "\xc3\xa4 and more"};
  EXPECT_EQ(round_trip(c).fault->text, std::string(1023, 'x'));
  c.fault = fault{errc::io_error, std::string(5000, '\x80')};
  EXPECT_EQ(round_trip(c).fault->text, "");
}

TEST_F(Control, AnUnknownReasonIsKeptAsANumber) {
  capnp::MallocMessageBuilder b;
  b.initRoot<wire::Control>().initFault().setReason(60000);
  auto flat = capnp::messageToFlatArray(b);
  message_view v{reinterpret_cast<const uint64_t*>(flat.begin()), static_cast<uint32_t>(flat.size())};
  ASSERT_EQ(decode(v, out, why), errc::none);
  EXPECT_EQ(to_string(out.fault->reason), "errc 255");
}

TEST_F(Control, ANameThatIsTooLongIsRefused) {
  capnp::MallocMessageBuilder b;
  b.initRoot<wire::Control>().initOpen(1)[0].setService(std::string(256, 's').c_str());
  auto flat = capnp::messageToFlatArray(b);
  message_view v{reinterpret_cast<const uint64_t*>(flat.begin()), static_cast<uint32_t>(flat.size())};
  EXPECT_EQ(decode(v, out, why), errc::malformed_control);
  EXPECT_EQ(why, "a name above 255 bytes");
}

TEST_F(Control, WhatIsNoMessageIsRefused) {
  EXPECT_EQ(decode_words({}), errc::malformed_control);
  EXPECT_EQ(decode_words({uint64_t{9} << 32, 0}), errc::malformed_control);
  EXPECT_EQ(decode_words({uint64_t{1} << 32, uint64_t{0x7ffffff0} | uint64_t{1} << 32}),
            errc::malformed_control)
      << "a root beyond the end";
}

/// The words of a control frame, `padding` longer than need be, whose one list has `elements` of no size.
std::vector<uint64_t> nothings(uint64_t elements, size_t padding) {
  capnp::MallocMessageBuilder b{1024};
  auto c = b.initRoot<wire::Control>();
  c.initGrant(1);
  auto flat = capnp::messageToFlatArray(b);
  std::vector<uint64_t> words(flat.size());
  std::memcpy(words.data(), flat.begin(), flat.size() * 8);
  for (auto& w : words) {
    auto is_list = (w & 3) == 1 && (w >> 32 & 7) == 7 && w >> 35 == 5; // the one list of one grant
    if (!is_list)
      continue;
    w = (w & 0xffffffff) | uint64_t{7} << 32; // no words behind the tag
    auto tag = &w + 1 + (static_cast<int32_t>(w) >> 2);
    *tag = elements << 2; // of 0 + 0 words
  }
  words[0] += uint64_t{padding} << 32;
  words.resize(words.size() + padding);
  return words;
}

/// 40 bytes that claim to be gigabytes.
TEST_F(Control, AListOfManyNothingsIsRefused) {
  EXPECT_EQ(decode_words(nothings(1u << 28, 0)), errc::malformed_control);
}

TEST_F(Control, NothingsThatTheFrameIsLongEnoughForAreCounted) {
  EXPECT_EQ(decode_words(nothings(entries_max, 1000)), errc::none) << why;
  EXPECT_EQ(out.grants.size(), entries_max);
  EXPECT_EQ(decode_words(nothings(entries_max + 1, 1000)), errc::malformed_control);
  EXPECT_EQ(why, "more list elements than a frame can hold");
}

TEST_F(Control, ManyPointersToOneListAreRefused) {
  capnp::MallocMessageBuilder b;
  auto c = b.initRoot<wire::Control>();
  auto grants = c.initCancel(1500);
  (void)grants;
  auto flat = capnp::messageToFlatArray(b);
  std::vector<uint64_t> words(flat.size());
  std::memcpy(words.data(), flat.begin(), flat.size() * 8);
  auto pointers = 2 + 3u; // table, root, data words
  auto cancel = pointers + 11;
  for (auto other : {12u, 8u}) { // cancelled and abort: the same list again
    auto offset = static_cast<int32_t>(words[cancel]) >> 2;
    auto at = pointers + other;
    auto moved = offset + static_cast<int32_t>(cancel) - static_cast<int32_t>(at);
    words[at] = (words[cancel] & 0xffffffff00000003) | (static_cast<uint32_t>(moved) << 2);
  }
  EXPECT_EQ(decode_words(words), errc::malformed_control);
}

} // namespace
} // namespace weir::net::say
