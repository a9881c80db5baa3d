// Time, the pipes, and the order in which things happen.
#include "world.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

#include <fmt/format.h>

namespace weir::net::sim {

using std::chrono::milliseconds;

world::world(plan p, uint64_t seed, bool tracing)
    : with(std::move(p)), chance(seed ^ 0x5eed), tracing_(tracing) {
  for (unsigned i = 0; i < with.nodes.size(); ++i)
    nodes.push_back(std::make_unique<node>(*this, with.nodes[i], i));
  for (auto& [from, to] : with.links) {
    for (auto i : {from, to}) {
      auto& x = *ports.emplace_back(std::make_unique<port>());
      x.of = nodes[i].get();
      x.index = static_cast<unsigned>(ports.size() - 1);
      x.which = i == from ? side::dialled : side::accepted;
      x.of->ports.push_back(&x);
    }
    auto &a = *ports[ports.size() - 2], &b = *ports.back();
    a.peer = &b, b.peer = &a;
    dial(a, b);
  }
}

/// Letters before muxes, muxes before ledgers.
world::~world() {
  for (auto& n : nodes)
    n->mail.clear(), n->tasks.clear(), n->kept.clear(), n->replies.clear();
  ports.clear();
}

void world::dial(port& a, port& b) {
  if (credit_)
    credit_->dialled(a, b);
  for (auto* x : {&a, &b}) {
    auto& n = *x->of;
    x->link.reset();
    x->link = std::make_unique<mux>(n.with.link, x->which, n.inbound, n.outbound, *n.reassembly_pool, now);
    x->in = std::make_unique<receive_buffer>(*n.receive_pool);
    x->in->slab_bytes = n.with.receive_slab_bytes;
    x->out.clear();
    x->out.capacity = with.pipe_bytes;
    x->out.with_grants = with.with_grants;
    if (tracing_)
      x->out.spy = [this, x](const frame_header& h, const say::control* c) {
        trace(fmt::format("port {} -> {}", x->index, c ? in_words(*c) : in_words(h)));
      };
    x->down = x->going = x->more = false;
  }
}

void world::trace(const std::string& what) const {
  if (!tracing_)
    return;
  auto us = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()) -
            std::chrono::hours{1};
  fmt::print(stderr, "{:>12} us  {}\n", us.count(), what);
}

// ---- bytes

bool world::write(port& p, size_t most) {
  if (!p.link->wants_write())
    return false;
  auto iovecs = std::min(p.of->with.iovecs, iovecs_.size());
  auto n = p.link->gather({iovecs_.data(), iovecs}, now);
  if (credit_)
    credit_->look(p); // before what was handed over can be heard
  size_t bytes = 0;
  for (size_t i = 0; i < n; ++i)
    bytes += iovecs_[i].iov_len;
  constexpr size_t flight_most = (256 << 10) + (96 << 10) + (32 << 10);
  if (bytes > flight_most)
    throw broken{"one flight of " + std::to_string(bytes) + " bytes"};
  bytes = std::min({bytes, p.out.room(), most, p.of->with.write_bytes});
  if (p.peer->down)
    bytes = 0;
  p.out.write(iovecs_.data(), bytes, chance);
  p.link->wrote(bytes);
  touch(p);
  return bytes != 0;
}

bool world::deliver(port& p, size_t most, size_t slice) {
  auto& from = p.peer->out;
  if (now < from.stalled_until || p.down)
    return false;
  auto n = std::min({from.size(), most, p.of->with.read_bytes});
  if (n == 0 && !p.more)
    return false;
  auto* at = p.in->prepare(n, p.link->wanted_bytes());
  if (n != 0)
    from.take(at, n);
  p.in->commit(n);
  auto taken = p.link->receive(p.in->data(), p.in->size(), slice, now);
  if (taken > p.in->size())
    throw broken{"took more bytes than there were"};
  if (credit_)
    credit_->heard(p, p.in->data(), taken);
  p.in->taken(taken);
  p.more = taken != 0 && p.in->size() != 0;
  touch(p);
  return n != 0 || taken != 0;
}

bool world::move_bytes() {
  auto moved = false;
  for (auto& p : ports)
    moved = write(*p, SIZE_MAX) || moved;
  for (auto& p : ports)
    moved = deliver(*p, SIZE_MAX, 16 << 10) || moved;
  return moved;
}

// ---- time

