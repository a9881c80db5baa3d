/// The systems of a comparison: each is a program that prints its result as its last line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report.hpp"

namespace weir::bench {

/// One system in a comparison: how it is run and what it gave so far.
struct contender {
  std::string name, program;
  std::vector<std::string> arguments;
  bool prints_json = true; ///< else key=value
  std::vector<figures> samples;
  std::string skipped; ///< why it does not take part
};

struct spread {
  double median = 0, least = 0, most = 0;
};

/// Of a figure over all samples; empty when none has it.
std::optional<spread> spread_of(const contender& from, std::string_view key);
spread spread_of(std::vector<double> values); ///< of at least one

/// The last line it prints with these arguments; empty, and why in `skipped`, when it cannot take part.
/// Throws bench_error.
std::string last_words(contender& one, const std::vector<std::string>& arguments);

/// Runs it once and keeps the result, or why there will be none. Throws bench_error.
void run_once(contender& one);

/// bench/peers/run beside the sources, else where it was installed; empty: in neither place.
std::string find_peers();

/// One of `peers/`, for `mode` with these arguments.
contender peer_contender(const std::string& name, const std::string& mode,
                         const std::vector<std::string>& arguments);

void append(std::vector<std::string>& to, const std::vector<std::string>& more);

/// The words between commas.
std::vector<std::string> split(std::string_view words);

} // namespace weir::bench
