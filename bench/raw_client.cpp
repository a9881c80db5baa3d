#include "bench/raw_client.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include <poll.h>

#include "bench/raw_socket.hpp"

namespace weir::bench {

using namespace std::chrono_literals;

namespace {

/// A header and `bytes` bytes, `copies` times one behind the other.
std::vector<char> make_frames(std::size_t bytes, std::size_t copies) {
  raw_header header{static_cast<std::uint32_t>(bytes), raw_kind::echo};
  std::vector<char> frames((sizeof header + bytes) * copies, 'x');
  for (std::size_t i = 0; i < copies; ++i)
    std::memcpy(frames.data() + i * (sizeof header + bytes), &header, sizeof header);
  return frames;
}

/// Cuts what arrives into frames of one size.
class frame_reader {
public:
  explicit frame_reader(std::size_t frame)
      : frame_(frame), room_(std::max<std::size_t>(256 << 10, 2 * frame)) {}

  /// One receive; how many frames it completed.
  std::size_t read(raw_socket& socket) {
    held_ += socket.receive_some(std::span(room_).subspan(held_));
    auto whole = held_ / frame_;
    held_ %= frame_;
    if (whole > 0 && held_ > 0)
      std::memmove(room_.data(), room_.data() + whole * frame_, held_);
    return whole;
  }

private:
  std::size_t frame_, held_ = 0;
  std::vector<char> room_;
};

/// One connection with `callers` calls open: an answer makes room for the next call.
void closed_loop(raw_socket& socket, const rpc_shape& shape, shared_state& state) {
  recorder record(state);
  auto frames = make_frames(shape.bytes, shape.callers);
  auto frame = frames.size() / shape.callers;
  frame_reader reader(frame);
  std::vector<clock::time_point> sent(shape.callers); // a ring: answers come in order
  std::size_t oldest = 0, due = shape.callers;
  while (record.running()) {
    auto now = clock::now();
    for (std::size_t i = 0; i < due; ++i)
      sent[(oldest + shape.callers - due + i) % shape.callers] = now;
    socket.send_all(std::span(frames).first(due * frame));
    due = reader.read(socket);
    now = clock::now();
    for (std::size_t i = 0; i < due; ++i) {
      record.record(sent[oldest], now);
      oldest = (oldest + 1) % shape.callers;
    }
  }
}

clock::duration interval_of(double rate) {
  return std::chrono::duration_cast<clock::duration>(seconds(1 / rate));
}

/// Calls on schedule, whether answers come or not, timed from when they should have left.
void open_loop(raw_socket& socket, const rpc_shape& shape, shared_state& state) {
  static constexpr std::size_t burst_max = 64,
                               open_max = 1 << 16; // open_max: what the server holds for us at most
  recorder record(state);
  auto frames = make_frames(shape.bytes, burst_max);
  auto frame = frames.size() / burst_max;
  frame_reader reader(frame);
  std::deque<clock::time_point> open;
  auto interval = interval_of(shape.rate / static_cast<double>(shape.processes));
  for (auto next = clock::now(); record.running();) {
    std::size_t due = 0;
    for (auto now = clock::now(); next <= now && due < burst_max && open.size() < open_max;
         next += interval, ++due)
      open.push_back(next);
    socket.send_all(std::span(frames).first(due * frame));
    auto wait = due == burst_max ? 0ns : std::clamp<clock::duration>(next - clock::now(), 0ns, 10ms);
    timespec time{0, static_cast<long>(wait.count())};
    pollfd readable{socket.descriptor(), POLLIN, 0};
    if (ppoll(&readable, 1, &time, nullptr) <= 0)
      continue;
    auto answered = reader.read(socket);
    auto now = clock::now();
    for (; answered > 0; --answered, open.pop_front())
      record.record(open.front(), now);
  }
}

/// One thread with a connection of its own that waits for each answer.
void blocking_loop(raw_socket& socket, const rpc_shape& shape, shared_state& state) {
  recorder record(state);
  auto frame = make_frames(shape.bytes, 1);
  std::vector<char> answer(frame.size());
  auto callers = static_cast<double>(shape.processes * shape.callers);
  auto interval = shape.rate > 0 ? interval_of(shape.rate / callers) : clock::duration(0);
  for (auto next = clock::now(); record.running(); next += interval) {
    if (interval > 0ns)
      std::this_thread::sleep_until(next);
    auto from = interval > 0ns ? next : clock::now();
    socket.send_all(frame);
    socket.receive_all(answer);
    record.record(from, clock::now());
  }
}

} // namespace

void run_raw_client(std::string_view address, const rpc_shape& shape, shared_state& state) {
  std::deque<raw_socket> sockets;
  auto connections = shape.style == "threads" ? shape.callers : 1;
  for (std::uint64_t i = 0; i < connections; ++i)
    sockets.push_back(dial(address));
  ++state.ready;
  if (shape.style == "threads") {
    std::vector<std::jthread> threads;
    for (auto& socket : sockets)
      threads.emplace_back([&] { blocking_loop(socket, shape, state); });
  } else if (shape.rate > 0) {
    open_loop(sockets.front(), shape, state);
  } else {
    closed_loop(sockets.front(), shape, state);
  }
  finish(state);
}

namespace {

/// Sends messages in batches of one system call each, all from the same memory.
class stream_sender {
public:
  stream_sender(raw_socket& socket, std::size_t bytes)
      : socket_(socket), header_{static_cast<std::uint32_t>(bytes), raw_kind::one_way}, payload_(bytes, 'x') {
    static constexpr std::size_t batch_bytes = 256 << 10, batch_messages = 256;
    batch_ = std::clamp<std::size_t>(batch_bytes / (bytes + sizeof header_), 1, batch_messages);
    parts_.reserve(2 * batch_);
  }

  void send(std::uint64_t messages, std::atomic<std::uint64_t>* sent) {
    while (messages > 0) {
      auto n = std::min<std::uint64_t>(messages, batch_);
      parts_.clear();
      for (std::uint64_t i = 0; i < n; ++i) {
        parts_.push_back({&header_, sizeof header_});
        parts_.push_back({payload_.data(), payload_.size()});
      }
      socket_.send_all(std::span(parts_));
      messages -= n;
      if (sent != nullptr)
        *sent += n;
    }
  }

  raw_receipt end() {
    raw_header end{0, raw_kind::end};
    raw_receipt receipt;
    socket_.send_all(std::span(reinterpret_cast<const char*>(&end), sizeof end));
    socket_.receive_all(std::span(reinterpret_cast<char*>(&receipt), sizeof receipt));
    return receipt;
  }

private:
  raw_socket& socket_;
  raw_header header_;
  std::vector<char> payload_;
  std::vector<iovec> parts_;
  std::size_t batch_ = 1;
};

} // namespace

void run_raw_client(std::string_view address, const stream_shape& shape, shared_state& state) {
  auto socket = dial(address);
  stream_sender sender(socket, shape.bytes);
  sender.send(std::max<std::uint64_t>(1, shape.messages / 20), nullptr); // the warm-up
  sender.end();
  ++state.ready;
  wait_for(state, phase::measure);
  state.started = clock::now().time_since_epoch().count();
  sender.send(shape.messages, &state.sent);
  state.received = sender.end().messages;
  state.ended = clock::now().time_since_epoch().count();
  finish(state);
}

} // namespace weir::bench
