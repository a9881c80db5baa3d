#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>

#include <unistd.h>

#include <fmt/format.h>

#include "runtime/config_file.hpp"
#include "runtime/config_state.hpp"
#include "runtime/node_option_table.hpp"
#include "runtime/values.hpp"

namespace weir {

using namespace settings;

namespace {

constexpr std::string_view config_variable = "WEIR_CONFIG";

failure bad_option(std::string text) { return {errc::bad_option, outcome::not_executed, std::move(text)}; }

/// "; did you mean x?", or where help is.
std::string hint(std::string_view name, const std::vector<std::string>& names, std::string_view before) {
  auto near = nearest(name, names);
  return near.empty() ? "; --help shows them all" : fmt::format("; did you mean {}{}?", before, near);
}

/// Every way to write an option that `find` knows.
std::vector<std::string> spellings(const std::deque<option>& options) {
  std::vector<std::string> names{"help", "dump-config", "config"};
  for (const auto& o : options) {
    names.push_back(o.name);
    if (o.section() != "caf")
      names.emplace_back(o.key());
  }
  return names;
}

/// A list may be given more than once on the command line, other options may not.
result<void> add_value(std::vector<assignment>& values, assignment added) {
  auto before = std::ranges::find(values, added.what, &assignment::what);
  if (before == values.end()) {
    values.push_back(std::move(added));
    return {};
  }
  if (!added.what->is_list)
    return bad_option(fmt::format("{}: given twice", added.place));
  auto first = parse_list(before->value), more = parse_list(added.value);
  if (!first || !more)
    return bad_option(fmt::format("{}: {}", added.place, (first ? more : first).error().text));
  first->insert(first->end(), more->begin(), more->end());
  before->value = show_list(*first);
  return {};
}

} // namespace

std::string_view option::section() const {
  auto dot = name.find('.');
  return dot == std::string::npos ? std::string_view{} : std::string_view(name).substr(0, dot);
}

std::string_view option::key() const {
  return std::string_view(name).substr(name.find('.') + 1); // npos + 1 is 0
}

std::string option::variable() const {
  std::string text = "WEIR_";
  for (char c : section() == "weir" ? key() : std::string_view(name))
    text += c == '.' || c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

result<option*> config::state::find(std::string_view name, std::string_view dashes) {
  auto weirs = fmt::format("weir.{}", name);
  for (std::string_view full : {name, std::string_view(weirs)})
    if (auto at = std::ranges::find(options, full, &option::name); at != options.end())
      return &*at;
  std::vector<option*> meant;
  for (auto& o : options)
    if (o.section() != "caf" && o.key() == name)
      meant.push_back(&o);
  if (meant.size() == 1)
    return meant.front();
  if (meant.empty())
    return bad_option(
        fmt::format("{}{}: unknown option{}", dashes, name, hint(name, spellings(options), dashes)));
  return bad_option(fmt::format("{0}{1}: there is {0}{2} and {0}{3}; which?", dashes, name, meant[0]->name,
                                meant[1]->name));
}

namespace {

/// Takes a command line apart, word by word.
class line_reader {
public:
  line_reader(std::vector<std::string_view> words, std::function<result<option*>(std::string_view)> find)
      : words_(std::move(words)), find_(std::move(find)) {}

  result<command_line> read() {
    while (at_ < words_.size()) {
      auto word = words_[at_++];
      if (word == "--") {
        line_.arguments.insert(line_.arguments.end(), words_.begin() + static_cast<ptrdiff_t>(at_),
                               words_.end());
        break;
      }
      if (word.starts_with('-') && word != "-") {
        if (auto done = read_option(word); !done)
          return done.error();
      } else {
        line_.arguments.emplace_back(word);
      }
    }
    return std::move(line_);
  }

private:
  result<void> read_option(std::string_view word) {
    auto name = word.substr(0, word.find('='));
    std::optional<std::string> value;
    if (name.size() < word.size())
      value = word.substr(name.size() + 1);
    if (name == "--help" || name == "-h" || name == "--dump-config") {
      (name == "--dump-config" ? line_.dump : line_.help) = true;
      return value ? bad_option(fmt::format("{}: takes no value", name)) : result<void>{};
    }
    if (!name.starts_with("--"))
      return bad_option(fmt::format("{}: unknown option; --help shows them all", name));
    if (name == "--config")
      return read_config_path(value);
    auto what = find_(name.substr(2));
    if (!what)
      return what.error();
    if (!value && (*what)->is_flag)
      value = "true";
    if (!value)
      value = take_next();
    if (!value)
      return bad_option(fmt::format("{}: needs a value", name));
    return add_value(line_.values, {*what, std::move(*value), std::string(name), std::string(name)});
  }

  result<void> read_config_path(std::optional<std::string> value) {
    if (!value)
      value = take_next();
    if (!value || value->empty())
      return bad_option("--config: needs the name of a file");
    if (!line_.config_path.empty())
      return bad_option("--config: given twice");
    line_.config_path = std::move(*value);
    return {};
  }

  std::optional<std::string> take_next() {
    if (at_ == words_.size() || words_[at_].starts_with("--"))
      return std::nullopt;
    return std::string(words_[at_++]);
  }

  std::vector<std::string_view> words_;
  std::function<result<option*>(std::string_view)> find_;
  size_t at_ = 0;
  command_line line_;
};

} // namespace

result<command_line> config::state::read_command_line(int argc, const char* const* argv) {
  std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
  return line_reader(std::move(words), [this](std::string_view name) { return find(name, "--"); }).read();
}

result<std::vector<assignment>> config::state::read_file(const std::string& path) {
  auto text = read_config_file(path);
  if (!text)
    return text.error();
  auto entries = split_config_file(*text, path);
  if (!entries)
    return entries.error();
  std::vector<assignment> values;
  for (auto& e : *entries) {
    auto source = fmt::format("{}:{}", path, e.line);
    auto what = find_in_section(e.section, e.key);
    if (!what)
      return bad_option(fmt::format("{}: {}", source, what.error().text));
    auto place = fmt::format("{}: {}", source, e.key);
    if (auto before = std::ranges::find(values, *what, &assignment::what); before != values.end())
      return bad_option(fmt::format("{}: given before, at {}", place, before->source));
    if (!(*what)->is_list) { // the items of a list have quotes of their own
      auto unquoted = parse_text(e.value);
      if (!unquoted)
        return bad_option(fmt::format("{}: {}", place, unquoted.error().text));
      e.value = std::move(*unquoted);
    }
    values.push_back({*what, std::move(e.value), std::move(source), std::move(place)});
  }
  return values;
}

result<option*> config::state::find_in_section(const std::string& section, const std::string& key) {
  if (section.empty())
    return find(key, "");
  auto full = fmt::format("{}.{}", section, key);
  if (auto at = std::ranges::find(options, full, &option::name); at != options.end())
    return &*at;
  std::vector<std::string> sections, keys;
  for (const auto& o : options) {
    sections.emplace_back(o.section());
    if (o.name.starts_with(section + "."))
      keys.push_back(o.name.substr(section.size() + 1));
  }
  if (keys.empty())
    return bad_option(fmt::format("[{}]: unknown section{}", section, hint(section, sections, "")));
  return bad_option(fmt::format("{}: unknown option in [{}]{}", key, section, hint(key, keys, "")));
}

result<std::vector<assignment>> config::state::read_environment(const char* const* environment) {
  std::vector<assignment> values;
  for (; *environment != nullptr; ++environment) {
    std::string_view entry = *environment;
    auto name = entry.substr(0, entry.find('='));
    if (!name.starts_with("WEIR_") || name == config_variable || name.size() == entry.size())
      continue;
    auto what = std::ranges::find(options, name, &option::variable);
    if (what == options.end()) {
      std::vector<std::string> names{std::string(config_variable)};
      std::ranges::transform(options, std::back_inserter(names), &option::variable);
      return bad_option(fmt::format("{}: unknown variable{}", name, hint(name, names, "")));
    }
    values.push_back(
        {&*what, std::string(entry.substr(name.size() + 1)), std::string(name), std::string(name)});
  }
  return values;
}

result<void> config::state::apply(const std::vector<assignment>& values) {
  for (const auto& v : values) {
    if (auto done = v.what->set(v.value); !done)
      return bad_option(fmt::format("{}: {}", v.place, done.error().text));
    v.what->source = v.source;
    v.what->place = v.place;
  }
  return {};
}

result<void> config::state::read_all(const command_line& line) {
  const char* from_environment = std::getenv(std::string(config_variable).c_str());
  auto path = line.config_path.empty() && from_environment != nullptr ? from_environment : line.config_path;
  auto file = path.empty() ? std::vector<assignment>{} : read_file(path);
  if (!file)
    return file.error();
  auto variables = read_environment(environ);
  if (!variables)
    return variables.error();
  for (const auto& source : {*file, *variables, line.values})
    if (auto done = apply(source); !done)
      return done;
  arguments = line.arguments;
  return check();
}

result<void> config::state::check() {
  auto wrong = resolve_and_check(node, this_machine());
  if (!wrong)
    return {};
  auto what = find(fmt::format("weir.{}", wrong->option), "");
  const auto& place = (*what)->place;
  return bad_option(fmt::format("{}: {}", place.empty() ? wrong->option : place, wrong->text));
}

} // namespace weir
