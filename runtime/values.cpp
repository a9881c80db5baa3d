#include "runtime/values.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

#include <weir/options.hpp>

namespace weir::settings {

namespace {

constexpr std::string_view blanks = " \t\r\n";

struct unit {
  std::string_view name;
  uint64_t size;
};

// The first of equal size is the one that is shown; from large to small.
constexpr uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30, tib = uint64_t{1} << 40;
constexpr unit byte_units[] = {{"TiB", tib}, {"GiB", gib}, {"g", gib}, {"G", gib}, {"MiB", mib}, {"m", mib},
                               {"M", mib},   {"KiB", kib}, {"k", kib}, {"K", kib}, {"", 1},      {"B", 1}};

constexpr unit time_units[] = {{"h", 3'600'000'000'000}, {"min", 60'000'000'000}, {"s", 1'000'000'000},
                               {"ms", 1'000'000},        {"us", 1'000},           {"ns", 1}};

failure not_a(std::string_view text, std::string_view what) {
  return {errc::bad_option, outcome::not_executed, fmt::format("'{}' is not {}", text, what)};
}

failure too_large(std::string_view text) {
  return {errc::bad_option, outcome::not_executed, fmt::format("'{}' is too large", text)};
}

/// The whole number that `text` begins with, and the unit behind it, blanks between them allowed.
struct quantity {
  uint64_t number = 0;
  std::string_view unit;
  bool overflow = false;
};

std::optional<quantity> split(std::string_view text) {
  quantity found;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found.number);
  if (error == std::errc::invalid_argument)
    return std::nullopt;
  found.overflow = error != std::errc{};
  found.unit = trim(text.substr(static_cast<size_t>(end - text.data())));
  return found;
}

result<uint64_t> parse_quantity(std::string_view text, std::span<const unit> units, uint64_t most,
                                std::string_view what) {
  auto found = split(text);
  if (!found)
    return not_a(text, what);
  auto known = std::ranges::find(units, found->unit, &unit::name);
  if (known == units.end())
    return not_a(text, what);
  if (found->overflow || found->number > most / known->size)
    return too_large(text);
  return found->number * known->size;
}

std::string show_quantity(uint64_t number, std::span<const unit> units) {
  auto fits = std::ranges::find_if(units, [&](const unit& u) { return number % u.size == 0; });
  return fmt::format("{}{}", number / fits->size, fits->name);
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    constexpr std::string_view special = "\"\\\n\r\t", letters = "\"\\nrt";
    if (auto at = special.find(c); at != std::string_view::npos)
      (quoted += '\\') += letters[at];
    else
      quoted += c;
  }
  return quoted + '"';
}

bool needs_quotes(std::string_view text) {
  return text.empty() || trim(text) != text || text.find_first_of("#\"\\\n\r\t") != std::string_view::npos;
}

/// Takes a quoted string off the front of `text`.
result<std::string> take_quoted(std::string_view& text) {
  std::string taken;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return taken;
    }
    if (text[i] != '\\') {
      taken += text[i];
      continue;
    }
    constexpr std::string_view letters = "\"\\nrt", special = "\"\\\n\r\t";
    auto at = i + 1 < text.size() ? letters.find(text[++i]) : std::string_view::npos;
    if (at == std::string_view::npos)
      return not_a(text, R"(well quoted: \ is followed by one of " \ n r t)");
    taken += special[at];
  }
  return not_a(text, "well quoted: the closing quote is missing");
}

/// Takes one item off the front of `text`, up to the comma or the end.
result<std::string> take_item(std::string_view& text) {
  if (text.starts_with('"'))
    return take_quoted(text);
  auto item = trim(text.substr(0, text.find(',')));
  if (item.empty())
    return failure{errc::bad_option, outcome::not_executed, "an item of the list is empty"};
  if (item.starts_with('[') || item.find('"') != std::string_view::npos)
    return not_a(item, "an item of a list: use quotes");
  text.remove_prefix(std::min(text.find(','), text.size()));
  return std::string(item);
}

