#include "net/errc.hpp"

namespace weir {

namespace {
struct named {
  errc code;
  std::string_view name;
};
constexpr named names[] = {
    {errc::none, "none"},
    {errc::bad_magic, "bad_magic"},
    {errc::bad_version, "bad_version"},
    {errc::wrong_cluster, "wrong_cluster"},
    {errc::hello_timeout, "hello_timeout"},
    {errc::malformed_frame, "malformed_frame"},
    {errc::frame_too_large, "frame_too_large"},
    {errc::malformed_control, "malformed_control"},
    {errc::control_too_large, "control_too_large"},
    {errc::peer_silent, "peer_silent"},
    {errc::going_away, "going_away"},
    {errc::link_lost, "link_lost"},
    {errc::connect_failed, "connect_failed"},
    {errc::connect_timeout, "connect_timeout"},
    {errc::self_connect, "self_connect"},
    {errc::no_such_service, "no_such_service"},
    {errc::wrong_interface, "wrong_interface"},
    {errc::too_many_sessions, "too_many_sessions"},
    {errc::no_budget, "no_budget"},
    {errc::unknown_session, "unknown_session"},
    {errc::credit_exceeded, "credit_exceeded"},
    {errc::grant_overflow, "grant_overflow"},
    {errc::message_too_large, "message_too_large"},
    {errc::malformed_message, "malformed_message"},
    {errc::fragment_timeout, "fragment_timeout"},
    {errc::session_closed, "session_closed"},
    {errc::session_aborted, "session_aborted"},
    {errc::service_down, "service_down"},
    {errc::bad_state, "bad_state"},
    {errc::too_many_calls, "too_many_calls"},
    {errc::overloaded, "overloaded"},
    {errc::deadline_exceeded, "deadline_exceeded"},
    {errc::cancelled, "cancelled"},
    {errc::no_such_method, "no_such_method"},
    {errc::wrong_type, "wrong_type"},
    {errc::handler_failed, "handler_failed"},
    {errc::caller_down, "caller_down"},
    {errc::unknown_call, "unknown_call"},
    {errc::bad_uri, "bad_uri"},
    {errc::address_in_use, "address_in_use"},
    {errc::bad_option, "bad_option"},
    {errc::not_supported, "not_supported"},
    {errc::io_error, "io_error"},
    {errc::shutting_down, "shutting_down"},
    {errc::slow_handler, "slow_handler"},
    {errc::wait_cycle, "wait_cycle"},
};
} // namespace

std::string to_string(errc e) {
  for (auto& n : names)
    if (n.code == e)
      return std::string{n.name};
  return "errc " + std::to_string(static_cast<unsigned>(e)); // from a newer peer
}

std::string_view to_string(outcome o) {
  switch (o) {
  case outcome::done:
    return "done";
  case outcome::not_executed:
    return "not executed";
  case outcome::unknown:
    return "unknown";
  }
  return "unknown";
}

std::string to_string(const failure& f) {
  auto words = to_string(f.code) + " (" + std::string{to_string(f.what)} + ")";
  if (!f.text.empty())
    words += ": " + f.text;
  return words;
}

} // namespace weir
