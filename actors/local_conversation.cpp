#include "actors/local_conversation.hpp"

#include <fmt/format.h>

#include "actors/cycle_watch.hpp"

namespace weir::actors {

namespace {
const failure expired{errc::deadline_exceeded, outcome::unknown, "no answer within the deadline"};

/// A message in one piece, as its reader wants it; more pieces are copied together.
std::pair<net::message_view, net::slab_ref> in_one_piece(net::outgoing& m) {
  if (!m.more)
    return {{reinterpret_cast<const uint64_t*>(m.at + net::header_bytes), m.body_bytes / 8},
            std::move(m.memory)};
  auto whole = net::copy_of(m);
  return in_one_piece(whole);
}
} // namespace

local_conversation::local_conversation(session& s, const found_service& f, uint64_t reader)
    : session_(s),
      port_{caf::actor_cast<caf::strong_actor_ptr>(f.service), f.allowance, {}, 0, reader},
      ration_(s.loop_.first_ration()),
      tuner_(f.ration_bytes ? net::ration_range{} : s.loop_.limits_now.rations.range(f.dealt)) {
  if (f.ration_bytes)
    ration_.bytes = f.ration_bytes;
  ration_.messages = std::min(ration_.messages, f.ration_messages);
}

local_conversation::~local_conversation() {
  delist();
  session_.loop_.forget(*this);
  if (timer_)
    session_.loop_.cancel(timer_);
}

failure local_conversation::start() {
  funded_ = session_.loop_.inbound().take(net::charge::session, ration_.bytes);
  charged_bytes_ = ration_.bytes;
  if (!funded_)
    return {
        errc::no_budget, outcome::not_executed,
        fmt::format("the budget has no {} bytes left for a session (budget-bytes, ration)", ration_.bytes)};
  session_.account_->wake_at_share_of(ration_);
  publish();
  enlist();
  return {};
}

/// Whoever looks for cycles looks at it.
void local_conversation::enlist() {
  if (session_.loop_.local_sessions.insert(&session_).second && session_.env_->cycles)
    session_.env_->cycles->begins();
}

void local_conversation::delist() {
  if (session_.loop_.local_sessions.erase(&session_) > 0 && session_.env_->cycles)
    session_.env_->cycles->ends();
}

void local_conversation::carry(ask& a, const caf::strong_actor_ptr& from) {
  if (closing_) {
    session_.release(a.message.cost(), a.message.count);
    return session_.tell_failure(from, a,
                                 {errc::session_closed, outcome::not_executed, "the session is closed"});
  }
  if (!queue_.empty() || !deliver(a, from)) {
    session_.account_->wake_at(1, 1);
    queue_.push_back({std::move(a), from});
    arm_expiry();
    collect(session_.account_->take());
  }
}

bool local_conversation::deliver(ask& a, const caf::strong_actor_ptr& from) {
  auto& m = a.message;
  if (m.count == 1 && m.body_bytes > session_.env_->link.message_bytes_max) {
    session_.refuse(from, a,
                    {errc::message_too_large, outcome::not_executed,
                     fmt::format("{} bytes are above message-max ({})", m.body_bytes,
                                 session_.env_->link.message_bytes_max)});
    return true;
  }
  if (m.cost() > ration_.bytes) {
    if (!(sent_ == consumed_))
      return false; // one larger than the ration passes alone
    if (!session_.loop_.inbound().take(net::charge::large, m.cost() - ration_.bytes)) {
      session_.refuse(
          from, a,
          {errc::no_budget, outcome::not_executed, "the budget cannot fund a message of this size now"});
      return true;
    }
    large_bytes_ = m.cost() - ration_.bytes;
  } else if (!covered(m)) {
    return false;
  }
  session_.release(m.cost(), m.count);
  a.from_teller = nullptr;
  if (a.token == 0 && m.count > 1) {
    deliver_run(m);
    return true;
  }
  uint32_t id = 0;
  if (a.token != 0) {
    if (!port_.allowance->mailbox.enter()) {
      auto why = port_.allowance->mailbox.refusal();
      session_.note(why);
      session::tell_failure(from, a, why);
      return true;
    }
    auto r = open_call(a, from);
    if (!r) {
      port_.allowance->mailbox.leave(); // it does not wait there after all
      session_.note(r.error());
      session_.tell_failure(from, a, r.error());
      return true;
    }
    id = *r;
  }
  auto cost = m.cost();
  if (waited_)
    resumed(cost);
  sent_ = sent_.plus(cost, 1);
  auto [view, memory] = in_one_piece(m);
  touch();
  port_.batch.add(session_.account_, {view, a.deadline, cost, id, 0}, memory);
  return true;
}

void local_conversation::deliver_run(const net::outgoing& run) {
  if (waited_)
    resumed(run.cost() / run.count);
  sent_ = sent_.plus(run.cost(), run.count);
  touch();
  for (const auto* at = run.at; at < run.at + run.size;) {
    auto h = net::load_header(at);
    net::message_view v{reinterpret_cast<const uint64_t*>(at + net::header_bytes), h.length / 8};
    port_.batch.add(session_.account_, {v, net::time_point::max(), net::cost_of(h.length), 0, 0}, run.memory);
    at += net::header_bytes + h.length;
  }
}

result<uint32_t> local_conversation::open_call(const ask& a, const caf::strong_actor_ptr& from) {
  auto& limits = session_.env_->link;
  if (open_calls_ == limits.calls_max)
    return {errc::too_many_calls, fmt::format("{} calls are open on this session (calls-max)", open_calls_)};
  auto room = net::message_overhead_bytes +
              uint64_t{a.reply_room_bytes ? a.reply_room_bytes : limits.reply_room_bytes};
  if (!session_.loop_.inbound().take(net::charge::reply_room, room))
    return {errc::no_budget, "the budget has no room for the reply"};
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(calls_.size()));
    calls_.emplace_back();
  }
  auto slot = free_.back();
  free_.pop_back();
  ++open_calls_;
  auto& c = calls_[slot];
  auto generation = static_cast<uint16_t>(
      c.generation == 0xffff ? 1 : c.generation + 1); // or an id were 0, which is no call
  c = {from, a.token, a.deadline, room, generation, true, session_.loop_.now()};
  arm_expiry();
  return uint32_t{c.generation} << 16 | slot;
}

