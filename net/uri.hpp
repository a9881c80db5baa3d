#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "net/errc.hpp"

namespace weir::net {

/// Where a node listens or what it dials, as text that was understood. A value; nothing is resolved or
/// opened.
struct uri {
  enum class scheme : uint8_t { tcp, unix_ };
  scheme kind = scheme::tcp;
  std::string host;       ///< tcp: a name or an address; IPv6 without its brackets
  uint16_t port = 0;      ///< tcp: 0 lets the system choose (listening only)
  uint16_t port_last = 0; ///< tcp: equal to `port` unless a range is given: the first free one is taken
                          ///< (listening only)
  std::string path;       ///< unix: absolute, at most `unix_path_bytes_max`

  bool is_range() const { return port != port_last; }
  friend bool operator==(const uri&, const uri&) = default;
};

/// sockaddr_un has room for this and a final zero (unix(7)).
constexpr size_t unix_path_bytes_max = 107;

/// `tcp://host:port`, `tcp://host:7000-7010`, `tcp://[::1]:0` or `unix:///path/to.sock`. Errors: bad_uri with
/// one line that holds the text and says what is wrong with it.
result<uri> parse_uri(std::string_view text);

/// The text that `parse_uri` reads as `u`.
std::string to_string(const uri& u);

} // namespace weir::net
