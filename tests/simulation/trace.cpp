// Frames in words.
#include <fmt/format.h>

#include "wire.hpp"

namespace weir::net::sim {

std::string in_words(const frame_header& h) {
  static constexpr const char* kinds[] = {"?", "control", "message", "fragment"};
  auto kind = static_cast<size_t>(h.kind);
  return fmt::format("{} session {} lane {} call {:x} length {} ttl {}{}{}{}", kinds[kind < 4 ? kind : 0],
                     h.session, static_cast<int>(h.frame_lane()), h.id, h.length, h.ttl,
                     h.flags & flag::last ? " last" : "", h.flags & flag::void_ ? " void" : "",
                     h.flags & flag::unblocked ? " unblocked" : "");
}

std::string in_words(const say::control& c) {
  std::string text = "control:";
  auto at = [](const position& p) { return fmt::format("{}/{}", p.bytes, p.messages); };
  auto each = [&](auto& list, const char* what, auto words) {
    for (auto& x : list)
      text += fmt::format(" {} {} {};", what, x.session, words(x));
  };
  auto limit = [&](auto& x) { return at(x.limit); };
  auto final = [&](auto& x) { return at(x.final); };
  auto id = [](auto& x) { return fmt::format("call {:x}", x.id); };
  auto room = [](auto& x) { return fmt::format("call {:x} {}", x.id, x.bytes); };
  if (c.hello)
    text += " hello;";
  each(c.opens, "open", limit);
  each(c.openeds, "opened", limit);
  each(c.refuseds, "refused", [](auto& x) { return to_string(x.reason); });
  each(c.grants, "grant",
       [&](auto& x) { return fmt::format("epoch {} {} {}", x.epoch, at(x.limit), to_string(x.reason)); });
  each(c.blockeds, "blocked", [&](auto& x) {
    return fmt::format("epoch {} {} need {} backlog {}", x.state.epoch, at(x.state.limit), x.state.need,
                       x.state.backlog);
  });
  each(c.reclaims, "reclaim", [](auto& x) { return fmt::format("epoch {}", x.epoch); });
  each(c.reclaimeds, "reclaimed", [&](auto& x) { return fmt::format("epoch {} {}", x.epoch, at(x.limit)); });
  each(c.aborts, "abort", final);
  each(c.closes, "close", final);
  each(c.closeds, "closed", final);
  each(c.cancels, "cancel", id);
  each(c.cancelleds, "cancelled", id);
  each(c.needs, "need", room);
  each(c.funds, "fund", room);
  each(c.unfundeds, "unfunded", [](auto& x) { return fmt::format("{} {}", x.bytes, to_string(x.reason)); });
  if (c.ping != 0)
    text += " ping;";
  if (c.pong != 0)
    text += " pong;";
  if (c.goaway)
    text += " goaway;";
  if (c.fin)
    text += " fin;";
  if (c.fault)
    text += " fault " + to_string(c.fault->reason) + " " + c.fault->text + ";";
  return text;
}

} // namespace weir::net::sim
