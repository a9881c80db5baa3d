// ZeroMQ in the shapes of `weir bench`: rpc is DEALER -> ROUTER, stream is PUSH -> PULL with a receipt on a
// second pair. It is measured by weir's own harness, from outside, like weir and raw.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/timerfd.h>
#include <unistd.h>

#include <fmt/format.h>
#include <zmq.h>

#include "bench/harness.hpp"

using namespace weir::bench;
using namespace std::chrono_literals;

namespace {

struct receipt {
  std::uint64_t messages = 0, bytes = 0;
};

int check(int status, const char* what) {
  if (status < 0)
    throw bench_error(fmt::format("zmq: {}: {}", what, zmq_strerror(zmq_errno())));
  return status;
}

/// One per process, with ZeroMQ's own defaults: one I/O thread, 1000 messages of high water mark.
class context {
public:
  context() : context_(zmq_ctx_new()) {}
  ~context() { zmq_ctx_term(context_); }
  context(const context&) = delete;
  context& operator=(const context&) = delete;
  void* get() const { return context_; }

private:
  void* context_;
};

class socket {
public:
  socket(const context& in, int type) : socket_(zmq_socket(in.get(), type)) {
    int none = 0;
    check(zmq_setsockopt(socket_, ZMQ_LINGER, &none, sizeof none), "linger");
  }
  ~socket() { zmq_close(socket_); }
  socket(const socket&) = delete;
  socket& operator=(const socket&) = delete;

  void connect(const std::string& address) { check(zmq_connect(socket_, address.c_str()), "connect"); }

  /// On a port that the system picks, or a name of our own.
  std::string bind(std::string_view transport) {
    static int names = 0; // in the abstract namespace: ipc://* would leave files behind
    auto any = transport == "tcp" ? "tcp://127.0.0.1:*"
                                  : fmt::format("ipc://@weir-peer-{}-{}", getpid(), ++names);
    check(zmq_bind(socket_, any.c_str()), "bind");
    char address[256] = {};
    auto size = sizeof address;
    check(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, address, &size), "address");
    return address;
  }

  void send(const void* bytes, std::size_t size) { check(zmq_send(socket_, bytes, size, 0), "send"); }

  /// Returns the size, also when it was cut to `room`.
  std::size_t receive(void* bytes, std::size_t room) {
    return static_cast<std::size_t>(check(zmq_recv(socket_, bytes, room, 0), "receive"));
  }

  /// Whether there was a message.
  bool try_receive(void* bytes, std::size_t room, std::size_t& size) {
    auto got = zmq_recv(socket_, bytes, room, ZMQ_DONTWAIT);
    if (got < 0 && zmq_errno() == EAGAIN)
      return false;
    size = static_cast<std::size_t>(check(got, "receive"));
    return true;
  }

  /// Until there is a message, `other` is readable, or some time has passed.
  void wait_with(int other) {
    static constexpr long limit_ms = 10;
    zmq_pollitem_t items[] = {{socket_, 0, ZMQ_POLLIN, 0}, {nullptr, other, ZMQ_POLLIN, 0}};
    check(zmq_poll(items, 2, limit_ms), "poll");
  }

  void send(zmq_msg_t& message, int flags) { check(zmq_msg_send(&message, socket_, flags), "send"); }
  void receive(zmq_msg_t& message) { check(zmq_msg_recv(&message, socket_, 0), "receive"); }

private:
  void* socket_;
};

// ---- servers

[[noreturn]] void serve_rpc(std::string_view transport) {
  context all;
  socket router(all, ZMQ_ROUTER);
  say_ready(router.bind(transport));
  zmq_msg_t from, request;
  zmq_msg_init(&from);
  zmq_msg_init(&request);
  for (;;) {
    router.receive(from);
    router.receive(request);
    router.send(from, ZMQ_SNDMORE);
    router.send(request, 0);
  }
}

/// Counts; an empty message is the end of a stream and is answered with a receipt.
[[noreturn]] void serve_stream(std::string_view transport) {
  context all;
  socket in(all, ZMQ_PULL), receipts(all, ZMQ_PUSH);
  auto address = in.bind(transport);
  say_ready(address + "," + receipts.bind(transport));
  receipt counted;
  zmq_msg_t message;
  zmq_msg_init(&message);
  for (;;) {
    in.receive(message);
    auto size = zmq_msg_size(&message);
    if (size == 0) {
      receipts.send(&counted, sizeof counted);
      counted = {};
    } else {
      ++counted.messages;
      counted.bytes += size;
    }
  }
}

