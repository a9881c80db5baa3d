#pragma once
// Installed as <weir/log_level.hpp>.

#include <cstdint>
#include <string_view>

namespace weir {

/// How much a node writes to stderr; each level has those before it.
enum class log_level : uint8_t {
  off,
  error,   ///< the node itself is at fault
  warning, ///< somebody's session, call or link went wrong
  info,    ///< links come and go, and ends that are in order
  debug,   ///< calls that were refused or given up, too
};

constexpr std::string_view to_string(log_level l) {
  constexpr std::string_view names[] = {"off", "error", "warning", "info", "debug"};
  return names[static_cast<size_t>(l)];
}

} // namespace weir
