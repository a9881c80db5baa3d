#pragma once
// Installed as <weir/errc.hpp>: the words in which weir says what went wrong, on the wire and in the API.

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weir {

/// What went wrong. The values travel on the wire (`wire.capnp`, field `reason`) and never change their
/// meaning; a peer that knows fewer of them shows the number.
enum class errc : uint8_t {
  none = 0,
  // the link
  bad_magic = 1,       ///< the first bytes are not `weir`
  bad_version = 2,     ///< no protocol version in common
  wrong_cluster = 3,   ///< hello names another cluster
  hello_timeout = 4,   ///< hello did not come in time
  malformed_frame = 5, ///< a header that cannot be: length, kind, flags or padding
  frame_too_large = 6, ///< a body above what was announced
  malformed_control = 7,
  control_too_large = 8,
  peer_silent = 9, ///< no byte for `dead-after`
  going_away = 10, ///< the peer stops; nothing new is taken
  link_lost = 11,
  connect_failed = 12,
  connect_timeout = 13,
  self_connect = 14, ///< the peer has our own node id
  // a session
  no_such_service = 20,
  wrong_interface = 21,
  too_many_sessions = 22,
  no_budget = 23, ///< not funded; retryable
  unknown_session = 24,
  credit_exceeded = 25,
  grant_overflow = 26,
  message_too_large = 27,
  malformed_message = 28, ///< not a Cap'n Proto message, or one above a reading limit
  fragment_timeout = 29,
  session_closed = 30,
  session_aborted = 31,
  service_down = 32,
  bad_state = 33, ///< a frame that this state of the session does not allow
  // a call
  too_many_calls = 40,
  overloaded = 41, ///< mailbox or held allowance full, or the send buffer
  deadline_exceeded = 42,
  cancelled = 43,
  no_such_method = 44,
  wrong_type = 45, ///< the body is not of the method's type
  handler_failed = 46,
  caller_down = 47,
  unknown_call = 48,
  // this process
  bad_uri = 60,
  address_in_use = 61,
  bad_option = 62,
  not_supported = 63,
  io_error = 64,
  shutting_down = 65,
  slow_handler = 66, ///< a handler held its loop for longer than `slow-handler`; nothing has failed
  wait_cycle = 67,   ///< actors have waited for each other's credit for `stall-limit`; nothing has failed
};

/// The name of `e` as it stands above, or "errc 77" for a number that this version does not know.
std::string to_string(errc e);

/// What is known about the effect of a call that did not end well.
enum class outcome : uint8_t {
  done = 0,         ///< the handler ran to its end and answered
  not_executed = 1, ///< it did not run and will not: safe to retry
  unknown = 2,      ///< it may have run
};
std::string_view to_string(outcome o);

/// An error with its words. `text` names the field and the limit where there is one.
struct failure {
  errc code = errc::none;
  outcome what = outcome::not_executed;
  std::string text;

  friend bool operator==(const failure&, const failure&) = default;
};
/// "overloaded (not executed): the mailbox of 'calculator' is full (1000 messages)"
std::string to_string(const failure& f);

/// A value, or why there is none.
template <class T>
class result {
public:
  result(T value) : value_(std::move(value)) {}
  result(failure f) : failure_(std::move(f)) { assert(failure_.code != errc::none); }
  result(errc code, std::string text) : result(failure{code, outcome::not_executed, std::move(text)}) {}

  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const failure& error() const { return failure_; }

private:
  std::optional<T> value_;
  failure failure_;
};

template <>
class result<void> {
public:
  result() = default;
  result(failure f) : failure_(std::move(f)) {}
  result(errc code, std::string text) : failure_{code, outcome::not_executed, std::move(text)} {}

  explicit operator bool() const { return failure_.code == errc::none; }
  const failure& error() const { return failure_; }

private:
  failure failure_;
};

} // namespace weir
