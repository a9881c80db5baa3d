#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include <caf/config_option_set.hpp>
#include <caf/pec.hpp>
#include <caf/sec.hpp>
#include <fmt/format.h>

#include <weir/actor.hpp>
#include <weir/config.hpp>

#include "runtime/config_state.hpp"
#include "runtime/machine.hpp"
#include "runtime/node_option_table.hpp"
#include "runtime/values.hpp"

namespace weir {

using settings::option;

namespace {

[[maybe_unused]] constexpr std::string_view reserved[] = {"help", "dump-config", "config"};

// Of CAF's own scheduler. With one queue a wake-up finds its worker in 60 us instead of 160, and idle workers
// sleep instead of polling.
constexpr std::pair<const char*, const char*> caf_defaults[] = {
    {"caf.scheduler.policy", "sharing"},
    {"caf.scheduler.max-throughput", "300"},
    {"caf.work-stealing.moderate-poll-attempts", "0"},
};

const char* shape_of(settings::shape s) {
  switch (s) {
  case settings::shape::text:
    return "TEXT";
  case settings::shape::uris:
    return "URI,...";
  case settings::shape::count:
    return "N";
  case settings::shape::bytes:
    return "BYTES";
  case settings::shape::level:
    return "LEVEL";
  case settings::shape::when_full:
    return "POLICY";
  case settings::shape::time:
    return "TIME";
  }
  return "";
}

option weir_option(node_options& node, const settings::node_option& row) {
  option made{.name = fmt::format("weir.{}", row.name),
              .shape = shape_of(row.shape),
              .help = std::string(row.help),
              .limits = settings::show_limits(row),
              .is_list = row.shape == settings::shape::uris,
              .set = [&node, &row](std::string_view text) { return settings::set(node, row, text); },
              .show = [&node, &row] { return settings::show(node, row); }};
  made.standard = row.chosen;
  return made;
}

failure out_of_range(std::string_view value, std::string_view limits) {
  return {errc::bad_option, outcome::not_executed, fmt::format("{} is out of range ({})", value, limits)};
}

[[maybe_unused]] bool is_option_name(std::string_view name) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789-.";
  return !name.empty() && name.find_first_not_of(allowed) == std::string_view::npos && name.front() != '-' &&
         name.front() != '.' && name.back() != '.';
}

/// Precondition of every add_option.
void add(std::deque<option>& to, option added) {
  assert(is_option_name(added.name) && added.section() != "caf");
  assert(std::ranges::find(reserved, added.name) == std::end(reserved));
  assert(std::ranges::find(to, added.variable(), &option::variable) == to.end());
  to.push_back(std::move(added));
}

/// An option of type T that `parse` reads and `show` prints.
template <class T, class Parse, class Show>
option simple(const std::string& name, const std::string& shape, const std::string& help, T& value,
              Parse parse, Show show) {
  return {.name = name,
          .shape = shape,
          .help = help,
          .set = [&value, parse](std::string_view text) -> result<void> {
            auto read = parse(text);
            if (!read)
              return read.error();
            value = std::move(*read);
            return {};
          },
          .show = [&value, show] { return show(value); }};
}

std::string show_bool(bool value) { return value ? "true" : "false"; }

} // namespace

config::config() : state_(std::make_unique<state>()) {
  init_types<>(); // CAF 1.x reads no option without
  for (const auto& row : settings::node_option_table())
    state_->options.push_back(weir_option(state_->node, row));
}

config::~config() = default;

void config::about(std::string summary) { state_->summary = std::move(summary); }

node_options& config::defaults() { return state_->node; }

const node_options& config::options() const { return state_->node; }

const std::vector<std::string>& config::arguments() const { return state_->arguments; }

std::string config::help_text() const { return state_->help_text(); }

std::string config::dump() const { return state_->dump(); }

// ---- options of the user's own

void config::add_option(const std::string& name, const std::string& help, bool& value) {
  auto added = simple(name, "", help, value, settings::parse_bool, show_bool);
  added.is_flag = true;
  add(state_->options, std::move(added));
}

void config::add_option(const std::string& name, const std::string& help, double& value) {
  add(state_->options, simple(name, "X", help, value, settings::parse_number, settings::show_number));
}

void config::add_option(const std::string& name, const std::string& help, std::string& value) {
  auto as_it_is = [](std::string_view text) { return result<std::string>(std::string(text)); };
  add(state_->options, simple(name, "TEXT", help, value, as_it_is, settings::show_text));
}

void config::add_option(const std::string& name, const std::string& help, std::vector<std::string>& value) {
  auto added = simple(name, "TEXT,...", help, value, settings::parse_list, settings::show_list);
  added.is_list = true;
  add(state_->options, std::move(added));
}

void config::add_option(const std::string& name, const std::string& help, byte_size& value, byte_size least,
                        byte_size most) {
  bool bounded = least.value > 0 || most.value < infinite - 1;
  auto limits = fmt::format("{} to {}", settings::show_bytes(least.value), settings::show_bytes(most.value));
  auto set = [&value, least, most, limits](std::string_view text) -> result<void> {
    auto bytes = settings::parse_bytes(text);
    if (!bytes)
      return bytes.error();
    if (*bytes < least.value || *bytes > most.value)
      return out_of_range(settings::show_bytes(*bytes), limits);
    value.value = *bytes;
    return {};
  };
  add(state_->options, {.name = name,
                        .shape = "BYTES",
                        .help = help,
                        .limits = bounded ? limits : "",
                        .set = set,
                        .show = [&value] { return settings::show_bytes(value.value); }});
}