void world::tick(port& p) {
  p.link->tick(now);
  touch(p);
  if (p.down)
    return;
  if (p.link->next_tick() <= now)
    throw broken{fmt::format("port {} asks for a tick in the past after each tick", p.index)};
  for (auto* s : p.live) {
    if (s->open_calls == 0)
      continue;
    for (auto& c : known.calls)
      if (c.open && c.caller == s && c.deadline <= now)
        throw broken{name_of(*s) + ": a call outlived its deadline"};
  }
}

void world::pass(duration d) {
  auto until = now + d;
  while (now < until) {
    auto next = until;
    for (auto& p : ports)
      if (!p->down)
        next = std::min(next, p->link->next_tick());
    now = std::max(now, next);
    for (auto& p : ports)
      if (!p->down && p->link->next_tick() <= now)
        tick(*p);
    flow();
  }
}

void world::stall() {
  auto& p = *ports[chance.below(ports.size())];
  p.out.stalled_until = now + duration{static_cast<duration::rep>(
                                  chance.below(static_cast<uint64_t>(with.stall_max.count())))};
}

// ---- the life of links

void world::cut(port& p, errc reason) {
  if (p.down)
    return;
  p.link->lost(reason, "cut");
  touch(p);
}

/// A side that is down takes the other one with it, once what it wrote has come; then both begin anew.
void world::part() {
  for (auto& p : ports) {
    if (!p->down || p->peer->down)
      continue;
    while (write(*p, SIZE_MAX)) {
    }
    for (int i = 0; i < 64 && deliver(*p->peer, SIZE_MAX, SIZE_MAX); ++i) {
    }
    cut(*p->peer, errc::link_lost);
  }
}

void world::redial() {
  part();
  for (size_t i = 0; i < ports.size(); i += 2)
    if (ports[i]->down && ports[i + 1]->down) {
      trace(fmt::format("link {} is dialled again", i / 2));
      dial(*ports[i], *ports[i + 1]);
    }
}

void world::go_away(port& p) {
  p.going = true;
  p.link->go_away(errc::going_away, "maintenance");
  touch(p);
}

// ---- one step of a run

void world::run() {
  for (unsigned i = 0; i < with.steps; ++i)
    step();
}

void world::step() {
  uint64_t sum = 0;
  for (auto w : with.weights)
    sum += w;
  auto at = chance.below(sum);
  size_t a = 0;
  while (at >= with.weights[a])
    at -= with.weights[a++];
  act(static_cast<action>(a));
  if (with.redials)
    redial();
}

void world::act(action a) {
  auto& p = *ports[chance.below(ports.size())];
  auto& n = *p.of;
  if (tracing_)
    trace(fmt::format("port {}: {}", p.index, to_string(a)));
  switch (a) {
  case action::write:
    write(p, chance.by_magnitude(0, 256 << 10));
    return;
  case action::deliver:
    deliver(p, chance.by_magnitude(1, 64 << 10), chance.by_magnitude(1, 64 << 10));
    return;
  case action::time:
    now += duration{static_cast<duration::rep>(chance.below(static_cast<uint64_t>(with.step_max.count())))};
    if (chance.chance(with.late_tick_percent))
      return;
    for (auto& x : ports)
      if (!x->down && x->link->next_tick() <= now)
        tick(*x);
    return;
  case action::handle:
    if (!chance.chance(10) || !n.answer_offer())
      n.handle(false);
    return;
  case action::finish:
    n.finish_task(true);
    return;
  case action::drop_kept:
    n.drop_kept();
    return;
  case action::drop_reply:
    if (!chance.chance(n.with.users.unread_reply_percent))
      n.drop_reply();
    return;
  case action::stall:
    stall();
    return;
  case action::cut:
    if (!p.down && chance.chance(30))
      doing(p, [&] { p.link->fail(errc::shutting_down, "the user said so"); });
    else
      cut(p, errc::link_lost);
    return;
  case action::go_away:
    go_away(p);
    return;
  default:
    if (!p.down)
      n.act(a, p);
  }
  touch(p);
}

// ---- until nothing moves

bool world::work() {
  auto did = false;
  for (auto& n : nodes) {
    while (n->answer_offer())
      did = true;
    while (n->handle(n->draining))
      did = true;
    while (n->finish_task(false))
      did = true;
    while (n->drop_kept())
      did = true;
    while (n->drop_reply())
      did = true;
    for (auto* p : n->ports) {
      auto live = p->live;
      for (auto* s : live)
        if (s->live() && !s->waits && !s->closing && s->offers_left > 0) {
          n->offer(*s);
          touch(*p);
          did = true;
        }
    }
  }
  return did;
}

