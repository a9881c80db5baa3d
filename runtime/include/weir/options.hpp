#pragma once
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <weir/errc.hpp>
#include <weir/log_level.hpp>
#include <weir/when_full.hpp>

namespace weir {

/// `inf` for a ration: bounded by the budget alone.
constexpr uint64_t infinite = std::numeric_limits<uint64_t>::max();
/// `auto` for a ration: it sizes itself.
constexpr uint64_t automatic = infinite - 1;

/// Everything that can be chosen about a node. Each field is an option of the category `weir`, its name with
/// dashes: `io_threads` is `io-threads` in a file, `--io-threads` on the command line and `WEIR_IO_THREADS`
/// in the environment (`weir/config.hpp`). A 0 that means "choose for me" is replaced by `validate`. A
/// *share* below is `budget_bytes / io_threads`: each loop keeps books of its own, so that no lock is needed.
struct node_options {
  using duration = std::chrono::nanoseconds;

  // ---- who and where

  /// For people, in logs and in the peer's messages; it need not be unique. At most 255 bytes. Empty:
  /// program@host.
  std::string name = {};

  /// Links come up between nodes of equal cluster name only. 1 to 255 bytes. Give each installation its own,
  /// so that a test that dials production by mistake is refused.
  std::string cluster = "weir";

  /// Where to listen: `tcp://host:port`, `tcp://host:first-last` (the first free port), `tcp://[::1]:0`,
  /// `unix:///path`. Default: nowhere; such a node can only dial.
  std::vector<std::string> listen = {};

  /// Whom to dial at start and again whenever the link is lost: as `listen`, without ranges and without port
  /// 0.
  std::vector<std::string> connect = {};

  // ---- threads

  /// Loops, each on a thread of its own. A link stays on one loop for life, so more loops help only with more
  /// links. 0: one per two cores, at least 1. Range 1 to 256. More of them make every share of the budget
  /// smaller.
  uint32_t io_threads = 0;

  /// How long an idle loop looks for work before it sleeps. More than 20 us gained nothing in our
  /// measurements; 0 halves the calls per second of a single caller. Halved each time it was in vain, so an
  /// idle node stays below 1 % of a core. Range 0 to 1 ms.
  duration spin = std::chrono::microseconds{20};

  // ---- memory of the whole node

  /// Bytes that this node may owe to its peers: all rations, held messages and room for replies. An `open`
  /// that does not fit is refused, retryable. 0: 25 % of the memory limit (cgroup, else the machine), at most
  /// 1 GiB. Range 1 MiB to 1 TiB.
  uint64_t budget_bytes = 0;

  /// The part of each share that only messages larger than their ration may use, one request and one reply at
  /// a time. At least 2 x `message_max`, at most half a share. 0: an eighth of a share, at most 64 MiB, or
  /// what `message_max` needs.
  uint64_t reserve_bytes = 0;

  /// Bytes that may wait to be sent, in all sessions and on all links, also before they are open. Above it
  /// calls and one-way messages are told `overloaded`, as are calls whose answer is larger than `reply_room`,
  /// and outlets wait. 0: 15 % of the memory limit, at most 614 MiB. Range 256 KiB to 1 TiB. Larger helps
  /// only when many peers are slow at the same time.
  uint64_t outbound_bytes = 0;

  /// The largest message taken from a peer. 0: half of `reserve_bytes`, at most 16 MiB. Range 4 KiB to 1 GiB.
  /// Raise it only with the budget: two of these must fit into the reserve of each loop.
  uint64_t message_max = 0;

  // ---- credit of each session

  /// Bytes that the peer of a session may have under way to us. `auto`: from 64 KiB (16 KiB while less than
  /// half of the budget is free) it doubles where the service had nothing to do while its peer waited for
  /// credit, to 16 MiB at most, and shrinks where messages wait for the service for more than 20 ms; a
  /// session that is idle for 2 s goes back to 16 KiB. A size: that, always; at least bandwidth x delay x 1.5
  /// (with `grant_at` 4), or the sender waits for grants. At most half a share. `inf`: whatever the budget
  /// has free, so that one session may keep out others. Range 16 KiB to 1 GiB, `auto` or `inf`.
  uint64_t ration = automatic;

  /// As `ration`, in messages: it bounds the work that may wait, where `ration` bounds the memory. 0:
  /// `ration` / 128, at least 16 (with `auto` it follows the bytes; 1 Mi with `inf`). Range 1 to 1 Mi.
  uint64_t ration_messages = 0;

  /// As `ration`, for each sender of a group: its members pay it once per sender. Range 16 KiB to 1 GiB, or
  /// `inf`.
  uint64_t group_ration = 256 << 10;

  /// A grant leaves when `ration / grant_at` has come back. 2 sends the fewest and needs a ration of 2 x
  /// bandwidth x delay, 4 needs 1.5 x; more only costs control frames. Range 2 to 64.
  uint32_t grant_at = 4;

  /// Slices in which a larger message leaves. Smaller lets urgent messages through sooner, larger costs fewer
  /// headers; where a link is known to be slow one lasts 1 ms at most. Range 4 KiB to 1 MiB.
  uint32_t fragment = 64 << 10;

  /// Bytes set aside for the answer before a call leaves. A larger answer must be funded when it comes, which
  /// takes a round trip. Range 256 B to 16 MiB, at most `message_max`. `calls_max` x this is what one
  /// session's calls may take from the budget.
  uint32_t reply_room = 4 << 10;

