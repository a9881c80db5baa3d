#include <algorithm>
#include <functional>

#include "bench/contender.hpp"
#include "bench/modes.hpp"
#include "bench/weir_mode.hpp"

namespace weir::bench {

namespace {

/// What one system gave: first as fast as it can, then at a share of that.
struct loaded {
  std::string name;
  std::function<figures(const rpc_shape&)> run; ///< nothing in it: the system is `skipped`
  std::vector<double> maxima;
  std::vector<figures> samples = {};
  double rate = 0; ///< calls per second that are sent
  std::string skipped = {};
};

constexpr std::array latency_keys{"p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us"};

double median_of(const std::vector<figures>& samples, std::string_view key) {
  std::vector<double> values;
  for (const auto& sample : samples)
    values.push_back(sample.number(key).value_or(0));
  return spread_of(std::move(values)).median;
}

figures figures_of(const loaded& one) {
  figures to;
  to.add_rounded("max_tps", spread_of(one.maxima).median, 0);
  to.add_rounded("rate", one.rate, 0);
  to.add_rounded("tps", median_of(one.samples, "tps"), 0);
  for (const auto* key : latency_keys)
    to.add_rounded(key, median_of(one.samples, key), 1);
  to.add_rounded("p999_to_p50", median_of(one.samples, "p999_us") / median_of(one.samples, "p50_us"), 2);
  to.add_rounded("cpu_us_per_call", median_of(one.samples, "cpu_us_per_call"), 2);
  to.add_rounded("errors", median_of(one.samples, "errors"), 0);
  return to;
}

loaded weir_itself(const weir_setup& setup) {
  auto run = [&setup](const rpc_shape& shape) {
    auto result = run_rpc(plan_of("rpc", shape, setup, setup.placement), shape);
    auto all = latencies_of(result);
    all.add_number("tps", result.tps).add_count("errors", static_cast<std::int64_t>(result.errors));
    return all.add_rounded("cpu_us_per_call", result.cpu_us_per_call, 2);
  };
  return {.name = "weir", .run = run, .maxima = {}};
}

loaded peer(const std::string& name, std::string* skipped) {
  auto run = [name, skipped](const rpc_shape& shape) -> figures {
    auto process = peer_contender(name, "rpc", arguments_of(shape));
    if (process.skipped.empty())
      run_once(process);
    *skipped = process.skipped;
    return process.samples.empty() ? figures{} : process.samples.front();
  };
  return {.name = name, .run = run, .maxima = {}};
}

/// Round by round, first all maxima and then all latencies.
void run_rounds(std::vector<loaded>& all, rpc_shape shape, double load, std::uint64_t rounds) {
  progress shown("latency");
  double done = 0;
  auto runs = static_cast<double>(2 * rounds * all.size());
  auto each = [&](std::string_view what, const auto& act) {
    for (std::uint64_t round = 1; round <= rounds; ++round)
      for (auto& one : all) {
        shown.update(done++ / runs, fmt::format("{} of {}, round {} of {}", what, one.name, round, rounds));
        if (one.skipped.empty())
          act(one);
      }
  };
  each("maximum", [&](loaded& one) {
    if (auto tps = one.run(shape).number("tps"))
      one.maxima.push_back(*tps);
    else
      one.skipped = "it did not run";
  });
  each("latency", [&](loaded& one) {
    one.rate = spread_of(one.maxima).median * load;
    if (one.rate <= 0)
      throw bench_error(fmt::format("{}: no call was answered", one.name));
    shape.rate = one.rate;
    one.samples.push_back(one.run(shape));
  });
}

int show(const std::vector<loaded>& all, double load, std::uint64_t rounds, const std::string& skipped,
         json_output& output) {
  std::vector<std::pair<std::string, figures>> columns;
  for (const auto& one : all)
    if (one.skipped.empty())
      columns.emplace_back(one.name, figures_of(one));
  auto result = columns.front().second;
  result.add_number("load", load);
  if (columns.size() > 1) {
    const auto& other = columns.back();
    result.add_inside(other.first, other.second);
    result.add_rounded("p999_to_" + other.first,
                       *result.number("p999_us") / other.second.number("p999_us").value_or(0), 3);
  }
  result.add_word("skipped", skipped);
  print_table(
      fmt::format("weir bench latency: at {} of each one's maximum, medians of {} rounds", load, rounds),
      columns);
  if (!skipped.empty())
    fmt::print("  skipped: {}\n", skipped);
  output.write(result);
  return 0;
}

} // namespace

int latency_main(int argc, char** argv) {
  rpc_shape shape;
  shape.callers = 20;
  double load = 0.7;
  std::uint64_t rounds = 3;
  std::string peers = "zmq", json, skipped;
  weir_setup setup;
  setup.placement = "loop";
  options line("weir bench latency",
               "how long calls take that are sent on schedule, at a share of the maximum");
  line.number("load", load, 0.01, 1, "calls per second to send, as a share of the measured maximum")
      .count("processes", shape.processes, 1, 1000, "client processes")
      .count("callers", shape.callers, 1, 1000, "callers in each process while the maximum is measured")
      .bytes("bytes", shape.bytes, 0, 1 << 20, "payload of a call and of its answer")
      .duration("seconds", shape.length, seconds(0.05), seconds(86400), "time to measure in each run")
      .count("rounds", rounds, 1, 1000, "how often each runs, both ways; medians are given")
      .choice("transport", shape.transport, {"tcp", "unix"}, "how the processes talk")
      .choice("peer", peers, {"zmq", "none"}, "the system beside it, at the same share of its own maximum");
  add_node_options(line, setup);
  add_json_option(line, json);
  if (auto status = line.parse(argc, argv))
    return *status;
  if (auto wrong = complaint_about(setup); !wrong.empty()) {
    fmt::print(stderr, "weir bench latency: {}\n", wrong);
    return 2;
  }
  json_output output(json);
  std::vector<loaded> all{weir_itself(setup)};
  if (peers != "none")
    all.push_back(peer(peers, &skipped));
  run_rounds(all, shape, load, rounds);
  return show(all, load, rounds, skipped, output);
}

} // namespace weir::bench
