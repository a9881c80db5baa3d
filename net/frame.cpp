#include "net/frame.hpp"

#include <limits>

namespace weir::net {

namespace {
constexpr uint64_t mantissa_max = 0xfff;
constexpr unsigned exponent_max = 15;
constexpr unsigned mantissa_bits = 12;

struct preamble {
  char magic[4] = {'w', 'e', 'i', 'r'};
  uint16_t version = protocol_version;
  uint16_t zero = 0;
};
static_assert(sizeof(preamble) == preamble_bytes);

errc check_control(const frame_header& h) {
  if (h.session != 0 || h.flags != 0 || h.ttl != 0 || h.id != 0)
    return errc::malformed_frame;
  return h.length > control_bytes_max ? errc::control_too_large : errc::none;
}

errc check_message(const frame_header& h) {
  return (h.flags & (flag::last | flag::void_)) != 0 ? errc::malformed_frame : errc::none;
}

errc check_fragment(const frame_header& h) {
  auto ends_unrun = (h.flags & flag::void_) != 0;
  if (!ends_unrun)
    return h.length == 0 ? errc::malformed_frame : errc::none;
  return h.length == 0 && (h.flags & flag::last) != 0 ? errc::none : errc::malformed_frame;
}
} // namespace

uint16_t encode_ttl(duration left) {
  using std::chrono::milliseconds;
  if (left <= milliseconds{1})
    return 1;
  auto ms = static_cast<uint64_t>(std::chrono::ceil<milliseconds>(left).count());
  for (unsigned exponent = 0; exponent <= exponent_max; ++exponent) {
    auto mantissa = (ms + (uint64_t{1} << exponent) - 1) >> exponent;
    if (mantissa <= mantissa_max)
      return static_cast<uint16_t>(exponent << mantissa_bits | mantissa);
  }
  return std::numeric_limits<uint16_t>::max();
}

duration decode_ttl(uint16_t ttl) {
  return std::chrono::milliseconds{(ttl & mantissa_max) << (ttl >> mantissa_bits)};
}

void write_preamble(std::byte* to) {
  preamble p;
  std::memcpy(to, &p, sizeof p);
}

errc check_preamble(const std::byte* from) {
  preamble theirs, ours;
  std::memcpy(&theirs, from, sizeof theirs);
  if (std::memcmp(theirs.magic, ours.magic, sizeof ours.magic) != 0)
    return errc::bad_magic;
  return theirs.version == ours.version && theirs.zero == 0 ? errc::none : errc::bad_version;
}

errc check_header(const frame_header& h, uint32_t body_bytes_max) {
  auto kind = h.kind;
  if (kind != frame_kind::control && kind != frame_kind::message && kind != frame_kind::fragment)
    return errc::malformed_frame;
  if (h.length % 8 != 0)
    return errc::malformed_frame;
  if (kind == frame_kind::control)
    return check_control(h);
  if (h.session == 0)
    return errc::malformed_frame;
  if (h.length > body_bytes_max)
    return errc::frame_too_large;
  if ((h.flags & ~flag::known) != 0 || (h.flags & flag::lane_mask) >= lanes)
    return errc::malformed_frame;
  return kind == frame_kind::message ? check_message(h) : check_fragment(h);
}

} // namespace weir::net
