#pragma once
// A node that a test plays by hand over TCP: it says what no node would, and reads when it likes.
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "net/control.hpp"
#include "tests/support/process.hpp"

namespace weir::test {

class hand_made_peer {
public:
  /// Connects to a node at `uri`.
  static hand_made_peer to(const std::string& uri) {
    hand_made_peer p{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    auto at = loopback(static_cast<uint16_t>(std::stoi(uri.substr(uri.rfind(':') + 1))));
    EXPECT_EQ(connect(p.fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0) << uri;
    return p;
  }
  /// Takes over a connection.
  explicit hand_made_peer(int descriptor) : fd_(descriptor) {
    timeval limit{std::chrono::duration_cast<std::chrono::seconds>(process::patience).count(), 0};
    for (int which : {SO_RCVTIMEO, SO_SNDTIMEO})
      setsockopt(fd_, SOL_SOCKET, which, &limit, sizeof limit);
  }
  hand_made_peer(hand_made_peer&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), in_(std::move(other.in_)), greeted_(other.greeted_) {}
  ~hand_made_peer() {
    if (fd_ >= 0)
      close(fd_);
  }

  /// Preamble and hello, as they should be.
  void greet() {
    std::array<std::byte, net::preamble_bytes> p{};
    net::write_preamble(p.data());
    write(p.data(), p.size());
    net::say::control c;
    auto& h = c.hello.emplace();
    h.cluster = "weir";
    h.name = "by hand";
    h.node_high = 7;
    h.message_max = 4 << 20;
    h.frame_max = 80 << 10;
    h.sessions_max = h.calls_max = 1000;
    say(c);
  }
  bool say(const net::say::control& c) {
    auto m = net::copy_of(net::say::encode(c));
    net::store_header(m.at, {.length = m.body_bytes});
    return write(m.at, m.size);
  }
  /// False: the node has closed the connection.
  bool write(const void* at, size_t n) const {
    auto* from = static_cast<const char*>(at);
    for (size_t done = 0; done < n;) {
      auto r = send(fd_, from + done, n - done, MSG_NOSIGNAL);
      if (r <= 0)
        return false;
      done += static_cast<size_t>(r);
    }
    return true;
  }
  /// Reads until `enough(control frame)`. False: the node closed, or was silent for long.
  template <class F>
  bool hear(F enough) {
    for (;;) {
      while (auto c = next_control())
        if (enough(*c))
          return true;
      std::array<std::byte, 64 << 10> space;
      auto r = recv(fd_, space.data(), space.size(), 0);
      if (r <= 0)
        return false;
      in_.insert(in_.end(), space.begin(), space.begin() + r);
    }
  }

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }

private:
  void drop(size_t n) { in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(n)); }
  std::optional<net::say::control> next_control() {
    if (!greeted_ && in_.size() >= net::preamble_bytes) {
      drop(net::preamble_bytes);
      greeted_ = true;
    }
    while (greeted_ && in_.size() >= net::header_bytes) {
      auto h = net::load_header(in_.data());
      if (in_.size() < net::header_bytes + h.length)
        break;
      std::vector<uint64_t> words(h.length / 8);
      std::memcpy(words.data(), in_.data() + net::header_bytes, h.length);
      drop(net::header_bytes + h.length);
      if (h.kind != net::frame_kind::control)
        continue;
      net::say::control c;
      std::string why;
      EXPECT_EQ(net::say::decode({words.data(), h.length / 8}, c, why), errc::none) << why;
      return c;
    }
    return {};
  }

  int fd_;
  std::vector<std::byte> in_;
  bool greeted_ = false;
};

/// Where such a peer listens.
class hand_made_door {
public:
  hand_made_door() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto at = hand_made_peer::loopback(0);
    socklen_t n = sizeof at;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &n);
    port_ = ntohs(at.sin_port);
  }
  hand_made_door(const hand_made_door&) = delete;
  ~hand_made_door() { close(fd_); }
  std::string uri() const { return fmt::format("tcp://127.0.0.1:{}", port_); }
  hand_made_peer accept() const { return hand_made_peer{accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)}; }

private:
  int fd_;
  uint16_t port_ = 0;
};

} // namespace weir::test
