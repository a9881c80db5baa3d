// Two muxes, joined by pipes, under a script. An input whose first byte is even drives the world of the
// simulation, with every choice of a run made by the input: both sides are honest, and everything that the
// simulation checks must hold. An odd one damages what one side hears: then no word of the protocol holds,
// but every invariant of either side does, what it keeps is bounded, each call ends once, and the ledgers
// come back.
#include <map>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "net/control.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/simulation/world.hpp"
#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {

using fuzz::require;
using sim::dice;

// ---- two honest sides

/// What is left to flow is no part of the script any more: byte by byte, with every check, it takes long.
void widen(sim::world& w) {
  for (auto& n : w.nodes) {
    n->with.read_bytes = 64 << 10;
    n->with.write_bytes = SIZE_MAX;
    n->with.iovecs = 64;
  }
  for (auto& p : w.ports)
    p->out.capacity = 256 << 10;
}

void run_honest(dice d) {
  auto p = sim::random_plan(d);
  sim::world w{std::move(p)};
  w.chance = d;
  w.connect();
  while (w.chance.follows())
    w.step();
  widen(w);
  w.finish();
}

// ---- one side is told lies

test::peer::settings small(test::peer::settings s, bool lends) {
  s.link.message_bytes_max = 64 << 10;
  s.link.fragment_bytes = 2 << 10;
  s.link.sessions_max = 8;
  s.link.calls_max = 8;
  s.inbound = {1 << 20, 256 << 10};
  s.outbound_bytes = 128 << 10;
  s.ration = lends ? ration_options{8 << 10, 32, 4} : ration_options{512, 4, 1};
  return s;
}

class lied_to {
public:
  explicit lied_to(dice d)
      : d_(d),
        habits_(d_.below(256)),
        pair_{small(test::client_settings(), (habits_ & 1) != 0),
              small(test::server_settings(), (habits_ & 2) != 0)} {
    for (auto* p : {&pair_.client, &pair_.server}) {
      p->consumes = (habits_ & 4) != 0;
      p->answers = (habits_ & 8) != 0;
    }
    if ((habits_ & 0x30) != 0) // mostly
      pair_.connect();
    pair_.write_bytes = (habits_ & 64) != 0 ? SIZE_MAX : 100;
    pair_.entries_max = (habits_ & 64) != 0 ? 64 : 3;
  }

  void run() {
    while (d_.follows()) {
      act();
      look();
    }
    end();
  }

private:
  /// Who does what comes next.
  test::peer& any() { return d_.chance(50) ? pair_.client : pair_.server; }

  void act() {
    switch (d_.below(20)) {
    case 0:
      return open();
    case 1:
    case 2:
      return call();
    case 3:
      return post();
    case 4:
      return cancel();
    case 5:
      return end_session();
    case 6:
      return set_ration();
    case 7:
      return any().consume_all();
    case 8:
      return answer();
    case 9:
      return pass_time();
    case 10:
      return bye();
    case 11:
      pair_.write(pair_.client, pair_.to_server);
      return;
    case 12:
      pair_.write(pair_.server, pair_.to_client);
      return;
    case 13:
      return pair_.to_server.deliver(pair_.server, d_.by_magnitude(1, 16 << 10), pair_.now);
    case 14:
      return pair_.to_client.deliver(pair_.client, d_.by_magnitude(1, 16 << 10), pair_.now);
    case 15:
      pair_.step();
      return;
    case 16:
    case 17:
      return say_control();
    case 18:
      return say_data();
    default:
      return garble();
    }
  }

  // ---- what users do

