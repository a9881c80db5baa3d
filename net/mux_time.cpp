// Deadlines, pings, repeated `blocked`, time-outs.
#include <algorithm>

#include "net/mux_state.hpp"

namespace weir::net {

void mux::state::tick(time_point now) {
  now_ = now;
  last_tick_ = now;
  if (down_)
    return;
  if (!hello_came_ && now - born_ >= options_.hello_timeout)
    return fail(errc::hello_timeout, "no hello in time");
  if (now - last_received_ >= options_.dead_after)
    return fail(errc::peer_silent, "not a byte for too long");
  if (hello_came_ && now >= ping_at_) {
    ping_at_ = now + options_.ping_interval;
    if (!pace_.has_mark())
      ping_due_ = ++ping_nonce_; // else the last one is still under way
  }
  if (now >= session_timer_at_)
    tick_sessions();
  if (now >= lazy_at_) {
    for (auto* s : std::exchange(lazy_, {})) {
      s->in_lazy_ = false;
      if (s->live() && s->in_.unadvertised())
        say(*s, session::word_grant);
    }
    lazy_at_ = time_point::max();
  }
  serve_waiting();
  serve_starved();
}

void mux::state::tick_sessions() {
  session_timer_at_ = time_point::max();
  due_.clear();
  sessions_.for_each([&](session& s) {
    if (!s.live())
      return;
    auto at = timer_of(s);
    if (at <= now_)
      due_.push_back(&s);
    else
      wake_at(at);
  });
  std::sort(due_.begin(), due_.end(), [](auto* a, auto* b) { return a->id_ < b->id_; });
  for (auto* s : due_) {
    tick_session(*s);
    if (s->live())
      wake_at(timer_of(*s));
  }
}

time_point mux::state::timer_of(const session& s) const {
  auto at = s.calls_out_.next_deadline();
  if ((s.words_ & session::word_blocked) == 0)
    at = std::min(at, s.out_.report_at());
  auto after = [&](time_point t) {
    if (t != time_point::max())
      at = std::min(at, t + options_.fragment_timeout);
  };
  for (auto& part : s.parts_)
    if (part.active())
      after(part.last_at());
  if (s.in_.funded_bytes() != 0)
    after(s.funded_at_);
  after(s.reclaim_at_);
  return at;
}

void mux::state::tick_session(session& s) {
  auto long_ago = [&](time_point t) {
    return t != time_point::max() && now_ - t >= options_.fragment_timeout;
  };
  for (auto& part : s.parts_)
    if (part.active() && long_ago(part.last_at()))
      return abort(s, errc::fragment_timeout, "no fragment for too long");
  if (long_ago(s.reclaim_at_))
    return abort(s, errc::fragment_timeout, "no answer to reclaim");
  expire_calls(s);
  if (s.out_.report_at() <= now_)
    say(s, session::word_blocked);
  if (s.in_.funded_bytes() != 0 &&
      long_ago(s.funded_at_)) { // it did not use what was raised for it: back with that
    s.funded_at_ = time_point::max();
    if (s.in_.is_reclaiming() || s.promised_in_ != 0)
      return;
    s.in_.forget_blocked(); // if it still waits it says so again
    s.in_.reclaim();
    s.reclaim_at_ = now_;
    say(s, session::word_reclaim);
  }
}

void mux::state::expire_calls(session& s) {
  if (s.calls_out_.next_deadline() > now_)
    return;
  expired_.clear();
  s.calls_out_.expired(now_, expired_);
  for (auto call : expired_)
    if (auto* e = s.calls_out_.find(call))
      fail_call(s, call, *e, errc::deadline_exceeded, {});
}

time_point mux::state::next_tick() const {
  if (down_)
    return time_point::max();
  auto at = std::min({last_received_ + options_.dead_after, session_timer_at_, lazy_at_});
  at = std::min(at, hello_came_ ? ping_at_ : born_ + options_.hello_timeout);
  if (!waiting_requests_.empty() || !waiting_replies_.empty() || !starved_.empty())
    at = std::min(at, last_tick_ + short_wait);
  return at;
}

} // namespace weir::net
