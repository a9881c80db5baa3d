#include "bench/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

namespace weir::bench {

namespace {

/// The whole of `text` as a number; empty when it is anything else.
template <class Number>
std::optional<Number> read(std::string_view text) {
  Number number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

std::optional<std::uint64_t> read_bytes(std::string_view text) {
  unsigned shift = 0;
  switch (text.empty() ? '\0' : text.back()) {
  case 'k':
    shift = 10;
    break;
  case 'm':
    shift = 20;
    break;
  case 'g':
    shift = 30;
    break;
  default:
    break;
  }
  if (shift != 0)
    text.remove_suffix(1);
  auto number = read<std::uint64_t>(text);
  if (!number || *number > (options::unlimited >> shift))
    return std::nullopt;
  return *number << shift;
}

std::string show_bytes(std::uint64_t bytes) {
  if (bytes == options::unlimited)
    return "inf";
  for (auto [shift, suffix] : {std::pair{30, 'g'}, std::pair{20, 'm'}, std::pair{10, 'k'}})
    if (bytes != 0 && bytes % (std::uint64_t{1} << shift) == 0)
      return fmt::format("{}{}", bytes >> shift, suffix);
  return fmt::format("{}", bytes);
}

std::string out_of_range(std::string_view value, std::string_view least, std::string_view most) {
  return fmt::format("{} is out of range ({} to {})", value, least, most);
}

} // namespace

options::options(std::string command, std::string summary)
    : command_(std::move(command)), summary_(std::move(summary)) {}

options& options::add(option added) {
  options_.push_back(std::move(added));
  return *this;
}

options& options::count(std::string name, std::uint64_t& to, std::uint64_t least, std::uint64_t most,
                        std::string help) {
  auto set = [&to, least, most](std::string_view value) -> std::optional<std::string> {
    auto number = read<std::uint64_t>(value);
    if (!number && !read<double>(value))
      return fmt::format("'{}' is not a whole number", value);
    if (!number || *number < least || *number > most)
      return out_of_range(value, fmt::to_string(least), fmt::to_string(most));
    to = *number;
    return std::nullopt;
  };
  return add({std::move(name), "N", std::move(help), fmt::to_string(to), set});
}

options& options::bytes(std::string name, std::uint64_t& to, std::uint64_t least, std::uint64_t most,
                        std::string help) {
  auto set = [&to, least, most](std::string_view value) -> std::optional<std::string> {
    auto number = value == "inf" && most == unlimited ? unlimited : read_bytes(value);
    if (!number && !read<double>(value))
      return fmt::format("'{}' is not a number of bytes such as 512, 64k, 1m or 2g", value);
    if (!number || *number < least || *number > most)
      return out_of_range(value, show_bytes(least), show_bytes(most));
    to = *number;
    return std::nullopt;
  };
  return add({std::move(name), "BYTES", std::move(help), show_bytes(to), set});
}

options& options::number(std::string name, double& to, double least, double most, std::string help) {
  auto set = [&to, least, most](std::string_view value) -> std::optional<std::string> {
    auto number = read<double>(value);
    if (!number || !std::isfinite(*number))
      return fmt::format("'{}' is not a number", value);
    if (*number < least || *number > most)
      return out_of_range(value, fmt::to_string(least), fmt::to_string(most));
    to = *number;
    return std::nullopt;
  };
  return add({std::move(name), "NUMBER", std::move(help), fmt::to_string(to), set});
}

options& options::duration(std::string name, seconds& to, seconds least, seconds most, std::string help) {
  auto set = [&to, least, most](std::string_view value) -> std::optional<std::string> {
    auto number = read<double>(value);
    if (!number || !std::isfinite(*number))
      return fmt::format("'{}' is not a number of seconds", value);
    if (*number < least.count() || *number > most.count())
      return out_of_range(value, fmt::to_string(least.count()), fmt::to_string(most.count()));
    to = seconds(*number);
    return std::nullopt;
  };
  return add({std::move(name), "SECONDS", std::move(help), fmt::to_string(to.count()), set});
}

options& options::choice(std::string name, std::string& to, std::vector<std::string> words,
                         std::string help) {
  auto shape = fmt::format("{}", fmt::join(words, "|"));
  auto set = [&to, words = std::move(words)](std::string_view value) -> std::optional<std::string> {
    if (std::find(words.begin(), words.end(), value) == words.end())
      return fmt::format("'{}' is not one of {}", value, fmt::join(words, ", "));
    to = value;
    return std::nullopt;
  };
  return add({std::move(name), std::move(shape), std::move(help), to, set});
}

options& options::text(std::string name, std::string& to, std::string shape, std::string help) {
  auto set = [&to](std::string_view value) -> std::optional<std::string> {
    to = value;
    return std::nullopt;
  };
  return add({std::move(name), std::move(shape), std::move(help), to, set});
}

options::option* options::find(std::string_view name) {
  auto at = std::find_if(options_.begin(), options_.end(), [&](const option& o) { return o.name == name; });
  return at == options_.end() ? nullptr : &*at;
}

bool options::given(std::string_view name) const {
  return std::any_of(options_.begin(), options_.end(),
                     [&](const option& o) { return o.name == name && o.given; });
}

int options::refuse(std::string_view name, std::string_view words) const {
  fmt::print(stderr, "{}: {}: {}; see '{} --help'\n", command_, name, words, command_);
  return 2;
}

std::optional<int> options::parse(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--help") {
      print_help();
      return 0;
    }
    auto equals = word.find('=');
    auto name = word.substr(0, equals);
    if (!word.starts_with("--"))
      return refuse(word, "not an option");
    auto* found = find(name.substr(2));
    if (found == nullptr)
      return refuse(name, "unknown option");
    if (found->given)
      return refuse(name, "given twice");
    if (equals == std::string_view::npos && i + 1 == argc)
      return refuse(name, "needs a value");
    auto value = equals != std::string_view::npos ? word.substr(equals + 1) : std::string_view(argv[++i]);
    if (auto wrong = found->set(value))
      return refuse(name, *wrong);
    found->given = true;
  }
  return std::nullopt;
}

void options::print_help() const {
  fmt::print("{}: {}\n\nusage: {} [options]\n", command_, summary_, command_);
  std::size_t width = 0;
  auto head = [](const option& o) { return fmt::format("--{} {}", o.name, o.shape); };
  for (const auto& o : options_)
    if (!o.help.empty())
      width = std::max(width, head(o).size());
  for (const auto& o : options_)
    if (!o.help.empty())
      fmt::print("  {:<{}}  {}{}\n", head(o), width, o.help,
                 o.standard.empty() ? "" : fmt::format(" (default {})", o.standard));
  fmt::print("  {:<{}}  this text\n", "--help", width);
}

} // namespace weir::bench