void local_conversation::close_call(call& c, uint32_t slot, reply r) {
  auto who = std::exchange(c.who, nullptr);
  c.open = false;
  free_.push_back(slot);
  --open_calls_;
  put(who, nullptr, std::move(r));
  finish_if_done();
}

void local_conversation::answer(struct answer& a) {
  auto slot = a.call & 0xffff;
  if (slot >= calls_.size() || !calls_[slot].open || calls_[slot].generation != a.call >> 16)
    return; // given up
  auto& c = calls_[slot];
  auto token = c.token;
  if (auto why = a.message ? fund_reply(c, a.message) : std::move(a.why); why.code != errc::none) {
    session_.note(why);
    session_.loop_.inbound().give(net::charge::reply_room, c.room_bytes);
    return close_call(c, slot, reply{token, std::move(why)});
  }
  session_.account_->hold();
  auto [view, memory] = in_one_piece(a.message);
  close_call(c, slot,
             reply{token, delivery::reply(view, std::move(memory), session_.account_, c.room_bytes)});
}

failure local_conversation::fund_reply(call& c, const net::outgoing& m) {
  auto most = session_.env_->link.message_bytes_max;
  if (m.body_bytes > most)
    return {errc::message_too_large, outcome::done,
            fmt::format("a reply of {} bytes is above message-max ({})", m.body_bytes, most)};
  if (m.cost() <= c.room_bytes)
    return {};
  auto more = m.cost() - c.room_bytes;
  if (!session_.loop_.inbound().take(net::charge::reply_room, more))
    return {errc::no_budget, outcome::done, fmt::format("the budget has no {} bytes for the reply", more)};
  c.room_bytes += more;
  return {};
}

