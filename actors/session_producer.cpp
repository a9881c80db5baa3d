// The producer of a stream: who it is, what it waits for, and when it is told to go on.
#include <algorithm>

#include "actors/link.hpp"
#include "actors/local_conversation.hpp"
#include "actors/session.hpp"

namespace weir::actors {

void session::set_producer(caf::strong_actor_ptr producer, uint64_t outlet) {
  producer_ = std::move(producer);
  outlet_ = outlet;
  if (stage_ != stage::over)
    return wake_producer();
  tell_producer({outlet_event::type::failed, outlet_, 0, gate_->why_over()});
  producer_ = nullptr;
}

void session::tell_producer(outlet_event e) { put(producer_, nullptr, std::move(e)); }

// ---- what it waits for

void session::settle_gate() {
  if (!protocol_)
    return;
  auto bytes = protocol_->queued_bytes(), messages = protocol_->queued_messages();
  if (bytes == in_queue_bytes_ && messages == in_queue_messages_)
    return;
  release(in_queue_bytes_ - bytes, in_queue_messages_ - messages);
  in_queue_bytes_ = bytes;
  in_queue_messages_ = messages;
  wake_producer();
}

void session::on_credit() {
  gate_->publish(protocol_->out().limit());
  if (gate_->wanted())
    link_->protocol().waited(*protocol_);
  wake_producer();
}

void session::wake_producer() {
  if (!producer_ || !gate_->wanted() || !gate_->has_much_room() || !has_credit() || !gate_->take_wanted())
    return;
  ++told_;
  if (local_ && local_->sent().messages != 0) // else it has waited for the stream to begin
    local_->note_wait();
  press_after_ = pressed_ ? std::max(press_after_ / 2, press_soonest) : press_latest;
  if (std::exchange(pressed_, false))
    gate_->unwatch();
  tell_producer({outlet_event::type::credit, outlet_, 0, {}});
}

/// The limit covers more than what the producer has built already.
bool session::has_credit() const {
  if (stage_ != stage::remote && stage_ != stage::local)
    return false;
  auto built = (local_ ? local_->sent() : protocol_->out().sent())
                   .plus(gate_->queued_bytes(), gate_->queued_messages());
  auto limit = gate_->limit();
  return built.bytes < limit.bytes && built.messages < limit.messages;
}

void session::hear(const want& w) {
  if (w.room_bytes != 0)
    loop_.stand_in_line(*this, w.room_bytes);
  if (w.credit)
    watch_producer();
}

/// Credit comes back in quarters of the ration, so a receiver that keeps more than three of them would never
/// give any: a producer that waits for long asks for what there is. Not at once, or a fast stream would get
/// it in crumbs.
void session::watch_producer() {
  if (press_ == 0 && !pressed_ && stage_ != stage::over)
    press_ = loop_.at(loop_.now() + press_after_, [this, told = told_] {
      press_ = 0;
      press_for_credit(told);
    });
}

void session::press_for_credit(uint64_t told) {
  if (!gate_->wanted()) {
    gate_->unwatch();
    if (!gate_->wanted()) // or it has just begun to wait, and believed that we watch
      return;
  }
  if (told != told_)
    return watch_producer(); // it waits again
  pressed_ = true;
  if (stage_ == stage::local) {
    account_->wake_at(1, 1);
    return local_->collect(account_->take());
  }
  if (link_->protocol().want_credit(*protocol_, net::message_overhead_bytes))
    on_credit();
  link_->touch();
}

} // namespace weir::actors
