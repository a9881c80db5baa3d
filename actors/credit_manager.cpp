#include "actors/credit_manager.hpp"

#include <algorithm>

#include "actors/session.hpp"

namespace weir::actors {

credit_manager::credit_manager(caf::actor_config& cfg, loop& l, const net::budget_options& inbound,
                               uint64_t outbound_bytes)
    : pinnable(cfg),
      loop_(l),
      inbound_(inbound),
      outbound_(outbound_bytes),
      low_bytes_((inbound.bytes - inbound.reserve_bytes) / 8) {}

caf::behavior credit_manager::make_behavior() {
  ignore_unexpected();
  arm();
  return {[this](const borrow& b) {
            auto half = inbound_.free_bytes() / 2; // the other half for our own next session
            put(current_sender(), caf::strong_actor_ptr{ctrl()},
                lent{inbound_.shrink(std::min(b.bytes, half))});
          },
          [this](const lent& l) {
            inbound_.grow(l.bytes);
            go_on();
          },
          [this](const close_session&) { quit(caf::exit_reason::normal); }};
}

void credit_manager::on_exit() {
  if (timer_)
    loop_.cancel(std::exchange(timer_, 0));
  peers_.clear();
  seekers_.clear();
}

void credit_manager::arm() {
  timer_ = loop_.at(loop_.now() + measure_every, [this] {
    measure_pinned();
    borrow_ahead();
    look_for_idle();
    loop_.serve_room_line(); // what died elsewhere has told nobody
    arm();
  });
}

/// Rooms for replies and large messages are funded at once or refused, for calls must not overtake each
/// other: a loop that runs low asks before they need it.
void credit_manager::borrow_ahead() {
  if (seekers_.empty() && inbound_.free_bytes() < low_bytes_)
    seek(low_bytes_, [] {});
}

/// From what is idle to those who grow.
void credit_manager::look_for_idle() {
  if (loop_.limits_now.rations.how != rationing::kind::tuned)
    return;
  auto scarce = !inbound_.can_spare(0);
  for (auto* s : loop_.sessions)
    s->look_if_idle(scarce ? idle_soon_after : idle_after);
}

void credit_manager::measure_pinned() {
  auto alive = loop_.pinned_slab_bytes();
  inbound_.set_pinned(alive > loop_.unconsumed_bytes ? alive - loop_.unconsumed_bytes : 0);
}

void credit_manager::seek(uint64_t bytes, std::function<void()> then) {
  if (peers_.empty() || inbound_.free_bytes() >= bytes + spare_bytes)
    return then();
  seekers_.push_back({bytes, std::move(then), 0});
  if (seekers_.size() == 1)
    go_on();
}

void credit_manager::go_on() {
  while (!seekers_.empty()) {
    auto& s = seekers_.front();
    auto free = inbound_.free_bytes();
    if (free < s.bytes + spare_bytes && s.asked < peers_.size())
      return put(peers_[s.asked++], caf::strong_actor_ptr{ctrl()},
                 borrow{s.bytes + std::max(low_bytes_, spare_bytes) - free});
    auto then = std::move(s.then);
    seekers_.pop_front();
    then();
  }
}

} // namespace weir::actors