  session* pick(test::peer& p) {
    std::vector<const session*> all;
    p.link.for_each_session([&](const session& s) { all.push_back(&s); });
    // The mux shows its sessions only to look at; a user has the same ones from its events.
    return all.empty() ? nullptr : const_cast<session*>(all[d_.below(all.size())]);
  }
  void open() {
    auto& p = any();
    if (&p == &pair_.client && forged_ != 0)
      return; // the server knows later ones: the end of the link
    open_request r;
    r.service = "echo";
    r.stream = d_.chance(30);
    if (d_.chance(30))
      r.replies_in = {4 << 10, 8, 4};
    failure why;
    p.link.open(r, why);
  }
  std::string draw_body(uint64_t most) { return std::string(d_.by_magnitude(0, most), 'b'); }
  void call() {
    auto& p = any();
    auto* s = pick(p);
    if (!s)
      return;
    call_request r;
    r.token = ++tokens_;
    r.reply_room_bytes = d_.chance(70) ? 0 : static_cast<uint32_t>(d_.by_magnitude(1, 16 << 10));
    r.in_lane = d_.chance(80) ? lane::normal : lane::bulk;
    if (d_.chance(30))
      r.deadline = pair_.now + std::chrono::milliseconds{d_.by_magnitude(1, 4000)};
    auto m = test::build_message(draw_body(32 << 10), r.reply_room_bytes);
    if (auto id = p.link.call(*s, std::move(m), r))
      calls_[r.token] = {&p, s->id(), *id};
  }
  void post() {
    auto& p = any();
    if (auto* s = pick(p))
      p.link.post(*s, test::build_message(draw_body(32 << 10)), d_.chance(70) ? lane::normal : lane::bulk);
  }
  void cancel() {
    if (calls_.empty())
      return;
    auto c = std::next(calls_.begin(), static_cast<std::ptrdiff_t>(d_.below(calls_.size())))->second;
    session* on = nullptr;
    c.by->link.for_each_session([&](const session& s) {
      if (s.id() == c.session)
        on = const_cast<session*>(&s);
    });
    require(on != nullptr, "an open call has a session");
    c.by->link.cancel(*on, c.id, errc::cancelled);
  }
  void end_session() {
    auto& p = any();
    auto* s = pick(p);
    if (s && d_.chance(50))
      p.link.close(*s);
    else if (s)
      p.link.abort(*s, errc::service_down, "the user said so");
  }
  void set_ration() {
    auto& p = any();
    auto* s = pick(p);
    if (s && d_.chance(50))
      p.link.reclaim(*s);
    else if (s)
      p.link.set_ration(*s, d_.by_magnitude(256, 16 << 10), d_.by_magnitude(1, 32));
  }
  void answer() {
    auto& p = any();
    if (p.unanswered.empty())
      return;
    auto at = p.unanswered.begin() + static_cast<std::ptrdiff_t>(d_.below(p.unanswered.size()));
    auto request = *at;
    p.unanswered.erase(at);
    p.answer(request, draw_body(32 << 10));
  }
  void pass_time() {
    pair_.now += std::chrono::microseconds{d_.by_magnitude(1, 20'000'000)};
    pair_.client.link.tick(pair_.now);
    pair_.server.link.tick(pair_.now);
  }
  void bye() {
    auto& p = any();
    if (d_.chance(80))
      p.link.go_away(errc::going_away, "maintenance");
    else
      p.link.fail(errc::shutting_down, "the user said so");
  }

  // ---- what the server is told

  /// Nearly always the end of the link, so half of the runs go without.
  void garble() {
    if ((habits_ & 128) != 0)
      return d_.chance(50) ? damage() : say_anything();
    say_control();
  }
  void damage() {
    if (auto n = pair_.to_server.size(); n != 0)
      pair_.to_server.damage(d_.below(n), static_cast<std::byte>(d_.below(256)));
  }
  void say_anything() {
    std::vector<uint8_t> bytes(d_.between(1, 32));
    for (auto& b : bytes)
      b = static_cast<uint8_t>(d_.below(256));
    pair_.to_server.push(bytes.data(), bytes.size());
  }
  /// One that the server knows, nearly always: another is the end of the link.
  const session* draw_known() {
    std::vector<const session*> all;
    pair_.server.link.for_each_session([&](const session& s) { all.push_back(&s); });
    return all.empty() ? nullptr : all[d_.below(all.size())];
  }
  uint32_t id_of(const session* s) {
    return s && d_.chance(98) ? s->id() : static_cast<uint32_t>(d_.below(20));
  }
  uint32_t draw_new_session() {
    pair_.server.link.for_each_session([&](const session& s) {
      if (!s.opened_here())
        forged_ = std::max(forged_, s.id());
    });
    forged_ += d_.chance(98) ? forged_ == 0 ? 1 : 2 : static_cast<uint32_t>(d_.below(20));
    return forged_;
  }
  uint64_t draw_number() {
    switch (d_.below(4)) {
    case 0:
      return d_.below(256);
    case 1:
      return d_.below(64 << 10);
    case 2:
      return uint64_t{1} << d_.below(64);
    default:
      return ~uint64_t{0} >> d_.below(64);
    }
  }
  /// What would be true of `s`, or near it, or anything.
  position draw_position(const session* s) {
    if (!s || d_.chance(20))
      return {draw_number(), draw_number()};
    auto p = d_.pick({s->in().received(), s->in().granted(), s->out().limit(), s->out().sent()});
    if (d_.chance(60))
      return p;
    return {p.bytes + d_.below(512) - 255, p.messages + d_.below(4) - 1};
  }
  uint32_t draw_call() {
    if (!calls_.empty() && d_.chance(50))
      return std::next(calls_.begin(), static_cast<std::ptrdiff_t>(d_.below(calls_.size())))->second.id;
    return static_cast<uint32_t>(d_.below(4) << 16 | d_.below(10));
  }
  errc draw_reason() { return static_cast<errc>(d_.below(256)); }