  /// Links that the node accepts, also before their hello. One more is closed at once, told `overloaded`.
  /// Range 1 to 65536. A link costs a descriptor and a few KiB. One that stops in the middle of a frame keeps
  /// up to 256 KiB of read memory until `dead_after` (before its hello: 4 KiB, or the frame that it
  /// announced, until `hello_timeout`). That counts as pinned: at most `links_max` x 256 KiB that sessions
  /// cannot have.
  uint32_t links_max = 1024;

  /// Sessions that one peer may have open on a link. Range 1 to 65536.
  uint32_t sessions_max = 1024;

  /// Calls that one peer may have open on a session. Range 1 to 65536.
  uint32_t calls_max = 1024;

  // ---- queues

  /// Bytes that wait in one session before its senders are refused. At least one message waits whatever its
  /// size. Range 4 KiB to 1 GiB, at most `outbound_bytes / io_threads`. Larger hides a slow peer for longer.
  uint64_t send_buffer = 1 << 20;

  /// As `send_buffer`, in messages. Range 1 to 1 Mi.
  uint64_t send_buffer_messages = 4096;

  /// Messages that may wait in the mailbox of a service, over all its sessions. 0: no limit beyond their
  /// rations. A service may override it. Range 0 to 1 Mi. Set it where an old request is worth less than a
  /// new one.
  uint64_t mailbox_messages = 0;

  /// What becomes of a call when that mailbox is full: `wait`, `reject` or `drop-oldest`. A service may
  /// override it.
  weir::when_full when_full = weir::when_full::wait;

  /// Bytes that one service may keep by `hold()`, asynchronous handlers and coroutines. Above it a call is
  /// answered `overloaded`, not executed. Each service takes this from its share when it is served, so it
  /// also bounds how many there can be. 0: 1/32 of a share, at most 16 MiB. Range 4 KiB to 1 TiB, at most
  /// half a share.
  uint64_t held_bytes = 0;

  /// As `held_bytes`, in messages. Range 1 to 1 Mi.
  uint64_t held_messages = 4096;

  // ---- time

  /// Deadline of a call that names none. It travels with the call. Range 1 ms to 24 h.
  duration call_timeout = std::chrono::seconds{30};

  /// From dialling to a connected socket. Range 1 ms to 10 min.
  duration connect_timeout = std::chrono::seconds{5};

  /// From a connected socket to the peer's hello. Range 1 ms to 10 min.
  duration hello_timeout = std::chrono::seconds{5};

  /// How often a link is measured. Range 10 ms to 10 min.
  duration ping_interval = std::chrono::seconds{1};

  /// A peer from which no byte came for so long is given up. More than 2 x `ping_interval`; shorter finds
  /// dead machines sooner and mistakes a paused process for one. Range 20 ms to 1 h.
  duration dead_after = std::chrono::seconds{15};

  /// A link that was dialled for a `lookup` is closed when no session has used it for so long. Those of
  /// `connect` stay. Range 10 ms to 24 h. Longer saves the dial of who comes back.
  duration idle_timeout = std::chrono::seconds{60};

  /// A large message whose next fragment does not come for so long is aborted. Range 100 ms to 1 h.
  duration fragment_timeout = std::chrono::seconds{10};

  /// A large message for which there is no room for so long is refused, retryable. Range 10 ms to 10 min.
  duration funding_timeout = std::chrono::seconds{2};

  /// How long a node that stops waits for what is under way. Range 0 to 1 h.
  duration drain_timeout = std::chrono::seconds{5};

  /// The first delay before dialling again is random, from 0 to this; the next ones double it
  /// (`net/backoff.hpp`). Range 1 ms to 10 min.
  duration reconnect_base = std::chrono::milliseconds{50};

  /// The longest such delay. Larger spares a server that comes back with many clients. Range 1 ms to 1 h, at
  /// least `reconnect_base`.
  duration reconnect_cap = std::chrono::seconds{5};

  // ---- for people

  /// A handler on a loop (`node.spawn`) that runs for longer than this is counted and reported by name
  /// (`slow_handler`): while it runs, all links of its loop wait. 0: none is. Range 0 to 1 h.
  duration slow_handler = std::chrono::milliseconds{10};

  /// Actors of this node that have waited in a circle for each other's credit for so long are counted and
  /// reported by name (`wait_cycle`), at the latest a quarter of it later: forwarders that share an outlet
  /// (rule R8), which no time heals. Nothing is ended. 0: nobody looks. Range 0 to 1 h. Shorter finds them
  /// sooner, and takes for one what leases for other reasons for so long.
  duration stall_limit = std::chrono::seconds{10};

  /// What the node writes to stderr: `off`, `error`, `warning`, `info` (links too) or `debug` (refused calls,
  /// too). Whatever the level, every reason is counted: `node_stats`, `weir probe`.
  weir::log_level log_level = weir::log_level::warning;

  /// A reason is written at most once in so long, with how many were left out. Peers decide how often things
  /// go wrong, so it also bounds what they can make us write. Range 100 ms to 1 h.
  duration log_period = std::chrono::seconds{10};

  friend bool operator==(const node_options&, const node_options&) = default;
};

/// Replaces every "choose for me" by what suits this machine, then checks every range and what fields demand
/// of each other. Errors: bad_option with one line that names the option, its value and the limits; `o` is
/// then half done. `config::load` calls it; call it yourself for options that come from elsewhere.
result<void> validate(node_options& o);

} // namespace weir
