// What a node's user makes of what its mux tells, and the proof that it may tell it.
#include <algorithm>

#include "world.hpp"

namespace weir::net::sim {

namespace {
[[noreturn]] void no(const side_of& s, const std::string& what) { throw broken{name_of(s) + ": " + what}; }

/// Reasons that only a peer that breaks the protocol can give.
bool is_accusation(errc e) {
  switch (e) {
  case errc::malformed_frame:
  case errc::frame_too_large:
  case errc::malformed_control:
  case errc::control_too_large:
  case errc::unknown_session:
  case errc::credit_exceeded:
  case errc::grant_overflow:
  case errc::malformed_message:
  case errc::bad_state:
  case errc::bad_magic:
  case errc::bad_version:
    return true;
  default:
    return false;
  }
}
} // namespace

void node::fetch(port& p) {
  while (p.link->has_events()) {
    batch_.clear();
    p.link->take_events(batch_);
    for (auto& e : batch_) {
      ++in.events;
      on_event(p, e);
    }
  }
  batch_.clear();
}

void node::on_event(port& p, event& e) {
  if (p.down)
    throw broken{"an event behind `down`"};
  switch (e.what) {
  case event::type::ready:
    return;
  case event::type::open:
    return on_open(p, e);
  case event::type::request:
  case event::type::item:
    return on_data(p, e);
  case event::type::reply:
    return on_reply(p, e);
  case event::type::going_away:
    p.going = true;
    return;
  case event::type::down:
    return on_down(p, e);
  case event::type::opened:
  case event::type::failed:
  case event::type::credit:
  case event::type::finished:
  case event::type::cancelled:
  case event::type::blocked:
  case event::type::resumed:
  case event::type::ended:
    break;
  }
  auto* s = static_cast<side_of*>(e.on->owner);
  if (!s)
    throw broken{"an event of a session that nobody has"};
  if (s->ended)
    no(*s, "an event behind `ended`");
  if (e.what == event::type::resumed)
    p.link->tune(*e.on);
  if (e.what == event::type::failed)
    on_failed(*s, e);
  if (e.what == event::type::credit)
    s->waits = false, s->waits_for_room = 0;
  if (e.what == event::type::finished)
    s->finished = true;
  if (e.what == event::type::cancelled)
    on_cancelled(*s, e.call);
  if (e.what == event::type::ended)
    on_ended(p, *s, e);
}

ration_options node::draw_ration(const ration_options& most) {
  if (!with.mixed_rations || most.bytes == 0)
    return most;
  return {in.chance.by_magnitude(std::min<uint64_t>(most.bytes, 200), most.bytes),
          in.chance.by_magnitude(1, most.messages), most.grant_at};
}

ration_range node::draw_range(const ration_options& now) {
  if (!with.tuned_rations || now.bytes == 0)
    return {};
  return {in.chance.by_magnitude(1, now.bytes), now.bytes * in.chance.pick({1u, 4u, 64u}),
          in.chance.chance(50)};
}

void node::on_open(port& p, event& e) {
  auto& c = in.known.conversations.at(std::stoul(e.on->service()));
  auto& s = c.sides[1];
  if (s.at || c.sides[0].at != p.peer)
    no(s, "opened twice, or elsewhere");
  s.at = &p;
  s.reads = !in.chance.chance(with.users.unread_percent);
  e.on->owner = &s;
  if (!draining && in.chance.chance(with.users.late_accept_percent))
    offers.push_back({&s, e.on});
  else
    answer_open(s, *e.on);
}

void node::answer_open(side_of& s, session& on) {
  auto& p = *s.at;
  if (on.now() != session::state::offered)
    return; // `ended` follows
  if (!draining && in.chance.chance(with.users.spurn_percent)) {
    s.ended = true; // told below, if it is told at all
    if (in.chance.chance(50))
      return p.link->close(on);
    s.ended = false;
    return p.link->abort(on, errc::service_down, "not today");
  }
  if (in.chance.chance(with.users.refuse_percent) && !draining) {
    s.ended = true;
    return p.link->refuse(on, errc::no_such_service, "nobody of that name", false);
  }
  auto ration = draw_ration(with.ration);
  if (!p.link->accept(on, ration, with.service_message_bytes_max, draw_range(ration))) {
    s.ended = true;
    return p.link->refuse(on, errc::no_budget, "no budget for a ration", true);
  }
  s.with = &on;
  p.live.push_back(&s);
}

void node::take_letter(port& p, side_of& s, event& e, kind what, uint64_t token) {
  letter l{&s,    what,       e.message, e.memory ? e.memory : p.in->memory(), e.cost, e.call,
           token, e.deadline, false};
  if (what == kind::reply) {
    reply_bytes += e.cost;
    replies.push_back(std::move(l));
    return;
  }
  s.unconsumed_bytes += e.cost;
  mail.push_back(std::move(l));
}

void node::on_data(port& p, event& e) {
  auto* s = static_cast<side_of*>(e.on->owner);
  if (!s)
    throw broken{"data of a session that nobody has"};
  if (s->ended)
    no(*s, "data behind `ended`");
  if (s->finished)
    no(*s, "data behind `finished`");
  stamp st;
  uint32_t bytes = 0;
  if (auto fault = read(e.message, st, bytes); !fault.empty())
    no(*s, fault);
  if (st.conversation != s->of->number || st.from_opener != (s->index == 1) || st.in_lane != e.in_lane)
    no(*s, "a message of another conversation, direction or lane");
  auto& next = s->next[static_cast<size_t>(e.in_lane)];
  if (st.sequence < next)
    no(*s, "message " + std::to_string(st.sequence) + " came when " + std::to_string(next) +
               " was due: doubled or out of order");
  next = st.sequence + 1;
  if (e.cost != cost_of(e.message.bytes()))
    no(*s, "charged with another cost");
  if (e.what == event::type::request)
    on_request(*s, e, st, bytes);
  else if (st.what != kind::item || st.token != 0)
    no(*s, "an item that was none");
  else
    ++s->received;
  take_letter(p, *s, e, st.what, st.token);
}

void node::on_request(side_of& s, event& e, const stamp& st, uint32_t bytes) {
  auto& c = in.known.of_token(st.token);
  if (st.what != kind::request || c.caller != &s.other() || c.id != e.call || c.sequence != st.sequence ||
      c.body_bytes != bytes)
    no(s, "a request that nobody made");
  if (c.delivered)
    no(s, "a request came twice");
  if (c.disowned)
    no(s, "a request came after its caller was told that it was not executed");
  if ((c.deadline == time_point::max()) != (e.deadline == time_point::max()))
    no(s, "a deadline was lost or made up");
  c.delivered = true;
}

void node::on_reply(port& p, event& e) {
  auto& c = in.known.of_token(e.token);
  auto& s = *c.caller;
  if (s.at != &p || c.id != e.call)
    no(s, "a reply to another call");
  envelope env;
  if (!read_envelope(e.message, env))
    no(s, "a reply without an envelope");
  if (env.type == failure_type()) {
    auto f = read_failure(e.message);
    end_call(e.token, &f);
  } else {
    stamp st;
    uint32_t bytes = 0;
    if (auto fault = read(e.message, st, bytes); !fault.empty())
      no(s, fault);
    if (st.what != kind::reply || st.token != e.token || bytes != c.answer_bytes || !c.answered)
      no(s, "a reply that nobody gave");
    end_call(e.token, nullptr);
  }
  take_letter(p, s, e, kind::reply, e.token);
}

/// Exactly once for each call; what is said of its effect must be true.
void node::end_call(uint64_t token, const failure* f) {
  auto& c = in.known.of_token(token);
  if (!c.open)
    no(*c.caller, "call " + std::to_string(token) + " ended twice");
  c.open = false;
  --c.caller->open_calls;
  open_rooms -= c.paid;
  if (f)
    c.failed_with = f->code;
  if (f && is_accusation(f->code))
    no(*c.caller, "a call failed: " + to_string(*f));
  if (f && f->what == outcome::not_executed) {
    c.disowned = true;
    if (c.executed)
      no(*c.caller, "call " + std::to_string(token) + " was executed, but: " + to_string(*f));
  }
  if ((!f || f->what == outcome::done) && !c.executed)
    no(*c.caller, "call " + std::to_string(token) + " is done, but was not executed");
  if (c.parent == 0)
    return;
  for (auto& t : tasks)
    if (t.waits_for == token)
      t.waits_for = 0;
}

void node::on_failed(side_of& s, event& e) {
  if (in.tracing())
    in.trace("failed: " + name_of(s) + " token " + std::to_string(e.token) + ": " + to_string(*e.why));
  if (e.call == 0) {
    s.unsent += e.count;
    if (s.unsent > s.posted)
      no(s, "more messages failed than were posted");
    return;
  }
  auto& c = in.known.of_token(e.token);
  if (c.caller != &s || c.id != e.call)
    no(s, "another call failed");
  if (e.why->code == errc::deadline_exceeded && in.now < c.deadline)
    no(s, "a call expired before its deadline");
  end_call(e.token, e.why.get());
}

void node::on_cancelled(side_of& s, uint32_t call) {
  auto drop = in.chance.chance(70);
  for (auto t = tasks.begin(); t != tasks.end() && drop; ++t) {
    if (t->request.to != &s || t->request.call != call)
      continue;
    auto l = std::move(t->request);
    tasks.erase(t);
    return die(l);
  }
  for (auto l = mail.begin(); l != mail.end(); ++l) { // not yet run, and it will not be
    if (l->to != &s || l->call != call)
      continue;
    auto dead = std::move(*l);
    mail.erase(l);
    return die(dead);
  }
}

namespace {
/// Both sides were told that all went well: the one that says the last word is told before it has arrived.
void expect_all_came(const side_of& s) {
  auto came = s.of->sides[1 - s.index].received;
  if (s.posted != came + s.unsent)
    no(s, "both sides ended well, but of " + std::to_string(s.posted) + " messages " + std::to_string(came) +
              " came and " + std::to_string(s.unsent) + " were told to have failed");
}
} // namespace

void node::on_ended(port& p, side_of& s, event& e) {
  if (in.tracing())
    in.trace("ended: " + name_of(s) + (e.why ? ": " + to_string(*e.why) : ""));
  if (s.open_calls != 0)
    no(s, "ended with " + std::to_string(s.open_calls) + " calls that did not end");
  if (e.why && is_accusation(e.why->code))
    no(s, "ended, which no honest peer is to blame for: " + to_string(*e.why));
  s.ended = true;
  s.clean = !e.why;
  if (s.clean && s.other().clean) {
    expect_all_came(s);
    expect_all_came(s.other());
    if (s.of->stream && s.index == 0 && e.token != s.other().received)
      no(s, "the peer is said to have consumed " + std::to_string(e.token) + " of " +
                std::to_string(s.other().received));
  }
  s.with = nullptr;
  std::erase_if(offers, [&](auto& o) { return o.first == &s; });
  e.on->owner = &s;
  orphan_bytes += s.unconsumed_bytes;
  std::erase(p.live, &s);
}

void node::on_down(port& p, event& e) {
  if (in.tracing())
    in.trace("down: " + to_string(*e.why));
  if (is_accusation(e.why->code))
    throw broken{"the link of an honest peer failed: " + to_string(*e.why)};
  if (!p.live.empty())
    no(*p.live.front(), "the link is down and it has not ended");
  p.down = true;
}

} // namespace weir::net::sim