  void add_session_word(say::control& c) {
    auto* s = draw_known();
    switch (d_.below(7)) {
    case 0:
    case 1:
      c.opens.push_back({draw_new_session(), "echo", 0, d_.chance(30), static_cast<uint32_t>(draw_number()),
                         draw_position(s)});
      return;
    case 2:
      c.openeds.push_back({id_of(s), draw_position(s), draw_number()});
      return;
    case 3:
      c.refuseds.push_back({id_of(s), draw_reason(), "no", d_.chance(50)});
      return;
    case 4:
      c.aborts.push_back({id_of(s), draw_reason(), "no", draw_position(s)});
      return;
    case 5:
      c.closes.push_back({id_of(s), draw_position(s)});
      return;
    default:
      c.closeds.push_back({id_of(s), draw_number(), draw_position(s)});
    }
  }
  void add_credit_word(say::control& c) {
    auto* s = draw_known();
    auto epoch = static_cast<uint32_t>(d_.below(6));
    switch (d_.below(5)) {
    case 0:
      c.grants.push_back({id_of(s), epoch, draw_position(s), draw_number(), draw_reason()});
      return;
    case 1:
      c.blockeds.push_back({id_of(s), {epoch, draw_position(s), draw_number(), draw_number()}});
      return;
    case 2:
      c.reclaims.push_back({id_of(s), epoch});
      return;
    case 3:
      c.reclaimeds.push_back({id_of(s), s ? s->in().epoch() : epoch, draw_position(s)});
      return;
    default:
      c.unfundeds.push_back({id_of(s), draw_number(), draw_reason()});
    }
  }
  void add_call_word(say::control& c) {
    auto s = id_of(draw_known());
    switch (d_.below(4)) {
    case 0:
      c.cancels.push_back({s, draw_call()});
      return;
    case 1:
      c.cancelleds.push_back({s, draw_call()});
      return;
    case 2:
      c.needs.push_back({s, draw_call(), draw_number()});
      return;
    default:
      c.funds.push_back({s, draw_call(), draw_number()});
    }
  }
  void add_link_word(say::control& c) {
    switch (d_.below(6)) {
    case 0:
      c.ping = draw_number();
      return;
    case 1:
      c.pong = draw_number();
      return;
    case 2:
      c.goaway = say::goaway{draw_reason(), "bye", static_cast<uint32_t>(draw_number())};
      return;
    case 3:
      c.fin = true;
      return;
    case 4:
      c.fault = say::fault{draw_reason(), "no"};
      return;
    default:
      c.hello = say::hello{1, 1, "weir", "liar", draw_number(), 1, 0, draw_number(), 16384u << d_.below(8),
                           8, 8};
    }
  }
  void say_control() {
    say::control c;
    for (auto n = d_.between(1, 4); n > 0; --n) {
      auto what = d_.below(64);
      if (what < 26)
        add_session_word(c);
      else if (what < 46)
        add_credit_word(c);
      else if (what < 62)
        add_call_word(c);
      else
        add_link_word(c);
    }
    auto m = say::encode(c);
    frame_header h;
    h.length = m.body_bytes;
    push(h, m);
  }
  void say_data() {
    auto m = test::build_message(draw_body(4 << 10));
    frame_header h;
    h.kind = d_.chance(50) ? frame_kind::message : frame_kind::fragment;
    h.length = d_.chance(80) ? m.body_bytes : static_cast<uint32_t>(d_.below(2000) * 8);
    h.session = id_of(draw_known());
    h.flags = static_cast<uint8_t>(d_.chance(30) ? d_.below(32) : d_.below(3));
    if (h.kind == frame_kind::fragment && d_.chance(20))
      h.flags |= flag::last;
    h.ttl = static_cast<uint16_t>(d_.chance(50) ? 0 : d_.below(65536));
    h.id = d_.chance(50) ? draw_call() : 0;
    if (h.kind == frame_kind::fragment && d_.chance(60)) { // the first of a message begins with its length
      auto total = d_.chance(70) ? uint64_t{m.body_bytes} * d_.between(1, 8) : draw_number();
      std::memcpy(m.at + header_bytes, &total, sizeof total);
    }
    if (d_.chance(10))
      h.length = 0;
    push(h, m);
  }
  void push(const frame_header& h, const outgoing& m) {
    store_header(m.at, h);
    pair_.to_server.push(m.at, h.length == 0 ? header_bytes : m.size);
    if (m.more && h.length != 0)
      for (auto& p : *m.more)
        pair_.to_server.push(p.at, p.size);
  }

