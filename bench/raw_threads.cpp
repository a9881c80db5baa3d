/// The two ways to write a server for many connections by hand, and their client.
#include <array>
#include <cstring>
#include <deque>
#include <system_error>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "bench/processes.hpp"
#include "bench/raw_client.hpp"
#include "bench/raw_socket.hpp"

namespace weir::bench {

namespace {

/// Answers until the client has gone.
void answer_blocking(int descriptor) {
  raw_socket socket(descriptor);
  raw_header header;
  std::vector<char> frame;
  try {
    for (;;) {
      socket.receive_all({reinterpret_cast<char*>(&header), sizeof header});
      frame.resize(sizeof header + header.length);
      std::memcpy(frame.data(), &header, sizeof header);
      socket.receive_all(std::span(frame).subspan(sizeof header));
      socket.send_all(std::span<const char>(frame));
    }
  } catch (const bench_error&) { // it has gone
  }
}

/// One call open on each connection, all on one thread.
class many_connections {
public:
  many_connections(std::string_view address, const rpc_shape& shape, shared_state& state)
      : state_(state),
        record_(state),
        frame_(sizeof(raw_header) + shape.bytes, 'x'),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        room_(frame_.size()) {
    raw_header header{static_cast<std::uint32_t>(shape.bytes), raw_kind::echo};
    std::memcpy(frame_.data(), &header, sizeof header);
    for (std::uint64_t i = 0; i < shape.callers; ++i) {
      auto& one = all_.emplace_back(dial(address));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = &one;
      epoll_ctl(epoll_.descriptor(), EPOLL_CTL_ADD, one.socket.descriptor(), &event);
    }
  }

  void run() {
    ++state_.ready;
    for (auto& one : all_)
      call(one);
    std::array<epoll_event, 64> events{};
    static constexpr int look_ms = 10; // whether the run is over
    while (record_.running()) {
      auto n = epoll_wait(epoll_.descriptor(), events.data(), static_cast<int>(events.size()), look_ms);
      for (int i = 0; i < n; ++i)
        receive(*static_cast<connection*>(events.at(static_cast<std::size_t>(i)).data.ptr));
    }
  }

private:
  struct connection {
    explicit connection(raw_socket s) : socket(std::move(s)) {}
    raw_socket socket;
    std::size_t missing = 0; ///< bytes of the answer
    clock::time_point from;
  };

  void call(connection& one) {
    one.missing = frame_.size();
    one.from = clock::now();
    one.socket.send_all(std::span<const char>(frame_));
  }

  void receive(connection& one) {
    one.missing -= one.socket.receive_some(std::span(room_).first(one.missing));
    if (one.missing > 0)
      return;
    record_.record(one.from, clock::now());
    call(one);
  }

  shared_state& state_;
  recorder record_;
  std::vector<char> frame_;
  raw_socket epoll_;
  std::vector<char> room_; // what comes is not looked at
  std::deque<connection> all_;
};

} // namespace

void serve_raw_threads(raw_listener& listener) {
  for (std::uint64_t count = 1;; ++count) {
    int descriptor = accept4(listener.socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0)
      throw_system_error("raw: accept");
    int one = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    try {
      std::thread(answer_blocking, descriptor).detach();
    } catch (const std::system_error& why) {
      throw bench_error(fmt::format("raw: no thread for connection {}: {}", count, why.what()));
    }
  }
}

void run_raw_connections(std::string_view address, const rpc_shape& shape, shared_state& state) {
  { many_connections(address, shape, state).run(); }
  finish(state);
}

} // namespace weir::bench