/// Edits from `a` to `b`, the swap of two neighbours being one of them (optimal string alignment).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + other});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  return edits[a.size()][b.size()];
}

} // namespace

std::string_view trim(std::string_view text) {
  auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

result<uint64_t> parse_bytes(std::string_view text) {
  return parse_quantity(text, byte_units, automatic - 1, "a size such as 512, 64k, 16MiB or 1g");
}

std::string show_bytes(uint64_t bytes) {
  if (bytes == 0)
    return "0"; // every unit divides it
  if (bytes == automatic)
    return "auto";
  return bytes == infinite ? "inf" : show_quantity(bytes, byte_units);
}

result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  if (text == "0")
    return std::chrono::nanoseconds{0};
  constexpr uint64_t most = std::numeric_limits<int64_t>::max();
  auto number = parse_quantity(text, time_units, most, "a time such as 20us, 5ms, 2s or 1min");
  if (!number)
    return number.error();
  return std::chrono::nanoseconds{static_cast<int64_t>(*number)};
}

std::string show_duration(std::chrono::nanoseconds time) {
  assert(time.count() >= 0);
  return time.count() == 0 ? "0" : show_quantity(static_cast<uint64_t>(time.count()), time_units);
}

result<int64_t> parse_integer(std::string_view text) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    return not_a(text, "a whole number");
  if (error != std::errc{})
    return too_large(text);
  return number;
}

result<double> parse_number(std::string_view text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number))
    return not_a(text, "a number");
  return number;
}

std::string show_number(double number) { return fmt::format("{}", number); }

result<bool> parse_bool(std::string_view text) {
  if (text != "true" && text != "false")
    return not_a(text, "true or false");
  return text == "true";
}

result<std::vector<std::string>> parse_list(std::string_view text) {
  std::vector<std::string> items;
  text = trim(text);
  if (text.starts_with('[')) {
    if (!text.ends_with(']') || text.size() < 2)
      return not_a(text, "a list: the closing ] is missing");
    text = trim(text.substr(1, text.size() - 2));
  }
  while (!text.empty()) {
    auto item = take_item(text);
    if (!item)
      return item.error();
    items.push_back(std::move(*item));
    text = trim(text);
    if (text.empty())
      break;
    if (!text.starts_with(','))
      return not_a(text, "a comma between two items of a list");
    text = trim(text.substr(1));
    if (text.empty())
      return failure{errc::bad_option, outcome::not_executed, "an item of the list is empty"};
  }
  return items;
}

std::string show_list(const std::vector<std::string>& items) {
  std::vector<std::string> shown;
  shown.reserve(items.size());
  for (const auto& item : items)
    shown.push_back(needs_quotes(item) || item.starts_with('[') || item.find(',') != std::string::npos
                        ? quote(item)
                        : item);
  return fmt::format("[{}]", fmt::join(shown, ", "));
}

result<std::string> parse_text(std::string_view text) {
  if (!text.starts_with('"'))
    return std::string(text);
  auto rest = text;
  auto taken = take_quoted(rest);
  if (taken && !rest.empty())
    return not_a(text, "well quoted: there is text behind the closing quote");
  return taken;
}

std::string show_text(std::string_view text) { return needs_quotes(text) ? quote(text) : std::string(text); }

std::string nearest(std::string_view name, const std::vector<std::string>& names) {
  constexpr size_t name_bytes_max = 64; // longer ones are no slip of the finger
  if (name.size() > name_bytes_max)
    return {};
  auto best = std::ranges::min_element(names, {}, [&](const std::string& n) { return distance(name, n); });
  if (best == names.end() ||
      distance(name, *best) > std::max<size_t>(1, std::max(name.size(), best->size()) / 3))
    return {};
  return *best;
}

} // namespace weir::settings
