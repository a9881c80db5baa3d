#include "net/errc.hpp"

namespace weir {

namespace {
const char* name_of(errc e) {
  switch (e) {
  case errc::none: return "none";
  case errc::bad_magic: return "bad_magic";
  case errc::bad_version: return "bad_version";
  case errc::wrong_cluster: return "wrong_cluster";
  case errc::hello_timeout: return "hello_timeout";
  case errc::malformed_frame: return "malformed_frame";
  case errc::frame_too_large: return "frame_too_large";
  case errc::malformed_control: return "malformed_control";
  case errc::control_too_large: return "control_too_large";
  case errc::peer_silent: return "peer_silent";
  case errc::going_away: return "going_away";
  case errc::link_lost: return "link_lost";
  case errc::connect_failed: return "connect_failed";
  case errc::connect_timeout: return "connect_timeout";
  case errc::self_connect: return "self_connect";
  case errc::no_such_service: return "no_such_service";
  case errc::wrong_interface: return "wrong_interface";
  case errc::too_many_sessions: return "too_many_sessions";
  case errc::no_budget: return "no_budget";
  case errc::unknown_session: return "unknown_session";
  case errc::credit_exceeded: return "credit_exceeded";
  case errc::grant_overflow: return "grant_overflow";
  case errc::message_too_large: return "message_too_large";
  case errc::malformed_message: return "malformed_message";
  case errc::fragment_timeout: return "fragment_timeout";
  case errc::session_closed: return "session_closed";
  case errc::session_aborted: return "session_aborted";
  case errc::service_down: return "service_down";
  case errc::bad_state: return "bad_state";
  case errc::too_many_calls: return "too_many_calls";
  case errc::overloaded: return "overloaded";
  case errc::deadline_exceeded: return "deadline_exceeded";
  case errc::cancelled: return "cancelled";
  case errc::no_such_method: return "no_such_method";
  case errc::wrong_type: return "wrong_type";
  case errc::handler_failed: return "handler_failed";
  case errc::caller_down: return "caller_down";
  case errc::unknown_call: return "unknown_call";
  case errc::bad_uri: return "bad_uri";
  case errc::address_in_use: return "address_in_use";
  case errc::bad_option: return "bad_option";
  case errc::not_supported: return "not_supported";
  case errc::io_error: return "io_error";
  case errc::shutting_down: return "shutting_down";
  }
  return nullptr; // a number from a newer peer
}
} // namespace

std::string to_string(errc e) {
  if (auto* name = name_of(e)) return name;
  return "errc " + std::to_string(static_cast<unsigned>(e));
}

std::string_view to_string(outcome o) {
  switch (o) {
  case outcome::done: return "done";
  case outcome::not_executed: return "not executed";
  case outcome::unknown: return "unknown";
  }
  return "unknown";
}

std::string to_string(const failure& f) {
  auto words = to_string(f.code) + " (" + std::string{to_string(f.what)} + ")";
  if (!f.text.empty()) words += ": " + f.text;
  return words;
}

} // namespace weir
