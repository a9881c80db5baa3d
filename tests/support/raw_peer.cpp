#include "tests/support/raw_peer.hpp"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

namespace weir::net::test {

raw_peer::raw_peer(peer::settings s) : host(std::move(s), side::accepted, now) {}

void raw_peer::bytes(const void* at, size_t n) {
  auto* from = static_cast<const std::byte*>(at);
  out_.insert(out_.end(), from, from + n);
  in_.resize((out_.size() + 7) / 8);
  std::memcpy(in_.data(), out_.data(), out_.size());
  auto* to = reinterpret_cast<std::byte*>(in_.data());
  auto taken = host.link.receive(to, out_.size(), out_.size(), now);
  host.fetch();
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(taken));
  EXPECT_EQ(host.link.check(), "");
}

void raw_peer::preamble() {
  std::array<std::byte, preamble_bytes> p{};
  write_preamble(p.data());
  bytes(p.data(), p.size());
}

say::hello raw_peer::hello_fields() const {
  say::hello h;
  h.cluster = "weir";
  h.name = "by hand";
  h.node_high = 7;
  h.message_max = 4 << 20;
  h.frame_max = 80 << 10;
  h.sessions_max = 1000;
  h.calls_max = 1000;
  return h;
}

void raw_peer::control(const say::control& c) {
  auto m = say::encode(c);
  frame_header h;
  h.length = m.body_bytes;
  std::vector<uint64_t> body(m.body_bytes / 8);
  std::memcpy(body.data(), m.at + header_bytes, m.size - header_bytes);
  if (m.more) { // put the pieces behind each other
    auto* to = reinterpret_cast<std::byte*>(body.data()) + m.size - header_bytes;
    for (auto& p : *m.more)
      std::memcpy(std::exchange(to, to + p.size), p.at, p.size);
  }
  frame(h, body);
}

void raw_peer::hello() {
  preamble();
  say::control c;
  c.hello = hello_fields();
  control(c);
  ASSERT_TRUE(host.link.ready());
}

void raw_peer::frame(frame_header h, const std::vector<uint64_t>& body) {
  std::vector<uint64_t> whole(header_bytes / 8 + body.size());
  std::memcpy(whole.data(), &h, sizeof h);
  if (!body.empty())
    std::memcpy(whole.data() + 2, body.data(), body.size() * 8);
  bytes(whole.data(), whole.size() * 8);
}

void raw_peer::message(uint32_t session, uint32_t call, size_t n, lane in_lane) {
  auto m = build_message(std::string(n, 'x'));
  ASSERT_FALSE(m.more);
  frame_header h;
  h.length = m.body_bytes;
  h.session = session;
  h.kind = frame_kind::message;
  h.flags = static_cast<uint8_t>(in_lane);
  h.id = call;
  std::vector<uint64_t> body(m.body_bytes / 8);
  std::memcpy(body.data(), m.at + header_bytes, m.body_bytes);
  frame(h, body);
}

void raw_peer::first_fragment(uint32_t session, uint64_t total, size_t slice, uint8_t flags, uint32_t call) {
  std::vector<uint64_t> body(1 + slice / 8);
  body[0] = total;
  frame({static_cast<uint32_t>(body.size() * 8), session, frame_kind::fragment, flags, 0, call}, body);
}

void raw_peer::fragment(uint32_t session, size_t slice, uint8_t flags, uint32_t call) {
  frame({static_cast<uint32_t>(slice), session, frame_kind::fragment, flags, 0, call},
        std::vector<uint64_t>(slice / 8));
}

session& raw_peer::open(uint32_t id, bool stream) {
  say::control c;
  c.opens.push_back({id, "echo", 0, stream, 4096, {1 << 20, 1000}});
  control(c);
  auto* e = host.last(event::type::open);
  EXPECT_NE(e, nullptr);
  EXPECT_EQ(e->on->id(), id);
  return *e->on;
}

void raw_peer::collect() {
  std::vector<std::byte> all;
  std::array<iovec, 64> v;
  while (host.link.wants_write()) {
    auto n = host.link.gather(v, now);
    size_t total = 0;
    for (size_t i = 0; i < n; ++i) {
      auto* at = static_cast<const std::byte*>(v[i].iov_base);
      all.insert(all.end(), at, at + v[i].iov_len);
      total += v[i].iov_len;
    }
    host.link.wrote(total);
    host.fetch();
    if (n == 0)
      break;
  }
  std::vector<uint64_t> words(all.size() / 8 + 1);
  if (!all.empty())
    std::memcpy(words.data(), all.data(), all.size());
  auto* at = reinterpret_cast<const std::byte*>(words.data());
  size_t used = 0;
  if (!all.empty() && !std::exchange(preamble_read_, true))
    used = preamble_bytes;
  while (used < all.size()) {
    auto h = load_header(at + used);
    frames.push_back(h);
    used += header_bytes;
    if (h.kind == frame_kind::control) {
      say::control c;
      std::string why;
      EXPECT_EQ(say::decode({reinterpret_cast<const uint64_t*>(at + used), h.length / 8}, c, why), errc::none)
          << why;
      auto add = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
      add(all_.opens, c.opens), add(all_.openeds, c.openeds), add(all_.refuseds, c.refuseds),
          add(all_.grants, c.grants);
      add(all_.blockeds, c.blockeds), add(all_.reclaims, c.reclaims), add(all_.reclaimeds, c.reclaimeds);
      add(all_.aborts, c.aborts), add(all_.closes, c.closes), add(all_.closeds, c.closeds),
          add(all_.cancels, c.cancels);
      add(all_.cancelleds, c.cancelleds), add(all_.needs, c.needs), add(all_.funds, c.funds);
      add(all_.unfundeds, c.unfundeds);
      if (c.hello)
        all_.hello = c.hello;
      if (c.goaway)
        all_.goaway = c.goaway;
      if (c.fault)
        all_.fault = c.fault;
      if (c.ping)
        all_.ping = c.ping;
      if (c.pong)
        all_.pong = c.pong;
      all_.fin = all_.fin || c.fin;
    }
    used += h.length;
  }
}

session& raw_peer::two_sessions() {
  hello();
  auto& harmed = open(1);
  open(3);
  said();
  return harmed;
}

void raw_peer::expect_lives() {
  EXPECT_FALSE(host.link.is_down());
  EXPECT_EQ(host.memory->alive_bytes(), 0u);
  auto before = host.count(event::type::item);
  message(3, 0, 10);
  EXPECT_EQ(host.count(event::type::item), before + 1);
}

say::control raw_peer::said() {
  collect();
  return std::exchange(all_, {});
}

errc raw_peer::fault() {
  collect();
  return all_.fault ? all_.fault->reason : errc::none;
}

errc raw_peer::abort_of(uint32_t id) {
  collect();
  for (auto& a : all_.aborts)
    if (a.session == id)
      return a.reason;
  return errc::none;
}

} // namespace weir::net::test
