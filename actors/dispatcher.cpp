#include "actors/dispatcher.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weir::actors {

caf::behavior dispatcher::make_behavior() {
  ignore_unexpected();
  return {[this](serve_service& s) { serve(s); },
          [this](const find_service& f) { put(current_sender(), caf::strong_actor_ptr{ctrl()}, find(f)); },
          [this](const return_mailbox& r) {
            if (auto i = services_.find(r.service); i != services_.end())
              i->second.dealt -= std::min(i->second.dealt, r.messages);
          },
          [this](const end_session&) { quit(caf::exit_reason::normal); }};
}

void dispatcher::serve(serve_service& s) {
  auto who = s.service;
  services_[std::move(s.name)] = entry{
      std::move(s.service), std::move(s.allowance), s.interface, s.stream, s.mailbox_messages, 0,
      s.ration_bytes};
  if (!serving_.insert(who.id()).second)
    return; // it has a watch, which is for all its names
  watch(who, [this, id = who.id()](const caf::error&) {
    serving_.erase(id);
    std::erase_if(services_, [id](auto& named) { return named.second.service.id() == id; });
  });
}

/// A quarter of the places that are free goes to the next session, at least one: early sessions do not starve
/// later ones.
found_service dispatcher::find(const find_service& f) {
  found_service out;
  out.id = f.id;
  out.name = f.service;
  auto i = services_.find(f.service);
  if (i == services_.end()) {
    out.why = {errc::no_such_service, outcome::not_executed, fmt::format("no service '{}' here", f.service)};
    return out;
  }
  auto& e = i->second;
  if (e.interface != f.interface || e.stream != f.stream) {
    out.why = {errc::wrong_interface, outcome::not_executed,
               fmt::format("'{}' is {} {:#x}, not {} {:#x}", f.service,
                           e.stream ? "a stream of" : "interface", e.interface,
                           f.stream ? "a stream of" : "interface", f.interface)};
    return out;
  }
  out.ration_messages = f.ration_messages;
  if (e.mailbox_messages > 0 && e.allowance->mailbox.what() == when_full::wait) {
    auto free = e.mailbox_messages - e.dealt;
    if (free == 0) {
      out.why = {errc::overloaded, outcome::not_executed,
                 fmt::format("all {} places in the mailbox of '{}' are dealt out (mailbox-messages)",
                             e.mailbox_messages, f.service)};
      return out;
    }
    out.ration_messages = std::min(f.ration_messages, std::max<uint64_t>(1, free / 4));
    e.dealt += out.ration_messages;
    out.dealt = true;
  }
  out.service = e.service;
  out.allowance = e.allowance;
  out.ration_bytes = e.ration_bytes;
  return out;
}

} // namespace weir::actors
