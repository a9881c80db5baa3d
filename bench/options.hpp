/// The command line of one benchmark mode: strict, typed, with ranges and units.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure.hpp"

namespace weir::bench {

/// Long options only, `--name value` or `--name=value`. Each is bound to a variable whose value so far is the
/// default and stays what it is unless the option is given. An unknown option, a missing or doubled one, or a
/// value out of range is one line on stderr that names it and says where help is.
///
///     options line("weir bench rpc", "closed loop of calls");
///     line.count("callers", callers, 1, 100'000, "callers in each process");
///     if (auto status = line.parse(argc, argv)) return *status;
class options {
public:
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  options(std::string command, std::string summary);

  /// A whole number. An empty `help`, here and below, keeps the option out of `--help`: for the roles of our
  /// own children.
  options& count(std::string name, std::uint64_t& to, std::uint64_t least, std::uint64_t most,
                 std::string help);

  /// A whole number of bytes with an optional suffix k, m or g (1024, 1024^2, 1024^3). Where `most` is
  /// `unlimited` the word `inf` is accepted and stands for it.
  options& bytes(std::string name, std::uint64_t& to, std::uint64_t least, std::uint64_t most,
                 std::string help);

  /// A number with a fraction.
  options& number(std::string name, double& to, double least, double most, std::string help);

  /// A time in seconds, with a fraction.
  options& duration(std::string name, seconds& to, seconds least, seconds most, std::string help);

  /// One of `words`.
  options& choice(std::string name, std::string& to, std::vector<std::string> words, std::string help);

  /// Any text; `shape` names it in the help, as in `--json FILE`.
  options& text(std::string name, std::string& to, std::string shape, std::string help);

  /// Reads argv[1] and up. Empty: go on. Else the exit status to return: 0 after `--help`, 2 after an error.
  std::optional<int> parse(int argc, const char* const* argv);

  /// For rules between options: prints `command: --name: words; see ...` and returns the exit status 2.
  int refuse(std::string_view name, std::string_view words) const;

  /// Whether the option was on the command line.
  bool given(std::string_view name) const;

private:
  struct option {
    std::string name, shape, help, standard;
    std::function<std::optional<std::string>(std::string_view)> set; ///< returns what is wrong with the value
    bool given = false;
  };

  options& add(option added);
  option* find(std::string_view name);
  void print_help() const;

  std::string command_, summary_;
  std::vector<option> options_;
};

} // namespace weir::bench
