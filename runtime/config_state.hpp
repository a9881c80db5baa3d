#pragma once
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/config.hpp>

namespace weir {

namespace settings {

/// One option of any category, while the sources are read.
struct option {
  std::string name;  ///< in full: "weir.ration", "calculator.precision", "verbose", "caf.scheduler.policy"
  std::string shape; ///< as in `--ration BYTES`
  std::string help;
  std::string limits = {};
  bool is_list = false;
  bool is_flag = false; ///< `--verbose` alone is `--verbose=true`
  std::function<result<void>(std::string_view)> set;
  std::function<std::string()>
      show; ///< as `set` reads it from a file; empty: not set, and CAF's default is CAF's matter

  std::string standard = {}; ///< the default, shown
  std::string source = {};   ///< "WEIR_RATION", "--ration", "app.conf:12"; empty: the default
  std::string place = {};    ///< what an error about it begins with

  std::string_view section() const;
  std::string_view key() const;
  /// "WEIR_RATION", "WEIR_CALCULATOR_PRECISION".
  std::string variable() const;
};

/// What a source says: `value` for `what`.
struct assignment {
  option* what = nullptr;
  std::string value;
  std::string source, place;
};

/// The command line, taken apart.
struct command_line {
  std::vector<assignment> values;
  std::vector<std::string> arguments;
  std::string config_path;
  bool help = false, dump = false;
};

} // namespace settings

struct config::state {
  node_options node;
  std::deque<settings::option> options; ///< weir's first; they do not move
  std::vector<std::string> arguments;
  std::string summary, program = "program";

  /// By its full name, without `weir.`, or without a section of the user's where that is clear. Errors:
  /// unknown or ambiguous, with the nearest name, each as "`dashes`name".
  result<settings::option*> find(std::string_view name, std::string_view dashes);

  /// Precondition: the words of a config file; errors do not say where.
  result<settings::option*> find_in_section(const std::string& section, const std::string& key);

  result<settings::command_line> read_command_line(int argc, const char* const* argv);
  result<std::vector<settings::assignment>> read_file(const std::string& path);
  /// `environment`: "NAME=value" each, ended by a null pointer. WEIR_CONFIG is left to `config_path`.
  result<std::vector<settings::assignment>> read_environment(const char* const* environment);

  /// File, environment, then `line`; validates at the end.
  result<void> read_all(const settings::command_line& line);
  result<void> apply(const std::vector<settings::assignment>& values);
  result<void> check();

  std::string help_text() const;
  std::string dump() const;
};

} // namespace weir
