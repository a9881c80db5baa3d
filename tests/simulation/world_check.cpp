// What must hold after each event, and who waits for what.
#include <algorithm>

#include <fmt/format.h>

#include "world.hpp"

namespace weir::net::sim {

void world::touch(port& p) {
  p.of->fetch(p);
  if (credit_)
    credit_->look(p);
  check(p);
}

void world::check(port& p) {
  if (auto fault = p.link->check(); !fault.empty())
    throw broken{fmt::format("port {}: {}", p.index, fault)};
  if (auto fault = p.of->check(); !fault.empty())
    throw broken{fault};
  check_conversations(p);
}

/// What one side may send was granted by the other, what one has received was sent by the other.
void world::check_conversations(const port& p) {
  for (auto* s : p.live) {
    auto* o = s->other().with;
    if (!o)
      continue;
    for (auto [from, to] : {std::pair{s->with, o}, std::pair{o, s->with}}) {
      auto said_last = to->peer_closed() || from->out().limit() == position{}; // or `opened` has not come
      if (!said_last && !from->out().limit().within(to->in().granted()))
        throw broken{name_of(*s) + ": more may be sent than was granted"};
      if (!to->in().received().within(from->out().sent()))
        throw broken{name_of(*s) + ": more was received than was sent"};
    }
  }
}

void world::expect_base_line() const {
  for (auto& n : nodes) {
    for (size_t i = 0; i < charges; ++i)
      if (auto c = static_cast<charge>(i); n->inbound.charged(c) != 0)
        throw broken{fmt::format("node {} owes {} bytes for {} when all is over", n->index,
                                 n->inbound.charged(c), to_string(c))};
    if (n->inbound.liability() != n->with.inbound.reserve_bytes)
      throw broken{fmt::format("node {}: the reserve is not whole", n->index)};
    if (n->outbound.bytes() != 0)
      throw broken{fmt::format("node {}: {} outbound bytes when all is over", n->index, n->outbound.bytes())};
  }
}

std::string world::waiting() const {
  std::string text;
  auto say = [&](const std::string& line) { text += "  " + line + "\n"; };
  for (auto& c : known.calls)
    if (c.open)
      say(fmt::format("call {} of {}: {}", c.id, name_of(*c.caller),
                      c.executed    ? "its handler ran"
                      : c.delivered ? "delivered"
                                    : "not delivered"));
  for (auto& p : ports)
    for (auto* s : p->live) {
      auto& o = s->with->out();
      auto state = fmt::format(
          " [{}, sent {}/{} of {}/{}, epoch {}{}, queued {}]", static_cast<int>(s->with->now()),
          o.sent().bytes, o.sent().messages, o.limit().bytes, o.limit().messages, o.epoch(),
          o.blocked() ? fmt::format(", blocked, needs {}", o.state().need) : "", s->with->queued_messages());
      if (s->offers_left > 0 && s->waits)
        say(fmt::format("{} waits for credit to offer {} bytes{}", name_of(*s), s->offer_bytes, state));
      if (s->ended || s->other().ended)
        continue;
      if (s->posted != s->other().received + s->unsent)
        say(fmt::format("{} has posted {}, {} came, {} failed{}", name_of(*s), s->posted, s->other().received,
                        s->unsent, state));
    }
  return text;
}

std::string world::sessions_left() const {
  std::string text;
  for (auto& p : ports)
    p->link->for_each_session([&](const session& s) {
      auto* of = static_cast<const side_of*>(s.owner);
      text += fmt::format("  port {} session {} state {} calls {} answers {} queued {} peer closed {} {}\n",
                          p->index, s.id(), static_cast<int>(s.now()), s.calls_open(), s.answers_open(),
                          s.queued_messages(), s.peer_closed(), of ? name_of(*of) : "");
    });
  return text;
}

} // namespace weir::net::sim
