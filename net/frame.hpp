#pragma once
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "net/errc.hpp"

namespace weir::net {

using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

static_assert(std::endian::native == std::endian::little, "headers are read in place");

enum class frame_kind : uint8_t { control = 1, message = 2, fragment = 3 };

/// Who goes first. Order holds within one class of one direction of one session.
enum class lane : uint8_t { reply = 0, normal = 1, bulk = 2 };
constexpr size_t lanes = 3;

/// Bits of `frame_header::flags`.
namespace flag {
constexpr uint8_t lane_mask = 0x03;
constexpr uint8_t last = 0x04;      ///< of a message in fragments
constexpr uint8_t void_ = 0x08;     ///< ends the message unrun; its body is empty
constexpr uint8_t unblocked = 0x10; ///< the first frame after the sender was blocked
constexpr uint8_t known = 0x1f;
} // namespace flag

/// In front of every frame, little-endian, 8-byte aligned.
struct frame_header {
  uint32_t length = 0; ///< of the body in bytes, a multiple of 8
  uint32_t session = 0;
  frame_kind kind = frame_kind::control;
  uint8_t flags = 0;
  uint16_t ttl = 0; ///< time left at hand-over, see `encode_ttl`; 0: no deadline
  uint32_t id = 0;  ///< the call; 0: one way

  lane frame_lane() const { return static_cast<lane>(flags & flag::lane_mask); }
};
static_assert(sizeof(frame_header) == 16);

constexpr size_t header_bytes = sizeof(frame_header);
constexpr size_t preamble_bytes = 8;
constexpr uint16_t protocol_version = 1;
/// A control frame's body.
constexpr uint32_t control_bytes_max = 16 << 10;
/// What one message costs besides its bytes: the sender's and the receiver's own records of it.
constexpr uint32_t message_overhead_bytes = 128;
/// The first fragment starts with the length of the whole message, u64.
constexpr uint32_t fragment_prefix_bytes = 8;

/// What a message of `length` body bytes is charged with on a session. Both sides see the same length.
constexpr uint64_t cost_of(uint64_t length) { return message_overhead_bytes + length; }

/// Time left as 12-bit mantissa (low) and 4-bit exponent: mantissa << exponent milliseconds, rounded up; at
/// least 1 ms, so that only "no deadline" is 0. The longest is 4095 << 15 ms, 37 hours; more is cut to that.
uint16_t encode_ttl(duration left);
duration decode_ttl(uint16_t ttl);

/// The eight bytes that each side writes first.
void write_preamble(std::byte* to);
/// errc::none, bad_magic, or bad_version (a major version that we do not speak).
errc check_preamble(const std::byte* from);

/// What can be said about a header without knowing the session: kind, flags, padding, length against
/// `body_bytes_max`. errc::none, malformed_frame, frame_too_large or control_too_large.
errc check_header(const frame_header& h, uint32_t body_bytes_max);

inline frame_header load_header(const std::byte* at) {
  frame_header h;
  std::memcpy(&h, at, sizeof h);
  return h;
}
inline void store_header(std::byte* at, const frame_header& h) { std::memcpy(at, &h, sizeof h); }

} // namespace weir::net
