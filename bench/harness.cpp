#include "bench/harness.hpp"

#include <algorithm>
#include <deque>
#include <thread>

#include <fmt/format.h>

namespace weir::bench {

using namespace std::chrono_literals;

namespace {

constexpr auto ready_limit = 20s;    // for a server to listen, and for all clients to connect
constexpr auto warm_up_time = 300ms; // until caches, branch predictors and socket buffers are as they will be
constexpr auto settle_limit = 60s;   // for clients to say `finished` after the end of a run
constexpr auto client_end_limit = 10s; // for clients to end when they may
constexpr auto glance = 10ms; // between two looks at the page: seldom, a look takes a core from the run

double mb(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

double us(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }

/// The processes of one run. Destroying it ends them all.
class running {
public:
  running(const process_plan& plan, std::uint64_t client_count) : plan_(plan), progress_(plan.label) {
    progress_.update(-1, "starting");
    auto program = own_program();
    child_process::settings with{&page_, false};
    auto address = plan.address.value_or("");
    if (!plan.server.empty()) {
      server_.emplace(program, plan.server, with);
      address = server_->wait_ready(ready_limit);
    }
    auto arguments = plan.client;
    arguments.insert(arguments.end(), {"--address", address});
    for (std::uint64_t i = 0; i < client_count; ++i)
      clients_.emplace_back(program, arguments, with);
    wait_until("connecting", ready_limit, [&] { return state().ready >= client_count; });
  }

  shared_state& state() { return page_.state(); }

  /// Lets everything run for a while, with progress; fails as soon as a process has ended.
  void run_for(seconds time, std::string_view what) {
    for (auto from = clock::now(), now = from; now - from < time; now = clock::now()) {
      check();
      progress_.update(seconds(now - from) / time, what);
      std::this_thread::sleep_for(std::min<seconds>(glance * 2, time - seconds(now - from)));
    }
  }

  /// Until `done()`; an empty limit is none.
  template <class Done, class Share>
  void wait_until(std::string_view what, std::optional<seconds> limit, Done done, Share share) {
    for (auto from = clock::now(); !done();) {
      check();
      if (limit && clock::now() - from > *limit)
        throw bench_error(fmt::format("{}: {} took more than {} s; is the machine overloaded?", plan_.label,
                                      what, limit->count()));
      progress_.update(share(), what);
      std::this_thread::sleep_for(glance);
    }
  }
  template <class Done>
  void wait_until(std::string_view what, std::optional<seconds> limit, Done done) {
    wait_until(what, limit, done, [] { return -1.0; });
  }

  /// All clients have stopped and published.
  void wait_finished(std::optional<seconds> limit) {
    wait_until("settling", limit, [&] { return state().finished >= clients_.size(); });
  }

  void leave() {
    state().now = phase::leave;
    for (auto& client : clients_)
      if (auto status = client.wait(client_end_limit); status != 0)
        throw bench_error(fmt::format("{}: a client process ended with status {}", plan_.label, status));
    if (server_)
      server_->stop();
  }

  bool server_is_ours() const { return server_.has_value(); }

  /// Processor time of all our processes so far.
  seconds cpu() const {
    auto sum = server_ ? cpu_time(server_->pid()).value_or(0s) : seconds(0);
    for (const auto& client : clients_)
      sum += cpu_time(client.pid()).value_or(0s);
    return sum;
  }

  std::optional<memory> server_memory() const { return server_ ? memory_of(server_->pid()) : std::nullopt; }

  /// Of the largest client.
  memory client_memory() const {
    memory largest;
    for (const auto& client : clients_) {
      auto used = memory_of(client.pid()).value_or(memory{});
      largest.resident_bytes = std::max(largest.resident_bytes, used.resident_bytes);
      largest.peak_bytes = std::max(largest.peak_bytes, used.peak_bytes);
    }
    return largest;
  }

private:
  void check() {
    if (auto ended = server_ ? server_->status() : std::nullopt)
      throw bench_error(fmt::format("{}: the server process ended with status {}", plan_.label, *ended));
    for (auto& client : clients_)
      if (auto ended = client.status())
        throw bench_error(fmt::format("{}: a client process ended with status {}", plan_.label, *ended));
  }

  const process_plan& plan_;
  progress progress_;
  shared_page page_;
  std::optional<child_process> server_;
  std::deque<child_process> clients_;
};

} // namespace

rpc_result run_rpc(const process_plan& plan, const rpc_shape& shape) {
  running run(plan, shape.processes);
  auto& state = run.state();
  run.run_for(warm_up_time, "warm-up");
  auto cpu = run.cpu();
  auto from = clock::now();
  state.now = phase::measure;
  run.run_for(shape.length, "measuring");
  state.now = phase::over;
  seconds length = clock::now() - from;
  cpu = run.cpu() - cpu;
  rpc_result result;
  result.client_rss_mb = mb(run.client_memory().resident_bytes);
  if (auto used = run.server_memory())
    result.server_rss_mb = mb(used->resident_bytes);
  run.wait_finished(settle_limit);
  run.leave();
  const auto& latency = state.latency;
  auto calls = static_cast<double>(latency.count());
  result.tps = calls / length.count();
  result.p50_us = us(latency.quantile(0.5));
  result.p90_us = us(latency.quantile(0.9));
  result.p99_us = us(latency.quantile(0.99));
  result.p999_us = us(latency.quantile(0.999));
  result.p9999_us = us(latency.quantile(0.9999));
  result.max_us = us(latency.max());
  result.errors = state.errors;
  if (run.server_is_ours() && calls > 0)
    result.cpu_us_per_call = cpu.count() * 1e6 / calls;
  return result;
}

stream_result run_stream(const process_plan& plan, const stream_shape& shape) {
  running run(plan, 1);
  auto& state = run.state();
  auto all = static_cast<double>(shape.messages);
  auto cpu = run.cpu();
  state.now = phase::measure;
  run.wait_until(
      "streaming", std::nullopt, [&] { return state.finished > 0; },
      [&] { return static_cast<double>(state.sent) / all; });
  cpu = run.cpu() - cpu;
  stream_result result;
  result.sender_rss_mb = mb(run.client_memory().resident_bytes);
  if (auto used = run.server_memory())
    result.receiver_rss_mb = mb(used->resident_bytes);
  run.leave();
  seconds length = clock::duration(state.ended - state.started);
  result.sent = state.sent;
  result.received = state.received;
  auto received = static_cast<double>(result.received);
  auto bytes = received * static_cast<double>(shape.bytes);
  result.msgs_per_s = received / length.count();
  result.mb_per_s = bytes / 1e6 / length.count();
  if (run.server_is_ours() && received > 0) {
    result.cpu_us_per_msg = cpu.count() * 1e6 / received;
    result.cpu_s_per_gb = cpu.count() * 1e9 / bytes;
  }
  return result;
}

slow_result run_slow(const process_plan& plan, const slow_shape& shape) {
  running run(plan, 1);
  auto& state = run.state();
  state.now = phase::measure;
  run.run_for(shape.length, "offering");
  state.now = phase::over;
  // What has been accepted is handled at the service's pace: its queues are bounded, but it may take a while.
  run.wait_finished(settle_limit * 10);
  slow_result result;
  result.sender_peak_rss_mb = mb(run.client_memory().peak_bytes);
  if (auto used = run.server_memory())
    result.receiver_peak_rss_mb = mb(used->peak_bytes);
  run.leave();
  result.offered = state.offered;
  result.handled = state.handled;
  result.undelivered = state.undelivered;
  result.refused = state.refused;
  return result;
}

} // namespace weir::bench
