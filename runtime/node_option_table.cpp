#include "runtime/node_option_table.hpp"

#include <fmt/format.h>

#include "net/uri.hpp"
#include "runtime/values.hpp"

namespace weir::settings {

namespace {

constexpr uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30, tib = uint64_t{1} << 40;
constexpr uint64_t ms = 1'000'000, second = 1000 * ms, minute = 60 * second, hour = 60 * minute;
using o = node_options;

constexpr node_option table[] = {
    {"name", &o::name, shape::text, "name of this node, for people", 0, 255, "program@host"},
    {"cluster", &o::cluster, shape::text, "links come up between nodes of equal cluster only", 1, 255},
    {"listen", &o::listen, shape::uris,
     "where to listen: tcp://host:port, tcp://host:first-last or unix:///path"},
    {"connect", &o::connect, shape::uris,
     "whom to dial, again whenever the link is lost: tcp://host:port or unix:///path"},

    {"io-threads", &o::io_threads, shape::count, "loops, each on its own thread", 1, 256,
     "one per two cores"},
    {"spin", &o::spin, shape::time, "how long an idle loop looks for work before it sleeps", 0, ms},

    {"budget-bytes", &o::budget_bytes, shape::bytes, "what the node may owe to its peers", mib, tib,
     "25 % of the memory limit, at most 1GiB"},
    {"reserve-bytes", &o::reserve_bytes, shape::bytes,
     "the part of each loop's budget that is kept for large messages", 8 * kib, tib,
     "1/8 of the loop's budget, at most 64MiB"},
    {"outbound-bytes", &o::outbound_bytes, shape::bytes, "what may wait to be sent, on all links", 256 * kib,
     tib, "15 % of the memory limit, at most 614MiB"},
    {"message-max", &o::message_max, shape::bytes, "largest message taken from a peer", 4 * kib, gib,
     "half of reserve-bytes, at most 16MiB"},

    {"ration", &o::ration, shape::bytes, "what the peer of a session may have under way", 16 * kib, gib, "",
     true, true},
    {"ration-messages", &o::ration_messages, shape::count, "the same in messages", 1, mib,
     "ration / 128, at least 16"},
    {"group-ration", &o::group_ration, shape::bytes, "ration of each sender of a group", 16 * kib, gib, "",
     true},
    {"grant-at", &o::grant_at, shape::count, "a grant leaves when ration / grant-at has come back", 2, 64},
    {"fragment", &o::fragment, shape::bytes, "slices in which a larger message leaves", 4 * kib, mib},
    {"reply-room", &o::reply_room, shape::bytes, "set aside for each answer before its call leaves", 256,
     16 * mib},
    {"links-max", &o::links_max, shape::count, "links that are accepted", 1, 65536},
    {"sessions-max", &o::sessions_max, shape::count, "sessions a peer may have open on a link", 1, 65536},
    {"calls-max", &o::calls_max, shape::count, "calls a peer may have open on a session", 1, 65536},

    {"send-buffer", &o::send_buffer, shape::bytes,
     "what may wait in a session before its senders are refused", 4 * kib, gib},
    {"send-buffer-messages", &o::send_buffer_messages, shape::count, "the same in messages", 1, mib},
    {"mailbox-messages", &o::mailbox_messages, shape::count,
     "what may wait in a service's mailbox; 0: no limit beyond rations", 0, mib},
    {"when-full", &o::when_full, shape::when_full, "what becomes of a call when that mailbox is full"},
    {"held-bytes", &o::held_bytes, shape::bytes, "what one service may hold", 4 * kib, tib,
     "1/32 of the loop's budget, at most 16MiB"},
    {"held-messages", &o::held_messages, shape::count, "the same in messages", 1, mib},

    {"call-timeout", &o::call_timeout, shape::time, "deadline of a call that names none", ms, 24 * hour},
    {"connect-timeout", &o::connect_timeout, shape::time, "from dialling to a connected socket", ms,
     10 * minute},
    {"hello-timeout", &o::hello_timeout, shape::time, "from a connected socket to the peer's hello", ms,
     10 * minute},
    {"ping-interval", &o::ping_interval, shape::time, "how often a link is measured", 10 * ms, 10 * minute},
    {"dead-after", &o::dead_after, shape::time, "a peer that is silent for so long is given up", 20 * ms,
     hour},
    {"idle-timeout", &o::idle_timeout, shape::time, "a dialled link that no session uses is closed", 10 * ms,
     24 * hour},
    {"fragment-timeout", &o::fragment_timeout, shape::time,
     "a large message that stops for so long is aborted", 100 * ms, hour},
    {"funding-timeout", &o::funding_timeout, shape::time,
     "a large message without room for so long is refused", 10 * ms, 10 * minute},
    {"drain-timeout", &o::drain_timeout, shape::time,
     "how long a node that stops waits for what is under way", 0, hour},
    {"reconnect-base", &o::reconnect_base, shape::time,
     "longest first delay before dialling again; it doubles", ms, 10 * minute},
    {"reconnect-cap", &o::reconnect_cap, shape::time, "longest delay before dialling again", ms, hour},

    {"slow-handler", &o::slow_handler, shape::time,
     "a handler that holds its loop for longer is reported; 0: none is", 0, hour},
    {"stall-limit", &o::stall_limit, shape::time,
     "actors that wait in a circle for credit for so long are reported; 0: none are", 0, hour},
    {"log-level", &o::log_level, shape::level, "what goes to stderr"},
    {"log-period", &o::log_period, shape::time, "a reason is written at most once in so long", 100 * ms,
     hour},
};

/// What a number is out of or in, as a person writes it.
std::string show_quantity(const node_option& row, uint64_t value) {
  switch (row.shape) {
  case shape::bytes:
    return show_bytes(value);
  case shape::time:
    return show_duration(std::chrono::nanoseconds{static_cast<int64_t>(value)});
  case shape::text:
  case shape::uris:
  case shape::count:
  case shape::level:
  case shape::when_full:
    break;
  }
  return fmt::to_string(value);
}

std::string complaint_about_number(const node_option& row, uint64_t value) {
  bool in_range = value >= row.least && value <= row.most;
  if (in_range || (value == 0 && !row.chosen.empty()) || (value == infinite && row.may_be_infinite) ||
      (value == automatic && row.may_be_automatic))
    return {};
  return fmt::format("{} is out of range ({})", show_quantity(row, value), show_limits(row));
}

std::string complaint_about_text(const node_option& row, const std::string& text) {
  if (text.size() > row.most || (text.size() < row.least && row.chosen.empty()))
    return fmt::format("a text of {} bytes is out of range ({})", text.size(), show_limits(row));
  return {};
}

std::string complaint_about_uris(const node_option& row, const std::vector<std::string>& uris) {
  for (const auto& text : uris) {
    auto uri = net::parse_uri(text);
    if (!uri)
      return uri.error().text;
    bool to_dial = row.name == "connect" && uri->kind == net::uri::scheme::tcp;
    if (to_dial && (uri->is_range() || uri->port == 0))
      return fmt::format("'{}': one port to dial is needed, neither 0 nor a range", text);
  }
  return {};
}

constexpr std::string_view level_names = "off, error, warning, info or debug";
constexpr std::string_view when_full_names = "wait, reject or drop-oldest";

template <class Word>
result<Word> parse_word(std::string_view text, Word last, std::string_view names) {
  for (size_t i = 0; i <= static_cast<size_t>(last); ++i)
    if (auto w = static_cast<Word>(i); text == to_string(w))
      return w;
  return {errc::bad_option, fmt::format("'{}' is none of {}", text, names)};
}

template <class Word>
std::string complaint_about_word(Word w, Word last, std::string_view names) {
  return w > last ? fmt::format("none of {}", names) : std::string{};
}

result<uint64_t> parse_count(std::string_view text) {
  auto number = parse_integer(text);
  if (!number)
    return number.error();
  if (*number < 0)
    return {errc::bad_option, fmt::format("'{}' is negative", text)};
  return static_cast<uint64_t>(*number);
}

result<uint64_t> parse_quantity(const node_option& row, std::string_view text) {
  if (row.shape == shape::count)
    return parse_count(text);
  if (text == "auto" && row.may_be_automatic)
    return automatic;
  return text == "inf" && row.may_be_infinite ? result<uint64_t>{infinite} : parse_bytes(text);
}

/// Reads one field; a visitor of node_option::field.
struct setter {
  node_options& to;
  const node_option& row;
  std::string_view text;

