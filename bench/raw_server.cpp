#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "bench/processes.hpp"
#include "bench/raw_socket.hpp"

namespace weir::bench {

namespace {

/// One client: what it sent and is not handled, what is answered and not sent.
class raw_connection {
public:
  raw_connection(int descriptor, std::size_t room) : socket_(descriptor), room_(room), in_(room) {}

  int descriptor() const { return socket_.descriptor(); }
  bool wants_to_write() const { return !out_.empty(); }

  /// False when the client has gone.
  bool read() {
    auto n = recv(descriptor(), in_.data() + held_, in_.size() - held_, 0);
    if (n <= 0)
      return n < 0 && (errno == EAGAIN || errno == EINTR);
    held_ += static_cast<std::size_t>(n);
    std::size_t at = 0;
    while (handle_one(at)) {
    }
    held_ -= at;
    if (at > 0 && held_ > 0)
      std::memmove(in_.data(), in_.data() + at, held_);
    return true;
  }

  /// Sends what the socket takes.
  void write() {
    while (sent_ < out_.size()) {
      auto n = send(descriptor(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
      if (n < 0)
        return; // full: the loop tells when it is not; broken: the next read tells
      sent_ += static_cast<std::size_t>(n);
    }
    out_.clear();
    sent_ = 0;
  }

private:
  /// Handles what begins at `at` and moves it on; false when more bytes are needed.
  bool handle_one(std::size_t& at) {
    if (to_skip_ > 0) {
      auto n = std::min(to_skip_, held_ - at);
      at += n;
      to_skip_ -= n;
    }
    raw_header header;
    if (to_skip_ > 0 || held_ - at < sizeof header)
      return false;
    std::memcpy(&header, in_.data() + at, sizeof header);
    if (header.kind == raw_kind::one_way) {
      at += sizeof header;
      to_skip_ = header.length;
      ++counted_.messages;
      counted_.bytes += header.length;
      return true;
    }
    if (header.kind == raw_kind::end) {
      at += sizeof header;
      answer(&counted_, sizeof counted_);
      counted_ = {};
      return true;
    }
    auto frame = sizeof header + header.length;
    if (frame > in_.size())
      in_.resize(frame + room_);
    if (held_ - at < frame)
      return false;
    answer(in_.data() + at, frame);
    at += frame;
    return true;
  }

  void answer(const void* bytes, std::size_t size) {
    const auto* from = static_cast<const char*>(bytes);
    out_.insert(out_.end(), from, from + size);
  }

  raw_socket socket_;
  const std::size_t room_; // for one receive
  std::vector<char> in_, out_;
  std::size_t held_ = 0, sent_ = 0, to_skip_ = 0;
  raw_receipt counted_;
};

class raw_server {
public:
  raw_server(const raw_socket& listener, std::size_t room)
      : listener_(listener), room_(room), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    watch(EPOLL_CTL_ADD, listener_.descriptor(), EPOLLIN, nullptr);
  }

  void run() {
    std::array<epoll_event, 64> events{};
    for (;;) {
      auto n = epoll_wait(epoll_.descriptor(), events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < n; ++i) {
        const auto& event = events[static_cast<std::size_t>(i)];
        if (event.data.ptr == nullptr)
          accept_one();
        else
          serve(static_cast<raw_connection*>(event.data.ptr), event.events);
      }
    }
  }

private:
  void watch(int operation, int descriptor, std::uint32_t events, raw_connection* connection) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = connection;
    epoll_ctl(epoll_.descriptor(), operation, descriptor, &event);
  }

  void accept_one() {
    auto descriptor = accept4(listener_.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0)
      return;
    int one = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one,
               sizeof one); // fails on a Unix socket, which needs none
    watch(EPOLL_CTL_ADD, descriptor, EPOLLIN, new raw_connection(descriptor, room_));
  }

  void serve(raw_connection* connection, std::uint32_t events) {
    bool waited = connection->wants_to_write();
    if ((events & (EPOLLIN | EPOLLHUP)) != 0 && !connection->read()) {
      delete connection; // closes the descriptor, which leaves the epoll set by that
      return;
    }
    connection->write();
    if (bool waits = connection->wants_to_write(); waits != waited)
      watch(EPOLL_CTL_MOD, connection->descriptor(), waits ? EPOLLIN | EPOLLOUT : EPOLLIN, connection);
  }

  const raw_socket& listener_;
  const std::size_t room_;
  raw_socket epoll_;
};

} // namespace

void serve_raw(raw_listener& listener, std::size_t room) { raw_server(listener.socket, room).run(); }

} // namespace weir::bench