void local_conversation::give_up(uint64_t token, const caf::strong_actor_ptr& from) {
  for (uint32_t slot = 0; slot < calls_.size(); ++slot)
    if (auto& c = calls_[slot]; c.open && c.token == token && c.who == from) {
      session_.on_cancelled(uint32_t{c.generation} << 16 | slot);
      session_.loop_.inbound().give(net::charge::reply_room, c.room_bytes);
      return close_call(c, slot,
                        reply{token, failure{errc::cancelled, outcome::unknown, "cancelled by the caller"}});
    }
  for (auto& w : queue_.take_call(token, from))
    fail(w, {errc::cancelled, outcome::not_executed, "cancelled by the caller"});
}

void local_conversation::fail(waiting_list::item& w, const failure& why) {
  session_.release(w.what.message.cost(), w.what.message.count);
  session::tell_failure(w.from, w.what, why);
}

void local_conversation::arm_expiry() {
  if (timer_ || (open_calls_ == 0 && queue_.deadline() == net::time_point::max()))
    return;
  timer_ = session_.loop_.at(session_.loop_.now() + deadline_grain, [this] {
    timer_ = 0;
    expire();
    arm_expiry();
  });
}

void local_conversation::expire() {
  auto now = session_.loop_.now();
  for (uint32_t slot = 0; slot < calls_.size(); ++slot)
    if (auto& c = calls_[slot]; c.open && c.deadline <= now) {
      session_.on_cancelled(uint32_t{c.generation} << 16 | slot);
      session_.note(expired);
      session_.loop_.inbound().give(net::charge::reply_room, c.room_bytes);
      close_call(c, slot, reply{c.token, expired});
    }
  if (queue_.deadline() <= now)
    for (auto& w : queue_.take_expired(now))
      fail(w, {errc::deadline_exceeded, outcome::not_executed, "not sent within the deadline"});
}

/// The sender had to wait with a message of this cost: as across a link, but what came back is known at once.
void local_conversation::resumed(uint64_t cost) {
  waited_ = false;
  tuner_.arrives(sent_, cost, true);
  auto back = session_.account_->peek();
  auto bytes = tuner_.grown(ration_, consumed_.plus(back.bytes, back.messages), limit());
  if (bytes > ration_.bytes && session_.loop_.inbound().can_spare(bytes - ration_.bytes))
    set_ration(bytes);
}

void local_conversation::set_ration(uint64_t bytes) {
  auto more = bytes > charged_bytes_ ? bytes - charged_bytes_ : 0;
  if (!session_.loop_.inbound().take(net::charge::session, more))
    return;
  charged_bytes_ += more;
  ration_ = {bytes, tuner_.messages_for(bytes, ration_.messages), ration_.grant_at};
  recharge();
  publish();
}

/// Gives back what a ration that became smaller has left of what is under way.
void local_conversation::recharge() {
  auto under_way = sent_.bytes - consumed_.bytes;
  under_way -= std::min(under_way, large_bytes_);
  auto less = charged_bytes_ - std::max(ration_.bytes, under_way);
  if (less != 0)
    session_.loop_.inbound().give(net::charge::session, less);
  charged_bytes_ -= less;
}

void local_conversation::change_ration(const net::ration_options& to, const net::ration_range& range) {
  tuner_ = net::tuner{range};
  ration_.messages = to.messages;
  set_ration(to.bytes);
  session_.account_->wake_at_share_of(ration_);
  collect(session_.account_->take()); // what waits may go
}

void local_conversation::shrink() {
  auto waiting = sent_.bytes - consumed_.bytes;
  auto bytes = tuner_.shrunk(ration_.bytes, consumed_.bytes, waiting, session_.loop_.now(), {});
  if (bytes < ration_.bytes)
    set_ration(bytes);
}

bool local_conversation::give_idle_ration() {
  auto first = session_.loop_.first_ration().bytes;
  if (tuner_.is_fixed() || ration_.bytes <= first || closing_ || !queue_.empty())
    return false;
  collect(session_.account_->take()); // a quarter of it may be there
  if (sent_ != consumed_)
    return false;
  set_ration(first);
  session_.account_->wake_at_share_of(ration_);
  return true;
}

