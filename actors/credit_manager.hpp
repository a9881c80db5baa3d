#pragma once
#include <deque>
#include <functional>
#include <vector>

#include "actors/loop.hpp"
#include "actors/messages.hpp"
#include "net/ledger.hpp"

namespace weir::actors {

/// Keeps the books of one loop: what it owes (inbound) and what it keeps for others (outbound). Links and
/// sessions of the loop call it directly, so that no lock is needed; the managers of one node lend each other
/// what is free, so that the sum stays the node's budget.
class credit_manager final : public pinnable {
public:
  credit_manager(caf::actor_config& cfg, loop& l, const net::budget_options& inbound,
                 uint64_t outbound_bytes);
  caf::behavior make_behavior() override;
  const char* name() const override { return "weir.credit_manager"; }
  void on_exit() override;

  // ---- on the loop
  net::budget& inbound() { return inbound_; }
  net::outbound_ledger& outbound() { return outbound_; }
  /// The managers of the node's other loops.
  void set_peers(std::vector<caf::actor> peers) { peers_ = std::move(peers); }
  /// Tries to have `bytes` free, if need be with what other loops have, then calls `then`, which looks for
  /// itself whether they are.
  void seek(uint64_t bytes, std::function<void()> then);
  /// Small messages leave their read slab on arrival while more than 5 % of the budget is pinned.
  bool pinned_is_high() const { return inbound_.pinned() > inbound_.options().bytes / 20; }
  /// Measures slab bytes that are kept alive beyond what is charged in them.
  void measure_pinned();

private:
  struct seeker {
    uint64_t bytes;
    std::function<void()> then;
    size_t asked; // of the peers
  };
  void go_on();
  void arm();
  void borrow_ahead();
  void look_for_idle();

  loop& loop_;
  net::budget inbound_;
  net::outbound_ledger outbound_;
  std::vector<caf::actor> peers_;
  std::deque<seeker> seekers_; // the first has asked, and waits for an answer
  const uint64_t low_bytes_;   // free bytes below which others are asked
  net::loop::timer_id timer_ = 0;

  static constexpr uint64_t spare_bytes = 64 << 10; // for the calls of a session, beside what it seeks
  static constexpr net::duration measure_every = std::chrono::milliseconds{100};
  /// A session that nothing has come on for so long gives back what its ration has grown by; the second, when
  /// more than four fifths of the budget are used.
  static constexpr net::duration idle_after = std::chrono::seconds{2},
                                 idle_soon_after = std::chrono::milliseconds{200};
};

} // namespace weir::actors
