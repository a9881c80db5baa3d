#include "watch.hpp"

#include <algorithm>

#include "tests/fuzz/require.hpp"

namespace weir::fuzz {

using namespace net;

namespace {
void widen(position& p, const position& by) {
  p = {std::max(p.bytes, by.bytes), std::max(p.messages, by.messages)};
}
} // namespace

void watch::must(bool holds, const known* s, const char* what) {
  if (holds)
    return;
  auto text = who_ + ": " + what;
  for (auto& [id, each] : sessions_)
    if (&each == s)
      text += " (session " + std::to_string(id) + ")";
  require(false, text);
}

watch::known* watch::find(uint32_t id) {
  auto s = sessions_.find(id);
  return s == sessions_.end() ? nullptr : &s->second;
}

watch::known& watch::session_said(uint32_t id, const char* what) {
  auto* s = find(id);
  must(s != nullptr, nullptr, "it speaks of a session that nobody has opened");
  must(!s->dead, s, what);
  return *s;
}

/// As find, and for one of its own that it may have opened in a frame that is not written whole yet.
watch::known* watch::find_or_early(uint32_t id) {
  if (auto* s = find(id); s || id == 0 || (id & 1) != odd_)
    return s;
  return &early_[id];
}

// ---- what it hears: all of this may be a lie, and only widens what it may do. What it says is seen when it
// is written, which is later than the hand-over: it may have heard more by then, or told more.

void watch::heard(const frame& f) {
  if (!std::exchange(preamble_heard_, true))
    return;
  if (f.bytes() < header_bytes)
    return;
  if (!f.is_control())
    return hear_data(f.header());
  say::control c;
  std::string why;
  if (say::decode(f.body(), c, why) == errc::none)
    hear_control(c);
}

void watch::hear_control(const say::control& c) {
  if (c.hello && !peer_)
    peer_ = c.hello;
  for (auto& o : c.opens)
    if (!find(o.session) && ((o.session & 1) != 0) != odd_)
      sessions_[o.session].limit = o.limit;
  for (auto& o : c.openeds)
    if (auto* s = find_or_early(o.session); s && !s->opened && (o.session & 1) == odd_) {
      s->opened = true;
      widen(s->limit, o.limit);
    }
  for (auto& g : c.grants)
    if (auto* s = find_or_early(g.session); s && g.epoch >= s->epoch) {
      widen(s->limit, g.limit);
      widen(s->granted[g.epoch], g.limit);
    }
  for (auto& x : c.cancelleds)
    if (auto* s = find(x.session))
      end_call(*s, x.id);
}

void watch::hear_data(const frame_header& h) {
  auto* s = find(h.session);
  auto whole = h.kind == frame_kind::message || (h.flags & flag::last) != 0;
  if (!s || !whole)
    return;
  if (h.frame_lane() == lane::reply)
    end_call(*s, h.id);
  else if (h.id != 0 && (h.flags & flag::void_) == 0)
    ++s->asked[h.id];
}

void watch::end_call(known& s, uint32_t call) {
  s.ended_calls.insert(call);
  auto c = s.calls.find(slot_of(call));
  if (c != s.calls.end() && c->second == call)
    s.calls.erase(c);
}

void watch::end_request(known& s, uint32_t call) {
  for (auto* all : {&s.asked, &s.running})
    if (auto r = all->find(call); r != all->end() && --r->second == 0)
      all->erase(r);
}

// ---- what it says

void watch::said(const frame& f) {
  if (!std::exchange(preamble_said_, true))
    return must(check_preamble(f.at()) == errc::none, nullptr, "its preamble");
  auto h = f.header();
  must(check_header(h, peer_ ? peer_->frame_max : control_bytes_max) == errc::none, nullptr,
       "a frame header that no peer takes");
  must(!faulted_, nullptr, "it goes on behind its last word");
  if (!f.is_control())
    return say_data(f);
  say::control c;
  std::string why;
  must(say::decode(f.body(), c, why) == errc::none, nullptr, "control that cannot be read");
  must(hello_said_ == !c.hello, nullptr, "hello comes first, and once");
  hello_said_ = true;
  say_control(c);
}

void watch::say_control(const say::control& c) {
  faulted_ = c.fault.has_value();
  say_opens(c);
  say_credit(c);
  say_calls(c);
  say_ends(c);
}

void watch::say_opens(const say::control& c) {
  for (auto& o : c.opens) {
    must((o.session & 1) == odd_ && o.session > last_own_, nullptr, "an id that it may not use");
    last_own_ = o.session;
    auto& s = sessions_[o.session] = early_[o.session];
    early_.erase(o.session);
    s.ours = true;
    s.allowed = o.limit;
  }
  for (auto& o : c.openeds) {
    auto& s = session_said(o.session, "opened behind its last word");
    must(!s.ours && !s.opened, &s, "opened without open");
    s.opened = true;
    s.allowed = o.limit;
  }
  for (auto& r : c.refuseds) {
    auto& s = session_said(r.session, "refused behind its last word");
    must(!s.ours && !s.opened, &s, "refused, but it was accepted");
    s.dead = true;
  }
}

void watch::say_credit(const say::control& c) {
  for (auto& g : c.grants) {
    auto& s = session_said(g.session, "a grant behind its last word");
    must(s.opened, &s, "a grant before the session is open");
    must(g.epoch >= s.allowed_epoch, &s, "an epoch goes back");
    must(g.epoch > s.allowed_epoch || s.allowed.within(g.limit), &s, "a limit falls");
    s.allowed = g.limit;
    s.allowed_epoch = g.epoch;
  }
  for (auto& b : c.blockeds) {
    auto& s = session_said(b.session, "blocked behind its last word");
    must(s.opened, &s, "blocked before the session is open");
    must(!s.waits_for_last, &s, "blocked behind close");
    must(b.state.need > s.sent.bytes, &s, "it is blocked by nothing");
  }
  for (auto& r : c.reclaimeds) {
    auto& s = session_said(r.session, "reclaimed behind its last word");
    must(r.limit.within(s.limit) && s.sent.within(r.limit), &s, "a reclaimed limit that cannot be");
    s.limit = r.limit;
    s.epoch = r.epoch;
    s.granted.erase(s.granted.begin(), s.granted.lower_bound(r.epoch));
    for (auto& [epoch, limit] : s.granted)
      widen(s.limit, limit);
  }
}

void watch::say_ends(const say::control& c) {
  for (auto& a : c.aborts) {
    auto& s = session_said(a.session, "an abort behind its last word");
    must(a.final == s.sent, &s, "an abort with other counts than it has sent");
    s.dead = true;
  }
  for (auto& x : c.closes) {
    auto& s = session_said(x.session, "close behind its last word");
    must(s.opened && !s.waits_for_last, &s, "a close that cannot be");
    must(x.final == s.sent, &s, "close with other counts than it has sent");
    must(s.running.empty(), &s, "close before every request was answered");
    s.waits_for_last = true;
  }
  for (auto& x : c.closeds) {
    auto& s = session_said(x.session, "closed twice");
    must(x.final == s.sent, &s, "closed with other counts than it has sent");
    s.dead = true;
  }
}

void watch::say_calls(const say::control& c) {
  for (auto& x : c.cancelleds) {
    auto& s = session_said(x.session, "cancelled behind its last word");
    must(s.asked.contains(x.id), &s, "cancelled, but it does not run");
    end_request(s, x.id);
  }
  for (auto& n : c.needs) {
    auto& s = session_said(n.session, "need behind its last word");
    must(s.asked.contains(n.id), &s, "need of a call that does not run");
  }
  for (auto& x : c.cancels) {
    auto& s = session_said(x.session, "cancel behind its last word");
    auto call = s.calls.find(slot_of(x.id));
    auto open = call != s.calls.end() && call->second == x.id;
    must(open || s.ended_calls.contains(x.id), &s, "cancel of a call that is not open there");
  }
  for (auto& x : c.funds)
    session_said(x.session, "fund behind its last word");
}

void watch::say_data(const frame& f) {
  auto h = f.header();
  must(peer_.has_value(), nullptr, "data before hello");
  auto& s = session_said(h.session, "data behind its last word");
  must(s.opened, &s, "data before the session is open");
  must(!s.waits_for_last, &s, "data behind close");
  auto& p = s.parts[static_cast<size_t>(h.frame_lane())];
  auto reply = h.frame_lane() == lane::reply;
  if (reply)
    must(!s.ours && s.asked.contains(h.id), &s, "an answer that nobody waits for");
  else
    must(h.id == 0 || s.ours, &s, "a request of the acceptor");
  if (h.kind == frame_kind::fragment && p.left != 0) {
    must(p.id == h.id, &s, "fragments of two messages in one lane");
    if ((h.flags & flag::void_) != 0) {
      s.promised -= reply ? 0 : p.left;
      p = {};
      return say_last(s, h);
    }
    must(h.length <= p.left && ((h.flags & flag::last) != 0) == (h.length == p.left), &s,
         "its fragments are not what the first one said");
    p.left -= h.length;
    if (!reply) {
      s.sent.bytes += h.length;
      s.promised -= h.length;
    }
  } else {
    must(p.left == 0, &s, "a message within another one's fragments");
    say_first(s, f, p);
  }
  if (p.left == 0)
    say_last(s, h);
}

/// A message, or the first fragment of one.
void watch::say_first(known& s, const frame& f, part& p) {
  auto h = f.header();
  uint64_t length = h.length, slice = h.length;
  if (h.kind == frame_kind::fragment) {
    must(h.length > fragment_prefix_bytes && (h.flags & flag::void_) == 0, &s, "a fragment that cannot be");
    length = f.body().words[0];
    slice -= fragment_prefix_bytes;
    must(slice <= length && ((h.flags & flag::last) != 0) == (slice == length), &s,
         "a length that cannot be");
  }
  must(length <= peer_->message_max, &s, "a message that the peer does not take");
  p = {length - slice, h.id};
  if (h.frame_lane() == lane::reply)
    return;
  s.sent = s.sent.plus(message_overhead_bytes + slice, 1);
  must(s.sent.plus(s.promised + p.left, 0).within(s.limit), &s, "it sends more than it was allowed");
  s.promised += p.left;
  if (h.id == 0)
    return;
  must(slot_of(h.id) < peer_->calls_max && generation_of(h.id) != 0, &s, "a call that cannot be");
}

/// The last frame of a message: a whole one, its last fragment, or its void.
void watch::say_last(known& s, const frame_header& h) {
  if (h.frame_lane() == lane::reply)
    return end_request(s, h.id);
  if (h.id != 0 && (h.flags & flag::void_) == 0 && !s.ended_calls.contains(h.id))
    must(s.calls.emplace(slot_of(h.id), h.id).second, &s, "a call in a slot that is taken");
}

// ---- what it tells its user

void watch::told(const test::seen& e) {
  using type = event::type;
  if (e.session_id == 0)
    return;
  auto* s = find(e.session_id);
  if (!s) // one that it gave up before it could say `open`
    return must(((e.session_id & 1) != 0) == odd_, nullptr, "it tells of a session that nobody has opened");
  must(!s->ended, s, "it tells of a session behind its end");
  s->ended = e.what == type::ended;
  if (e.what != type::request && e.what != type::item)
    return;
  must(s->opened || !s->ours, s, "data before the session is open");
  must(e.cost == cost_of(e.message_bytes), s, "a message is charged as what it is not");
  s->taken = s->taken.plus(e.cost, 1);
  if (e.what == type::request)
    ++s->running[e.call];
}

void watch::quiet() {
  for (auto& [id, s] : sessions_)
    must(s.dead || s.taken.within(s.allowed), &s, "it took more than it had allowed");
}

position watch::taken(uint32_t id) const {
  auto s = sessions_.find(id);
  return s == sessions_.end() ? position{} : s->second.taken;
}

bool watch::alive(uint32_t id) const {
  auto s = sessions_.find(id);
  return s != sessions_.end() && !s->second.dead;
}

} // namespace weir::fuzz
