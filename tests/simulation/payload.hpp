#pragma once
#include <string>

#include "net/message.hpp"

namespace weir::net::sim {

enum class kind : uint8_t { item, request, reply };

/// What each simulated message says of itself, in the scalars of its envelope: a body may be empty.
struct stamp {
  uint32_t conversation = 0;
  uint32_t sequence = 0; ///< within (conversation, direction, lane); of a reply: 0
  uint64_t token = 0;    ///< of the call; 0: one way
  kind what = kind::item;
  lane in_lane = lane::normal;
  bool from_opener = true;

  friend bool operator==(const stamp&, const stamp&) = default;
};

/// A message with `body_bytes` of data that follow from the stamp. `guessed`: what the builder is told to
/// expect; a wrong guess makes a message of several pieces.
outgoing build(const stamp& s, uint32_t body_bytes, uint32_t reply_room, size_t guessed);
/// The stamp and the length of the data. Not empty: what is wrong, in words. Failures are no stamped
/// messages.
std::string read(const message_view& v, stamp& s, uint32_t& body_bytes);
/// What an envelope with `body_bytes` of data measures as one frame's body.
constexpr uint32_t framed_bytes(uint32_t body_bytes) { return 8 + 8 + 40 + (body_bytes + 7) / 8 * 8; }

} // namespace weir::net::sim
