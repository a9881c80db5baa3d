#include "runtime/config_file.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "runtime/values.hpp"

namespace weir::settings {

namespace {

/// Where a quoted string that begins at `at` ends, one behind its quote; the end of `line` when it does not.
size_t skip_quoted(std::string_view line, size_t at) {
  for (++at; at < line.size(); ++at) {
    if (line[at] == '\\')
      ++at;
    else if (line[at] == '"')
      return at + 1;
  }
  return line.size();
}

/// `line` up to its comment. A # begins one at the front or behind a blank; a quote opens a string only where
/// a value or an item of a list begins, so that a lone quote in a text does no harm.
std::string_view without_comment(std::string_view line) {
  char before = '='; // the last character that is not blank
  for (size_t i = 0; i < line.size(); ++i) {
    bool blank = line[i] == ' ' || line[i] == '\t';
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t'))
      return line.substr(0, i);
    if (line[i] == '"' && (before == '=' || before == '[' || before == ','))
      i = skip_quoted(line, i) - 1;
    if (!blank)
      before = line[i];
  }
  return line;
}

failure at_line(std::string_view path, size_t line, std::string_view words) {
  return {errc::bad_option, outcome::not_executed, fmt::format("{}:{}: {}", path, line, words)};
}

failure cannot_read(const std::string& path, int error) {
  auto why = std::generic_category().message(error);
  return {errc::io_error, outcome::not_executed,
          fmt::format("{}: cannot read the config file: {}", path, why)};
}

} // namespace

result<std::string> read_config_file(const std::string& path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), &fclose);
  if (!file)
    return cannot_read(path, errno);
  std::string text(config_file_bytes_max + 1, '\0');
  text.resize(fread(text.data(), 1, text.size(), file.get()));
  if (ferror(file.get()) != 0)
    return cannot_read(path, errno);
  if (text.size() > config_file_bytes_max)
    return {errc::io_error, fmt::format("{}: too large for a config file (at most {})", path,
                                        show_bytes(config_file_bytes_max))};
  return text;
}

result<std::vector<file_entry>> split_config_file(std::string_view text, std::string_view path) {
  std::vector<file_entry> entries;
  std::string section;
  for (size_t number = 1; !text.empty(); ++number) {
    auto end = std::min(text.find('\n'), text.size());
    auto line = trim(without_comment(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty())
      continue;
    auto equals = line.find('=');
    if (line.starts_with('[') && line.ends_with(']')) {
      section = trim(line.substr(1, line.size() - 2));
      if (section.empty())
        return at_line(path, number, "a section needs a name");
    } else if (equals == std::string_view::npos || equals == 0) {
      return at_line(path, number, fmt::format("'{}' is neither key = value nor [section]", line));
    } else {
      auto key = trim(line.substr(0, equals)), value = trim(line.substr(equals + 1));
      entries.push_back({section, std::string(key), std::string(value), number});
    }
  }
  return entries;
}

} // namespace weir::settings
