// A peer that breaks the rules: the bytes of an honest one, with some of them changed. Nothing may crash,
// every invariant holds, and the budget comes back to the base line.
#include <cstring>

#include <gtest/gtest.h>

#include "world.hpp"

namespace weir::net::sim {
namespace {

/// What the dialling side of a lively link wrote.
std::vector<std::byte> honest_bytes() {
  auto p = quiet_plan();
  p.nodes[0].link.fragment_bytes = 512;
  p.nodes[0].users.unread_percent = 0;
  world w{p};
  w.ports[0]->out.records = true;
  w.connect();
  auto &calls = w.open(), &stream = w.open(0, true);
  w.flow();
  for (uint32_t i = 0; i < 20; ++i) {
    auto token = w.call(calls, {.body_bytes = i * 100, .timeout = std::chrono::seconds{1}});
    w.post(stream, i * 150, i % 2 == 0 ? lane::normal : lane::bulk);
    if (i % 5 == 0)
      w.at(0).cancel(token);
    if (i % 3 == 0)
      w.flow();
  }
  w.abort(w.open(0, true));
  w.close(stream);
  w.flow();
  auto bytes = w.ports[0]->out.recorded_bytes;
  w.finish();
  return bytes;
}

/// The frames of it, the preamble first.
std::vector<std::vector<std::byte>> frames_of(const std::vector<std::byte>& bytes) {
  std::vector<std::vector<std::byte>> frames;
  for (size_t at = 0; at < bytes.size();) {
    auto n = at == 0 ? preamble_bytes : header_bytes + load_header(bytes.data() + at).length;
    frames.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + n));
    at += n;
  }
  return frames;
}

/// Changes bits, words, or the order of frames.
std::vector<std::byte> mutate(std::vector<std::vector<std::byte>> frames, dice& d) {
  for (auto n = d.below(4); n > 0; --n) {
    auto from = d.between(1, frames.size() - 1), to = d.between(1, frames.size() - 1);
    if (d.chance(50))
      std::swap(frames[from], frames[to]);
    else
      frames.insert(frames.begin() + static_cast<std::ptrdiff_t>(to), std::vector<std::byte>{frames[from]});
  }
  for (auto n = d.below(4); n > 0; --n) {
    auto& f = frames[d.below(frames.size())];
    auto at = d.chance(50) ? d.below(f.size()) : d.below(std::min<size_t>(f.size(), header_bytes));
    if (d.chance(50))
      f[at] ^= std::byte{1} << d.below(8);
    else
      f[at] = static_cast<std::byte>(d.next());
  }
  std::vector<std::byte> bytes;
  for (auto& f : frames)
    bytes.insert(bytes.end(), f.begin(), f.end());
  return bytes;
}

/// A node with a user that takes everything, answers at once and gives back at once.
class victim {
public:
  explicit victim(time_point now)
      : now_(now), link_{options(), side::accepted, inbound_, outbound_, *reassembly_, now} {}

  void read(const std::vector<std::byte>& bytes, dice& d) {
    receive_buffer in{*memory_};
    for (size_t at = 0; at < bytes.size() && !link_.is_down();) {
      auto n = std::min<size_t>(bytes.size() - at, d.by_magnitude(1, 8 << 10));
      auto wanted = link_.wanted_bytes();
      std::memcpy(in.prepare(n, wanted), bytes.data() + at, n);
      in.commit(n);
      at += n;
      for (size_t taken = 1; taken != 0 && in.size() != 0;) {
        taken = link_.receive(in.data(), in.size(), 4 << 10, now_);
        in.taken(taken);
        act();
      }
      write();
    }
  }
  void end() {
    link_.lost(errc::link_lost, {});
    act();
    write();
    for (size_t i = 0; i < charges; ++i)
      ASSERT_EQ(inbound_.charged(static_cast<charge>(i)), 0u) << to_string(static_cast<charge>(i));
    ASSERT_EQ(outbound_.bytes(), 0u);
  }

private:
  static link_options options() {
    link_options o;
    o.node = {9, 9};
    o.message_bytes_max = 64 << 10;
    o.sessions_max = 8;
    o.calls_max = 16;
    return o;
  }
  void act() {
    std::vector<event> events;
    while (link_.has_events()) {
      events.clear();
      link_.take_events(events);
      for (auto& e : events)
        on_event(e);
    }
    ASSERT_EQ(link_.check(), "");
    ASSERT_LE(inbound_.liability(), inbound_.options().bytes);
  }
  void on_event(event& e) {
    if (e.what == event::type::open && !link_.accept(*e.on, {8 << 10, 32, 4}))
      link_.refuse(*e.on, errc::no_budget, "full", true);
    if (e.what == event::type::request)
      link_.reply_failure(*e.on, e.call, {errc::handler_failed, outcome::unknown, "no"});
    if (e.what != event::type::request && e.what != event::type::item)
      return;
    link_.consumed(*e.on, e.cost, 1); // also when its session is over by now
  }
  void write() {
    std::array<iovec, 16> v;
    while (link_.wants_write()) {
      auto n = link_.gather(v, now_);
      size_t bytes = 0;
      for (size_t i = 0; i < n; ++i)
        bytes += v[i].iov_len;
      link_.wrote(bytes);
      act();
    }
  }

  time_point now_;
  budget inbound_{{1 << 20, 256 << 10}};
  outbound_ledger outbound_{1 << 20};
  slab_pool_owner memory_{false}, reassembly_{false};
  mux link_;
};

TEST(Hostile, BytesThatAreNotWhatAnHonestPeerSaysCostItsSessionOrItsLinkAndNothingElse) {
  auto frames = frames_of(honest_bytes());
  ASSERT_GT(frames.size(), 40u);
  for (uint64_t seed = 1; seed <= 4000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice d{seed};
    victim v{time_point{std::chrono::hours{1}}};
    v.read(mutate(frames, d), d);
    v.end();
  }
}

} // namespace
} // namespace weir::net::sim
