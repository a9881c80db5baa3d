// What the users and services of a node do.
#include <algorithm>

#include "world.hpp"

namespace weir::net::sim {

node::node(world& w, node_plan p, unsigned i)
    : in(w), with(std::move(p)), index(i), inbound(with.inbound), outbound(with.outbound_bytes) {}

/// A run that broke leaves letters behind.
node::~node() { mail.clear(), tasks.clear(), kept.clear(), replies.clear(); }

// ---- the users' verbs

side_of* node::open(port& p, bool stream, failure& why) {
  auto& c = in.known.add_conversation(stream);
  open_request r;
  r.service = std::to_string(c.number);
  r.stream = stream;
  r.tag = c.number;
  if (!stream)
    r.replies_in = draw_ration(with.back);
  r.replies_range = draw_range(r.replies_in);
  auto* s = p.link->open(r, why);
  if (!s) {
    in.known.conversations.pop_back();
    return nullptr;
  }
  auto& mine = c.sides[0];
  mine.at = &p;
  mine.with = s;
  s->owner = &mine;
  p.live.push_back(&mine);
  return &mine;
}

uint64_t node::call(side_of& s, const call_options& o, failure& why) {
  auto& sequence = s.sent[static_cast<size_t>(o.in_lane)];
  call_record c;
  c.caller = &s;
  c.sequence = sequence;
  c.in_lane = o.in_lane;
  c.body_bytes = o.body_bytes;
  c.depth = o.depth;
  c.parent = o.parent;
  if (o.timeout != duration::max())
    c.deadline = in.now + o.timeout;
  c.paid = cost_of(std::max<uint64_t>(o.room_bytes != 0 ? o.room_bytes : with.link.reply_room_bytes, 1280));
  auto token = in.known.calls.size() + 1;
  auto m = build({s.of->number, sequence, token, kind::request, o.in_lane, s.index == 0}, o.body_bytes,
                 o.room_bytes, in.chance.chance(70) ? o.body_bytes : 0);
  auto id = s.at->link->call(*s.with, std::move(m), {token, c.deadline, o.room_bytes, o.in_lane});
  if (!id) {
    why = id.error();
    if (why.code == errc::no_budget)
      s.waits_for_room = c.paid;
    return 0;
  }
  c.id = *id;
  in.known.add_call(c);
  ++sequence;
  ++s.open_calls;
  open_rooms += c.paid;
  return token;
}

bool node::post(side_of& s, uint32_t body_bytes, lane in_lane, failure& why) {
  auto& sequence = s.sent[static_cast<size_t>(in_lane)];
  auto m = build({s.of->number, sequence, 0, kind::item, in_lane, s.index == 0}, body_bytes, 0,
                 in.chance.chance(70) ? body_bytes : 0);
  auto ok = s.at->link->post(*s.with, std::move(m), in_lane);
  if (!ok) {
    why = ok.error();
    return false;
  }
  ++sequence;
  ++s.posted;
  return true;
}

unsigned node::post_run(side_of& s, unsigned n, uint32_t body_bytes, lane in_lane) {
  auto& sequence = s.sent[static_cast<size_t>(in_lane)];
  outgoing run;
  auto make = [&](uint32_t number) {
    auto m = build({s.of->number, number, 0, kind::item, in_lane, s.index == 0}, body_bytes, 0, body_bytes);
    frame_header h;
    h.length = m.body_bytes;
    h.session = s.with->id();
    h.kind = frame_kind::message;
    h.flags = static_cast<uint8_t>(in_lane);
    if (!m.more)
      store_header(m.at, h);
    return m;
  };
  for (unsigned i = 0; i < n; ++i) {
    auto m = make(sequence + i);
    if (!run)
      run = std::move(m);
    else if (!run.extend(m))
      break;
  }
  auto count = run.count;
  if (!s.at->link->post(*s.with, std::move(run), in_lane))
    return 0;
  sequence += count;
  s.posted += count;
  return count;
}

/// Offers as an outlet does: builds only what may leave at once, and waits for `credit` if it may not.
void node::offer(side_of& s) {
  while (s.live() && !s.closing && s.offers_left > 0 && !s.waits) {
    failure why;
    auto fits = framed_bytes(s.offer_bytes) <= s.at->link->message_bytes_max(*s.with);
    auto m_cost = cost_of(framed_bytes(s.offer_bytes));
    if (s.asks && fits && !s.at->link->want_credit(*s.with, m_cost)) {
      s.waits = true;
      if (++s.vain_waits <= 3)
        return;
      s.vain_waits = 0; // it is not to be had
      --s.offers_left;
      continue;
    }
    s.vain_waits = 0;
    if (post(s, s.offer_bytes, lane::normal, why) || why.code != errc::overloaded)
      --s.offers_left;
    else if (outbound.bytes_max() < m_cost)
      s.offers_left = 0; // never
    else
      s.waits = true;
  }
}

void node::cancel(uint64_t token) {
  auto& c = in.known.of_token(token);
  if (!c.open)
    return;
  auto& s = *c.caller;
  s.at->link->cancel(*s.with, c.id, errc::cancelled);
  fetch(*s.at);
  if (c.open)
    throw broken{"cancelled, and its caller still waits: token " + std::to_string(token)};
}

void node::abort(side_of& s, errc reason) {
  auto& p = *s.at;
  p.link->abort(*s.with, reason, "the user said so");
  fetch(p);
  if (!s.ended)
    throw broken{name_of(s) + ": aborted, and not ended"};
}

// ---- what is held

bool node::hold(letter& l) {
  if (l.held)
    return true;
  auto room = with.held_bytes_max - std::min(with.held_bytes_max, held_bytes);
  if (l.cost > room || !inbound.take(charge::held, l.cost)) {
    ++refused_holds;
    return false;
  }
  held_bytes += l.cost;
  held_peak = std::max(held_peak, held_bytes);
  auto& s = *l.to;
  if (s.ended) {
    inbound.give(charge::session, l.cost);
    orphan_bytes -= l.cost;
  } else {
    s.unconsumed_bytes -= l.cost;
    s.at->link->consumed(*s.with, l.cost, 1);
  }
  l.held = true;
  return true;
}

/// The memory of a message dies: whatever happened to its session, its credit returns here and nowhere else.
void node::die(letter& l) {
  auto& s = *l.to;
  stamp st;
  uint32_t bytes = 0;
  envelope e;
  auto failed = l.what == kind::reply && read_envelope(l.message, e) && e.type == failure_type();
  auto fault = failed ? std::string{} : read(l.message, st, bytes);
  if (!fault.empty() || (!failed && (st.token != l.token || st.conversation != s.of->number)))
    throw broken{name_of(s) + ": a message changed while it was held: " + fault};
  if (l.what == kind::reply) {
    reply_bytes -= l.cost;
    s.at->link->reply_died(l.cost);
  } else if (l.held) {
    held_bytes -= l.cost;
    inbound.give(charge::held, l.cost);
  } else if (s.ended) {
    orphan_bytes -= l.cost;
    inbound.give(charge::session, l.cost);
  } else {
    s.unconsumed_bytes -= l.cost;
    s.at->link->consumed(*s.with, l.cost, 1);
  }
  l.memory.reset();
}

// ---- services

bool node::handle(bool all) {
  auto readable = [&](const letter& l) { return all || l.to->ended || l.to->reads; };
  auto l = std::find_if(mail.begin(), mail.end(), readable);
  if (l == mail.end())
    return false;
  auto mine = std::move(*l);
  mail.erase(l);
  auto& p = *mine.to->at;
  ++handled;
  if (mine.to->ended)
    die(mine); // of a dead session: dropped unrun
  else if (handler && handler(mine)) {
  } else if (mine.what == kind::item)
    handle_item(std::move(mine));
  else
    handle_request(std::move(mine));
  in.touch(p);
  return true;
}

void node::handle_item(letter l) {
  auto keep = !draining && in.chance.chance(with.users.held_percent);
  if (keep && in.chance.chance(70))
    hold(l);
  if (keep)
    kept.push_back(std::move(l));
  else
    die(l);
}

void node::handle_request(letter l) {
  auto& d = in.chance;
  auto& h = with.users;
  auto& c = in.known.of_token(l.token);
  if (l.deadline <= in.now)
    return refuse(l, errc::deadline_exceeded, outcome::not_executed);
  auto nests = c.depth > 0 && d.chance(h.nest_percent);
  auto holds = nests || (!draining && d.chance(h.held_percent));
  if (holds && !hold(l))
    return refuse(l, errc::overloaded, outcome::not_executed);
  if (c.disowned)
    throw broken{"a handler ran after its caller was told that it did not: token " + std::to_string(l.token)};
  c.executed = true;
  if (nests) {
    if (nest(l, c))
      return;
    return refuse(l, errc::handler_failed, outcome::unknown);
  }
  if (d.chance(h.fail_percent))
    return refuse(l, errc::handler_failed, outcome::unknown);
  if (!draining && (holds || d.chance(h.late_percent)))
    tasks.push_back({std::move(l), 0});
  else
    answer(l, draw_answer());
}

/// Calls back the caller of `l` on a session of its own; `l` waits, held, for the answer.
bool node::nest(letter& l, call_record& c) {
  auto* p = l.to->at;
  auto fits = [](const side_of& s) { return s.index == 0 && !s.of->stream && !s.closing; };
  auto* s = pick(*p, fits);
  failure why;
  if (!s && !p->going)
    s = open(*p, false, why);
  if (!s)
    return false;
  call_options o;
  o.body_bytes = draw_body();
  o.depth = c.depth - 1;
  o.parent = l.token;
  auto token = call(*s, o, why);
  if (token == 0)
    return false;
  tasks.push_back({std::move(l), token});
  return true;
}

void node::run(letter l) {
  auto& c = in.known.of_token(l.token);
  c.executed = true;
  tasks.push_back({std::move(l), 0});
}

void node::answer(letter& l, uint32_t body_bytes) {
  auto& c = in.known.of_token(l.token);
  c.executed = true;
  auto first = in.chance.chance(with.users.answer_first_percent);
  if (!first)
    die(l);
  if (auto& s = *l.to; !s.ended) {
    c.answered = true;
    c.answer_bytes = body_bytes;
    auto m = build({s.of->number, 0, l.token, kind::reply, lane::reply, s.index == 0}, body_bytes, 0,
                   in.chance.chance(70) ? body_bytes : 0);
    s.at->link->reply(*s.with, l.call, std::move(m));
  }
  if (first)
    die(l);
}

void node::refuse(letter& l, errc reason, outcome what) {
  if (auto& s = *l.to; !s.ended)
    s.at->link->reply_failure(*s.with, l.call, {reason, what, "said by the service"});
  die(l);
}

bool node::finish_task(bool any_order) {
  std::vector<size_t> ready;
  for (size_t i = 0; i < tasks.size(); ++i)
    if (tasks[i].waits_for == 0)
      ready.push_back(i);
  if (ready.empty())
    return false;
  auto at = tasks.begin() +
            static_cast<std::ptrdiff_t>(any_order ? ready[in.chance.below(ready.size())] : ready[0]);
  auto l = std::move(at->request);
  tasks.erase(at);
  auto& p = *l.to->at;
  answer(l, draw_answer());
  in.touch(p);
  return true;
}

namespace {
letter take_any(std::vector<letter>& from, dice& d) {
  std::swap(from[d.below(from.size())], from.back());
  auto l = std::move(from.back());
  from.pop_back();
  return l;
}
} // namespace

bool node::drop_kept() {
  if (kept.empty())
    return false;
  auto l = take_any(kept, in.chance);
  die(l);
  in.touch(*l.to->at);
  return true;
}

bool node::answer_offer() {
  if (offers.empty())
    return false;
  auto [s, on] = offers.front();
  offers.erase(offers.begin());
  answer_open(*s, *on);
  in.touch(*s->at);
  return true;
}

bool node::drop_reply() {
  if (replies.empty())
    return false;
  auto l = take_any(replies, in.chance);
  die(l);
  in.touch(*l.to->at);
  return true;
}

// ---- at random

uint32_t node::draw_body() {
  auto& h = with.users;
  auto& d = in.chance;
  if (d.chance(h.large_percent))
    return static_cast<uint32_t>(d.by_magnitude(0, h.large_bytes));
  return static_cast<uint32_t>(d.below(h.body_bytes + 1));
}

uint32_t node::draw_answer() {
  auto& h = with.users;
  auto& d = in.chance;
  if (d.chance(h.large_answer_percent))
    return static_cast<uint32_t>(d.by_magnitude(0, h.large_bytes));
  return static_cast<uint32_t>(d.below(h.answer_bytes + 1));
}

side_of* node::pick(port& p, bool (*fits)(const side_of&)) {
  auto n = p.live.size();
  if (n == 0)
    return nullptr;
  auto first = in.chance.below(n);
  for (size_t i = 0; i < n; ++i)
    if (auto* s = p.live[(first + i) % n]; fits(*s))
      return s;
  return nullptr;
}

void node::act_open(port& p) {
  if (p.down || !p.link->ready() || p.live.size() >= with.users.sessions_max)
    return;
  failure why;
  auto stream = in.chance.chance(40);
  auto* s = open(p, stream, why);
  if (s && in.chance.chance(50)) {
    s->offers_left = static_cast<unsigned>(in.chance.below(40));
    s->offer_bytes = draw_body();
    s->asks = in.chance.chance(60);
  }
  if (s || why.code == errc::no_budget || why.code == errc::too_many_sessions)
    return;
  if ((why.code == errc::going_away || why.code == errc::shutting_down) && p.going)
    return;
  throw broken{"not opened: " + to_string(why)};
}

void node::act_call(port& p) {
  auto* s = pick(p, [](const side_of& x) { return x.index == 0 && !x.of->stream && !x.closing; });
  if (!s)
    return;
  auto& d = in.chance;
  auto& h = with.users;
  call_options o;
  o.body_bytes = draw_body();
  if (d.chance(30))
    o.room_bytes = static_cast<uint32_t>(d.by_magnitude(8, 16 << 10));
  o.depth = static_cast<unsigned>(d.below(h.depth_max + 1));
  if (d.chance(h.deadline_percent))
    o.timeout = std::chrono::microseconds{d.by_magnitude(1, 10'000'000)};
  if (d.chance(20))
    o.in_lane = lane::bulk;
  failure why;
  call(*s, o, why);
}

/// True when something of that kind could be done.
void node::act(action a, port& p) {
  auto& d = in.chance;
  auto any = [](const side_of&) { return true; };
  auto may_post = [](const side_of& s) {
    return !s.closing && (s.index == 0 || s.with->out().limit().messages != 0);
  };
  failure why;
  switch (a) {
  case action::open:
    return act_open(p);
  case action::call:
    return act_call(p);
  case action::post:
    if (auto* s = pick(p, may_post))
      post(*s, draw_body(), d.chance(70) ? lane::normal : lane::bulk, why);
    return;
  case action::run:
    if (auto* s = pick(p, may_post); s && s->with->out().limit().messages != 0)
      if (auto n = draw_body();
          framed_bytes(n) <= std::min<uint64_t>(p.link->message_bytes_max(*s->with), 4 << 10))
        post_run(*s, static_cast<unsigned>(d.between(2, 40)), n, d.chance(70) ? lane::normal : lane::bulk);
    return;
  case action::offer:
    if (auto* s = pick(p, [](const side_of& x) { return x.offers_left > 0 && !x.waits; }))
      offer(*s);
    return;
  case action::cancel:
    if (auto n = in.known.calls.size(); n > 0) {
      auto token = n - d.below(std::min<size_t>(n, 16));
      if (auto& c = in.known.of_token(token); c.open && c.caller->at == &p)
        cancel(token);
    }
    return;
  case action::close:
    if (auto* s = pick(p, any)) {
      s->closing = true;
      p.link->close(*s->with);
    }
    return;
  case action::abort:
    if (auto* s = pick(p, any))
      abort(*s, d.pick({errc::cancelled, errc::service_down, errc::caller_down}));
    return;
  case action::reclaim:
    if (auto* s = pick(p, any))
      p.link->reclaim(*s->with);
    return;
  case action::ration:
    if (auto* s = pick(p, any)) {
      ration_options to{d.by_magnitude(256, 2 * with.ration.bytes),
                        d.by_magnitude(1, 2 * with.ration.messages), 4};
      if (d.chance(50))
        p.link->set_ration(*s->with, to.bytes, to.messages);
      else
        p.link->change_ration(*s->with, to, draw_range(to));
    }
    if (d.chance(10))
      p.link->set_fragment_bytes(static_cast<uint32_t>(d.by_magnitude(64, with.link.fragment_bytes)));
    return;
  default:
    return;
  }
}

// ---- the ledgers

std::string node::check() const {
  if (outbound.bytes() > outbound.bytes_max() + (8 << 20))
    return "the outbound ledger holds " + std::to_string(outbound.bytes());
  auto fault = check_budget();
  return fault.empty() ? fault : "node " + std::to_string(index) + ": " + fault;
}

/// What the peer may still send to sessions that were aborted here.
uint64_t node::graves_may_owe() const {
  uint64_t bytes = 0;
  for (auto* p : ports)
    p->link->for_each_session([&](const session& s) {
      if (s.now() == session::state::tombstone)
        bytes += s.in().granted().bytes - s.in().received().bytes;
    });
  return bytes;
}

std::string node::check_budget() const {
  auto words = [](const char* what, uint64_t is, uint64_t should) {
    return std::string{what} + ": the budget has " + std::to_string(is) + ", the users " +
           std::to_string(should);
  };
  if (inbound.liability() > with.inbound.bytes)
    return words("liability above the budget", inbound.liability(), with.inbound.bytes);
  if (inbound.charged(charge::held) != held_bytes)
    return words("held", inbound.charged(charge::held), held_bytes);
  auto least = orphan_bytes, most = orphan_bytes;
  for (auto* p : ports)
    for (auto* s : p->live) {
      auto& ration = s->with->in();
      least += ration.liability();
      most += std::max(ration.liability(), ration.options().bytes);
    }
  auto charged = inbound.charged(charge::session) + inbound.charged(charge::large);
  if (charged < least)
    return words("sessions owe more than is charged", charged, least);
  if (charged > most && charged > (most += graves_may_owe()))
    return words("sessions owe less than is charged", charged, most);
  if (inbound.charged(charge::reply_room) < open_rooms + reply_bytes)
    return words("reply rooms", inbound.charged(charge::reply_room), open_rooms + reply_bytes);
  return {};
}

} // namespace weir::net::sim
