#include <algorithm>

#include <fmt/format.h>

#include "runtime/config_state.hpp"
#include "runtime/values.hpp"

namespace weir {

using namespace settings;

namespace {

std::string head(const option& o) {
  auto name = o.section() == "weir" ? std::string(o.key()) : o.name;
  return o.shape.empty() ? fmt::format("--{}", name) : fmt::format("--{} {}", name, o.shape);
}

std::string line(const option& o, size_t width) {
  std::vector<std::string> remarks;
  if (!o.limits.empty())
    remarks.push_back(o.limits);
  if (!o.standard.empty() && o.standard != "[]")
    remarks.push_back(fmt::format("default {}", o.standard));
  auto text = fmt::format("  {:<{}}  {}", head(o), width, o.help);
  return remarks.empty() ? text + "\n" : fmt::format("{} ({})\n", text, fmt::join(remarks, "; "));
}

/// The sections in which options come, in the order in which they were added.
std::vector<std::string_view> sections_of(const std::deque<option>& options) {
  std::vector<std::string_view> sections;
  for (const auto& o : options)
    if (std::ranges::find(sections, o.section()) == sections.end())
      sections.push_back(o.section());
  return sections;
}

/// A text in a file keeps its quotes; what other shapes show needs none.
std::string entry(const option& o) {
  auto source = o.source.empty() ? "default" : o.source;
  return fmt::format("{:<40} # {}\n", fmt::format("{} = {}", o.key(), o.show()), source);
}

} // namespace

std::string config::state::help_text() const {
  auto text = summary.empty() ? std::string{} : summary + "\n\n";
  text += fmt::format("usage: {} [options] [arguments]\n", program);
  size_t width = 0;
  for (const auto& o : options)
    width = std::max(width, head(o).size());
  text += fmt::format("\n  {:<{}}  this text\n", "--help", width);
  text += fmt::format("  {:<{}}  read this file first (variable WEIR_CONFIG)\n", "--config FILE", width);
  text += fmt::format("  {:<{}}  print what is in effect, as such a file\n", "--dump-config", width);
  for (auto section : sections_of(options)) {
    text += section.empty() ? "\n" : fmt::format("\n[{}]\n", section);
    for (const auto& o : options)
      if (o.section() == section)
        text += line(o, width);
  }
  return text +
         "\nBYTES: 512, 64k, 16MiB, 1g. TIME: 20us, 5ms, 2s, 1min, 1h. A list: a,b or the option again.\n"
         "Each is also a key of the file and a variable: --ration 64k, [weir] ration = 64k, "
         "WEIR_RATION=64k.\n";
}

std::string config::state::dump() const {
  auto sections = sections_of(options);
  std::stable_partition(sections.begin(), sections.end(), [](std::string_view s) {
    return s.empty();
  }); // keys without a section must come first
  std::string text;
  for (auto section : sections) {
    if (!section.empty())
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    for (const auto& o : options)
      if (o.section() == section && !o.show().empty())
        text += entry(o);
  }
  return text;
}

} // namespace weir
