#include "bench/raw_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "bench/processes.hpp"

namespace weir::bench {

static constexpr std::string_view tcp_prefix = "tcp://127.0.0.1:";
static constexpr std::string_view unix_prefix = "unix:@";

raw_socket::~raw_socket() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

void raw_socket::send_all(std::span<const char> bytes) {
  while (!bytes.empty()) {
    auto n = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR)
      throw_system_error("raw: send");
    bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
}

std::size_t raw_socket::receive_some(std::span<char> bytes) {
  for (;;) {
    auto n = recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (n > 0)
      return static_cast<std::size_t>(n);
    if (n == 0)
      throw bench_error("raw: the server closed the connection");
    if (errno != EINTR)
      throw_system_error("raw: receive");
  }
}

void raw_socket::receive_all(std::span<char> bytes) {
  while (!bytes.empty())
    bytes = bytes.subspan(receive_some(bytes));
}

void raw_socket::send_all(std::span<iovec> parts) {
  static constexpr std::size_t parts_max = 1024; // IOV_MAX of Linux
  while (!parts.empty()) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = std::min(parts.size(), parts_max);
    auto n = sendmsg(descriptor_, &message, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR)
      throw_system_error("raw: send");
    auto sent = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    while (!parts.empty() && sent >= parts.front().iov_len) {
      sent -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (sent > 0) {
      parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + sent;
      parts.front().iov_len -= sent;
    }
  }
}

void allow_many_sockets() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static raw_socket make_socket(int family, int flags) {
  raw_socket made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (made.descriptor() < 0)
    throw_system_error("raw: socket");
  return made;
}

static sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

static raw_socket dial_tcp(std::string_view port_text) {
  std::uint16_t port = 0;
  std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  auto result = make_socket(AF_INET, 0);
  int one = 1;
  setsockopt(result.descriptor(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  auto to = loopback(port);
  if (connect(result.descriptor(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
    throw_system_error(fmt::format("raw: connect to port {}", port));
  return result;
}

static raw_socket dial_unix(std::string_view name) {
  auto result = make_socket(AF_UNIX, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  auto length = std::min(name.size(), sizeof to.sun_path - 1);
  std::memcpy(to.sun_path + 1, name.data(), length); // a leading zero byte: abstract
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (connect(result.descriptor(), reinterpret_cast<sockaddr*>(&to), size) != 0)
    throw_system_error(fmt::format("raw: connect to {}{}", unix_prefix, name));
  return result;
}

raw_socket dial(std::string_view address) {
  if (address.starts_with(tcp_prefix))
    return dial_tcp(address.substr(tcp_prefix.size()));
  if (address.starts_with(unix_prefix))
    return dial_unix(address.substr(unix_prefix.size()));
  throw bench_error(fmt::format("raw: '{}' is not an address", address));
}

static constexpr int backlog = 1024; // all threads of a client connect at once

raw_listener listen_on(std::string_view transport, bool blocking) {
  bool tcp = transport == "tcp";
  auto socket = make_socket(tcp ? AF_INET : AF_UNIX, blocking ? 0 : SOCK_NONBLOCK);
  sockaddr_storage bound{};
  socklen_t size = sizeof(sa_family_t); // for Unix sockets: the system picks an abstract name
  bound.ss_family = AF_UNIX;
  if (tcp) {
    auto any_port = loopback(0);
    size = sizeof any_port;
    std::memcpy(&bound, &any_port, size);
  }
  auto* address = reinterpret_cast<sockaddr*>(&bound);
  if (bind(socket.descriptor(), address, size) != 0 || listen(socket.descriptor(), backlog) != 0)
    throw_system_error("raw: listen");
  size = sizeof bound;
  getsockname(socket.descriptor(), address, &size);
  if (tcp)
    return {std::move(socket),
            fmt::format("{}{}", tcp_prefix, ntohs(reinterpret_cast<sockaddr_in*>(&bound)->sin_port))};
  const auto* name = reinterpret_cast<sockaddr_un*>(&bound)->sun_path + 1;
  return {std::move(socket), fmt::format("{}{}", unix_prefix,
                                         std::string_view(name, size - offsetof(sockaddr_un, sun_path) - 1))};
}

} // namespace weir::bench
