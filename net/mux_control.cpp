// Control in: what the peer says about the link, its sessions, their credit and their calls.
#include <algorithm>

#include "net/mux_state.hpp"

namespace weir::net {

namespace {
std::string from_peer(const std::string& text) {
  return text.empty() ? std::string{"said by the peer"} : text;
}
errc or_else(errc e, errc other) { return e == errc::none ? other : e; }
} // namespace

void mux::state::take_control(const message_view& v) {
  std::string why;
  if (auto e = say::decode(v, in_, why); e != errc::none)
    return fail(e, std::move(why));
  if (in_.fault)
    return go_down(or_else(in_.fault->reason, errc::link_lost), from_peer(in_.fault->text));
  if (in_.hello)
    take_hello(*in_.hello);
  else if (!hello_came_)
    return fail(errc::bad_state, "control before hello");
  if (!down_)
    apply_sessions();
  if (!down_)
    apply_credit();
  if (!down_)
    apply_ends();
  if (!down_)
    apply_calls();
  if (!down_)
    apply_link();
}

void mux::state::take_hello(const say::hello& h) {
  if (hello_came_)
    return fail(errc::bad_state, "a second hello");
  if (h.version_min > protocol_version || h.version_max < protocol_version)
    return fail(errc::bad_version, "this side speaks version " + std::to_string(protocol_version));
  if (h.cluster != options_.cluster)
    return fail(errc::wrong_cluster, "this is cluster '" + options_.cluster + "', not '" + h.cluster + "'");
  node_id node{h.node_high, h.node_low};
  if (node == options_.node)
    return fail(errc::self_connect, "both sides are node " + to_string(node));
  if (h.frame_max < control_bytes_max)
    return fail(errc::malformed_control, "frameMax below " + std::to_string(control_bytes_max));
  hello_came_ = true;
  peer_ = {node,           h.name,
           h.message_max,  h.frame_max / 8 * 8,
           h.sessions_max, std::min(h.calls_max, calls_max_ceiling),
           h.features};
  happened(event::type::ready, nullptr);
}

session* mux::state::named(uint32_t id) {
  if (down_)
    return nullptr;
  bool late = false;
  auto* s = session_of(id, late);
  if (late)
    ++late_frames_;
  return s;
}

// ---- sessions begin

void mux::state::apply_sessions() {
  for (auto& o : in_.opens) {
    if (down_)
      return;
    on_open(o);
  }
  for (auto& o : in_.openeds)
    if (auto* s = named(o.session))
      on_opened(*s, o);
  for (auto& r : in_.refuseds)
    if (auto* s = named(r.session))
      on_refused(*s, r);
}

void mux::state::on_open(say::open& o) {
  auto theirs = o.session != 0 && (o.session & 1) != (next_id_ & 1);
  if (!theirs || o.session <= highest_peer_id_ || fin_came_)
    return fail(errc::bad_state, "session id " + std::to_string(o.session) + " cannot be opened");
  if (opened_there_ >= options_.sessions_max)
    return fail(errc::too_many_sessions, "above " + std::to_string(options_.sessions_max) + " sessions");
  highest_peer_id_ = o.session;
  auto* s = add_session(o.session, false);
  s->state_ = session::state::offered;
  s->service_ = std::move(o.service);
  s->interface_ = o.interface;
  s->stream_ = o.stream;
  s->reply_room_ = o.reply_room;
  s->calls_in_.set_max(std::min(options_.calls_max, calls_max_ceiling));
  s->message_max_out_ = peer_.message_bytes_max;
  if (!s->out_.start(o.limit))
    return refuse(*s, errc::grant_overflow, "a limit above 2^62", false);
  if (goaway_due_ || goaway_said_)
    return refuse(*s, errc::going_away, "this node is going away", true);
  happened(event::type::open, s);
}

void mux::state::on_opened(session& s, const say::opened& o) {
  if (!s.live())
    return;
  if (s.established_ || !s.opened_here_)
    return abort(s, errc::bad_state, "opened without open");
  if (!s.out_.start(o.limit))
    return abort(s, errc::grant_overflow, "a limit above 2^62");
  if (s.state_ == session::state::opening)
    s.state_ = session::state::open;
  s.established_ = true;
  if (o.message_max != 0)
    s.message_max_out_ = std::min(s.message_max_out_, o.message_max);
  happened(event::type::opened, &s);
  grant_if_due(s);

  activate_all(s);
  settle_down(s);
}

void mux::state::on_refused(session& s, say::refused& r) {
  if (s.state_ == session::state::over)
    return;
  if (s.established_ || !s.opened_here_)
    return abort(s, errc::bad_state, "refused without open");
  if (s.live()) {
    auto reason = or_else(r.reason, errc::session_aborted);
    note(reason, &s, from_peer(r.text));
    finish(s, session::state::over, because(reason, outcome::not_executed, from_peer(r.text)));
  }
  bury(s);
}

// ---- credit

void mux::state::apply_credit() {
  for (auto& g : in_.grants)
    if (auto* s = named(g.session); s && s->live())
      on_grant(*s, g);
  for (auto& b : in_.blockeds)
    if (auto* s = named(b.session); s && s->live())
      on_blocked(*s, b);
  for (auto& r : in_.reclaims)
    if (auto* s = named(r.session); s && s->live())
      on_reclaim(*s, r);
  for (auto& r : in_.reclaimeds)
    if (auto* s = named(r.session); s && s->live())
      on_reclaimed(*s, r);
}

void mux::state::on_grant(session& s, const say::grant& g) {
  if (!s.established_)
    return abort(s, errc::bad_state, "a grant before the session is open");
  s.blocked_reason_ = g.reason;
  auto effect = s.out_.raise(g.epoch, g.limit);
  if (effect == ration_out::effect::overflow)
    return abort(s, errc::grant_overflow, "a limit above 2^62");
  if (effect == ration_out::effect::none)
    return;
  activate_all(s);
  if (s.stream_ == s.opened_here_ && s.may_send())
    happened(event::type::credit, &s); // its producer offers up to the limit
}

void mux::state::on_blocked(session& s, const say::blocked& b) {
  if (!s.established_ || s.close_came_)
    return abort(s, errc::bad_state, "blocked while nothing may be sent");
  if (b.state.need > offset_max)
    return abort(s, errc::grant_overflow, "a need above 2^62");
  s.in_.peer_blocked(b.state);
  fund_request(s);
  say(s, session::word_grant); // the limit, or why there is none: never silence
  happened(event::type::blocked, &s);
}

void mux::state::on_reclaim(session& s, const say::reclaim& r) {
  if (!s.established_)
    return abort(s, errc::bad_state, "reclaim before the session is open");
  auto newer = r.epoch > s.out_.epoch();
  s.out_.reclaim(r.epoch, std::max(reclaim_floor_bytes, s.promised_out_), reclaim_floor_messages);
  if (newer && !s.close_said_) // else its final counts are the answer
    say(s, session::word_reclaimed);
}

void mux::state::on_reclaimed(session& s, const say::reclaimed& r) {
  if (s.close_came_)
    return; // it crossed; the final counts have said it all
  auto enough = r.limit.bytes >= s.in_.received().bytes &&
                r.limit.bytes - s.in_.received().bytes >= s.promised_in_;
  if (!enough || !s.in_.reclaimed(r.epoch, r.limit))
    return abort(s, errc::bad_state, "a reclaimed limit that cannot be");
  s.reclaim_at_ = time_point::max();
  recharge(s);
  grant_if_due(s);
  fund_request(s);
  if (s.in_.peer_is_blocked())
    say(s, session::word_grant);
  serve_waiting();
}

// ---- sessions end

void mux::state::apply_ends() {
  for (auto& a : in_.aborts)
    if (auto* s = named(a.session))
      on_abort(*s, a);
  for (auto& c : in_.closes)
    if (auto* s = named(c.session))
      on_close(*s, c);
  for (auto& c : in_.closeds)
    if (auto* s = named(c.session))
      on_closed(*s, c);
}

void mux::state::on_abort(session& s, say::abort& a) {
  if (s.state_ == session::state::over)
    return;
  if (!s.in_.settle(a.final))
    return fail(errc::bad_state, "final counts that cannot be");
  if (s.state_ == session::state::tombstone) { // both aborted: each abort answers the other
    auto said = (s.words_ & session::word_abort) == 0;
    if (said)
      return bury(s);
    return over_with_closed(s);
  }
  auto reason = or_else(a.reason, errc::session_aborted);
  note(reason, &s, from_peer(a.text));
  finish(s, session::state::over, because(reason, outcome::unknown, from_peer(a.text)));
  if (s.closed_said_)
    return bury(s); // they crossed, and it is the answer
  say(s, session::word_closed);
}

/// A tombstone whose abort was not handed over, or need not be: the peer has said its last word and waits for
/// ours.
void mux::state::over_with_closed(session& s) {
  s.words_ = 0;
  s.state_ = session::state::over;
  inbound_.give(charge::session, s.charged_session_);
  owed_session_ -= std::exchange(s.charged_session_, 0);
  say(s, session::word_closed);
}

void mux::state::on_close(session& s, const say::close& c) {
  if (s.state_ == session::state::tombstone)
    s.close_came_ = true; // so it waits for our last word
  if (!s.live())
    return;
  auto whole = std::none_of(s.parts_.begin() + 1, s.parts_.end(), [](auto& p) { return p.active(); });
  if (!s.established_ || s.close_came_ || !whole || c.final != s.in_.received())
    return abort(s, errc::bad_state, "a close that cannot be");
  s.in_.settle(c.final);
  s.close_came_ = true;
  s.words_ &= ~session::word_close;                                                    // to answer is enough
  s.words_ &= ~(session::word_grant | session::word_reclaim | session::word_unfunded); // it sends no more
  s.reclaim_at_ = time_point::max();
  happened(event::type::finished, &s);
  if (s.opened_here_) { // it has answered what it ran, and runs nothing more
    fail_calls(s, {errc::session_closed, outcome::not_executed, "the service closed the session"},
               outcome::not_executed);
    auto lost = s.queued_messages_ != 0;
    give_up_queues(s);
    if (lost)
      s.why_ = {errc::session_closed, outcome::not_executed, "closed by the peer before all was sent"};
  }
  recharge(s);
  settle_down(s);
}

void mux::state::on_closed(session& s, const say::closed& c) {
  if (s.state_ == session::state::over)
    return;
  auto asked = s.state_ == session::state::tombstone || (s.close_said_ && !s.closed_came_);
  if (!asked)
    return abort(s, errc::bad_state, "closed without close");
  if (!s.close_came_ && !s.in_.settle(c.final))
    return fail(errc::bad_state, "final counts that cannot be");
  s.closed_came_ = true;
  s.peer_consumed_ = c.consumed;
  if (s.state_ == session::state::tombstone) {
    auto waits = s.close_came_ && !s.closed_said_ && (s.words_ & session::word_abort) != 0; // for our word
    if (!waits)
      return bury(s);
    return over_with_closed(s);
  }
  if (s.close_came_ && !s.closed_said_)
    return; // we have to say `closed` as well
  finish(s, session::state::over, nullptr);
  bury(s);
}

// ---- calls

void mux::state::apply_calls() {
  for (auto& c : in_.cancels)
    if (auto* s = named(c.session); s && s->live())
      cancelled_by_peer(*s, c.id);
  for (auto& c : in_.cancelleds)
    if (auto* s = named(c.session); s && s->live())
      on_cancelled(*s, c.id);
  for (auto& n : in_.needs)
    if (auto* s = named(n.session); s && s->live())
      on_need(*s, n.id, n.bytes);
  for (auto& f : in_.funds)
    if (auto* s = named(f.session); s && s->live())
      on_fund(*s, f.id, f.bytes);
  for (auto& u : in_.unfundeds)
    if (auto* s = named(u.session); s && s->live())
      on_unfunded(*s, u);
}

void mux::state::on_cancelled(session& s, uint32_t call) {
  auto* e = s.calls_out_.find(call);
  if (!e)
    return; // its answer came first
  if (e->now != calls_out::state::cancelled)
    return abort(s, errc::bad_state, "cancelled without cancel");
  free_call(s, call, *e);
}

void mux::state::on_need(session& s, uint32_t call, uint64_t bytes) {
  auto* e = s.calls_out_.find(call);
  if (!e || e->now == calls_out::state::cancelled)
    return; // `cancel` is on its way
  if (e->now != calls_out::state::sent || e->asked || bytes <= e->room)
    return abort(s, errc::bad_state, "a need that cannot be");
  e->asked = true;
  if (bytes > options_.message_bytes_max) {
    note(errc::message_too_large, &s, "an answer of " + std::to_string(bytes) + " bytes");
    s.funds_.emplace_back(call, 0);
    return say(s, session::word_calls);
  }
  if (waiting_replies_.empty() && try_fund_reply(s, call, bytes))
    return;
  s.in_waiting_ = true;
  waiting_replies_.push_back({&s, call, bytes, now_});
}

void mux::state::on_fund(session& s, uint32_t call, uint64_t bytes) { fund_reply(s, call, bytes); }

void mux::state::on_unfunded(session& s, const say::unfunded& u) {
  if (!s.out_.blocked() || s.out_.state().need != u.bytes)
    return; // another head by now
  auto& queue = s.queues_[static_cast<size_t>(s.blocked_lane_)];
  if (queue.empty()) {
    happened(event::type::credit, &s);
    s.wanted_cost_ = 0;
    return head_is_gone(s, s.blocked_lane_);
  }

  refuse_head(s, s.blocked_lane_, or_else(u.reason, errc::no_budget),
              u.reason == errc::message_too_large ? "above what the service takes"
                                                  : "the peer has no budget for it");
  head_is_gone(s, s.blocked_lane_);
}

// ---- the link

void mux::state::apply_link() {
  if (in_.ping != 0)
    pong_due_ = in_.ping;
  if (auto sample = in_.pong != 0 ? pace_.answered(in_.pong, now_) : std::nullopt)
    round_trip_ = round_trip_ == duration{0} ? *sample : (round_trip_ * 7 + *sample) / 8;
  if (in_.goaway && !std::exchange(goaway_came_, true))
    happened(event::type::going_away, nullptr).why = because(
        or_else(in_.goaway->reason, errc::going_away), outcome::not_executed, from_peer(in_.goaway->text));
  if (in_.fin)
    fin_came_ = true;
}

} // namespace weir::net
