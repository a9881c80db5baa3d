#include <array>
#include <map>
#include <thread>
#include <vector>

#include "bench/contender.hpp"
#include "bench/flow.hpp"
#include "bench/modes.hpp"
#include "bench/running.hpp"
#include "bench/weir_mode.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

namespace {

using namespace std::chrono_literals;
using program::Blob;

constexpr auto settle = 200ms; // from a change until it is measured
constexpr auto glance = 20ms;
constexpr int looks = 25; // a stream that has offered nothing for so many glances has stalled
constexpr auto stall_within = 30s;
constexpr auto step_limit = 120s;

/// Many streams on one link, one of which nobody takes anything from.
struct stall_shape {
  std::uint64_t sessions = 200; ///< the stalled one included
  std::uint64_t bytes = 1024;
  seconds length{0.4}; ///< of each part
  std::uint64_t rounds = 9;
  std::string transport = "tcp";
};

struct stall_result {
  double mb_per_s = 0, alone_mb_per_s = 0, ratio = 0; ///< medians
  double stalled_bytes = 0;                           ///< payload that the stalled one has got rid of
};

void add_options(options& line, stall_shape& shape) {
  line.count("sessions", shape.sessions, 2, 1000, "streams on one link; one of them is stalled")
      .bytes("bytes", shape.bytes, 1, 1 << 30, "payload of a message")
      .duration("seconds", shape.length, seconds(0.05), seconds(3600),
                "time to measure in each part: without and with the stalled one")
      .count("rounds", shape.rounds, 1, 1000, "how often the two parts follow each other; medians are given")
      .choice("transport", shape.transport, {"tcp", "unix"}, "how the processes talk");
}

std::vector<std::string> arguments_of(const stall_shape& shape) {
  return {"--sessions",  fmt::to_string(shape.sessions),
          "--bytes",     fmt::to_string(shape.bytes),
          "--seconds",   fmt::to_string(shape.length.count()),
          "--rounds",    fmt::to_string(shape.rounds),
          "--transport", shape.transport};
}

figures to_figures(const stall_result& r) {
  figures to;
  to.add_rounded("mb_per_s", r.mb_per_s, 1);
  to.add_rounded("alone_mb_per_s", r.alone_mb_per_s, 1);
  to.add_rounded("ratio", r.ratio, 3);
  to.add_rounded("stalled_bytes", r.stalled_bytes, 0);
  return to;
}

/// Gives nothing back: what comes stays in the charge of its stream until that ends.
class still final : public weir::sink<Blob> {
public:
  using sink::sink;
  void on_message(inlet<Blob> from, Blob::Reader) override { kept_[from.id()].push_back(from.lease()); }
  void on_ended(inlet<Blob> from, const failure&) override { kept_.erase(from.id()); }

private:
  std::map<std::uint64_t, std::vector<held<Blob>>> kept_; ///< bounded by the rations of the streams
};

void serve_still(client_node& node) {
  if (auto served = node.node().serve<Blob>("still", node.spawn<still>()); !served)
    throw bench_error(served.error().text);
}

// Order of `shared_state::values`: of the last step, and of the stalled stream.
enum value : std::uint8_t { step_mb_per_s, stalled_messages };

/// Steps count up by two; the last bit says whether the stalled stream is there.
constexpr std::uint32_t with_stalled = 1;

void wait_until_stalled(const flows& stalled) {
  auto until = clock::now() + stall_within;
  int same = 0; // one look is not enough: beside so many others its turn may be late
  for (std::uint64_t before = 0;;) {
    std::this_thread::sleep_for(glance);
    stalled.check();
    auto now = stalled.offered();
    same = now == before ? same + 1 : 0;
    if (now > 0 && same == looks)
      return;
    if (clock::now() > until)
      throw bench_error("the stream to a sink that takes nothing did not stop");
    before = now;
  }
}

double measure_others(client_node& node, const ref<program::Report>& report, seconds length) {
  std::this_thread::sleep_for(settle);
  auto before = ask_received(node, report);
  std::this_thread::sleep_for(length);
  auto after = ask_received(node, report);
  return static_cast<double>(after.bytes - before.bytes) / 1e6 / seconds(after.when - before.when).count();
}

void client(client_node& node, const std::string& address, const stall_shape& shape, shared_state& state) {
  {
    auto report = node.node().lookup<program::Report>("report", address);
    flows others(node, address), stalled(node, address);
    for (std::uint64_t i = 1; i < shape.sessions; ++i)
      others.add("sink", {.bytes = shape.bytes});
    stalled.add("still", {.bytes = shape.bytes, .fresh = true});
    others.start();
    ++state.ready;
    std::uint64_t before = 0; // that the stalled one had offered
    for (auto step = next_step(state, 0); step != 0; step = next_step(state, step)) {
      const bool beside = (step & with_stalled) != 0;
      if (beside) {
        stalled.start();
        wait_until_stalled(stalled);
      }
      const auto offered = stalled.offered();
      state.values[step_mb_per_s] = measure_others(node, report, shape.length);
      if (stalled.offered() != offered)
        throw bench_error("the stream to a sink that takes nothing went on while it was measured");
      if (beside) {
        stalled.stop(false);
        state.values[stalled_messages] = static_cast<double>(offered - std::exchange(before, offered));
      }
      others.check();
      state.reached = step;
    }
    others.stop();
  }
  finish(state);
}

stall_result run_stall(const process_plan& plan, const stall_shape& shape) {
  running run(plan, 1);
  auto& state = run.state();
  state.now = phase::measure;
  std::vector<double> alone, beside, ratios;
  std::uint32_t step = 2;
  run.do_step(step, "warm-up", shape.length + step_limit);
  auto measure = [&](std::uint64_t round, bool stalled) {
    step += 2;
    run.do_step(
        step | (stalled ? with_stalled : 0),
        fmt::format("round {} of {}, {}", round, shape.rounds, stalled ? "one stalled" : "none stalled"),
        shape.length + step_limit);
    (stalled ? beside : alone).push_back(state.values[step_mb_per_s]);
  };
  for (std::uint64_t round = 1; round <= shape.rounds; ++round) {
    const bool first = round % 2 == 0; // so that what drifts falls on both
    measure(round, first);
    measure(round, !first);
    ratios.push_back(beside.back() / alone.back());
  }
  state.now = phase::over;
  run.wait_finished(step_limit);
  run.leave();
  return {.mb_per_s = spread_of(beside).median,
          .alone_mb_per_s = spread_of(alone).median,
          .ratio = spread_of(ratios).median,
          .stalled_bytes = state.values[stalled_messages] * static_cast<double>(shape.bytes)};
}

} // namespace

int stall_main(int argc, char** argv) {
  weir_mode<stall_shape, stall_result> mode{
      "stall",   "one stalled session among many on a link: how fast the others are",
      run_stall, nullptr,
      client,    serve_still};
  return run_weir_mode(mode, argc, argv, [](const options&, const stall_shape&) { return std::nullopt; });
}

} // namespace weir::bench
