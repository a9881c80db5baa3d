#include "tests/support/mux_pair.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "net/wire.capnp.h"

namespace weir::net::test {

outgoing build_message(std::string_view bytes, uint32_t reply_room_bytes) {
  message_builder b{bytes.size() + 64};
  auto e = b.initRoot<wire::Envelope>();
  e.setReplyRoom(reply_room_bytes);
  e.getBody().setAs<capnp::Data>(
      kj::arrayPtr(reinterpret_cast<const capnp::byte*>(bytes.data()), bytes.size()));
  return b.finish();
}

outgoing run_for(const session& s, const std::vector<std::string>& bodies, lane in) {
  build_message(bytes(40'000)); // a slab with room for all of it
  outgoing run;
  for (auto& b : bodies) {
    auto m = build_message(b);
    store_header(m.at, {m.body_bytes, s.id(), frame_kind::message, static_cast<uint8_t>(in), 0, 0});
    if (!run)
      run = std::move(m);
    else
      EXPECT_TRUE(run.extend(m));
  }
  return run;
}

std::string read_body(const message_view& v) {
  envelope e;
  EXPECT_TRUE(well_formed(v));
  if (!read_envelope(v, e))
    return "no envelope";
  if (e.type == failure_type())
    return to_string(read_failure(v));
  try {
    auto words = kj::arrayPtr(reinterpret_cast<const capnp::word*>(v.words), v.count);
    capnp::FlatArrayMessageReader reader{words, reader_options(v)};
    auto data = reader.getRoot<wire::Envelope>().getBody().getAs<capnp::Data>();
    return {reinterpret_cast<const char*>(data.begin()), data.size()};
  } catch (const kj::Exception& e2) {
    return e2.getDescription().cStr();
  }
}

// ---- one side

peer::peer(settings s, side which, time_point now)
    : with(std::move(s)),
      inbound(with.inbound),
      outbound(with.outbound_bytes),
      link(with.link, which, inbound, outbound, *memory, now) {}

session& peer::open(const std::string& service, bool stream, ration_options back) {
  failure why;
  open_request r;
  r.service = service;
  r.stream = stream;
  r.replies_in = back;
  auto* s = link.open(r, why);
  EXPECT_NE(s, nullptr) << to_string(why);
  return *s;
}

uint64_t peer::call(session& s, std::string_view body, call_request r) {
  r.token = ++tokens_;
  auto id = link.call(s, build_message(body, r.reply_room_bytes), r);
  EXPECT_TRUE(static_cast<bool>(id)) << to_string(id.error());
  return r.token;
}

void peer::post(session& s, std::string_view body, lane in_lane) {
  auto ok = link.post(s, build_message(body), in_lane);
  EXPECT_TRUE(static_cast<bool>(ok)) << to_string(ok.error());
}

void peer::answer(const seen& request, std::string_view body) {
  link.reply(*request.on, request.call, build_message(body));
}

void peer::consume_all() {
  for (auto& h : std::exchange(held_, {})) {
    if (h.reply)
      link.reply_died(h.cost);
    else if (h.ended)
      inbound.give(charge::session, h.cost);
    else
      link.consumed(*h.on, h.cost, 1);
  }
  fetch();
}

uint64_t peer::held_replies() const {
  uint64_t all = 0;
  for (auto& h : held_)
    all += h.reply ? h.cost : 0;
  return all;
}

uint64_t peer::held_of_ended() const {
  uint64_t all = 0;
  for (auto& h : held_)
    all += !h.reply && h.ended ? h.cost : 0;
  return all;
}

size_t peer::count(event::type t) const {
  return static_cast<size_t>(
      std::count_if(events.begin(), events.end(), [&](auto& e) { return e.what == t; }));
}

const seen* peer::last(event::type t) const {
  for (auto e = events.rbegin(); e != events.rend(); ++e)
    if (e->what == t)
      return &*e;
  return nullptr;
}

const seen* peer::end_of(uint64_t token) const {
  for (auto& e : events)
    if (e.token == token && (e.what == event::type::reply || e.what == event::type::failed))
      return &e;
  return nullptr;
}

void peer::fetch() {
  std::vector<event> out;
  while (link.has_events()) {
    link.take_events(out);
    for (auto& e : out)
      on_event(e);
    out.clear();
  }
}

void peer::on_event(event& e) {
  seen s{e.what, e.on, e.in_lane, e.call, e.token, e.cost, e.message.bytes(), e.deadline != time_point::max(),
         {},     {},   0};
  if (e.message.count != 0)
    s.body = read_body(e.message);
  if (e.why)
    s.why = *e.why;
  if (e.on)
    s.session_id = e.on->id();
  events.push_back(s);
  auto data = e.what == event::type::request || e.what == event::type::item;
  if (data || e.what == event::type::reply) {
    auto over = e.on->now() == session::state::over || e.on->now() == session::state::tombstone;
    held_.push_back({e.on, over, e.cost, !data});
  }
  if (e.what == event::type::ended) {
    for (auto& h : held_)
      h.ended = h.ended || h.on == e.on;
    std::erase_if(unanswered, [&](auto& u) { return u.on == e.on; });
  }
  if (e.what == event::type::open && accepts) {
    if (!link.accept(*e.on, with.ration, with.service_message_bytes_max, with.range))
      link.refuse(*e.on, errc::no_budget, "no budget for a ration", true);
  }
  if (e.what == event::type::request) {
    if (answers)
      link.reply(*e.on, e.call, build_message(handler(s.body)));
    else
      unanswered.push_back(s);
  }
  if (consumes)
    consume_all();
  if (e.what == event::type::resumed)
    link.tune(*e.on);
}

// ---- the pipe

void pipe::write(const iovec* v, size_t n, size_t bytes) {
  for (size_t i = 0; i < n && bytes > 0; ++i) {
    auto take = std::min(bytes, v[i].iov_len);
    push(v[i].iov_base, take);
    bytes -= take;
  }
}

void pipe::push(const void* at, size_t n) {
  auto* from = static_cast<const std::byte*>(at);
  bytes_.insert(bytes_.end(), from, from + n);
}

void pipe::deliver(peer& to, size_t n, time_point now) {
  n = std::min(n, bytes_.size());
  buffer_.resize((used_ + n + 7) / 8);
  auto* at = reinterpret_cast<std::byte*>(buffer_.data());
  std::copy_n(bytes_.begin(), n, at + used_);
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(n));
  used_ += n;
  auto taken = to.link.receive(at, used_, 16 << 10, now);
  while (taken != 0) {
    to.fetch();
    std::memmove(at, at + taken, used_ - taken);
    used_ -= taken;
    taken = used_ == 0 ? 0 : to.link.receive(at, used_, 16 << 10, now);
  }
  to.fetch();
}

// ---- both sides

mux_pair::mux_pair(peer::settings c, peer::settings s)
    : client(std::move(c), side::dialled, now), server(std::move(s), side::accepted, now) {}

void mux_pair::connect() {
  exchange();
  ASSERT_TRUE(client.link.ready());
  ASSERT_TRUE(server.link.ready());
}

bool mux_pair::write(peer& from, pipe& to) {
  if (!from.link.wants_write())
    return false;
  std::vector<iovec> v(entries_max);
  auto n = from.link.gather(v, now);
  size_t bytes = 0;
  for (size_t i = 0; i < n; ++i)
    bytes += v[i].iov_len;
  bytes = std::min({bytes, to.room(), write_bytes});
  to.write(v.data(), n, bytes);
  from.link.wrote(bytes);
  from.fetch();
  return bytes != 0;
}

bool mux_pair::step() {
  auto moved = write(client, to_server);
  moved = write(server, to_client) || moved;
  moved = moved || to_server.size() != 0 || to_client.size() != 0;
  if (to_server.size() != 0)
    to_server.deliver(server, read_bytes, now);
  if (to_client.size() != 0)
    to_client.deliver(client, read_bytes, now);
  if (checks)
    expect_invariants();
  return moved;
}

void mux_pair::exchange() {
  client.fetch();
  server.fetch();
  while (step()) {
  }
}

void mux_pair::advance(duration d, duration by) {
  for (auto until = now + d; now < until;) {
    now = std::min(now + by, until);
    client.link.tick(now);
    server.link.tick(now);
    exchange();
  }
}

void mux_pair::expect_invariants() {
  EXPECT_EQ(client.link.check(), "") << "of the client";
  EXPECT_EQ(server.link.check(), "") << "of the server";
}

void mux_pair::expect_base_line() {
  for (auto* p : {&client, &server}) {
    auto* who = p == &client ? "the client" : "the server";
    for (size_t i = 0; i < charges; ++i)
      EXPECT_EQ(p->inbound.charged(static_cast<charge>(i)), 0u)
          << who << " owes for " << to_string(static_cast<charge>(i));
    EXPECT_EQ(p->inbound.liability(), p->with.inbound.reserve_bytes) << who;
    EXPECT_EQ(p->outbound.bytes(), 0u) << who;
  }
}

peer::settings client_settings() {
  peer::settings s;
  s.link.node = {1, 1};
  s.link.node_name = "client";
  s.link.message_bytes_max = 4 << 20;
  return s;
}

peer::settings server_settings() {
  auto s = client_settings();
  s.link.node = {2, 2};
  s.link.node_name = "server";
  return s;
}

peer::settings with_budget(peer::settings s, uint64_t pool, uint64_t reserve) {
  s.inbound = {pool + reserve, reserve};
  return s;
}

} // namespace weir::net::test
