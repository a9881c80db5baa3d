#include <algorithm>

#include <fmt/format.h>

#include "net/tuner.hpp"
#include "runtime/node_option_table.hpp"
#include "runtime/values.hpp"

namespace weir {

namespace settings {

namespace {

constexpr uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;

/// Chosen values end in a whole MiB, or KiB where they are small, so that a person can read them.
uint64_t rounded(uint64_t bytes) { return bytes >= 4 * mib ? bytes / mib * mib : bytes / kib * kib; }

uint64_t share(uint64_t bytes, const node_options& o) { return bytes / o.io_threads; }

void resolve_memory(node_options& o, const machine& m) {
  if (o.budget_bytes == 0)
    o.budget_bytes = rounded(std::min(m.memory_bytes / 4, gib));
  if (o.outbound_bytes == 0)
    o.outbound_bytes = rounded(std::min(m.memory_bytes / 100 * 15, 614 * mib));
  auto eighth = share(o.budget_bytes, o) / 8;
  if (o.reserve_bytes == 0)
    o.reserve_bytes = std::clamp(2 * o.message_max, rounded(std::min(eighth, 64 * mib)),
                                 share(o.budget_bytes, o) / 2);
  if (o.message_max == 0)
    o.message_max = rounded(std::min(o.reserve_bytes / 2, 16 * mib));
  if (o.held_bytes == 0)
    o.held_bytes = rounded(std::min(eighth / 4, 16 * mib));
}

/// Replaces what means "choose for me". Precondition: every field is in its range.
void resolve(node_options& o, const machine& m) {
  if (o.name.empty())
    o.name = fmt::format("{}@{}", m.program, m.host).substr(0, 255);
  if (o.io_threads == 0)
    o.io_threads = std::clamp<uint32_t>(m.cores / 2, 1, 256);
  resolve_memory(o, m);
  if (o.ration_messages == 0 && o.ration != automatic)
    o.ration_messages = std::min<uint64_t>(net::tuner::messages_of(o.ration), mib);
}

/// A demand of one field on another; the last argument is what the bound is, in words.
std::optional<fault> at_most(std::string_view option, uint64_t value, uint64_t most, std::string_view bound) {
  if (value <= most)
    return std::nullopt;
  return fault{option,
               fmt::format("{} is too large: at most {}, {}", show_bytes(value), show_bytes(most), bound)};
}

std::optional<fault> check_memory(const node_options& o) {
  auto owed = share(o.budget_bytes, o), outbound = share(o.outbound_bytes, o);
  auto half = fmt::format("half of budget-bytes ({}) / io-threads ({})", show_bytes(o.budget_bytes),
                          o.io_threads);
  auto whole = fmt::format("outbound-bytes ({}) / io-threads ({})", show_bytes(o.outbound_bytes),
                           o.io_threads);
  auto reserve = fmt::format("half of reserve-bytes ({})", show_bytes(o.reserve_bytes));
  if (auto wrong = at_most("reserve-bytes", o.reserve_bytes, owed / 2, half))
    return wrong;
  if (auto wrong = at_most("message-max", o.message_max, o.reserve_bytes / 2, reserve))
    return wrong;
  if (auto wrong = at_most("message-max", o.message_max, outbound, whole))
    return wrong;
  for (auto [name, bytes] : {std::pair{"ration", o.ration}, std::pair{"group-ration", o.group_ration}})
    if (auto wrong = at_most(name, bytes == infinite || bytes == automatic ? 0 : bytes, owed / 2, half))
      return wrong;
  if (auto wrong = at_most("held-bytes", o.held_bytes, owed / 2, half))
    return wrong;
  if (auto wrong = at_most("reply-room", o.reply_room, o.message_max, "message-max"))
    return wrong;
  return at_most("send-buffer", o.send_buffer, outbound, whole);
}

std::optional<fault> check_times(const node_options& o) {
  auto dead = show_duration(o.dead_after), ping = show_duration(o.ping_interval);
  if (o.dead_after <= 2 * o.ping_interval)
    return fault{"dead-after",
                 fmt::format("{} is too short: more than 2 x ping-interval ({}) is needed", dead, ping)};
  auto cap = show_duration(o.reconnect_cap), base = show_duration(o.reconnect_base);
  if (o.reconnect_cap < o.reconnect_base)
    return fault{"reconnect-cap",
                 fmt::format("{} is too short: at least reconnect-base ({}) is needed", cap, base)};
  return std::nullopt;
}

std::optional<fault> check_ranges(const node_options& o) {
  for (const auto& row : node_option_table())
    if (auto wrong = complaint_about(o, row); !wrong.empty())
      return fault{row.name, std::move(wrong)};
  return std::nullopt;
}

} // namespace

std::optional<fault> resolve_and_check(node_options& o, const machine& m) {
  if (auto wrong = check_ranges(o))
    return wrong;
  resolve(o, m);
  if (auto wrong = check_ranges(o)) // a machine may be too small for what was chosen
    return wrong;
  if (auto wrong = check_memory(o))
    return wrong;
  return check_times(o);
}

} // namespace settings

result<void> validate(node_options& o) {
  auto wrong = settings::resolve_and_check(o, settings::this_machine());
  return wrong ? result<void>{errc::bad_option, fmt::format("{}: {}", wrong->option, wrong->text)}
               : result<void>{};
}

} // namespace weir
