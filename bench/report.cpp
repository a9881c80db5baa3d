#include "bench/report.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <unistd.h>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "bench/processes.hpp"

namespace weir::bench {

namespace json = boost::json;
using namespace std::chrono_literals;

// ---- figures

figures& figures::add_nothing(std::string key) {
  entries_.push_back({.key = std::move(key), .word = {}, .inside = {}});
  return *this;
}

figures& figures::add_count(std::string key, std::int64_t count) {
  entries_.push_back({.key = std::move(key), .is = kind::count, .count = count, .word = {}, .inside = {}});
  return *this;
}

figures& figures::add_number(std::string key, double number) {
  entries_.push_back({.key = std::move(key), .is = kind::number, .number = number, .word = {}, .inside = {}});
  return *this;
}

figures& figures::add_word(std::string key, std::string word) {
  entries_.push_back({.key = std::move(key), .is = kind::word, .word = std::move(word), .inside = {}});
  return *this;
}

figures& figures::add_inside(std::string key, figures inside) {
  auto shared = std::make_shared<const figures>(std::move(inside));
  entries_.push_back({.key = std::move(key), .is = kind::inside, .word = {}, .inside = std::move(shared)});
  return *this;
}

figures& figures::add_rounded(std::string key, std::optional<double> number, int decimals) {
  if (!number || !std::isfinite(*number))
    return add_nothing(std::move(key));
  if (decimals == 0)
    return add_count(std::move(key), std::llround(*number));
  auto scale = std::pow(10.0, decimals);
  return add_number(std::move(key), std::round(*number * scale) / scale);
}

const figures::entry* figures::find(std::string_view key) const {
  auto at = std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.key == key; });
  return at == entries_.end() ? nullptr : &*at;
}

std::optional<double> figures::number(std::string_view key) const {
  const auto* found = find(key);
  if (found != nullptr && found->is == kind::count)
    return static_cast<double>(found->count);
  if (found != nullptr && found->is == kind::number)
    return found->number;
  return std::nullopt;
}

// ---- JSON. Written by hand because Boost.JSON prints 12.5 as 1.25E1, which nobody likes to read.

static std::string quoted(std::string_view word) {
  return json::serialize(json::string_view(word.data(), word.size()));
}

static std::string to_json(const figures::entry& from) {
  switch (from.is) {
  case figures::kind::nothing:
    return "null";
  case figures::kind::count:
    return fmt::to_string(from.count);
  case figures::kind::number:
    return fmt::format("{}", from.number);
  case figures::kind::word:
    return quoted(from.word);
  case figures::kind::inside:
    return to_json(*from.inside);
  }
  return "null";
}

static figures to_figures(const json::object& object) {
  figures result;
  for (const auto& member : object) {
    std::string key(member.key());
    const auto& value = member.value();
    if (value.is_int64())
      result.add_count(std::move(key), value.get_int64());
    else if (value.is_number())
      result.add_number(std::move(key), value.to_number<double>());
    else if (value.is_string())
      result.add_word(std::move(key), std::string(value.get_string()));
    else if (value.is_object())
      result.add_inside(std::move(key), to_figures(value.get_object()));
    else
      result.add_nothing(std::move(key)); // null, and what to_json never writes
  }
  return result;
}

std::string to_json(const figures& from) {
  std::string line = "{";
  for (const auto& entry : from.entries())
    line += fmt::format("{}{}:{}", line.size() > 1 ? "," : "", quoted(entry.key), to_json(entry));
  return line + "}";
}

std::optional<figures> from_json(std::string_view line) {
  json::error_code error;
  auto parsed = json::parse(json::string_view(line.data(), line.size()), error);
  if (error || !parsed.is_object())
    return std::nullopt;
  return to_figures(parsed.get_object());
}

figures from_key_values(std::string_view line) {
  figures result;
  while (!line.empty()) {
    auto word = line.substr(0, line.find_first_of(" \n"));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    auto equals = word.find('=');
    if (equals == std::string_view::npos)
      continue;
    auto text = word.substr(equals + 1);
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size())
      result.add_number(std::string(word.substr(0, equals)), number);
    else
      result.add_word(std::string(word.substr(0, equals)), std::string(text));
  }
  return result;
}

json_output::json_output(const std::string& target) {
  if (target == "-")
    file_ = stdout;
  else if (!target.empty()) {
    file_ = std::fopen(target.c_str(), "we");
    owned_ = true;
    if (file_ == nullptr)
      throw_system_error(fmt::format("--json: cannot write {}", target));
  }
}

json_output::~json_output() {
  if (owned_ && file_ != nullptr)
    std::fclose(file_);
}

void json_output::write(const figures& result) {
  if (file_ == nullptr)
    return;
  fmt::print(file_, "{}\n", to_json(result));
  if (std::fflush(file_) != 0)
    throw_system_error("--json: writing failed");
}

// ---- the table

namespace {

std::string cell(const figures& column, std::string_view key) {
  const auto* found = column.find(key);
  if (found == nullptr || found->is == figures::kind::nothing)
    return "-";
  return found->is == figures::kind::word ? found->word : to_json(*found);
}

std::vector<std::string> keys_of(const std::vector<std::pair<std::string, figures>>& columns) {
  std::vector<std::string> keys;
  for (const auto& column : columns)
    for (const auto& entry : column.second.entries())
      if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
        keys.push_back(entry.key);
  return keys;
}

} // namespace

void print_table(std::string_view title, const std::vector<std::pair<std::string, figures>>& columns) {
  auto keys = keys_of(columns);
  std::size_t first = 0;
  for (const auto& key : keys)
    first = std::max(first, key.size());
  std::vector<std::size_t> widths;
  for (const auto& [name, column] : columns) {
    auto& width = widths.emplace_back(name.size());
    for (const auto& key : keys)
      width = std::max(width, cell(column, key).size());
  }
  auto line = [&](std::string_view head, auto text_of) {
    fmt::print("  {:<{}}", head, first);
    for (std::size_t i = 0; i < columns.size(); ++i)
      fmt::print("  {:>{}}", text_of(columns[i]), widths[i]);
    fmt::print("\n");
  };
  fmt::print("{}\n", title);
  line("", [](const auto& column) { return column.first; });
  for (const auto& key : keys)
    line(key, [&](const auto& column) { return cell(column.second, key); });
  std::fflush(stdout);
}

// ---- progress

progress::progress(std::string label) : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1) {}

progress::~progress() {
  if (shown_) {
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }
}

void progress::update(double share, std::string_view detail) {
  auto now = clock::now();
  if (!terminal_ || (shown_ && now - *shown_ < 100ms))
    return;
  shown_ = now;
  fmt::print(stderr, "\r\x1b[K{}{}{}", label_, detail.empty() ? "" : ": ", detail);
  if (share >= 0)
    fmt::print(stderr, " {:.0f} %", std::min(share, 1.0) * 100);
  std::fflush(stderr);
}

} // namespace weir::bench
