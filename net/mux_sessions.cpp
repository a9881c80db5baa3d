// From the first word of a session to the last, and the end of the link.
#include <algorithm>
#include <limits>

#include "net/mux_state.hpp"

namespace weir::net {

session* mux::state::open(const open_request& r, failure& why) {
  auto no = [&](errc code, std::string text) {
    why = {code, outcome::not_executed, std::move(text)};
    return nullptr;
  };
  if (down_)
    return no(errc::link_lost, "the link is down");
  if (!hello_came_)
    return no(errc::bad_state, "hello is not done");
  if (goaway_due_ || goaway_said_)
    return no(errc::shutting_down, "this side is going away");
  if (goaway_came_)
    return no(errc::going_away, "the peer takes no new sessions");
  if (r.service.size() > say::name_bytes_max)
    return no(errc::no_such_service, "a service name above 255 bytes");
  if (opened_here_ >= peer_.sessions_max)
    return no(errc::too_many_sessions, "the peer allows " + std::to_string(peer_.sessions_max) + " sessions");
  if (next_id_ > std::numeric_limits<uint32_t>::max() - 2)
    return no(errc::too_many_sessions, "session ids are used up");
  if (!inbound_.take(charge::session, r.replies_in.bytes))
    return no(errc::no_budget, "no budget for a ration of " + std::to_string(r.replies_in.bytes) + " bytes");
  auto* s = add_session(next_id_, true);
  next_id_ += 2;
  s->service_ = r.service;
  s->interface_ = r.interface;
  s->stream_ = r.stream;
  s->tag_ = r.tag;
  s->in_ = ration_in{r.replies_in};
  s->tuner_ = tuner{r.replies_range};
  s->charged_session_ = r.replies_in.bytes;
  owed_session_ += r.replies_in.bytes;
  s->message_max_in_ = options_.message_bytes_max;
  s->message_max_out_ = peer_.message_bytes_max;
  s->calls_out_.set_max(peer_.calls_max);
  say(*s, session::word_open);
  return s;
}

session* mux::state::add_session(uint32_t id, bool opened_here) {
  auto* s = new session{id, opened_here};
  sessions_.insert(id, s);
  ++(opened_here ? opened_here_ : opened_there_);
  return s;
}

bool mux::state::accept(session& s, const ration_options& in, uint64_t message_bytes_max,
                        const ration_range& range) {
  if (s.state_ != session::state::offered)
    return true; // it ended meanwhile, as its events say
  if (!inbound_.take(charge::session, in.bytes))
    return false;
  s.in_ = ration_in{in};
  s.tuner_ = tuner{range};
  s.charged_session_ = in.bytes;
  owed_session_ += in.bytes;
  s.message_max_in_ = options_.message_bytes_max;
  if (message_bytes_max != 0)
    s.message_max_in_ = std::min(s.message_max_in_, message_bytes_max);
  s.state_ = session::state::open;
  s.established_ = true;
  say(s, session::word_opened);
  return true;
}

void mux::state::refuse(session& s, errc reason, std::string text, bool retryable) {
  if (s.state_ != session::state::offered)
    return;
  note(reason, &s, text);
  s.state_ = session::state::over;
  s.why_ = {reason, outcome::not_executed, std::move(text)};
  s.retryable_ = retryable;
  say(s, session::word_refused);
}

void mux::state::close(session& s) {
  if (s.state_ == session::state::offered)
    return refuse(s, errc::session_closed, {}, false);
  if (!s.may_send())
    return;
  s.state_ = session::state::closing;
  settle_down(s);
}

void mux::state::settle_down(session& s) {
  if (!s.live() || !s.established_ || !s.nothing_queued() || s.calls_in_.size() != 0)
    return;
  if (s.close_came_ && !s.closed_said_ && s.in_.consumed() == s.in_.received() && s.calls_out_.size() == 0)
    say(s, session::word_closed);
  if (s.state_ == session::state::closing && !s.close_came_ && !s.close_said_ && s.calls_out_.size() == 0) {
    s.out_.unblock(); // `want_credit` may have waited for something that never came
    say(s, session::word_close);
  }
}

void mux::state::abort(session& s, errc reason, std::string text) {
  if (!s.live())
    return;
  if (s.state_ == session::state::offered) {
    happened(event::type::ended, &s).why = because(reason, outcome::not_executed, text);
    return refuse(s, reason, std::move(text), true);
  }
  note(reason, &s, text);
  auto never_said = (s.words_ & session::word_open) != 0;
  auto why = because(reason, outcome::unknown, text);
  finish(s, never_said ? session::state::over : session::state::tombstone, std::move(why));
  if (never_said)
    return bury(s);
  if (s.closed_came_) // the peer's last word: it waits for ours
    return over_with_closed(s);
  if (s.closed_said_) // ours: `closed` is still to come
    return;
  s.why_ = {reason, outcome::unknown, std::move(text)};
  say(s, session::word_abort);
}

void mux::state::finish(session& s, session::state next, std::unique_ptr<failure> why) {
  auto told = why ? *why : failure{errc::session_closed, outcome::unknown, {}};
  fail_calls(s, told, outcome::unknown);
  drop_queues(s, told);
  for (auto& part : s.parts_) {
    if (!part.active() || part.discarding())
      continue;
    auto data_lane = &part != &s.parts_[static_cast<size_t>(lane::reply)];
    if (data_lane)
      s.in_.consume(message_overhead_bytes + part.got(), 1);
    part.discard();
  }
  s.calls_in_.clear();
  s.state_ = next;
  s.words_ = 0;
  auto keep = next == session::state::tombstone ? s.in_.granted().bytes - s.in_.received().bytes : 0;
  auto with_holders = s.in_.received().bytes - s.in_.consumed().bytes;
  inbound_.move(charge::large, charge::session, s.charged_large_);
  auto charged = s.charged_session_ + s.charged_large_;
  inbound_.give(charge::session, charged - with_holders - keep);
  owed_large_ -= s.charged_large_;
  owed_session_ = owed_session_ - s.charged_session_ + keep;
  s.charged_large_ = 0;
  s.charged_session_ = keep;
  auto& e = happened(event::type::ended, &s);
  e.token = s.peer_consumed_;
  e.why = std::move(why);
}

void mux::state::fail_calls(session& s, const failure& why, outcome of_sent) {
  s.calls_out_.for_each([&](uint32_t call, calls_out::entry& e) {
    give_rooms(e.paid);
    if (e.now == calls_out::state::cancelled)
      return;
    auto& f = happened(event::type::failed, &s);
    f.call = call;
    f.token = e.token;
    auto sent = e.now == calls_out::state::sent;
    f.why = because(why.code, sent ? of_sent : outcome::not_executed, why.text);
  });
  s.calls_out_.clear();
  s.cancels_.clear(), s.cancelleds_.clear(), s.needs_.clear(), s.funds_.clear();
}

/// One-way messages that will not arrive. Of one that has left in part nobody knows.
void mux::state::fail_queued(session& s, const session::queued& q, const failure& why) {
  if (s.stream_ || q.call != 0 || !q.message)
    return;
  auto& f = happened(event::type::failed, &s);
  f.token = q.token;
  f.count = q.message.count;
  f.why = because(why.code, q.sent_bytes == 0 ? outcome::not_executed : outcome::unknown, why.text);
}

void mux::state::drop_queues(session& s, const failure& why) {
  uint64_t released = 0;
  s.calls_in_.for_each([&](uint32_t, calls_in::entry& e) {
    if (e.parked)
      released += e.parked->cost();
    e.parked.reset();
  });
  for (size_t i = 0; i < lanes; ++i) {
    schedule_.remove(s.members_[i]);
    for (size_t k = 0; k < s.queues_[i].size(); ++k)
      if (auto& q = s.queues_[i][k]; q.message) {
        released += q.message.cost();
        fail_queued(s, q, why);
      }
    s.queues_[i].clear();
  }
  outbound_.release(released);
  queued_ledger_ -= released;
  s.queued_bytes_ = s.queued_messages_ = s.promised_out_ = 0;
  s.out_.unblock();
}

void mux::state::bury(session& s) {
  auto forget = [&](bool& in_list, std::vector<session*>& list) {
    if (std::exchange(in_list, false))
      std::erase(list, &s);
  };
  forget(s.in_dirty_, dirty_);
  forget(s.in_lazy_, lazy_);
  forget(s.in_starved_, starved_);
  if (std::exchange(s.in_waiting_, false)) {
    waiting_requests_.erase_if([&](const waiting& w) { return w.who == &s; });
    waiting_replies_.erase_if([&](const waiting& w) { return w.who == &s; });
  }
  inbound_.give(charge::session, s.charged_session_); // what a tombstone kept
  owed_session_ -= std::exchange(s.charged_session_, 0);
  s.state_ = session::state::over;
  s.words_ = 0;
  if (last_session_ == &s)
    last_session_ = nullptr;
  sessions_.erase(s.id_);
  --(s.opened_here_ ? opened_here_ : opened_there_);
  graves_.emplace_back(&s);
}

void mux::state::clear_lists() {
  for (auto* s : std::exchange(dirty_, {}))
    s->in_dirty_ = false;
  for (auto* s : std::exchange(lazy_, {}))
    s->in_lazy_ = false;
  for (auto* s : std::exchange(starved_, {}))
    s->in_starved_ = false;
  for (auto* line : {&waiting_requests_, &waiting_replies_})
    for (; !line->empty(); line->pop_front())
      line->front().who->in_waiting_ = false;
  schedule_.clear();
}

// ---- the end of the link

void mux::state::go_away(errc reason, std::string text) {
  if (down_ || goaway_due_ || goaway_said_)
    return;
  goaway_ = {reason, std::move(text), highest_peer_id_};
  goaway_due_ = true;
}

bool mux::state::drained() const { return goaway_said_ && sessions_.size() == 0 && !wants_write(); }

void mux::state::fail(errc reason, std::string text) {
  if (down_)
    return;
  fault_ = {reason, text};
  fault_due_ = true;
  go_down(reason, std::move(text));
}

void mux::state::go_down(errc reason, std::string text) {
  if (down_)
    return;
  down_ = true;
  note(reason, nullptr, text);
  std::vector<session*> all;
  sessions_.for_each([&](session& s) { all.push_back(&s); });
  std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->id_ < b->id_; });
  clear_lists(); // else each would be looked for in them
  for (auto* s : all) {
    if (s->live())
      finish(*s, session::state::over, because(reason, outcome::unknown, text));
    bury(*s);
  }
  wanted_bytes_ = 0;
  happened(event::type::down, nullptr).why = because(reason, outcome::unknown, std::move(text));
}

} // namespace weir::net