// ---- clients

clock::duration interval_of(double rate) {
  return std::chrono::duration_cast<clock::duration>(seconds(1 / rate));
}

/// One socket with one call at a time.
void blocking_loop(socket& to, const rpc_shape& shape, shared_state& state) {
  recorder record(state);
  std::vector<char> request(shape.bytes, 'x'), answer(shape.bytes + 1);
  auto all = static_cast<double>(shape.processes * shape.callers);
  auto interval = shape.rate > 0 ? interval_of(shape.rate / all) : clock::duration(0);
  for (auto next = clock::now(); record.running(); next += interval) {
    if (shape.rate > 0)
      std::this_thread::sleep_until(next);
    auto from = shape.rate > 0 ? next : clock::now();
    to.send(request.data(), request.size());
    if (to.receive(answer.data(), answer.size()) != request.size())
      ++state.errors;
    record.record(from, clock::now());
  }
}

/// Wakes a poll at a time.
class alarm_clock {
public:
  alarm_clock() : descriptor_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    if (descriptor_ < 0)
      throw_system_error("zmq: timer");
  }
  ~alarm_clock() { close(descriptor_); }
  alarm_clock(const alarm_clock&) = delete;
  alarm_clock& operator=(const alarm_clock&) = delete;

  int descriptor() const { return descriptor_; }
  void set(clock::duration from_now) {
    itimerspec at{};
    at.it_value.tv_nsec = static_cast<long>(std::clamp<clock::duration>(from_now, 1ns, 10ms).count());
    timerfd_settime(descriptor_, 0, &at, nullptr);
  }

private:
  int descriptor_;
};

/// One socket, calls on schedule whether answers come or not, timed from when they were due. As weir's.
class scheduled_calls {
public:
  scheduled_calls(socket& to, const rpc_shape& shape, shared_state& state)
      : to_(to),
        state_(state),
        record_(state),
        request_(shape.bytes, 'x'),
        answer_(shape.bytes + 1),
        interval_(interval_of(shape.rate / static_cast<double>(shape.processes))),
        next_(clock::now()) {}

  void run() {
    alarm_clock alarm;
    while (record_.running()) {
      send_due();
      take_answers();
      if (next_ <= clock::now() && open_.size() < open_max)
        continue;
      alarm.set(std::max<clock::duration>(next_ - clock::now(), tick));
      to_.wait_with(alarm.descriptor());
    }
    for (auto now = clock::now(); next_ <= now; next_ += interval_)
      record_.record_due(next_, now);
    for (auto until = clock::now() + settle; !open_.empty() && clock::now() < until;)
      take_answers();
  }

private:
  static constexpr std::size_t open_max = 900; // below the high water mark, where a ROUTER drops answers
  static constexpr int burst_max = 64;
  static constexpr auto tick = 50us; // calls that are due within it leave together
  static constexpr auto settle = 1s;

  void send_due() {
    auto now = clock::now();
    for (int i = 0; i < burst_max && next_ <= now && open_.size() < open_max; ++i, next_ += interval_) {
      to_.send(request_.data(), request_.size());
      open_.push_back(next_);
    }
  }

  void take_answers() {
    for (std::size_t size = 0; to_.try_receive(answer_.data(), answer_.size(), size); open_.pop_front()) {
      if (size != request_.size())
        ++state_.errors;
      record_.record_due(open_.front(), clock::now());
    }
  }

  socket& to_;
  shared_state& state_;
  recorder record_;
  std::vector<char> request_, answer_;
  const clock::duration interval_;
  clock::time_point next_;
  std::deque<clock::time_point> open_; // answers come in order
};

/// One socket with `callers` calls open.
void open_calls(socket& to, const rpc_shape& shape, shared_state& state) {
  recorder record(state);
  std::vector<char> request(shape.bytes, 'x'), answer(shape.bytes + 1);
  std::deque<clock::time_point> sent;
  auto call = [&](clock::time_point now) {
    to.send(request.data(), request.size());
    sent.push_back(now);
  };
  for (std::uint64_t i = 0; i < shape.callers; ++i)
    call(clock::now());
  while (record.running()) {
    if (to.receive(answer.data(), answer.size()) != request.size())
      ++state.errors;
    auto now = clock::now();
    record.record(sent.front(), now);
    sent.pop_front();
    call(now);
  }
}

