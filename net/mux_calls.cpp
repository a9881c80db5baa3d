// What users send: one-way messages, calls, answers, and their taking back.
#include <algorithm>

#include "net/mux_state.hpp"

namespace weir::net {

namespace {
std::string too_large(uint64_t bytes, uint64_t most) {
  return "a message of " + std::to_string(bytes) + " bytes; the peer takes " + std::to_string(most);
}
} // namespace

result<void> mux::state::may_queue(session& s, const outgoing& m) {
  if (!s.may_send() || s.close_came_)
    return {errc::session_closed, "the session is closed"};
  if (m.count == 1 && m.body_bytes > s.message_max_out_)
    return {errc::message_too_large, too_large(m.body_bytes, s.message_max_out_)};
  return {};
}

/// What the callee will believe it may answer with: the envelope's word, or else what `open` said.
uint64_t mux::state::room_for(const outgoing& m, const call_request& r) const {
  envelope e;
  if (!read_envelope(m, e))
    e.reply_room_bytes = r.reply_room_bytes;
  uint64_t said = e.reply_room_bytes != 0 ? e.reply_room_bytes : options_.reply_room_bytes;
  return std::max({said, uint64_t{r.reply_room_bytes}, reply_room_bytes_min});
}

result<void> mux::state::post(session& s, outgoing m, lane in_lane, uint64_t token) {
  assert(m && in_lane != lane::reply);
  if (auto ok = may_queue(s, m); !ok)
    return ok;
  if (s.established_ && s.out_.limit().messages == 0)
    return {errc::bad_state, "the peer takes no items on this session"};
  if (!outbound_.admit(m.cost())) {
    s.refused_cost_ = m.cost();
    starve(s);
    return {errc::overloaded, "the send buffer is full"};
  }
  enqueue(s, std::move(m), in_lane, 0, time_point::max(), token);
  return {};
}

result<uint32_t> mux::state::call(session& s, outgoing m, const call_request& r) {
  assert(m && m.count == 1 && r.in_lane != lane::reply);
  if (auto ok = may_queue(s, m); !ok)
    return ok.error();
  if (s.stream_ || !s.opened_here_)
    return {errc::bad_state, "calls go from the side that opened to a service"};
  if (s.calls_out_.full()) {
    starve(s);
    return {errc::too_many_calls, "the peer allows " + std::to_string(peer_.calls_max) + " open calls"};
  }
  if (!outbound_.admit(m.cost())) {
    s.refused_cost_ = m.cost();
    starve(s);
    return {errc::overloaded, "the send buffer is full"};
  }
  auto room = room_for(m, r);
  if (!inbound_.take(charge::reply_room, cost_of(room))) {
    outbound_.release(m.cost());
    s.refused_room_ = cost_of(room);
    starve(s);
    return {errc::no_budget, "no budget for the reply"};
  }
  owed_rooms_ += cost_of(room);
  auto id = s.calls_out_.open(r.token, r.deadline, room, cost_of(room));
  wake_at(r.deadline);
  enqueue(s, std::move(m), r.in_lane, id, r.deadline);
  return id;
}

void mux::state::enqueue(session& s, outgoing m, lane in_lane, uint32_t call, time_point deadline,
                         uint64_t token) {
  s.queued_bytes_ += m.cost();
  s.queued_messages_ += m.count;
  queued_ledger_ += m.cost();
  s.queues_[static_cast<size_t>(in_lane)].push_back({std::move(m), call, 0, false, 0, deadline, token});
  activate(s, in_lane);
}

bool mux::state::want_credit(session& s, uint64_t cost) {
  if (!s.may_send())
    return false;
  auto fits = s.established_ && s.nothing_queued() && s.out_.covers(cost + s.promised_out_, 1) &&
              outbound_.bytes() + cost <= outbound_.bytes_max();
  if (fits)
    return true;
  s.refused_cost_ = cost;
  s.wanted_cost_ = cost;
  if (s.established_ && s.nothing_queued() && !s.out_.covers(cost, 1))
    block(s, lane::normal, cost);
  starve(s);
  return false;
}

// ---- giving up

void mux::state::cancel(session& s, uint32_t call, errc reason) {
  auto* e = s.live() ? s.calls_out_.find(call) : nullptr;
  if (!e || e->now == calls_out::state::cancelled)
    return;
  fail_call(s, call, *e, reason, {});
}

/// The end of a call for its caller. What is left of it goes on until the callee cannot answer any more.
void mux::state::fail_call(session& s, uint32_t call, calls_out::entry& e, errc reason, std::string text) {
  note(reason, &s, text.empty() ? "a call" : text);
  auto sent = e.now == calls_out::state::sent;
  auto& f = happened(event::type::failed, &s);
  f.call = call;
  f.token = e.token;
  f.why = because(reason, sent ? outcome::unknown : outcome::not_executed, std::move(text));
  if (!sent) {
    if (!take_out(s, lane::normal, call))
      take_out(s, lane::bulk, call);
    free_call(s, call, e);
    return;
  }
  s.calls_out_.cancel(e);
  if (auto& part = s.parts_[static_cast<size_t>(lane::reply)]; part.active() && part.id() == call)
    part.discard();
  std::erase_if(s.funds_, [&](auto& f2) { return f2.first == call; });
  s.cancels_.push_back(call);
  say(s, session::word_calls);
}

void mux::state::free_call(session& s, uint32_t call, calls_out::entry& e) {
  give_rooms(e.paid);
  s.calls_out_.close(call);
  std::erase_if(s.cancels_, [&](uint32_t c) { return c == call; });
  std::erase_if(s.funds_, [&](auto& f) { return f.first == call; });
  settle_down(s);
}

bool mux::state::take_out(session& s, lane in_lane, uint32_t call) {
  auto& queue = s.queues_[static_cast<size_t>(in_lane)];
  for (size_t i = 0; i < queue.size(); ++i) {
    auto& q = queue[i];
    if (q.call != call || !q.message)
      continue;
    drop_message(s, in_lane, q);
    if (q.voided)
      activate(s, in_lane);
    else if (i == 0)
      head_is_gone(s, in_lane);
    return true;
  }
  return false;
}

/// Leaves a hole, or what ends it with `void` when a part has left.
void mux::state::drop_message(session& s, lane in_lane, session::queued& q) {
  auto cost = q.message.cost();
  outbound_.release(cost);
  queued_ledger_ -= cost;
  s.queued_bytes_ -= cost;
  s.queued_messages_ -= q.message.count;
  if (q.sent_bytes != 0) {
    if (in_lane != lane::reply)
      q.promised_bytes = q.message.body_bytes - q.sent_bytes;
    q.voided = true;
  }
  q.message = {};
}

/// The peer wants nothing more on `s`.
void mux::state::give_up_queues(session& s) {
  for (size_t i = 0; i < lanes; ++i) {
    auto& queue = s.queues_[i];
    for (size_t k = 0; k < queue.size(); ++k)
      if (queue[k].message) {
        fail_queued(s, queue[k],
                    {errc::session_closed, outcome::not_executed, "the service closed the session"});
        drop_message(s, static_cast<lane>(i), queue[k]);
      }
    queue.erase_if([](const session::queued& q) { return !q.voided; });
  }
  s.out_.unblock();
  activate_all(s);
}

// ---- answers

void mux::state::reply(session& s, uint32_t call, outgoing m) {
  assert(m && m.count == 1);
  auto* e = s.live() ? s.calls_in_.find(call) : nullptr;
  if (!e || e->now != calls_in::state::running)
    return;
  if (m.body_bytes > peer_.message_bytes_max)
    return reply_failure(
        s, call, {errc::message_too_large, outcome::done, too_large(m.body_bytes, peer_.message_bytes_max)});
  auto small = m.body_bytes <= std::max<uint64_t>(options_.reply_room_bytes, reply_room_bytes_min);
  if (small || outbound_.bytes() == 0) // small ones are bounded by the calls that they answer
    outbound_.add(m.cost());
  else if (!outbound_.admit(m.cost()))
    return reply_failure(s, call,
                         {errc::overloaded, outcome::done,
                          "too much waits to be sent (outbound-bytes) for an answer of " +
                              std::to_string(m.body_bytes) + " bytes"});
  if (m.body_bytes <= e->room)
    return enqueue_reply(s, *e, call, std::move(m));
  queued_ledger_ += m.cost();
  e->now = calls_in::state::need;
  s.needs_.emplace_back(call, m.body_bytes);
  e->parked = std::make_unique<outgoing>(std::move(m));
  say(s, session::word_calls);
}

void mux::state::reply_failure(session& s, uint32_t call, const failure& f) {
  auto* e = s.live() ? s.calls_in_.find(call) : nullptr;
  if (!e || e->now != calls_in::state::running)
    return;
  note(f.code, &s, f.text);
  auto m = build_failure(f);
  outbound_.add(m.cost());
  enqueue_reply(s, *e, call, std::move(m));
}

void mux::state::enqueue_reply(session& s, calls_in::entry& e, uint32_t call, outgoing m) {
  assert(m.body_bytes <= e.room);
  e.now = calls_in::state::answered;
  enqueue(s, std::move(m), lane::reply, call, time_point::max());
}

/// The caller's answer to `need`.
void mux::state::fund_reply(session& s, uint32_t call, uint64_t bytes) {
  auto* e = s.calls_in_.find(call);
  if (!e || e->now != calls_in::state::need)
    return; // cancelled meanwhile
  auto m = std::move(*e->parked);
  e->parked.reset();
  queued_ledger_ -= m.cost();
  if (bytes >= m.body_bytes) {
    e->room = bytes;
    return enqueue_reply(s, *e, call, std::move(m));
  }
  outbound_.release(m.cost());
  e->now = calls_in::state::running;
  reply_failure(s, call,
                {errc::no_budget, outcome::done,
                 "the caller has no budget for an answer of " + std::to_string(m.body_bytes) + " bytes"});
}

void mux::state::cancelled_by_peer(session& s, uint32_t call) {
  auto* e = s.calls_in_.find(call);
  if (!e)
    return; // answered meanwhile, which ends it as well
  switch (e->now) {
  case calls_in::state::free:
  case calls_in::state::cancelled:
    return;
  case calls_in::state::running:
    happened(event::type::cancelled, &s).call = call;
    break;
  case calls_in::state::need:
    outbound_.release(e->parked->cost());
    queued_ledger_ -= e->parked->cost();
    e->parked.reset();
    std::erase_if(s.needs_, [&](auto& n) { return n.first == call; });
    break;
  case calls_in::state::answered:
    take_out(s, lane::reply, call);
    break;
  case calls_in::state::sending:
    take_out(s, lane::reply, call);
    return; // its `void` says the rest
  }
  e->now = calls_in::state::cancelled;
  s.cancelleds_.push_back(call);
  say(s, session::word_calls);
}

} // namespace weir::net