void local_conversation::collect(const account::returned& r) {
  consumed_ = consumed_.plus(r.bytes, r.messages);
  if (r.bytes)
    session_.stalled_since_ = sent_ == consumed_ ? net::time_point{} : session_.loop_.now();
  if (sent_ == consumed_ && large_bytes_)
    session_.loop_.inbound().give(net::charge::large, std::exchange(large_bytes_, 0));
  if (r.bytes)
    shrink();
  recharge();
  if (r.reply_bytes)
    session_.loop_.inbound().give(net::charge::reply_room, r.reply_bytes);
  waited_ = waited_ || !queue_.empty();
  while (!queue_.empty()) {
    auto next = queue_.pop_front(); // delivering it may end the session, and with it the queue
    if (!deliver(next.what, next.from)) {
      queue_.push_front(std::move(next));
      break;
    }
    if (session_.gate_->over())
      return;
  }
  publish();
  session_.wake_producer();
  if (queue_.empty() && !closing_ && !session_.pressed_)
    session_.account_->wake_at_share_of(ration_);
  finish_if_done();
}

void local_conversation::publish() { session_.gate_->publish(limit()); }

void local_conversation::touch() {
  if (session_.stalled_since_ == net::time_point{})
    session_.stalled_since_ = session_.loop_.now();
  if (session_.target_.stream && !opened_ && port_.reader == 0) {
    opened_ = true;
    put(port_.to, nullptr, stream_event{stream_event::type::opened, session_.account_});
  }
  if (!std::exchange(in_round_, true))
    session_.loop_.at_end_of_round(*this);
}

void local_conversation::end_of_round() {
  in_round_ = false;
  if (port_.batch.empty())
    return;
  port_.hand_over(session_.loop_, caf::strong_actor_ptr{session_.ctrl()});
}

void local_conversation::close() {
  closing_ = true;
  session_.account_->wake_at(1, 1);
  collect(session_.account_->take());
}

void local_conversation::finish_if_done() {
  bool known = opened_ || port_.reader != 0; // who was told of the stream is told of its end
  if (closing_ && queue_.empty() && session_.target_.stream && known && !std::exchange(finished_, true)) {
    end_of_round(); // its last messages go first
    if (port_.reader != 0)
      put(port_.to, nullptr, rows_arrived{port_.reader, failure{}});
    else
      put(port_.to, nullptr, stream_event{stream_event::type::finished, session_.account_});
  }
  if (closing_ && queue_.empty() && open_calls_ == 0 && sent_ == consumed_)
    session_.on_ended({}, consumed_.messages);
}

void local_conversation::end(const failure& why) {
  delist();
  end_of_round();
  for (uint32_t slot = 0; slot < calls_.size(); ++slot)
    if (auto& c = calls_[slot]; c.open) {
      session_.loop_.inbound().give(net::charge::reply_room, c.room_bytes);
      c.open = false;
      put(std::exchange(c.who, nullptr), nullptr,
          reply{c.token, failure{why.code, outcome::unknown, why.text}});
    }
  open_calls_ = 0;
  for (auto& w : queue_.take_all())
    fail(w, {why.code, outcome::not_executed, why.text});
  if (session_.target_.stream && opened_) {
    put(port_.to, nullptr,
        stream_event{stream_event::type::ended, session_.account_,
                     why.code == errc::session_closed ? failure{} : why});
  }
  port_.to = nullptr; // services that stream to each other in a ring would keep each other alive
  // What the service still holds stays charged and returns through the account.
  auto held = sent_.bytes - consumed_.bytes;
  session_.loop_.unconsumed_bytes += held;
  if (!std::exchange(funded_, false))
    return;
  auto& budget = session_.loop_.inbound();
  budget.move(net::charge::large, net::charge::session, large_bytes_);
  budget.give(net::charge::session, charged_bytes_ + std::exchange(large_bytes_, 0) - held);
}

} // namespace weir::actors