void config::add_integer(const std::string& name, const std::string& help, int64_t least, int64_t most,
                         std::function<void(int64_t)> set, std::function<int64_t()> get) {
  auto limits = fmt::format("{} to {}", least, most);
  auto read = [least, most, limits, set = std::move(set)](std::string_view text) -> result<void> {
    auto number = settings::parse_integer(text);
    if (!number)
      return number.error();
    if (*number < least || *number > most)
      return out_of_range(text, limits);
    set(*number);
    return {};
  };
  add(state_->options, {.name = name,
                        .shape = "N",
                        .help = help,
                        .limits = limits,
                        .set = read,
                        .show = [get = std::move(get)] { return fmt::to_string(get()); }});
}

void config::add_duration(const std::string& name, const std::string& help, std::chrono::nanoseconds unit,
                          std::function<void(std::chrono::nanoseconds)> set,
                          std::function<std::chrono::nanoseconds()> get) {
  auto read = [unit, set = std::move(set)](std::string_view text) -> result<void> {
    auto time = settings::parse_duration(text);
    if (!time)
      return time.error();
    if (unit.count() > 1 && time->count() % unit.count() != 0)
      return {errc::bad_option,
              fmt::format("{} is finer than the option's unit, {}", text, settings::show_duration(unit))};
    set(*time);
    return {};
  };
  add(state_->options,
      {.name = name, .shape = "TIME", .help = help, .set = read, .show = [get = std::move(get)] {
         return settings::show_duration(get());
       }});
}

// ---- options of CAF

void config::add_caf_options() {
  auto text_of = [](const auto& view) { return std::string(view.begin(), view.end()); };
  for (const auto& theirs : custom_options_) {
    auto category = text_of(theirs.category());
    constexpr std::string_view not_used_here[] = {"global", "middleman", "opencl",
                                                  "openssl"}; // ours, or modules that are not loaded
    if (std::ranges::find(not_used_here, category) != std::end(not_used_here))
      continue;
    auto full_name = text_of(theirs.full_name()), type = text_of(theirs.type_name());
    auto ours = full_name.starts_with("caf.") ? full_name
                                              : "caf." + full_name; // CAF 1.x has the prefix itself
    auto value = std::make_shared<std::string>();
    auto set = [this, full_name, type, value](std::string_view text) {
      auto done = set_caf_option(full_name, type, text);
      if (done)
        *value = text;
      return done;
    };
    bool is_list = type.starts_with("list");
    auto show = [value, is_list] { return value->empty() || is_list ? *value : settings::show_text(*value); };
    state_->options.push_back({.name = ours,
                               .shape = theirs.is_flag() ? "" : type,
                               .help = text_of(theirs.description()),
                               .is_list = is_list,
                               .is_flag = theirs.is_flag(),
                               .set = set,
                               .show = show});
  }
}

result<void> config::set_caf_option(const std::string& full_name, const std::string& type,
                                    std::string_view text) {
  // CAF replaces an unknown policy by its default and goes on.
  if (full_name.ends_with("scheduler.policy") && text != "sharing" && text != "stealing")
    return {errc::bad_option, fmt::format("'{}' is neither sharing nor stealing", text)};
  if (type == "bool" || type == "boolean") {
    auto flag = settings::parse_bool(text);
    if (!flag)
      return flag.error();
    set(full_name, *flag);
    return {};
  }
  // CAF's own parser of one argument knows CAF's types, whichever version it is.
  std::vector<std::string> one{fmt::format("--{}={}", full_name, text)};
  if (custom_options_.parse(content, one).first != caf::pec::success)
    return {errc::bad_option, fmt::format("'{}' is not of CAF's type {}", text, type)};
  return {};
}

// ---- load

result<config::action> config::load(int argc, const char* const* argv) {
  auto& s = *state_;
  add_caf_options();
  for (auto [name, value] : caf_defaults)
    if (auto done = (*s.find(name, ""))->set(value); !done)
      return done.error();
  // The loops have one half of the cores, CAF's workers the other: more threads than cores cost each call a
  // wake-up.
  auto cores = settings::this_machine().cores;
  auto workers = std::max<size_t>(1, cores - std::max<size_t>(1, cores / 2));
  if (auto done = (*s.find("caf.scheduler.max-threads", ""))->set(std::to_string(workers)); !done)
    return done.error();
  for (auto& o : s.options)
    if (o.standard.empty())
      o.standard = o.show();
  if (argc > 0)
    s.program = std::string_view(argv[0]).substr(std::string_view(argv[0]).rfind('/') + 1);
  auto line = s.read_command_line(argc, argv);
  if (!line)
    return line.error();
  if (line->help) {
    fmt::print("{}", s.help_text());
    return action::exit_ok;
  }
  if (auto done = s.read_all(*line); !done)
    return done.error();
  if (line->dump)
    fmt::print("{}", s.dump());
  return line->dump ? action::exit_ok : action::run;
}

caf::error config::parse(int argc, char** argv, const char*) {
  auto done = load(argc, argv);
  if (!done)
    return caf::make_error(caf::sec::invalid_argument, done.error().text);
  cli_helptext_printed = *done == action::exit_ok;
  return {};
}

} // namespace weir
