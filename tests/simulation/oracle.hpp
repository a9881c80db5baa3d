#pragma once
#include <deque>
#include <stdexcept>

#include "net/mux.hpp"
#include "payload.hpp"

namespace weir::net::sim {

/// Something that must not be has happened.
struct broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct port;
struct conversation;

/// What is known of one side of a conversation, by watching its user.
struct side_of {
  conversation* of = nullptr;
  unsigned index = 0; ///< 0: the opener
  port* at = nullptr;
  session* with = nullptr; ///< nullptr: not known yet, or over
  bool ended = false, clean = false;
  bool closing = false;  ///< its user closed it
  bool finished = false; ///< the peer sends nothing more
  bool reads = true;

  // ---- sent
  std::array<uint32_t, lanes> sent{};
  uint64_t posted = 0; ///< one-way messages that were queued
  uint64_t unsent = 0; ///< of these, told to have failed
  size_t open_calls = 0;
  // ---- received
  std::array<uint32_t, lanes> next{}; ///< no message with a lower number may come
  uint64_t received = 0;              ///< one-way messages
  uint64_t unconsumed_bytes = 0;      ///< delivered and not given back

  // ---- a producer that goes by `credit` alone
  unsigned offers_left = 0;
  uint32_t offer_bytes = 0;
  bool asks = true; ///< with `want_credit`; if not, it posts until it is refused
  bool waits = false;
  unsigned vain_waits = 0;     ///< `credit` came, and the same was refused again
  uint64_t waits_for_room = 0; ///< the inbound budget had too little for a reply

  bool live() const { return with != nullptr; }
  side_of& other() const;
};

struct conversation {
  uint32_t number = 0;
  bool stream = false;
  std::array<side_of, 2> sides;
};
inline side_of& side_of::other() const { return of->sides[1 - index]; }

/// The life of one call, seen from both ends at once.
struct call_record {
  side_of* caller = nullptr;
  uint32_t id = 0, sequence = 0;
  lane in_lane = lane::normal;
  time_point deadline = time_point::max();
  uint64_t paid = 0;
  uint32_t body_bytes = 0, answer_bytes = 0;
  unsigned depth = 0;     ///< how often it is called back
  uint64_t parent = 0;    ///< the call whose handler made this one
  bool open = true;       ///< its caller waits
  bool delivered = false; ///< its request came to the callee
  bool executed = false;  ///< its handler has run
  bool answered = false;  ///< with a stamped answer
  bool disowned = false;  ///< its caller was told that it was not executed
  errc failed_with = errc::none;
};

/// A message that somebody holds.
struct letter {
  side_of* to = nullptr;
  kind what = kind::item;
  message_view message{};
  slab_ref memory;
  uint64_t cost = 0;
  uint32_t call = 0;
  uint64_t token = 0;
  time_point deadline = time_point::max();
  bool held = false;
};

/// A request whose handler has not answered yet.
struct task {
  letter request;
  uint64_t waits_for = 0; ///< a call of its own
};

/// What all nodes of a run did, so that each can be held against the others.
struct oracle {
  std::deque<conversation> conversations; // by number
  std::deque<call_record> calls;          // by token - 1

  conversation& add_conversation(bool stream);
  call_record& of_token(uint64_t token);
  uint64_t add_call(call_record c);
};

std::string name_of(const side_of& s);

} // namespace weir::net::sim
