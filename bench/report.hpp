/// What a benchmark says: a table for people, progress while it runs (on a terminal only), and one JSON
/// object.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measure.hpp"

namespace weir::bench {

/// The results of one run: keys in the order they were added, which is the order of the issue and of the JSON
/// object.
class figures {
public:
  enum class kind : std::uint8_t { nothing, count, number, word, inside };

  /// What `is` says is set, the rest is not. Not a variant: g++ 12 warns falsely where one is moved.
  struct entry {
    std::string key;
    kind is = kind::nothing; ///< nothing is null in JSON
    std::int64_t count = 0;
    double number = 0;
    std::string word;
    std::shared_ptr<const figures> inside;
  };

  figures& add_nothing(std::string key);
  figures& add_count(std::string key, std::int64_t count);
  figures& add_number(std::string key, double number);
  figures& add_word(std::string key, std::string word);
  figures& add_inside(std::string key, figures inside);

  /// A number rounded to `decimals` places; nothing when there is none.
  figures& add_rounded(std::string key, std::optional<double> number, int decimals);

  const entry* find(std::string_view key) const;

  /// The number at `key`; empty when there is none.
  std::optional<double> number(std::string_view key) const;

  const std::vector<entry>& entries() const { return entries_; }

private:
  std::vector<entry> entries_;
};

/// One line of JSON, without a line break.
std::string to_json(const figures& from);

/// Reads what `to_json` wrote. Empty when `line` is not a JSON object.
std::optional<figures> from_json(std::string_view line);

/// Reads `key=value key=value ...`, the line that a peer prints.
figures from_key_values(std::string_view line);

/// Prints to stdout: one line per key, one column per named result. Missing values are `-`.
void print_table(std::string_view title, const std::vector<std::pair<std::string, figures>>& columns);

/// Where `--json` goes: "" nowhere, "-" the last line of stdout, else a file. The file is opened at once, so
/// that a wrong path fails before the run and not after it (bench_error).
class json_output {
public:
  explicit json_output(const std::string& target);
  ~json_output();
  json_output(const json_output&) = delete;
  json_output& operator=(const json_output&) = delete;

  /// Call once, as the last thing that is printed.
  void write(const figures& result);

private:
  std::FILE* file_ = nullptr;
  bool owned_ = false;
};

/// One line on stderr that says what is going on and how far it is; nothing when stderr is not a terminal.
/// Gone when destroyed.
class progress {
public:
  explicit progress(std::string label);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// Shows `label: detail done %`; at most ten times a second. A negative share is not shown.
  void update(double share, std::string_view detail = {});

private:
  std::string label_;
  bool terminal_;
  std::optional<clock::time_point> shown_;
};

} // namespace weir::bench
