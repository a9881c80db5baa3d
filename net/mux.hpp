#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/uio.h>

#include "net/ledger.hpp"
#include "net/message.hpp"
#include "net/ration.hpp"
#include "net/session.hpp"

namespace weir::net {

/// 128 random bits that name one run of one process.
struct node_id {
  uint64_t high = 0, low = 0;
  friend auto operator<=>(const node_id&, const node_id&) = default;
};
std::string to_string(const node_id& id);

/// What a link allows and says of itself. Validated by the runtime at start; every limit is checked before
/// memory is taken.
struct link_options {
  node_id node;
  std::string node_name;        ///< for people, at most 255 bytes
  std::string cluster = "weir"; ///< must be equal on both sides
  uint64_t message_bytes_max = 64 << 20;
  uint32_t fragment_bytes = 64 << 10;  ///< a larger message leaves in slices of this, unless less than a
                                       ///< quarter of one would remain
  uint32_t sessions_max = 1024;        ///< that the peer may have open at once
  uint32_t calls_max = 1024;           ///< that the peer may have open at once on one session
  uint32_t reply_room_bytes = 4 << 10; ///< paid for each reply unless the call says more
  duration hello_timeout = std::chrono::seconds{5};
  duration ping_interval = std::chrono::seconds{1};
  duration dead_after = std::chrono::seconds{15}; ///< no byte for so long: `peer_silent`
  duration fragment_timeout = std::chrono::seconds{10};
  duration funding_timeout = std::chrono::seconds{
      2}; ///< a large message that is not funded by then is refused, retryable
};

/// What the peer said in hello.
struct peer_info {
  node_id node;
  std::string name;
  uint64_t message_bytes_max = 0;
  uint32_t frame_bytes_max = 0, sessions_max = 0, calls_max = 0;
  uint64_t features = 0;
};

enum class side : uint8_t { dialled, accepted };

/// What happened, in the order in which it did. Pointers are valid until the next call of the mux that is not
/// `take_events`.
struct event {
  enum class type : uint8_t {
    ready,   ///< hello is done: see `peer()`
    open,    ///< the peer opens `on`: answer with `accept` or `refuse` (see on->service(), on->interface(),
             ///< on->is_stream())
    opened,  ///< our `open` was accepted
    request, ///< a call to answer with `reply`: call, deadline, message
    item,    ///< a one-way message
    reply,   ///< the answer to the call `token`; `cost` is its reply room, given back with `reply_died`
    failed,  ///< the call `token` has ended without a reply: why. With call 0: `count` one-way messages that
             ///< were queued under `token` will not arrive (streams are told by `ended` alone what they lose)
    blocked, ///< the peer waits for credit on `on`: what comes back should be told (`consumed`) at once
    resumed, ///< the peer had to wait for credit on `on`, whose ration sizes itself, and goes on: tell what
             ///< came back (`consumed`), then `tune`
    credit,  ///< `on` had refused or queued something and may send again; on a stream opened here, and
             ///< on a session accepted here that may send items, also after every grant
    finished,  ///< the peer sends nothing more on `on` (it closed its direction)
    cancelled, ///< the caller gave the request `call` up; its reply would be dropped
    ended, ///< `on` is over and forgotten: why (none: closed by both). Calls still open were failed before.
           ///< Not told of a session that was refused here.
    going_away, ///< the peer takes no new sessions: why
    down,       ///< the link is over: why. Every session has ended before.
  };
  type what = type::ready;
  lane in_lane = lane::normal;
  uint32_t call = 0;
  session* on = nullptr;
  uint32_t count = 0; ///< of `failed`
  uint64_t token = 0; ///< of the caller's choice; for `ended` of a closed stream: the messages that the peer
                      ///< consumed
  message_view message{}; ///< well formed; in the bytes given to `receive`, or in `memory`
  uint64_t cost = 0;      ///< what `consumed` (request, item) or `reply_died` (reply) gets when the message's
                          ///< memory dies
  time_point deadline = time_point::max();
  slab_ref memory; ///< set when the message came in fragments
  std::unique_ptr<failure> why;
};

struct open_request {
  std::string service;    ///< at most 255 bytes
  uint64_t interface = 0; ///< or the struct id of a stream
  bool stream = false;
  uint64_t tag = 0; ///< of the caller's choice: session::tag()
  ration_options replies_in{
      0, 0, 4}; ///< one-way messages the acceptor may send (none by default; replies need no ration)
  ration_range replies_range{}; ///< between what that ration sizes itself
};

struct call_request {
  uint64_t token = 0;
  time_point deadline = time_point::max();
  uint32_t reply_room_bytes = 0; ///< 0: the link's default
  lane in_lane = lane::normal;
};

/// A reason for which something ended or was refused, by either side.
struct noted_reason {
  errc code = errc::none;
  uint64_t times = 0;
  std::string text; ///< of the first time
};

/// One link's protocol, without I/O: bytes in, bytes out, time as an argument, decisions returned as events.
/// Owner: the link. Holds the sessions, the control state that must be said, and the send schedule. Never
/// throws on foreign bytes.
class mux {
public:
  /// `reassembly`: where messages in fragments are put together (only after they were funded).
  mux(link_options o, side s, budget& inbound, outbound_ledger& outbound, slab_pool& reassembly,
      time_point now);
  ~mux();
  mux(const mux&) = delete;
  mux& operator=(const mux&) = delete;

