#pragma once
// Installed as <weir/when_full.hpp>.

#include <cstdint>
#include <string_view>

namespace weir {

/// What becomes of a call for which there is no place in its service's mailbox (`mailbox-messages`). A stream
/// has no holes: it always waits.
enum class when_full : uint8_t {
  wait,        ///< its sender waits for credit; the places are dealt out among the sessions
  reject,      ///< it is answered `overloaded`, not executed, at once
  drop_oldest, ///< it is taken, and the one that waits longest is answered `overloaded`, not executed, when
               ///< its turn comes: where an old request is worth less than a new one
};

constexpr std::string_view to_string(when_full w) {
  constexpr std::string_view names[] = {"wait", "reject", "drop-oldest"};
  return names[static_cast<size_t>(w)];
}

} // namespace weir
