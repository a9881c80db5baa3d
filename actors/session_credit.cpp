// The ration of what comes: what comes back of it, and how large it is.
#include "actors/link.hpp"
#include "actors/local_conversation.hpp"
#include "actors/session.hpp"

namespace weir::actors {

void session::note_ration(const found_service& f) {
  own_ration_ = f.ration_bytes != 0;
  dealt_messages_ = f.dealt ? f.ration_messages : 0;
}

void session::change_ration() {
  auto receives = stage_ == stage::local || (stage_ == stage::remote && protocol_ && port_);
  if (!receives || own_ration_)
    return;
  auto to = loop_.first_ration();
  auto range = loop_.limits_now.rations.range(dealt_messages_ != 0);
  if (dealt_messages_ != 0)
    to.messages = std::min(to.messages, dealt_messages_);
  if (local_)
    return local_->change_ration(to, range);
  link_->protocol().change_ration(*protocol_, to, range);
  update_wake();
  link_->touch();
}

void session::collect() {
  auto r = account_->take();
  if (stage_ == stage::local)
    return local_->collect(r);
  if (stage_ != stage::remote || !protocol_)
    return loop_.give_back(r);
  do {
    loop_.unconsumed_bytes -= r.bytes;
    if (r.bytes || r.messages) { // a message is counted a moment before its bytes
      link_->protocol().consumed(*protocol_, r.bytes, r.messages);
      auto& in = protocol_->in();
      stalled_since_ = in.received() == in.consumed() ? net::time_point{} : loop_.now();
    }
    if (r.reply_bytes)
      link_->protocol().reply_died(r.reply_bytes);
    if (!update_wake())
      break;
    r = account_->take(); // what came back before it would have woken us
  } while (r.bytes || r.messages || r.reply_bytes);
  link_->touch();
}

void session::on_peer_blocked() { collect(); }

void session::on_peer_resumed() {
  collect();
  link_->protocol().tune(*protocol_);
  update_wake();
}

void session::look_if_idle(net::duration after) {
  auto remote = stage_ == stage::remote && protocol_ && protocol_->is_tuned();
  if (!remote && stage_ != stage::local)
    return;
  auto came = remote ? protocol_->in().received() : local_->sent();
  auto now = loop_.now();
  if (came != std::exchange(seen_, came) || seen_at_ == net::time_point{})
    seen_at_ = now;
  if (now - seen_at_ < after)
    return;
  if (!remote) {
    local_->give_idle_ration();
  } else if (protocol_->in().options().bytes > net::tuner::floor_bytes) {
    collect(); // or a quarter of it would stay owed
    link_->protocol().reclaim(*protocol_);
    update_wake();
    link_->touch();
  }
}

/// The loop hears of returned credit at a quarter of the ration; of every bit while the peer waits for it or
/// the end is near.
bool session::update_wake() {
  if (!protocol_)
    return false;
  auto& in = protocol_->in();
  bool every = in.peer_is_blocked() || protocol_->now() != net::session::state::open ||
               protocol_->peer_closed();
  auto before = account_->wake_bytes();
  if (every)
    account_->wake_at(1, 1);
  else
    account_->wake_at_share_of(in.options());
  return account_->wake_bytes() < before;
}

} // namespace weir::actors
