#include "bench/harness.hpp"

#include "bench/running.hpp"

namespace weir::bench {

using namespace std::chrono_literals;

namespace {

constexpr auto warm_up_time = 300ms; // until caches, branch predictors and socket buffers are as they will be
constexpr auto settle_limit = 60s;   // for clients to say `finished` after the end of a run

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
