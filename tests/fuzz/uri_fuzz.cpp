// Any text is a URI that is written as it is read, or an error that names it.
#include "net/uri.hpp"
#include "tests/fuzz/require.hpp"

using namespace weir;
using fuzz::require;

namespace {

void check_fields(const net::uri& u) {
  if (u.kind == net::uri::scheme::unix_) {
    require(u.host.empty() && u.port == 0 && u.port_last == 0, "a path has neither host nor port");
    require(u.path.starts_with('/') && u.path.size() > 1, "a path is absolute");
    require(u.path.size() <= net::unix_path_bytes_max, "a path fits sockaddr_un");
    require(u.path.find('\0') == std::string::npos, "a path has no zero byte");
    return;
  }
  constexpr size_t host_bytes_max = 253;
  require(u.path.empty(), "a host has no path");
  require(!u.host.empty() && u.host.size() <= host_bytes_max, "a host has 1 to 253 bytes");
  require(u.port <= u.port_last, "a range does not run backwards");
  require(!u.is_range() || u.port != 0, "a range does not begin at 0");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text{reinterpret_cast<const char*>(data), size};
  auto u = net::parse_uri(text);
  if (!u) {
    require(u.error().code == errc::bad_uri, "the error is bad_uri");
    require(u.error().text.find(text) != std::string::npos, "the error holds the text");
    return 0;
  }
  check_fields(*u);
  auto written = to_string(*u);
  auto again = net::parse_uri(written);
  require(static_cast<bool>(again), "what is written can be read");
  require(*again == *u, "what is written is read as the same");
  require(to_string(*again) == written, "it is always written the same way");
  return 0;
}
