#pragma once
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace weir::fuzz {

/// Ends the process when `holds` is false: libFuzzer keeps the input, a replay names it.
inline void require(bool holds, std::string_view what) {
  if (holds)
    return;
  std::fprintf(stderr, "broken: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

} // namespace weir::fuzz