void run_client(const std::string& address, const rpc_shape& shape, shared_state& state) {
  context all;
  std::deque<socket> sockets;
  auto count = shape.style == "threads" ? shape.callers : 1;
  for (std::uint64_t i = 0; i < count; ++i)
    sockets.emplace_back(all, ZMQ_DEALER).connect(address);
  ++state.ready;
  if (shape.style == "threads") {
    std::vector<std::jthread> threads;
    for (auto& one : sockets)
      threads.emplace_back([&] { blocking_loop(one, shape, state); });
  } else if (shape.rate > 0) {
    scheduled_calls(sockets.front(), shape, state).run();
  } else {
    open_calls(sockets.front(), shape, state);
  }
  finish(state);
}

void run_client(const std::string& address, const stream_shape& shape, shared_state& state) {
  static constexpr std::uint64_t glance = 1024; // messages between two words about how far we are
  context all;
  socket out(all, ZMQ_PUSH), receipts(all, ZMQ_PULL);
  auto comma = address.find(',');
  out.connect(address.substr(0, comma));
  receipts.connect(address.substr(comma + 1));
  std::vector<char> payload(shape.bytes, 'x');
  auto stream = [&](std::uint64_t messages, std::atomic<std::uint64_t>& sent) {
    for (std::uint64_t i = 1; i <= messages; ++i) {
      out.send(payload.data(), payload.size());
      if (i % glance == 0 || i == messages)
        sent = i;
    }
    out.send("", 0);
    receipt counted;
    receipts.receive(&counted, sizeof counted);
    return counted.messages;
  };
  std::atomic<std::uint64_t> warm_up{0};
  stream(std::max<std::uint64_t>(1, shape.messages / 20), warm_up);
  ++state.ready;
  wait_for(state, phase::measure);
  state.started = clock::now().time_since_epoch().count();
  state.received = stream(shape.messages, state.sent);
  state.ended = clock::now().time_since_epoch().count();
  finish(state);
}

// ---- the program

rpc_result measure(const process_plan& plan, const rpc_shape& shape) { return run_rpc(plan, shape); }
stream_result measure(const process_plan& plan, const stream_shape& shape) { return run_stream(plan, shape); }

figures figures_of(const rpc_result& result) {
  auto all = to_figures(result);
  const auto latencies = latencies_of(result);
  for (const auto& entry : latencies.entries())
    if (all.find(entry.key) == nullptr)
      all.add_number(entry.key, entry.number);
  return all;
}
figures figures_of(const stream_result& result) { return to_figures(result); }

void print_line(std::string_view mode, const figures& result) {
  fmt::print("peer=zmq mode={}", mode);
  for (const auto& entry : result.entries())
    if (auto number = result.number(entry.key))
      fmt::print(" {}={}", entry.key, *number);
  fmt::print("\n");
}

template <class Shape>
int run_mode(const std::string& mode, void (*serve)(std::string_view), int argc, char** argv) {
  Shape shape;
  role part;
  options line("peers/run zmq " + mode, "ZeroMQ, measured like weir");
  add_options(line, shape);
  add_options(line, part);
  if (auto status = line.parse(argc, argv))
    return *status;
  if (part.as == "server")
    serve(shape.transport);
  if (part.as == "client") {
    shared_page page(shared_page::inherited{});
    run_client(part.address, shape, page.state());
    std::fflush(nullptr);
    _exit(0); // at the end of a run messages are on their way; do not wait for them
  }
  process_plan plan;
  plan.label = "zmq " + mode;
  plan.server = {mode, "--as", "server", "--transport", shape.transport};
  plan.client = {mode, "--as", "client"};
  auto shaped = arguments_of(shape);
  plan.client.insert(plan.client.end(), shaped.begin(), shaped.end());
  print_line(mode, figures_of(measure(plan, shape)));
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    std::string_view mode = argc > 1 ? argv[1] : "";
    if (mode == "rpc")
      return run_mode<rpc_shape>("rpc", serve_rpc, argc - 1, argv + 1);
    if (mode == "stream")
      return run_mode<stream_shape>("stream", serve_stream, argc - 1, argv + 1);
    fmt::print(stderr, "peers/run zmq: {}: the modes are rpc and stream\n", mode.empty() ? "no mode" : mode);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "peers/run zmq: {}\n", error.what());
    return 1;
  }
}
