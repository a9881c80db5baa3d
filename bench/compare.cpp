#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "bench/contender.hpp"
#include "bench/modes.hpp"
#include "bench/processes.hpp"
#include "bench/report.hpp"
#include "bench/shapes.hpp"

namespace weir::bench {

namespace {

/// A figure that is compared, and how many places of it mean something.
struct compared {
  const char* key;
  int decimals;
};

/// What differs between the modes that can be compared.
struct comparison {
  std::string mode;
  std::vector<compared> keys; ///< the first decides the ratios
  std::vector<std::string> arguments;
};

/// Ours first, then raw, then the peers. `for_ours` goes to our own mode only.
std::deque<contender> contenders_of(const comparison& what, const std::vector<std::string>& peers,
                                    const std::vector<std::string>& for_ours) {
  std::deque<contender> all;
  auto& ours = all.emplace_back();
  ours = {.name = "weir",
          .program = own_program(),
          .arguments = {"bench", what.mode},
          .samples = {},
          .skipped = {}};
  append(ours.arguments, what.arguments);
  append(ours.arguments, for_ours);
  append(ours.arguments, {"--json", "-"});
  auto& raw = all.emplace_back();
  raw = {.name = "raw",
         .program = ours.program,
         .arguments = {"bench", "raw", what.mode},
         .samples = {},
         .skipped = {}};
  append(raw.arguments, what.arguments);
  append(raw.arguments, {"--json", "-"});
  for (const auto& name : peers)
    all.push_back(peer_contender(name, what.mode, what.arguments));
  return all;
}

void run_rounds(std::deque<contender>& all, std::uint64_t rounds) {
  progress shown("compare");
  auto runs = static_cast<double>(rounds * all.size());
  double done = 0;
  for (auto& one : all)
    if (one.skipped.empty() && !one.prints_json) {
      shown.update(-1, fmt::format("building {}", one.name));
      last_words(one, {one.name, "build"});
    }
  for (std::uint64_t round = 1; round <= rounds; ++round)
    for (auto& one : all) {
      shown.update(done++ / runs, fmt::format("round {} of {}, {}", round, rounds, one.name));
      if (one.skipped.empty())
        run_once(one);
    }
}

/// The columns of the table: `median (min - max)` of each figure, and weir's ratio to the column.
figures column_of(const contender& one, const comparison& what, std::optional<double> ratio) {
  figures column;
  for (const auto& [key, decimals] : what.keys)
    if (auto s = spread_of(one, key))
      column.add_word(key, fmt::format("{:.{}f} ({:.{}f} - {:.{}f})", s->median, decimals, s->least, decimals,
                                       s->most, decimals));
    else
      column.add_nothing(key);
  column.add_rounded("weir / this", ratio, 2);
  return column;
}

figures json_of(const contender& one, const comparison& what) {
  figures result;
  for (const auto& [key, decimals] : what.keys)
    if (auto s = spread_of(one, key)) {
      figures inside;
      inside.add_rounded("median", s->median, decimals)
          .add_rounded("min", s->least, decimals)
          .add_rounded("max", s->most, decimals);
      result.add_inside(key, std::move(inside));
    }
  return result;
}

void show(const std::deque<contender>& all, const comparison& what, std::uint64_t rounds,
          json_output& output) {
  auto main_key = what.keys.front().key;
  auto ours = spread_of(all.front(), main_key);
  std::vector<std::pair<std::string, figures>> columns;
  figures result, ratios;
  std::string skipped;
  result.add_word("mode", what.mode).add_count("rounds", static_cast<std::int64_t>(rounds));
  for (const auto& one : all) {
    if (!one.skipped.empty()) {
      skipped += (skipped.empty() ? "" : "; ") + one.skipped;
      continue;
    }
    auto theirs = spread_of(one, main_key);
    auto ratio = ours && theirs && theirs->median > 0 ? std::optional(ours->median / theirs->median)
                                                      : std::nullopt;
    columns.emplace_back(one.name, column_of(one, what, ratio));
    result.add_inside(one.name, json_of(one, what));
    if (&one != &all.front())
      ratios.add_rounded("ratio_to_" + one.name, ratio, 3);
  }
  for (const auto& ratio : ratios.entries())
    result.add_rounded(ratio.key, ratios.number(ratio.key), 3);
  result.add_word("skipped", skipped);
  print_table(fmt::format("weir bench compare {}: median (min - max) of {} rounds", what.mode, rounds),
              columns);
  if (!skipped.empty())
    fmt::print("  skipped: {}\n", skipped);
  output.write(result);
}

constexpr std::string_view
    help = R"(weir bench compare: weir, raw and other systems, interleaved round by round

usage: weir bench compare MODE [options] [-- options of 'weir bench MODE' for weir alone]
  rpc     calls that are answered
  stream  messages one way
'weir bench compare MODE --help' lists the options.
)";

/// An option of weir's own mode that raw and the peers do not have; handed on as it is.
struct handed_on {
  std::string name, shape, help, value;
};

std::vector<handed_on> weir_options(std::string_view mode) {
  std::vector<handed_on> all{{"placement", "loop|scheduler", "for weir alone: where its actors run", "loop"}};
  if (mode == "stream") {
    all.push_back({"ration", "BYTES", "for weir alone: its ration", {}});
    all.push_back({"fragment", "BYTES", "for weir alone: its largest fragment", {}});
  }
  return all;
}

template <class Shape>
int run_mode(const char* mode, std::vector<compared> keys, int argc, char** argv) {
  Shape shape;
  std::uint64_t rounds = 5;
  std::string peers = "zmq,jrmp", json;
  options line(fmt::format("weir bench compare {}", mode), "weir, raw and other systems, interleaved");
  add_options(line, shape);
  line.count("rounds", rounds, 1, 1000, "how often each runs; medians are given")
      .text("peers", peers, "NAME,...", "systems of bench/peers to compare with; empty: raw alone");
  auto extra = weir_options(mode);
  for (auto& option : extra)
    line.text(option.name, option.value, option.shape, option.help);
  add_json_option(line, json);
  auto split_at = std::find_if(argv, argv + argc, [](std::string_view word) { return word == "--"; });
  if (auto status = line.parse(static_cast<int>(split_at - argv), argv))
    return *status;
  auto names = split(peers);
  for (const auto& name : names)
    if (name != "zmq" && name != "jrmp")
      return line.refuse("--peers", fmt::format("'{}' is not one of zmq, jrmp", name));
  std::vector<std::string> for_ours;
  for (const auto& option : extra)
    if (!option.value.empty())
      append(for_ours, {"--" + option.name, option.value});
  append(for_ours, {"--raw", "no"}); // it has its own column
  if (split_at != argv + argc)
    for_ours.insert(for_ours.end(), split_at + 1, argv + argc);
  json_output output(json);
  comparison what{mode, std::move(keys), arguments_of(shape)};
  auto all = contenders_of(what, names, for_ours);
  run_rounds(all, rounds);
  show(all, what, rounds, output);
  return 0;
}

} // namespace

int compare_main(int argc, char** argv) {
  std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "rpc")
    return run_mode<rpc_shape>("rpc",
                               {{"tps", 0},
                                {"p50_us", 1},
                                {"p99_us", 1},
                                {"cpu_us_per_call", 2},
                                {"client_rss_mb", 1},
                                {"server_rss_mb", 1}},
                               argc - 1, argv + 1);
  if (mode == "stream")
    return run_mode<stream_shape>("stream",
                                  {{"msgs_per_s", 0},
                                   {"mb_per_s", 1},
                                   {"cpu_us_per_msg", 3},
                                   {"sender_rss_mb", 1},
                                   {"receiver_rss_mb", 1},
                                   {"lost", 0}},
                                  argc - 1, argv + 1);
  if (mode == "--help") {
    fmt::print("{}", help);
    return 0;
  }
  fmt::print(stderr,
             "weir bench compare: {}: the modes are rpc and stream; see 'weir bench compare --help'\n",
             mode.empty() ? "no mode" : mode);
  return 2;
}

} // namespace weir::bench