void world::flow() {
  for (unsigned i = 0;; ++i) {
    auto moved = move_bytes();
    moved = work() || moved;
    part();
    if (!moved)
      return;
    if (i > 40'000'000) // megabytes pass through pipes that take a byte at a time
      throw broken{"it never comes to rest"};
  }
}

void world::settle(std::string (world::*not_yet)() const, const char* what) {
  auto start = now, moved_at = now;
  flow();
  auto seen = events;
  for (auto left = (this->*not_yet)(); !left.empty(); left = (this->*not_yet)()) {
    if (std::exchange(seen, events) != events)
      moved_at = now;
    if (now - moved_at > longest_wait)
      throw broken{std::string{what} + ": nobody has anything to do, but\n" + left};
    auto next = time_point::max();
    for (auto& p : ports)
      if (!p->down)
        next = std::min(next, p->link->next_tick());
    if (next == time_point::max())
      throw broken{std::string{what} + ": no timer runs, but\n" + left};
    now = std::max(now, next);
    for (auto& p : ports)
      if (!p->down && p->link->next_tick() <= now)
        tick(*p);
    flow();
  }
  longest_drain = std::max(longest_drain, now - start);
}

void world::drain() {
  for (auto& n : nodes)
    n->draining = true;
  for (auto& p : ports) {
    p->out.stalled_until = {};
    p->out.with_grants.lost_percent = std::min(p->out.with_grants.lost_percent, 20u);
  }
  settle(&world::waiting, "at rest");
}

void world::finish() {
  drain();
  for (auto& p : ports) {
    auto live = p->live;
    for (auto* s : live)
      if (s->live() && (s->index == 0 || chance.chance(50)))
        close(*s);
  }
  settle(&world::sessions_left, "after every close");
  expect_base_line();
  for (auto& p : ports)
    if (!p->down && (p->which == side::dialled || chance.chance(50)))
      go_away(*p);
  flow();
  for (auto& p : ports)
    if (!p->down && p->going && p->which == side::dialled && !p->link->drained())
      throw broken{"it said goodbye, and is not drained"};
  for (auto& p : ports)
    cut(*p, errc::going_away);
  for (auto& p : ports)
    p->link.reset(), p->in.reset();
  for (auto& n : nodes) {
    auto alive = n->receive_pool->alive_bytes() + n->reassembly_pool->alive_bytes();
    if (alive != 0)
      throw broken{fmt::format("node {}: {} bytes of slabs are still held", n->index, alive)};
  }
}

// ---- verbs of the scenarios

void world::connect() {
  flow();
  for (auto& p : ports)
    if (!p->link->ready())
      throw broken{"no hello"};
}

side_of& world::open(unsigned k, bool stream, bool from_acceptor) {
  auto& p = *ports[2 * k + (from_acceptor ? 1 : 0)];
  failure why;
  auto* s = p.of->open(p, stream, why);
  if (!s)
    throw broken{"not opened: " + to_string(why)};
  touch(p);
  return *s;
}

uint64_t world::call(side_of& s, const call_options& o) {
  failure why;
  auto token = s.at->of->call(s, o, why);
  if (token == 0)
    throw broken{"not called: " + to_string(why)};
  touch(*s.at);
  return token;
}

void world::post(side_of& s, uint32_t body_bytes, lane in_lane) {
  failure why;
  if (!s.at->of->post(s, body_bytes, in_lane, why))
    throw broken{"not posted: " + to_string(why)};
  touch(*s.at);
}

void world::abort(side_of& s, errc reason) {
  s.at->of->abort(s, reason);
  touch(*s.at);
}

void world::close(side_of& s) {
  s.closing = true;
  s.at->link->close(*s.with);
  touch(*s.at);
}

namespace {
/// Empty, or what broke.
std::string run_here(uint64_t seed, bool tracing) {
  try {
    dice d{seed};
    world w{random_plan(d), seed, tracing};
    w.connect();
    w.run();
    w.finish();
    return {};
  } catch (const broken& b) {
    return b.what();
  }
}
} // namespace

std::string run_seed(uint64_t seed, bool tracing) {
  std::string fault;
  auto before = slab_pool::build_pool().alive_bytes();
  std::thread{[&] { fault = run_here(seed, tracing); }}.join();
  auto after = slab_pool::build_pool().alive_bytes();
  if (fault.empty() && after != before)
    return fmt::format("{} bytes of built messages are still held", after - before);
  return fault;
}

} // namespace weir::net::sim
