#include "credit_log.hpp"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "node.hpp"

namespace weir::net::sim {

std::unique_ptr<credit_log> credit_log::from_environment() {
  auto* path = std::getenv("SIM_CREDIT");
  if (!path)
    return nullptr;
  auto* file = std::fopen(path, "w");
  if (!file)
    throw broken{std::string{"SIM_CREDIT: cannot write "} + path};
  return std::make_unique<credit_log>(file);
}

credit_log::~credit_log() {
  for (auto& [key, d] : directions_)
    fmt::print(to_, "N{}\n{}", std::get<2>(key), d.events);
  fmt::print(to_, ".\n");
  std::fclose(to_);
}

credit_log::direction& credit_log::of(const port& sender, uint32_t session) {
  return directions_[{sender.index, ears_[sender.index].dial, session}];
}

void credit_log::dialled(const port& a, const port& b) {
  for (auto* p : {&a, &b}) {
    auto dial = ears_[p->index].dial + 1;
    ears_[p->index] = {dial, false, {}};
  }
}

void credit_log::heard(const port& p, const std::byte* at, size_t n) {
  size_t used = 0;
  if (n != 0 && !std::exchange(ears_[p.index].preamble, true))
    used = preamble_bytes;
  while (used + header_bytes <= n) {
    auto h = load_header(at + used);
    auto* body = at + used + header_bytes;
    if (h.kind == frame_kind::control)
      heard_control(p, h, body);
    else if (h.frame_lane() != lane::reply)
      heard_data(p, h);
    used += header_bytes + h.length;
  }
}

void credit_log::heard_data(const port& p, const frame_header& h) {
  auto first = true;
  uint64_t bytes = h.length;
  if (h.kind == frame_kind::fragment) {
    auto& under_way = ears_[p.index].in_fragments[{h.session, h.frame_lane()}];
    first = !under_way;
    under_way = (h.flags & flag::last) == 0;
    if (first)
      bytes -= fragment_prefix_bytes;
  }
  if ((h.flags & flag::void_) == 0)
    of(*p.peer, h.session).events += fmt::format("A{},{}\n", first ? cost_of(bytes) : bytes, first ? 1 : 0);
}

void credit_log::heard_control(const port& p, const frame_header& h, const std::byte* body) {
  say::control c;
  std::string why;
  std::vector<uint64_t> words(h.length / 8);
  std::memcpy(words.data(), body, h.length);
  if (say::decode({words.data(), h.length / 8}, c, why) != errc::none)
    throw broken{"control that cannot be read: " + why};
  auto grant = [&](uint32_t session, uint32_t epoch, const position& to) {
    of(p, session).events += fmt::format("g{},{},{}\n", epoch, to.bytes, to.messages);
  };
  for (auto& o : c.opens)
    grant(o.session, 0, o.limit);
  for (auto& o : c.openeds)
    grant(o.session, 0, o.limit);
  for (auto& g : c.grants)
    grant(g.session, g.epoch, g.limit);
  for (auto& b : c.blockeds)
    of(*p.peer, b.session).events += fmt::format("b{},{},{},{}\n", b.state.epoch, b.state.limit.bytes,
                                                 b.state.limit.messages, b.state.need);
  for (auto& r : c.reclaims)
    of(p, r.session).events += fmt::format("r{},{},{}\n", r.epoch, 16384, 16);
  for (auto& r : c.reclaimeds)
    of(*p.peer, r.session).events += fmt::format("R{},{},{}\n", r.epoch, r.limit.bytes, r.limit.messages);
  heard_ends(p, c);
}

void credit_log::heard_ends(const port& p, const say::control& c) {
  auto final = [&](auto& list) {
    for (auto& x : list)
      of(*p.peer, x.session).events += fmt::format("S{},{}\n", x.final.bytes, x.final.messages);
  };
  final(c.aborts);
  final(c.closes);
  final(c.closeds);
}

void credit_log::look(const port& p) {
  if (p.down)
    return;
  auto news = [](direction& d, std::string& last, std::string state) {
    if (last != state)
      d.events += last = std::move(state);
  };
  p.link->for_each_session([&](const session& s) {
    if (s.now() == session::state::over)
      return;
    auto& in = s.in();
    auto w = in.options();
    auto& to_us = of(*p.peer, s.id());
    news(to_us, to_us.state_in,
         fmt::format("I{},{},{},{},{},{},{},{},{},{}\n", in.received().bytes, in.received().messages,
                     in.consumed().bytes, in.consumed().messages, in.granted().bytes, in.granted().messages,
                     in.epoch(), in.is_reclaiming() ? 1 : 0,
                     std::max(in.consumed().bytes + w.bytes, in.funded_bytes()),
                     in.consumed().messages + w.messages));
    if (s.now() == session::state::tombstone)
      return;
    auto& out = s.out();
    auto& from_us = of(p, s.id());
    news(from_us, from_us.state_out,
         fmt::format("O{},{},{},{},{}\n", out.sent().bytes, out.sent().messages, out.limit().bytes,
                     out.limit().messages, out.epoch()));
  });
}

} // namespace weir::net::sim
