// The inbound budget: what is owed, who waits for funds, who may send again.
#include <algorithm>

#include "net/mux_state.hpp"

namespace weir::net {

void mux::state::consumed(session& s, uint64_t bytes, uint64_t messages) {
  if (!s.live())
    return inbound_.give(charge::session, bytes); // it is the holder's since the session ended
  s.in_.consume(bytes, messages);
  if (!s.tuner_.is_fixed())
    shrink(s);
  recharge(s);
  grant_if_due(s);
  if (s.close_came_)
    settle_down(s);
  if (!waiting_requests_.empty() || !waiting_replies_.empty())
    serve_waiting();
}

void mux::state::shrink(session& s) {
  auto& in = s.in_;
  auto& w = in.options();
  auto not_back = in.received().bytes - in.consumed().bytes;
  auto bytes = s.tuner_.shrunk(w.bytes, in.consumed().bytes, not_back, now_, round_trip_);
  if (bytes != w.bytes)
    in.set_ration(bytes, s.tuner_.messages_for(bytes, w.messages));
}

void mux::state::recharge(session& s) {
  auto owed = s.in_.liability(), ration = s.in_.options().bytes;
  if (s.charged_large_ != 0) {
    auto large = owed > s.charged_session_ ? owed - s.charged_session_ : 0;
    if (large < s.charged_large_) {
      inbound_.give(charge::large, s.charged_large_ - large);
      owed_large_ -= s.charged_large_ - large;
      s.charged_large_ = large;
    }
  }
  auto keep = std::max(ration, std::min(owed, s.charged_session_));
  if (keep >= s.charged_session_)
    return;
  inbound_.give(charge::session, s.charged_session_ - keep);
  owed_session_ -= s.charged_session_ - keep;
  s.charged_session_ = keep;
}

void mux::state::grant_if_due(session& s) {
  if (s.in_.grant_due())
    say(s, session::word_grant);
  else if (s.in_.unadvertised())
    say_lazily(s);
}

void mux::state::reply_died(uint64_t bytes) {
  inbound_.give(charge::reply_room, bytes);
  serve_waiting();
  serve_starved();
}

void mux::state::give_rooms(uint64_t bytes) {
  inbound_.give(charge::reply_room, bytes);
  owed_rooms_ -= bytes;
}

void mux::state::reclaim(session& s) {
  if (!s.live() || !s.established_ || s.close_came_ || s.in_.is_reclaiming())
    return;
  auto bytes = std::min(s.in_.options().bytes, reclaim_floor_bytes), messages = s.in_.options().messages;
  s.in_.set_ration(bytes, s.tuner_.is_fixed() ? std::min(messages, reclaim_floor_messages)
                                              : s.tuner_.messages_for(bytes, messages));
  recharge(s);
  ask_back(s);
}

void mux::state::ask_back(session& s) {
  s.in_.reclaim();
  s.reclaim_at_ = now_;
  wake_at(now_ + options_.fragment_timeout);
  say(s, session::word_reclaim);
}

bool mux::state::change_ration(session& s, const ration_options& to, const ration_range& range) {
  if (!s.live() || s.state_ == session::state::offered)
    return true;
  s.tuner_ = tuner{range};
  if (!set_ration(s, to.bytes, to.messages))
    return false;
  position granted = s.in_.granted(), received = s.in_.received(), consumed = s.in_.consumed();
  auto bytes = granted.bytes - received.bytes > reclaim_floor_bytes && s.in_.liability() > to.bytes;
  auto messages = granted.messages - received.messages > reclaim_floor_messages &&
                  granted.messages - consumed.messages > to.messages;
  if ((bytes || messages) && s.established_ && !s.close_came_ && !s.in_.is_reclaiming())
    ask_back(s);
  return true;
}

/// Growth comes from what nobody needs, and no link owes more than what is left for the others.
bool mux::state::may_grow_by(uint64_t bytes) const {
  return inbound_.can_spare(bytes) && owed_session_ + owed_large_ + bytes <= inbound_.free_bytes() - bytes;
}

void mux::state::tune(session& s) {
  if (!s.live() || s.close_came_ || s.in_.is_reclaiming())
    return;
  auto bytes = s.tuner_.grown(s.in_.options(), s.in_.consumed(), s.in_.granted());
  if (bytes <= s.in_.options().bytes)
    return;
  if (bytes <= s.charged_session_ || may_grow_by(bytes - s.charged_session_))
    set_ration(s, bytes, s.tuner_.messages_for(bytes, s.in_.options().messages));
}

bool mux::state::set_ration(session& s, uint64_t bytes, uint64_t messages) {
  if (!s.live() || s.state_ == session::state::offered)
    return true;
  if (bytes > s.charged_session_) {
    auto more = bytes - s.charged_session_;
    if (!inbound_.take(charge::session, more))
      return false;
    s.charged_session_ += more;
    owed_session_ += more;
  }
  s.in_.set_ration(bytes, messages);
  recharge(s);
  if (s.established_)
    grant_if_due(s);
  return true;
}

// ---- large messages and large answers

void mux::state::fund_request(session& s) {
  auto beyond = s.in_.unfunded_bytes();
  if (beyond == 0 || s.in_.is_reclaiming())
    return;
  auto need = s.in_.peer_state()->need;
  if (need > s.in_.received().bytes + s.promised_in_ + cost_of(s.message_max_in_))
    return refuse_request(s, need, errc::message_too_large);
  for (size_t i = 0; i < waiting_requests_.size(); ++i)
    if (waiting_requests_[i].who == &s)
      return;
  if (waiting_requests_.empty() && try_fund_request(s))
    return;
  s.in_waiting_ = true;
  waiting_requests_.push_back({&s, 0, need, now_});
}

bool mux::state::try_fund_request(session& s) {
  auto beyond = s.in_.unfunded_bytes();
  auto more = beyond - std::min(beyond, s.charged_large_);
  if (more != 0 && !inbound_.take(charge::large, more) &&
      !inbound_.take_reserve(budget::reserve::request, charge::large, more))
    return false;
  s.charged_large_ += more;
  owed_large_ += more;
  s.in_.fund();
  s.in_.take_grant();
  recharge(s);
  s.funded_at_ = now_;
  wake_at(now_ + options_.fragment_timeout);
  say(s, session::word_grant);
  return true;
}

void mux::state::refuse_request(session& s, uint64_t need, errc reason) {
  note(reason, &s, "a message of " + std::to_string(need - s.in_.received().bytes) + " bytes is refused");
  s.unfunded_bytes_ = need;
  s.unfunded_reason_ = reason;
  s.in_.forget_blocked();
  say(s, session::word_unfunded);
}

bool mux::state::try_fund_reply(session& s, uint32_t call, uint64_t bytes) {
  auto* e = s.calls_out_.find(call);
  auto more = bytes - e->room;
  if (!inbound_.take(charge::reply_room, more) &&
      !inbound_.take_reserve(budget::reserve::reply, charge::reply_room, more))
    return false;
  e->room = bytes;
  e->paid += more;
  owed_rooms_ += more;
  s.funds_.emplace_back(call, bytes);
  say(s, session::word_calls);
  return true;
}

void mux::state::serve_waiting() {
  while (!waiting_requests_.empty()) {
    auto& w = waiting_requests_.front();
    auto wanted = w.who->live() && !w.who->in_.is_reclaiming() && w.who->in_.unfunded_bytes() != 0;
    if (wanted && !try_fund_request(*w.who)) {
      if (now_ - w.since < options_.funding_timeout)
        break;
      refuse_request(*w.who, w.who->in_.peer_state()->need, errc::no_budget);
    }
    waiting_requests_.pop_front();
  }
  while (!waiting_replies_.empty()) {
    auto& w = waiting_replies_.front();
    auto* e = w.who->live() ? w.who->calls_out_.find(w.call) : nullptr;
    auto wanted = e && e->now == calls_out::state::sent;
    if (wanted && !try_fund_reply(*w.who, w.call, w.bytes)) {
      if (now_ - w.since < options_.funding_timeout)
        break;
      note(errc::no_budget, w.who, "an answer of " + std::to_string(w.bytes) + " bytes is not funded");
      w.who->funds_.emplace_back(w.call, 0);
      say(*w.who, session::word_calls);
    }
    waiting_replies_.pop_front();
  }
}

errc mux::state::reason_of(const session& s) const {
  auto& blocked = s.in_.peer_state();
  if (!blocked)
    return errc::none;
  auto served = blocked->need <= s.in_.granted().bytes &&
                s.in_.granted().messages > s.in_.received().messages;
  if (served)
    return errc::none;
  return s.in_.unfunded_bytes() != 0 ? errc::no_budget : errc::overloaded;
}

// ---- those who wait to send

void mux::state::starve(session& s) {
  if (!std::exchange(s.in_starved_, true))
    starved_.push_back(&s);
}

bool mux::state::may_send_again(const session& s) const {
  if (!s.nothing_queued() ||
      outbound_.bytes() + std::min(s.refused_cost_, outbound_.bytes_max()) > outbound_.bytes_max())
    return false;
  if (s.wanted_cost_ != 0 && !(s.established_ && s.out_.covers(s.wanted_cost_, 1)))
    return false;
  auto calls_full = s.opened_here_ && !s.stream_ && s.calls_out_.full();
  return s.refused_cost_ != 0 || (!calls_full && inbound_.free_bytes() >= s.refused_room_);
}

void mux::state::serve_starved() {
  if (starved_.empty())
    return;
  std::erase_if(starved_, [&](session* s) {
    if (s->may_send() && s->wanted_cost_ != 0 && s->established_ && s->nothing_queued() &&
        !s->out_.blocked() && !s->out_.covers(s->wanted_cost_, 1))
      block(*s, lane::normal, s->wanted_cost_);

    if (s->may_send() && !may_send_again(*s))
      return false;
    s->in_starved_ = false;
    s->refused_cost_ = s->refused_room_ = s->wanted_cost_ = 0;
    if (s->may_send())
      happened(event::type::credit, s);
    return true;
  });
}

} // namespace weir::net