  // ---- bytes in
  /// Takes whole frames from `n` bytes at `at` (8-byte aligned at every frame) and stops behind the first
  /// frame that ends at or beyond `slice`. The bytes it took; what is left must come again with more behind
  /// it. Messages point into these bytes.
  size_t receive(const std::byte* at, size_t n, size_t slice, time_point now);
  /// Bytes that the frame at the front of what was left needs in all; 0 when its header is not complete yet.
  size_t wanted_bytes() const;
  /// The transport is over (end of file, reset): `down` follows with what is known.
  void lost(errc reason, std::string text);
  /// Swaps what has happened since the last time into `out` (which must be empty). Requests, items and
  /// replies in it belong to the taker, whatever comes behind them: their cost goes back (`consumed`,
  /// `reply_died`, or to the budget after `ended`) even if nobody wants them any more.
  void take_events(std::vector<event>& out);
  bool has_events() const;
  /// Why the link, sessions, calls and messages have ended or were refused since the last time, each reason
  /// once, into `out` (which must be empty). What merely closed is not among them.
  void take_reasons(std::vector<noted_reason>& out);
  bool has_reasons() const;

  // ---- sessions
  /// nullptr: hello is not done, the peer's `sessions_max` is reached, it is going away, or the name is too
  /// long: `why` says.
  session* open(const open_request& r, failure& why);
  /// Answers `event::open`. False: the inbound budget cannot fund the ration; nothing happened, refuse it or
  /// try again.
  bool accept(session& s, const ration_options& in, uint64_t message_bytes_max = 0,
              const ration_range& range = {});
  void refuse(session& s, errc reason, std::string text, bool retryable);
  /// No more is sent on `s`; said when its queue and its calls are done. `ended` follows when the peer has
  /// consumed everything.
  void close(session& s);
  /// Ends `s` at once. What it had queued is dropped, its open calls fail; what was delivered and not yet
  /// consumed is from now on given back by its holder straight to the budget (charge::session), as it is
  /// after `ended`. `ended` follows.
  void abort(session& s, errc reason, std::string text);

  // ---- data out
  /// Queues a one-way message or run of them. False: not queued (outbound ledger full); on a session that is
  /// closed it is dropped and false, too. A message above the peer's limit is refused with
  /// `message_too_large` before: check `message_bytes_max`. `token`: what `failed` names should it not leave.
  result<void> post(session& s, outgoing m, lane in_lane, uint64_t token = 0);
  /// Queues a request and pays for its reply. The call's id, or why not (too_many_calls, no_budget,
  /// overloaded, message_too_large, session_closed). From here exactly one `reply` or `failed` comes for it.
  result<uint32_t> call(session& s, outgoing m, const call_request& r);
  /// Gives up a call: `failed(cancelled)` comes at once; its room is freed when the callee has confirmed or
  /// its reply came.
  void cancel(session& s, uint32_t call, errc reason);
  /// Answers a request. A call that is unknown by now (cancelled, session over) drops the reply.
  void reply(session& s, uint32_t call, outgoing m);
  void reply_failure(session& s, uint32_t call, const failure& f);
  /// Before building a message of about `cost`: true when it would leave at once. False: the peer is told
  /// that we wait for that much, and `event::credit` comes when it may be posted.
  bool want_credit(session& s, uint64_t cost);
  /// Largest message that may be posted on `s` (the peer's and its service's limit).
  uint64_t message_bytes_max(const session& s) const;

  // ---- credit
  /// Memory of requests and items died.
  void consumed(session& s, uint64_t bytes, uint64_t messages);
  /// Memory of replies died: their rooms (sum of event::cost).
  void reply_died(uint64_t bytes);
  /// After `event::resumed`: the ration grows where the service had nothing to do, and the budget has it.
  void tune(session& s);
  /// The user of `s` had to wait for credit before it built what comes next: the peer is told, with that.
  void waited(session& s);
  /// Asks an idle peer for what it did not use.
  void reclaim(session& s);
  /// False: the budget cannot pay for it, and it stays as it is.
  bool set_ration(session& s, uint64_t bytes, uint64_t messages);
  /// Another ration from here on, and between what it sizes itself; what the peer has beyond it is asked
  /// back.
  bool change_ration(session& s, const ration_options& to, const ration_range& range);
  /// Slices of messages that begin to leave from here on.
  void set_fragment_bytes(uint32_t bytes);

  // ---- the link
  /// Step one of the end: the peer opens nothing more; `fin` follows when all sessions are done.
  void go_away(errc reason, std::string text);
  /// True when goaway was said, every session is over and nothing waits to be written.
  bool drained() const;
  /// The last word: the peer is told why, then `down`. What is still to write should be written once more.
  void fail(errc reason, std::string text);
  bool is_down() const;

  // ---- bytes out
  bool wants_write() const;
  /// What to write next: control, replies, normal, bulk, a fair share each. Number of entries used; call
  /// `wrote` before the next.
  size_t gather(std::span<iovec> to, time_point now);
  void wrote(size_t bytes);

  // ---- time
  /// Deadlines, pings, repeated `blocked`, time-outs.
  void tick(time_point now);
  time_point next_tick() const;

  // ---- to look at
  const peer_info& peer() const;
  bool ready() const;
  duration round_trip() const;
  size_t session_count() const;
  /// Frames for sessions that were over already: discarded, as they must be.
  uint64_t late_frames() const;
  /// Every invariant in words; empty when all hold. For tests and simulation.
  std::string check() const;
  template <class F>
  void for_each_session(F f) const {
    for (auto* s : session_list())
      f(*s);
  }

private:
  std::vector<const session*> session_list() const;
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace weir::net