  // ---- what must hold

  void look() {
    for (auto* p : {&pair_.client, &pair_.server}) {
      p->fetch();
      look_at_calls(*p);
      if (auto fault = p->link.check(); !fault.empty())
        require(false, fault);
      look_at_memory(*p);
    }
  }
  void look_at_calls(test::peer& p) {
    for (auto& e : p.events) {
      if ((e.what != event::type::reply && e.what != event::type::failed) || e.call == 0)
        continue;
      auto c = calls_.find(e.token);
      require(c != calls_.end() && c->second.by == &p && c->second.id == e.call,
              "a call that is open ends, once");
      calls_.erase(c);
    }
    p.events.clear();
  }
  void look_at_memory(const test::peer& p) {
    auto& o = p.with;
    auto answers = uint64_t{o.link.sessions_max} * o.link.calls_max * cost_of(o.link.message_bytes_max);
    require(p.inbound.liability() <= o.inbound.bytes, "the budget is not exceeded");
    require(p.outbound.bytes() <= o.outbound_bytes + answers, "what waits to be sent is bounded");
    require(p.memory->alive_bytes() <= 2 * o.inbound.bytes, "reassembly takes what was funded");
    size_t theirs = 0;
    p.link.for_each_session([&](const session& s) { theirs += !s.opened_here(); });
    require(theirs <= o.link.sessions_max, "the peer has no more sessions than it may have");
  }
  void end() {
    for (auto* p : {&pair_.client, &pair_.server}) {
      p->link.lost(errc::link_lost, {});
      p->consume_all();
      while (pair_.write(*p, p == &pair_.client ? pair_.to_server : pair_.to_client)) {
      }
    }
    look();
    require(calls_.empty(), "every call has ended with its link");
    pair_.expect_base_line();
  }

  struct open_call {
    test::peer* by = nullptr;
    uint32_t session = 0, id = 0;
  };
  dice d_;
  uint64_t habits_;
  uint32_t forged_ = 0; // the last session that a made-up word has opened
  test::mux_pair pair_;
  std::map<uint64_t, open_call> calls_; // by token
  uint64_t tokens_ = 0;
};

/// Empty, or what broke.
std::string run(std::span<const uint8_t> input) {
  try {
    dice d{0};
    d.follow(input.subspan(1));
    if (input[0] % 2 == 0)
      run_honest(d);
    else
      lied_to{d}.run();
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

} // namespace
} // namespace weir::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0)
    return 0;
  GTEST_FLAG_SET(throw_on_failure, true); // mux_pair's own expectations
  std::string fault;
  // Builders keep a slab per thread from one message to the next: an input must not see that of the one
  // before.
  std::thread{[&] { fault = weir::net::run({data, size}); }}.join();
  weir::fuzz::require(fault.empty(), fault);
  return 0;
}
