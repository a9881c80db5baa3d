#include "lied_to.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/require.hpp"
#include "tests/simulation/wire.hpp"

namespace weir::fuzz {

using namespace net;
using type = event::type;

namespace {
enum habit : uint64_t {
  client_lends = 1 << 0, // a ration that most messages fit into
  server_lends = 1 << 1,
  consumes = 1 << 2, // at once
  answers = 1 << 3,
  hello_later = 1 << 4,
  writes_at_once = 1 << 5,
  client_is_lied_to = 1 << 6,
  forges = 1 << 7,
  garbles = 1 << 8,
  no_lies = 3 << 9, // both bits
};

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

/// With MUX_TRACE set, for whoever looks for a fault.
void trace(const char* who, const frame& f) {
  static const auto* wanted = std::getenv("MUX_TRACE");
  if (!wanted || f.bytes() < header_bytes)
    return;
  say::control c;
  std::string why;
  auto words = f.is_control() && say::decode(f.body(), c, why) == errc::none ? sim::in_words(c)
                                                                             : sim::in_words(f.header());
  std::fprintf(stderr, "%s %s\n", who, words.c_str());
}

/// What only a peer does that breaks the rules.
bool is_violation(errc e) {
  switch (e) {
  case errc::bad_state:
  case errc::credit_exceeded:
  case errc::malformed_message:
  case errc::malformed_frame:
  case errc::malformed_control:
  case errc::message_too_large:
  case errc::frame_too_large:
  case errc::control_too_large:
  case errc::grant_overflow:
  case errc::too_many_calls:
  case errc::too_many_sessions:
  case errc::unknown_session:
    return true;
  default:
    return false;
  }
}
} // namespace

lied_to::end::end(test::peer::settings s, side which, time_point now)
    : peer(std::move(s), which, now), seen(which == side::dialled ? "the client" : "the server", which) {}

lied_to::lied_to(dice d)
    : d_(d),
      habits_(d_.below(1 << 11)),
      client_(small(test::client_settings(), (habits_ & client_lends) != 0), side::dialled, now_),
      server_(small(test::server_settings(), (habits_ & server_lends) != 0), side::accepted, now_),
      victim_((habits_ & client_is_lied_to) != 0 ? client_ : server_),
      peer_(other(victim_)),
      liar_(d_, victim_.peer, (habits_ & forges) != 0),
      write_bytes_((habits_ & writes_at_once) != 0 ? SIZE_MAX : 100),
      entries_max_((habits_ & writes_at_once) != 0 ? 64 : 3) {
  for (auto* e : {&client_, &server_}) {
    e->peer.consumes = (habits_ & consumes) != 0;
    e->peer.answers = (habits_ & answers) != 0;
  }
  if ((habits_ & hello_later) == 0)
    while (move_all()) {
    }
}

void lied_to::run() {
  while (d_.follows() && !client_.peer.link.is_down() && !server_.peer.link.is_down()) {
    act();
    look();
  }
  settle();
  expect_base_line();
}

// ---- bytes

/// One write of `from`. False: there was nothing.
bool lied_to::write(end& from) {
  if (!from.peer.link.wants_write())
    return false;
  std::vector<iovec> v(entries_max_);
  auto n = from.peer.link.gather(v, now_);
  auto left = write_bytes_;
  size_t wrote = 0;
  for (size_t i = 0; i < n && left != 0; ++i) {
    auto take = std::min(left, v[i].iov_len);
    from.cut.feed(static_cast<const std::byte*>(v[i].iov_base), take, [&](frame f) {
      trace(&from == &client_ ? "client says" : "server says", f);
      if (!garbled_)
        from.seen.said(f);
      auto passes = &from == &victim_ ? liar_.without_forged(std::move(f)) : std::vector<frame>{std::move(f)};
      for (auto& p : passes)
        from.waiting.push_back(std::move(p));
    });
    left -= take;
    wrote += take;
  }
  from.peer.link.wrote(wrote);
  from.peer.fetch();
  return wrote != 0;
}

/// Gives the other side the next `n` bytes. False: there were none.
bool lied_to::deliver(end& from, size_t n) {
  while (from.on_the_way.size() < n && !from.waiting.empty()) {
    auto f = std::move(from.waiting.front());
    from.waiting.pop_front();
    from.on_the_way.push(f.at(), f.bytes());
    from.pushed += f.bytes();
    from.passing.emplace_back(from.pushed, std::move(f));
  }
  n = std::min(n, from.on_the_way.size());
  if (n == 0)
    return false;
  auto& to = other(from);
  from.delivered += n;
  for (; !from.passing.empty() && from.passing.front().first <= from.delivered; from.passing.pop_front()) {
    trace(&to == &client_ ? "client hears" : "server hears", from.passing.front().second);
    to.seen.heard(from.passing.front().second);
  }
  from.on_the_way.deliver(to.peer, n, now_);
  return true;
}

/// False: nothing moved.
bool lied_to::move_all() {
  auto moved = false;
  for (auto* e : {&client_, &server_}) {
    moved = write(*e) || moved;
    moved = deliver(*e, 64 << 10) || moved;
    look();
  }
  return moved;
}

// ---- the script

void lied_to::act() {
  auto what = d_.below(24);
  if (what < 11)
    return act_user(what);
  if (what < 13)
    return void(write(what == 11 ? client_ : server_));
  if (what < 15)
    return void(deliver(what == 13 ? client_ : server_, d_.by_magnitude(1, 16 << 10)));
  if (what < 17)
    return void(move_all());
  if ((habits_ & no_lies) == no_lies)
    return pass_time();
  lie(what);
}

void lied_to::act_user(uint64_t what) {
  switch (what) {
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
    return any().peer.consume_all();
  case 8:
    return answer();
  case 9:
    return pass_time();
  default:
    return d_.chance(20) ? bye() : post();
  }
}

// ---- what users do

session* lied_to::pick(end& e) {
  std::vector<const session*> all;
  e.peer.link.for_each_session([&](const session& s) { all.push_back(&s); });
  // The mux shows its sessions only to look at; a user has the same ones from its events.
  return all.empty() ? nullptr : const_cast<session*>(all[d_.below(all.size())]);
}

void lied_to::open() {
  auto& e = any();
  if (&e == &peer_ && !liar_.forged().empty())
    return; // the victim knows later ones: the end of the link
  open_request r;
  r.service = "echo";
  r.stream = d_.chance(30);
  if (d_.chance(30))
    r.replies_in = {4 << 10, 8, 4};
  failure why;
  e.peer.link.open(r, why);
}

void lied_to::call() {
  auto& e = any();
  auto* s = pick(e);
  if (!s)
    return open();
  call_request r;
  r.token = ++tokens_;
  r.reply_room_bytes = d_.chance(70) ? 0 : static_cast<uint32_t>(d_.by_magnitude(1, 16 << 10));
  r.in_lane = d_.chance(80) ? lane::normal : lane::bulk;
  if (d_.chance(30))
    r.deadline = now_ + std::chrono::milliseconds{d_.by_magnitude(1, 4000)};
  auto m = test::build_message(std::string(d_.by_magnitude(0, 32 << 10), 'b'), r.reply_room_bytes);
  auto id = e.peer.link.call(*s, std::move(m), r);
  if (!id)
    return;
  calls_[r.token] = {&e, s->id(), *id};
  liar_.note_call(s->id(), *id);
}

void lied_to::post() {
  auto& e = any();
  auto* s = pick(e);
  if (!s)
    return open();
  auto in_lane = d_.chance(70) ? lane::normal : lane::bulk;
  auto body = std::string(d_.by_magnitude(0, 32 << 10), 'b');
  if (d_.chance(20) && !e.peer.link.want_credit(*s, cost_of(body.size() + 64)))
    return;
  e.peer.link.post(*s, test::build_message(body), in_lane);
}

void lied_to::cancel() {
  if (calls_.empty())
    return;
  auto c = std::next(calls_.begin(), static_cast<std::ptrdiff_t>(d_.below(calls_.size())))->second;
  session* on = nullptr;
  c.by->peer.link.for_each_session([&](const session& s) {
    if (s.id() == c.session)
      on = const_cast<session*>(&s);
  });
  require(on != nullptr, "an open call has a session");
  c.by->peer.link.cancel(*on, c.id, errc::cancelled);
}

void lied_to::end_session() {
  auto& e = any();
  auto* s = pick(e);
  if (s && d_.chance(50))
    e.peer.link.close(*s);
  else if (s)
    e.peer.link.abort(*s, errc::service_down, "the user said so");
}

void lied_to::set_ration() {
  auto& e = any();
  auto* s = pick(e);
  if (s && d_.chance(50))
    e.peer.link.reclaim(*s);
  else if (s)
    e.peer.link.set_ration(*s, d_.by_magnitude(256, 16 << 10), d_.by_magnitude(1, 32));
}

void lied_to::answer() {
  auto& p = any().peer;
  if (p.unanswered.empty())
    return;
  auto at = p.unanswered.begin() + static_cast<std::ptrdiff_t>(d_.below(p.unanswered.size()));
  auto request = *at;
  p.unanswered.erase(at);
  p.answer(request, std::string(d_.by_magnitude(0, 32 << 10), 'a'));
}

void lied_to::pass_time() {
  auto longest = d_.chance(10) ? 20'000'000 : 500'000; // the first of them ends most links
  now_ += std::chrono::microseconds{d_.by_magnitude(1, static_cast<uint64_t>(longest))};
  client_.peer.link.tick(now_);
  server_.peer.link.tick(now_);
}

void lied_to::bye() {
  auto& link = any().peer.link;
  if (d_.chance(80))
    link.go_away(errc::going_away, "maintenance");
  else
    link.fail(errc::shutting_down, "the user said so");
}

// ---- what the victim is told

void lied_to::lie(uint64_t what) {
  if (!liar_.knows_any() && d_.chance(90))
    return open(); // a word about none is the end of the link
  if (what < 20)
    return tell({liar_.control()});
  if (what < 22)
    return tell({liar_.data()});
  if (what == 23 && (habits_ & garbles) != 0)
    return garble();
  if (peer_.waiting.empty())
    return;
  auto at = d_.below(peer_.waiting.size());
  auto changed = liar_.change(std::move(peer_.waiting[at]));
  peer_.waiting.erase(peer_.waiting.begin() + static_cast<std::ptrdiff_t>(at));
  for (; !changed.empty();
       changed.pop_back()) // one by one: a deque moves to themselves what is before nothing
    peer_.waiting.insert(peer_.waiting.begin() + static_cast<std::ptrdiff_t>(at), std::move(changed.back()));
}

void lied_to::tell(std::vector<frame> lies) {
  auto first = peer_.pushed == 0; // the preamble must be before it
  for (auto& f : lies)
    if (first || d_.chance(60))
      peer_.waiting.push_back(std::move(f));
    else
      peer_.waiting.push_front(std::move(f));
}

/// Bytes that are no frames: nearly always the end of the link.
void lied_to::garble() {
  garbled_ = true;
  if (d_.chance(50)) {
    if (auto n = peer_.on_the_way.size(); n != 0)
      peer_.on_the_way.damage(d_.below(n), static_cast<std::byte>(d_.below(256)));
    return;
  }
  std::vector<uint8_t> bytes(d_.between(1, 32));
  for (auto& b : bytes)
    b = static_cast<uint8_t>(d_.below(256));
  peer_.on_the_way.push(bytes.data(), bytes.size());
}

// ---- what must hold

void lied_to::look() {
  for (auto* e : {&client_, &server_}) {
    e->peer.fetch();
    look_at_events(*e);
    if (auto fault = e->peer.link.check(); !fault.empty())
      require(false, fault);
    if (!garbled_ && e->peer.link.ready() && !e->peer.link.wants_write())
      e->seen.quiet();
    look_at_memory(*e);
    look_at_ledgers(*e);
  }
}

/// No lie was told of it, or of the link as a whole.
bool lied_to::honest(uint32_t session) const {
  return !garbled_ && !liar_.touched_link() && !liar_.touched(session);
}

void lied_to::look_at_events(end& e) {
  for (auto& x : e.peer.events) {
    if (!garbled_)
      e.seen.told(x);
    if (x.what == type::ended)
      look_at_end(e, x);
    if (x.what == type::down && liar_.touched_none() && !garbled_)
      require(!is_violation(x.why.code), "a link fails of which no lie was told: " + to_string(x.why));
    if ((x.what != type::reply && x.what != type::failed) || x.call == 0)
      continue;
    auto c = calls_.find(x.token);
    require(c != calls_.end() && c->second.by == &e && c->second.id == x.call,
            "a call that is open ends, once");
    if (x.what == type::reply)
      require(x.cost >= cost_of(x.message_bytes), "an answer is paid by its call");
    calls_.erase(c);
  }
  e.peer.events.clear();
}

void lied_to::look_at_end(end& e, const test::seen& ended) {
  for (auto& [token, c] : calls_)
    require(c.by != &e || c.session != ended.session_id, "every call has ended before its session");
  if (honest(ended.session_id) && !e.peer.link.is_down())
    require(!is_violation(ended.why.code),
            "a session fails of which no lie was told: " + to_string(ended.why));
}

void lied_to::look_at_memory(const end& e) {
  auto& p = e.peer;
  auto& o = p.with;
  auto answers = uint64_t{o.link.sessions_max} * o.link.calls_max * cost_of(o.link.message_bytes_max);
  require(p.inbound.liability() <= o.inbound.bytes, "the budget is not exceeded");
  require(p.outbound.bytes() <= o.outbound_bytes + answers, "what waits to be sent is bounded");
  require(p.memory->alive_bytes() <= 2 * o.inbound.bytes, "reassembly takes what was funded");
  size_t theirs = 0;
  p.link.for_each_session([&](const session& s) { theirs += !s.opened_here(); });
  require(theirs <= o.link.sessions_max, "the peer has no more sessions than it may have");
}

/// The ledgers are what the sessions owe, and what is held of those that are over.
void lied_to::look_at_ledgers(const end& e) {
  auto& p = e.peer;
  uint64_t owed = p.held_of_ended(), queued = 0;
  size_t calls = 0, to_answer = 0;
  p.link.for_each_session([&](const session& s) {
    auto& in = s.in();
    if (s.now() == session::state::tombstone)
      owed += in.granted().bytes - in.received().bytes;
    else if (s.now() != session::state::over)
      owed += std::max(in.options().bytes, in.liability());
    auto live = s.now() != session::state::tombstone && s.now() != session::state::over;
    require(garbled_ || !live || e.seen.taken(s.id()).within(in.received()),
            "its user gets what it received");
    queued += s.queued_bytes();
    calls += s.calls_open();
    to_answer += s.answers_open();
  });
  require(p.inbound.charged(charge::session) + p.inbound.charged(charge::large) == owed,
          "the ledger is the sum of what sessions owe");
  if (calls == 0)
    require(p.inbound.charged(charge::reply_room) == p.held_replies(),
            "nothing is paid for answers to no call");
  if (to_answer == 0 && !p.link.wants_write())
    require(p.outbound.bytes() == queued, "the outbound ledger is what is queued");
}

// ---- the end

/// No more lies, and every user lets go: what no lie was told of comes to its end.
void lied_to::settle() {
  for (auto* e : {&client_, &server_}) {
    e->peer.consumes = e->peer.answers = true;
    e->peer.consume_all();
  }
  auto until = now_ + std::chrono::seconds{60};
  while (link_lives() && now_ < until) {
    settle_once();
    size_t left = 0;
    for (auto* e : {&client_, &server_})
      e->peer.link.for_each_session([&](const session&) { ++left; });
    if (left == 0)
      break;
    now_ = std::max(now_, std::min(client_.peer.link.next_tick(), server_.peer.link.next_tick()));
    client_.peer.link.tick(now_);
    server_.peer.link.tick(now_);
  }
  if (link_lives())
    expect_settled();
}

void lied_to::settle_once() {
  for (auto* e : {&client_, &server_}) {
    for (auto& request : std::exchange(e->peer.unanswered, {}))
      e->peer.answer(request, "at last");
    std::vector<session*> all;
    e->peer.link.for_each_session([&](const session& s) { all.push_back(const_cast<session*>(&s)); });
    for (auto* s : all)
      e->peer.link.close(*s);
  }
  for (auto& f : liar_.last_words())
    peer_.waiting.push_back(std::move(f));
  while (link_lives() && move_all()) {
  }
}

void lied_to::expect_settled() {
  for (auto* e : {&client_, &server_})
    e->peer.link.for_each_session([&](const session& s) {
      auto settled = !honest(s.id()) && !(e == &victim_ && liar_.forged(s.id()) && !garbled_);
      require(settled, "session " + std::to_string(s.id()) + " does not end, in state " +
                           std::to_string(static_cast<int>(s.now())));
    });
}

void lied_to::expect_base_line() {
  for (auto* e : {&client_, &server_}) {
    e->peer.link.lost(errc::link_lost, {});
    e->peer.consume_all();
    while (write(*e)) {
    }
  }
  look();
  require(calls_.empty(), "every call has ended with its link");
  for (auto* e : {&client_, &server_}) {
    for (size_t i = 0; i < charges; ++i)
      require(e->peer.inbound.charged(static_cast<charge>(i)) == 0, "nothing is owed in the end");
    require(e->peer.inbound.liability() == e->peer.with.inbound.reserve_bytes,
            "the reserve is whole in the end");
    require(e->peer.outbound.bytes() == 0, "nothing is charged as outbound in the end");
  }
}

} // namespace weir::fuzz