  result<void> operator()(std::string node_options::*field) const {
    return (to.*field = text), result<void>{};
  }

  result<void> operator()(std::vector<std::string> node_options::*field) const {
    return assign(field, parse_list(text));
  }

  result<void> operator()(std::chrono::nanoseconds node_options::*field) const {
    return assign(field, parse_duration(text));
  }

  result<void> operator()(log_level node_options::*field) const {
    return assign(field, parse_word(text, log_level::debug, level_names));
  }

  result<void> operator()(when_full node_options::*field) const {
    return assign(field, parse_word(text, when_full::drop_oldest, when_full_names));
  }

  template <class T>
  result<void> operator()(T node_options::*field) const {
    auto value = parse_quantity(row, text);
    if (value && *value > std::numeric_limits<T>::max()) // before it is cut to T
      return {errc::bad_option, complaint_about_number(row, *value)};
    return assign(field, std::move(value));
  }

  template <class T, class V>
  result<void> assign(T node_options::*field, result<V> value) const {
    if (!value)
      return value.error();
    to.*field = static_cast<T>(std::move(*value));
    return {};
  }
};

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>; // clang 14 needs it

} // namespace

std::span<const node_option> node_option_table() { return table; }

std::string show_limits(const node_option& row) {
  if (row.shape == shape::uris)
    return {};
  if (row.shape == shape::level)
    return std::string{level_names};
  if (row.shape == shape::when_full)
    return std::string{when_full_names};
  auto range = fmt::format("{} to {}", show_quantity(row, row.least), show_quantity(row, row.most));
  if (row.shape == shape::text)
    return range + " bytes";
  if (!row.chosen.empty() && row.least > 0)
    range += ", or 0";
  if (row.may_be_automatic)
    return range + ", auto or inf";
  return row.may_be_infinite ? range + ", or inf" : range;
}

result<void> set(node_options& options, const node_option& row, std::string_view text) {
  if (auto done = std::visit(setter{options, row, text}, row.field); !done)
    return done;
  auto wrong = complaint_about(options, row);
  return wrong.empty() ? result<void>{} : result<void>{errc::bad_option, wrong};
}

std::string show(const node_options& options, const node_option& row) {
  return std::visit(
      overloaded{
          [&](std::string node_options::*field) { return show_text(options.*field); },
          [&](std::vector<std::string> node_options::*field) { return show_list(options.*field); },
          [&](std::chrono::nanoseconds node_options::*field) { return show_duration(options.*field); },
          [&](log_level node_options::*field) { return std::string{to_string(options.*field)}; },
          [&](when_full node_options::*field) { return std::string{to_string(options.*field)}; },
          [&](auto field) { return show_quantity(row, options.*field); },
      },
      row.field);
}

std::string complaint_about(const node_options& options, const node_option& row) {
  return std::visit(
      overloaded{
          [&](std::string node_options::*field) { return complaint_about_text(row, options.*field); },
          [&](std::vector<std::string> node_options::*field) {
            return complaint_about_uris(row, options.*field);
          },
          [&](std::chrono::nanoseconds node_options::*field) {
            return (options.*field).count() < 0
                       ? "a negative time"
                       : complaint_about_number(row, static_cast<uint64_t>((options.*field).count()));
          },
          [&](log_level node_options::*field) {
            return complaint_about_word(options.*field, log_level::debug, level_names);
          },
          [&](when_full node_options::*field) {
            return complaint_about_word(options.*field, when_full::drop_oldest, when_full_names);
          },
          [&](auto field) { return complaint_about_number(row, options.*field); },
      },
      row.field);
}

} // namespace weir::settings
