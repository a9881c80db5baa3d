#include "bench/contender.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "bench/processes.hpp"

#ifndef WEIR_SOURCE_DIR
#define WEIR_SOURCE_DIR ""
#endif

namespace weir::bench {

static constexpr int status_skipped = 3; // of bench/peers/run, when a package is missing

std::optional<spread> spread_of(const contender& from, std::string_view key) {
  std::vector<double> values;
  for (const auto& sample : from.samples)
    if (auto value = sample.number(key))
      values.push_back(*value);
  if (values.empty())
    return std::nullopt;
  return spread_of(std::move(values));
}

spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto middle = values.size() / 2;
  auto median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

static std::string_view last_line(std::string_view text) {
  while (text.ends_with('\n'))
    text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1); // npos + 1 is 0
}

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

void run_once(contender& one) {
  auto line = last_words(one, one.arguments);
  if (!one.skipped.empty())
    return;
  auto sample = one.prints_json ? from_json(line) : from_key_values(line);
  if (!sample || sample->entries().empty())
    throw bench_error(fmt::format("{} did not print a result but: {}", one.name, line));
  one.samples.push_back(std::move(*sample));
}

std::string find_peers() {
  namespace fs = std::filesystem;
  std::string_view sources = WEIR_SOURCE_DIR;
  if (auto beside = fs::path(sources) / "bench/peers/run"; !sources.empty() && fs::exists(beside))
    return beside.string();
  // PREFIX/bin/weir has PREFIX/share/weir/bench/peers/run
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

contender peer_contender(const std::string& name, const std::string& mode,
                         const std::vector<std::string>& arguments) {
  contender peer{.name = name,
                 .program = find_peers(),
                 .arguments = {name, mode},
                 .prints_json = false,
                 .samples = {},
                 .skipped = {}};
  append(peer.arguments, arguments);
  if (peer.program.empty())
    peer.skipped = fmt::format("{}: bench/peers/run was not found; install weir with its share directory",
                               name);
  return peer;
}

} // namespace weir::bench
