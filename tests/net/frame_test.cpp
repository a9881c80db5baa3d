#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "net/frame.hpp"

namespace weir::net {
namespace {
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

frame_header good(frame_kind kind) {
  frame_header h;
  h.kind = kind;
  h.length = 64;
  h.session = kind == frame_kind::control ? 0 : 5;
  if (kind != frame_kind::control)
    h.flags = static_cast<uint8_t>(lane::normal);
  return h;
}

TEST(Frame, PreambleIsKnownAgain) {
  std::byte p[preamble_bytes];
  write_preamble(p);
  EXPECT_EQ(check_preamble(p), errc::none);
  EXPECT_EQ(std::memcmp(p, "weir", 4), 0);
}

TEST(Frame, AnotherMagicOrVersionIsNamed) {
  std::byte p[preamble_bytes];
  write_preamble(p);
  p[0] = std::byte{'G'};
  EXPECT_EQ(check_preamble(p), errc::bad_magic);
  write_preamble(p);
  p[4] = std::byte{9};
  EXPECT_EQ(check_preamble(p), errc::bad_version);
}

TEST(Frame, EveryKindIsAcceptedAsItShouldBe) {
  EXPECT_EQ(check_header(good(frame_kind::control), 1024), errc::none);
  EXPECT_EQ(check_header(good(frame_kind::message), 1024), errc::none);
  EXPECT_EQ(check_header(good(frame_kind::fragment), 1024), errc::none);
}

TEST(Frame, AHeaderThatCannotBeIsMalformed) {
  auto broken = [](frame_kind kind, auto change) {
    auto h = good(kind);
    change(h);
    return check_header(h, 1024);
  };
  EXPECT_EQ(broken(frame_kind::message, [](auto& h) { h.kind = frame_kind{4}; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::message, [](auto& h) { h.kind = frame_kind{0}; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::message, [](auto& h) { h.length = 63; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::message, [](auto& h) { h.session = 0; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::message, [](auto& h) { h.flags = 3; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::message, [](auto& h) { h.flags |= 0x20; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::message, [](auto& h) { h.flags |= flag::last; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::fragment, [](auto& h) { h.length = 0; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::fragment, [](auto& h) { h.flags |= flag::void_ | flag::last; }),
            errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::control, [](auto& h) { h.session = 1; }), errc::malformed_frame);
  EXPECT_EQ(broken(frame_kind::control, [](auto& h) { h.id = 1; }), errc::malformed_frame);
}

TEST(Frame, AVoidFragmentIsEmptyAndLast) {
  auto h = good(frame_kind::fragment);
  h.length = 0;
  h.flags |= flag::void_ | flag::last;
  EXPECT_EQ(check_header(h, 1024), errc::none);
  h.flags &= static_cast<uint8_t>(~flag::last);
  EXPECT_EQ(check_header(h, 1024), errc::malformed_frame);
}

TEST(Frame, LengthsAreCheckedAgainstTheirLimits) {
  auto h = good(frame_kind::message);
  h.length = 1024;
  EXPECT_EQ(check_header(h, 1024), errc::none);
  h.length = 1032;
  EXPECT_EQ(check_header(h, 1024), errc::frame_too_large);
  h = good(frame_kind::control);
  h.length = control_bytes_max + 8;
  EXPECT_EQ(check_header(h, 1 << 20), errc::control_too_large);
}

TEST(Frame, NoTimeLeftIsStillADeadline) {
  EXPECT_EQ(encode_ttl(milliseconds{0}), 1);
  EXPECT_EQ(encode_ttl(milliseconds{-5}), 1);
  EXPECT_EQ(decode_ttl(encode_ttl(microseconds{1})), milliseconds{1});
}

TEST(Frame, VeryLongTimesAreCut) { EXPECT_EQ(decode_ttl(encode_ttl(hours{1000})), milliseconds{4095 << 15}); }

RC_GTEST_PROP(Frame, TimeLeftIsRoundedUpByLessThanAThousandth, ()) {
  auto ms = *rc::gen::inRange<int64_t>(1, int64_t{4095} << 15);
  auto back = decode_ttl(encode_ttl(milliseconds{ms}));
  RC_ASSERT(back >= milliseconds{ms});
  RC_ASSERT(back - milliseconds{ms} <= milliseconds{ms / 2047});
}

} // namespace
} // namespace weir::net
