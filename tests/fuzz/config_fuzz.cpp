// A config file, its values, and weir's options: any text is taken or refused with words, and what is shown
// of a value is read as the same value. Nothing is opened, and no variable is read.
#include <algorithm>

#include <fmt/format.h>

#include "runtime/config_file.hpp"
#include "runtime/node_option_table.hpp"
#include "runtime/values.hpp"
#include "tests/fuzz/require.hpp"

using namespace weir;
using namespace weir::settings;
using fuzz::require;

namespace {

/// Either an error of its own kind with words, or a value whose text is read as the same value.
template <class T, class Parse, class Show>
void check_value(std::string_view text, Parse parse, Show show) {
  result<T> value = parse(text);
  if (!value) {
    require(value.error().code == errc::bad_option && !value.error().text.empty(),
            "a bad value is told in words");
    return;
  }
  auto shown = show(*value);
  result<T> again = parse(shown);
  require(again && *again == *value, "what is shown of a value is read as the same");
  require(show(*again) == shown, "a value is always shown the same way");
}

void check_values(std::string_view text) {
  auto show_integer = [](int64_t n) { return fmt::to_string(n); };
  auto show_bool = [](bool b) { return b ? "true" : "false"; };
  check_value<uint64_t>(text, parse_bytes, show_bytes);
  check_value<std::chrono::nanoseconds>(text, parse_duration, show_duration);
  check_value<int64_t>(text, parse_integer, show_integer);
  check_value<double>(text, parse_number, show_number);
  check_value<bool>(text, parse_bool, show_bool);
  check_value<std::vector<std::string>>(text, parse_list, show_list);
  check_value<std::string>(text, parse_text, show_text);
}

/// `shown` as the value of a line with a comment, as `--dump-config` writes it, comes back as it is.
void check_in_a_file(const std::string& shown) {
  auto entries = split_config_file(fmt::format("[weir]\nkey = {} # where it is from\n", shown), "dump.conf");
  require(entries && entries->size() == 1, "a dumped value is one entry");
  auto& e = entries->front();
  require(e.section == "weir" && e.key == "key" && e.line == 2, "a dumped value keeps its place");
  require(e.value == shown, "a dumped value is read as it was written");
}

const node_option* option_named(std::string_view name) {
  auto table = node_option_table();
  auto at = std::ranges::find(table, name, &node_option::name);
  return at == table.end() ? nullptr : &*at;
}

void check_suggestion(std::string_view key) {
  std::vector<std::string> names;
  for (const auto& o : node_option_table())
    names.emplace_back(o.name);
  auto near = nearest(key, names);
  require(near.empty() || option_named(near), "what is suggested exists");
}

void set_option(node_options& to, const file_entry& e) {
  auto* row = option_named(e.key);
  if (!row)
    return;
  auto text = row->shape == shape::uris ? result<std::string>{e.value} : parse_text(e.value);
  if (!text)
    return;
  auto before = to;
  if (!set(to, *row, *text)) {
    to = before;
    return;
  }
  require(complaint_about(to, *row).empty(), "what was taken is in range");
  auto shown = show(to, *row);
  check_in_a_file(shown);
  auto unquoted = row->shape == shape::uris ? shown : *parse_text(shown);
  auto again = before;
  require(static_cast<bool>(set(again, *row, unquoted)), "what is shown of an option is taken");
  require(show(again, *row) == shown, "what is shown of an option is read as the same");
}

void check_options(const std::vector<file_entry>& entries) {
  node_options o;
  for (const auto& e : entries)
    set_option(o, e);
  if (entries.size() == 1) // it takes longer than all the rest
    check_suggestion(entries.back().key);
  const machine small{uint64_t{2} << 30, 4, "host", "program"};
  if (auto wrong = resolve_and_check(o, small)) {
    require(!wrong->option.empty() && !wrong->text.empty(), "a fault names the option");
    return;
  }
  require(!resolve_and_check(o, small), "what was chosen is in range");
  require(o.io_threads > 0 && o.budget_bytes > 0 && o.outbound_bytes > 0 && o.message_max > 0,
          "nothing is left to choose");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text{reinterpret_cast<const char*>(data), size};
  check_in_a_file(show_text(text));
  if (auto list = parse_list(text); list && !list->empty())
    check_in_a_file(show_list(*list));
  auto entries = split_config_file(text, "fuzz.conf");
  if (!entries) {
    require(entries.error().code == errc::bad_option && entries.error().text.starts_with("fuzz.conf:"),
            "an error names file and line");
    return 0;
  }
  size_t line = 0;
  for (const auto& e : *entries) {
    require(e.line > line, "lines are counted");
    line = e.line;
    require(!e.key.empty() && trim(e.key) == e.key && trim(e.value) == e.value, "outer blanks are gone");
    check_values(e.value);
  }
  check_options(*entries);
  return 0;
}
