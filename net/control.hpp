#pragma once
#include <optional>
#include <string>
#include <vector>

#include "net/errc.hpp"
#include "net/message.hpp"
#include "net/ration.hpp"

/// What `wire.capnp` says, as plain structs. The fields are described there and in PROTOCOL.md.
namespace weir::net::say {

constexpr size_t name_bytes_max = 255;
constexpr size_t text_bytes_max = 1024;

struct hello {
  uint16_t version_min = protocol_version, version_max = protocol_version;
  std::string cluster, name;
  uint64_t node_high = 0, node_low = 0, features = 0, message_max = 0;
  uint32_t frame_max = 0, sessions_max = 0, calls_max = 0;
};
struct open {
  uint32_t session = 0;
  std::string service;
  uint64_t interface = 0;
  bool stream = false;
  uint32_t reply_room = 0;
  position limit;
};
struct opened {
  uint32_t session = 0;
  position limit;
  uint64_t message_max = 0;
};
struct refused {
  uint32_t session = 0;
  errc reason = errc::none;
  std::string text;
  bool retryable = false;
};
struct grant {
  uint32_t session = 0, epoch = 0;
  position limit;
  uint64_t received = 0;
  errc reason = errc::none;
};
struct blocked {
  uint32_t session = 0;
  blocked_state state;
};
struct reclaim {
  uint32_t session = 0, epoch = 0;
};
struct reclaimed {
  uint32_t session = 0, epoch = 0;
  position limit;
};
struct abort {
  uint32_t session = 0;
  errc reason = errc::none;
  std::string text;
  position final;
};
struct close {
  uint32_t session = 0;
  position final;
};
struct closed {
  uint32_t session = 0;
  uint64_t consumed = 0;
  position final;
};
struct call {
  uint32_t session = 0, id = 0;
};
/// For `need` and `fund`.
struct room {
  uint32_t session = 0, id = 0;
  uint64_t bytes = 0;
};
struct unfunded {
  uint32_t session = 0;
  uint64_t bytes = 0;
  errc reason = errc::none;
};
struct goaway {
  errc reason = errc::none;
  std::string text;
  uint32_t last_session = 0;
};
struct fault {
  errc reason = errc::none;
  std::string text;
};

/// One control frame. `resume` and `resumed` are not here: this version negotiates no feature and ignores
/// them.
struct control {
  std::optional<say::hello> hello;
  std::vector<say::open> opens;
  std::vector<say::opened> openeds;
  std::vector<say::refused> refuseds;
  std::vector<say::grant> grants;
  std::vector<say::blocked> blockeds;
  std::vector<say::reclaim> reclaims;
  std::vector<say::reclaimed> reclaimeds;
  std::vector<say::abort> aborts;
  std::vector<say::close> closes;
  std::vector<say::closed> closeds;
  std::vector<say::call> cancels, cancelleds;
  std::vector<say::room> needs, funds;
  std::vector<say::unfunded> unfundeds;
  uint64_t ping = 0, pong = 0;
  std::optional<say::goaway> goaway;
  bool fin = false;
  std::optional<say::fault> fault;

  bool empty() const;
  /// Keeps the memory of the lists.
  void clear();
};

constexpr size_t word_bytes = 8; // the unit of Cap'n Proto
/// Bytes that an entry adds to a frame at most, so that a packer knows when to stop without encoding twice.
size_t encoded_bytes(const open&);
size_t encoded_bytes(const refused&);
size_t encoded_bytes(const abort&);
size_t encoded_bytes(const hello&);
size_t encoded_bytes(const goaway&);
size_t encoded_bytes(const fault&);
constexpr size_t encoded_bytes(const opened&) { return 4 * word_bytes; }
constexpr size_t encoded_bytes(const grant&) { return 5 * word_bytes; }
constexpr size_t encoded_bytes(const blocked&) { return 5 * word_bytes; }
constexpr size_t encoded_bytes(const reclaim&) { return word_bytes; }
constexpr size_t encoded_bytes(const reclaimed&) { return 3 * word_bytes; }
constexpr size_t encoded_bytes(const close&) { return 3 * word_bytes; }
constexpr size_t encoded_bytes(const closed&) { return 4 * word_bytes; }
constexpr size_t encoded_bytes(const call&) { return word_bytes; }
constexpr size_t encoded_bytes(const room&) { return 2 * word_bytes; }
constexpr size_t encoded_bytes(const unfunded&) { return 3 * word_bytes; }
/// Bytes that entries may add to one frame; the rest of `control_bytes_max` is for the frame itself.
constexpr size_t entries_bytes_max = control_bytes_max - 512;

/// The frame, header included. Precondition: the entries add at most `entries_bytes_max`; texts are cut to
/// their limits here.
outgoing encode(const control& c);

/// Reads foreign bytes into `out`, whose lists are reused. errc::none or malformed_control with `why`. Throws
/// nothing: a Cap'n Proto exception ends here. The work is bounded: 8 times the frame's size is read at most,
/// and `entries_max` list elements.
errc decode(const message_view& v, control& out, std::string& why);
/// List elements in one frame, all lists together; the smallest takes eight bytes of honest space.
constexpr size_t entries_max = control_bytes_max / 8;

} // namespace weir::net::say
