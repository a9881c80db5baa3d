#include <algorithm>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "bench/modes.hpp"
#include "bench/processes.hpp"
#include "bench/report.hpp"
#include "bench/shapes.hpp"

#ifndef WEIR_SOURCE_DIR
#define WEIR_SOURCE_DIR ""
#endif

namespace weir::bench {

namespace {

constexpr int status_skipped = 3; // of bench/peers/run, when a package is missing

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

/// One system in the comparison: how it is run and what it gave so far.
struct contender {
  std::string name, program;
  std::vector<std::string> arguments;
  bool prints_json = true; ///< else key=value
  std::vector<figures> samples;
  std::string skipped; ///< why it does not take part
};

struct spread {
  double median = 0, least = 0, most = 0;
};

std::optional<spread> spread_of(const contender& from, std::string_view key) {
  std::vector<double> values;
  for (const auto& sample : from.samples)
    if (auto value = sample.number(key))
      values.push_back(*value);
  if (values.empty())
    return std::nullopt;
  std::sort(values.begin(), values.end());
  auto middle = values.size() / 2;
  auto median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return spread{median, values.front(), values.back()};
}

std::string_view last_line(std::string_view text) {
  while (text.ends_with('\n'))
    text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1); // npos + 1 is 0
}

/// The last line it prints with these arguments; empty, and why in `skipped`, when it cannot take part.
std::string last_words(contender& one, const std::vector<std::string>& arguments) {
  child_process process(one.program, arguments, {.collect_errors = true});
  auto output = process.read_all();
  auto status = process.wait(std::chrono::seconds(10));
  std::string line(last_line(output));
  if (status == status_skipped) {
    static constexpr std::string_view word = "skipped: ";
    one.skipped = line.starts_with(word) ? line.substr(word.size()) : line;
    return {};
  }
  auto errors = process.errors();
  if (status != 0)
    throw bench_error(fmt::format("{} failed with status {}: {}", one.name, status, last_line(errors)));
  return line;
}

/// Runs it once and keeps the result, or why there will be none.
void run_once(contender& one) {
  auto line = last_words(one, one.arguments);
  if (!one.skipped.empty())
    return;
  auto sample = one.prints_json ? from_json(line) : from_key_values(line);
  if (!sample || sample->entries().empty())
    throw bench_error(fmt::format("{} did not print a result but: {}", one.name, line));
  one.samples.push_back(std::move(*sample));
}

/// bench/peers/run beside the sources, else where it was installed: PREFIX/bin/weir has
/// PREFIX/share/weir/bench/peers/run.
std::string find_peers() {
  namespace fs = std::filesystem;
  std::string_view sources = WEIR_SOURCE_DIR;
  if (auto beside = fs::path(sources) / "bench/peers/run"; !sources.empty() && fs::exists(beside))
    return beside.string();
  auto installed = fs::path(own_program()).parent_path().parent_path() / "share/weir/bench/peers/run";
  return fs::exists(installed) ? installed.string() : std::string();
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> all;
  while (!words.empty()) {
    auto word = words.substr(0, words.find(','));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    if (!word.empty())
      all.emplace_back(word);
  }
  return all;
}

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
  auto script = find_peers();
  for (const auto& name : peers) {
    auto& peer = all.emplace_back();
    peer = {.name = name,
            .program = script,
            .arguments = {name, what.mode},
            .prints_json = false,
            .samples = {},
            .skipped = {}};
    append(peer.arguments, what.arguments);
    if (script.empty())
      peer.skipped = fmt::format("{}: bench/peers/run was not found; install weir with its share directory",
                                 name);
  }
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
