#pragma once
// A connection in memory between two virtual loops of one test.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "actors/loop.hpp"
#include "net/stream.hpp"

namespace weir::test {

/// What both ends of a pipe share: one buffer for each direction.
struct pipe_state {
  struct direction {
    std::vector<std::byte> bytes;
    size_t capacity = 64 << 10;
    bool closed = false;
    bool stalled = false; ///< bytes go in and do not come out
    std::function<void()> reader, writer;
    actors::loop* reads = nullptr;
    actors::loop* writes = nullptr;
  };
  direction ab, ba;
  uint64_t steps = 0;

  static void wake(std::function<void()>& f, actors::loop* on) {
    if (auto g = std::exchange(f, nullptr))
      on->post(std::move(g));
  }
  void set_stalled(direction& d, bool on) {
    d.stalled = on;
    if (!on && (!d.bytes.empty() || d.closed))
      wake(d.reader, d.reads);
  }
  void cut() {
    for (auto* d : {&ab, &ba}) {
      d->closed = true;
      wake(d->reader, d->reads);
      wake(d->writer, d->writes);
    }
  }
};

class pipe_stream final : public net::stream {
public:
  pipe_stream(std::shared_ptr<pipe_state> s, bool is_a)
      : state_(std::move(s)), in_(is_a ? state_->ba : state_->ab), out_(is_a ? state_->ab : state_->ba) {}
  ~pipe_stream() override { close(); }

  net::io_count read(std::byte* to, size_t n) override {
    ++state_->steps;
    if (in_.stalled)
      return {net::io_count::state::would_block, 0, {}};
    if (in_.bytes.empty())
      return {in_.closed ? net::io_count::state::end : net::io_count::state::would_block, 0, {}};
    n = std::min(n, in_.bytes.size());
    std::memcpy(to, in_.bytes.data(), n);
    in_.bytes.erase(in_.bytes.begin(), in_.bytes.begin() + static_cast<std::ptrdiff_t>(n));
    pipe_state::wake(in_.writer, in_.writes);
    return {net::io_count::state::ok, n, {}};
  }
  net::io_count write(const iovec* from, int count) override {
    ++state_->steps;
    if (out_.closed)
      return {net::io_count::state::failed, 0, "the pipe is closed"};
    size_t done = 0;
    for (int i = 0; i < count; ++i) {
      auto n = std::min(from[i].iov_len, out_.capacity - out_.bytes.size());
      auto* at = static_cast<const std::byte*>(from[i].iov_base);
      out_.bytes.insert(out_.bytes.end(), at, at + n);
      done += n;
      if (n < from[i].iov_len)
        break;
    }
    if (done == 0)
      return {net::io_count::state::would_block, 0, {}};
    if (!out_.stalled)
      pipe_state::wake(out_.reader, out_.reads);
    return {net::io_count::state::ok, done, {}};
  }
  void when_readable(std::function<void()> f) override {
    if (!in_.stalled && (!in_.bytes.empty() || in_.closed))
      in_.reads->post(std::move(f));
    else
      in_.reader = std::move(f);
  }
  void when_writable(std::function<void()> f) override {
    if (out_.closed || out_.bytes.size() < out_.capacity)
      out_.writes->post(std::move(f));
    else
      out_.writer = std::move(f);
  }
  void close() override {
    in_.reader = nullptr;
    out_.writer = nullptr;
    in_.closed = true;
    out_.closed = true;
    if (out_.reads)
      pipe_state::wake(out_.reader, out_.reads);
    if (in_.writes)
      pipe_state::wake(in_.writer, in_.writes);
  }
  std::string describe() const override { return "pipe"; }

private:
  std::shared_ptr<pipe_state> state_;
  pipe_state::direction& in_;
  pipe_state::direction& out_;
};

} // namespace weir::test
