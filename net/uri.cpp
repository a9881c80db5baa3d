#include "net/uri.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace weir::net {

namespace {

constexpr std::string_view tcp_prefix = "tcp://";
constexpr std::string_view unix_prefix = "unix://";
constexpr size_t host_bytes_max = 253; // RFC 1035, 2.3.4, in its usual text form

constexpr std::string_view
    letters_and_digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// What is wrong, to be joined with the text it is wrong in; empty: nothing.
using complaint = std::string;

bool consists_of(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](char c) {
    return letters_and_digits.find(c) != std::string_view::npos || more.find(c) != std::string_view::npos;
  });
}

complaint read_port(std::string_view text, uint16_t& to) {
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    return fmt::format("port '{}' is not a number", text);
  if (error != std::errc{} || value > 65535)
    return fmt::format("port {} is out of range (0 to 65535)", text);
  to = static_cast<uint16_t>(value);
  return {};
}

complaint read_ports(std::string_view text, uri& to) {
  if (text.empty())
    return "the port is missing";
  auto dash = text.find('-');
  if (auto wrong = read_port(text.substr(0, dash), to.port); !wrong.empty())
    return wrong;
  to.port_last = to.port;
  if (dash == std::string_view::npos)
    return {};
  if (auto wrong = read_port(text.substr(dash + 1), to.port_last); !wrong.empty())
    return wrong;
  if (to.port == 0)
    return "a range cannot begin at port 0";
  if (to.port_last < to.port)
    return fmt::format("the range ends at {}, before it begins at {}", to.port_last, to.port);
  return {};
}

complaint check_length(std::string_view host) {
  if (host.size() > host_bytes_max)
    return fmt::format("the host has {} bytes (at most {})", host.size(), host_bytes_max);
  return {};
}

complaint read_host(std::string_view text, uri& to) {
  if (text.empty())
    return "the host is missing";
  if (auto wrong = check_length(text); !wrong.empty())
    return wrong;
  if (text.find(':') != std::string_view::npos)
    return "an IPv6 address needs brackets, as in tcp://[::1]:7000";
  if (!consists_of(text, ".-_"))
    return fmt::format("host '{}' has a character that no host name has", text);
  to.host = text;
  return {};
}

complaint read_bracketed_host(std::string_view text, uri& to) {
  if (auto wrong = check_length(text); !wrong.empty())
    return wrong;
  if (text.find(':') == std::string_view::npos || !consists_of(text, ":.%-_"))
    return fmt::format("'{}' is not an IPv6 address", text);
  to.host = text;
  return {};
}

complaint read_tcp(std::string_view rest, uri& to) {
  if (!rest.starts_with('[')) {
    auto colon = rest.rfind(':');
    if (auto wrong = read_host(rest.substr(0, colon), to); !wrong.empty())
      return wrong;
    return colon == std::string_view::npos ? "the port is missing" : read_ports(rest.substr(colon + 1), to);
  }
  auto close = rest.find(']');
  if (close == std::string_view::npos)
    return "'[' without ']'";
  if (auto wrong = read_bracketed_host(rest.substr(1, close - 1), to); !wrong.empty())
    return wrong;
  rest.remove_prefix(close + 1);
  return rest.starts_with(':') ? read_ports(rest.substr(1), to) : "the port is missing";
}

complaint read_unix(std::string_view rest, uri& to) {
  if (!rest.starts_with('/') || rest.size() == 1)
    return "the path must be absolute, as in unix:///run/weir.sock";
  if (rest.size() > unix_path_bytes_max)
    return fmt::format("the path has {} bytes (at most {})", rest.size(), unix_path_bytes_max);
  if (rest.find('\0') != std::string_view::npos)
    return "the path has a zero byte";
  to.kind = uri::scheme::unix_;
  to.path = rest;
  return {};
}

complaint read(std::string_view text, uri& to) {
  if (text.starts_with(tcp_prefix))
    return read_tcp(text.substr(tcp_prefix.size()), to);
  if (text.starts_with(unix_prefix))
    return read_unix(text.substr(unix_prefix.size()), to);
  return "it must begin with tcp:// or unix://";
}

} // namespace

result<uri> parse_uri(std::string_view text) {
  uri read_so_far;
  if (auto wrong = read(text, read_so_far); !wrong.empty())
    return {errc::bad_uri, fmt::format("'{}': {}", text, wrong)};
  return read_so_far;
}

std::string to_string(const uri& u) {
  if (u.kind == uri::scheme::unix_)
    return fmt::format("{}{}", unix_prefix, u.path);
  bool brackets = u.host.find(':') != std::string::npos;
  auto head = fmt::format("{}{}{}{}:{}", tcp_prefix, brackets ? "[" : "", u.host, brackets ? "]" : "",
                          u.port);
  return u.is_range() ? fmt::format("{}-{}", head, u.port_last) : head;
}

} // namespace weir::net
