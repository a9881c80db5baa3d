#pragma once
#include <algorithm>
#include <cstdint>

#include "net/ledger.hpp"
#include "net/ration.hpp"
#include "net/tuner.hpp"

namespace weir::actors {

/// How the sessions of a loop get their rations. Each loop has its own, which `node::tune` changes on that
/// loop.
struct rationing {
  enum class kind : uint8_t {
    fixed,
    tuned,    ///< each sizes itself (net::tuner)
    infinite, ///< as much as the budget has, a quarter of what is free to each session
  };
  kind how = kind::fixed;
  uint64_t bytes = 1 << 20; ///< fixed: of each; infinite: at least
  uint64_t messages = 0;    ///< 0: they follow the bytes
  uint32_t grant_at = 4;

  /// What a session gets at first.
  net::ration_options first(const net::budget& from) const {
    net::ration_options r{bytes, messages, grant_at};
    if (how == kind::tuned) // many sessions begin with little, so that all of them can begin
      r.bytes = from.free_bytes() >= from.pool_bytes() / 2 ? net::tuner::start_bytes
                                                           : net::tuner::floor_bytes;
    if (how == kind::infinite) {
      r.bytes = std::max(bytes, from.free_bytes() / 4);
      r.messages = std::min(messages, r.bytes / net::message_overhead_bytes);
    }
    if (messages == 0)
      r.messages = net::tuner::messages_of(r.bytes);
    return r;
  }
  /// Between what it changes by itself. `dealt`: its messages were dealt out by its service's mailbox.
  net::ration_range range(bool dealt) const {
    if (how != kind::tuned)
      return {};
    return {net::tuner::floor_bytes, net::tuner::ceiling_bytes, messages == 0 && !dealt};
  }
};

} // namespace weir::actors
