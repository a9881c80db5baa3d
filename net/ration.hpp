#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "net/frame.hpp"

namespace weir::net {

/// A place in the stream of one direction of a session, or a limit on it: bytes (by `cost_of`) and messages
/// since it was opened.
struct position {
  uint64_t bytes = 0;
  uint64_t messages = 0;

  bool within(const position& limit) const { return bytes <= limit.bytes && messages <= limit.messages; }
  position plus(uint64_t b, uint64_t m) const { return {bytes + b, messages + m}; }
  friend bool operator==(const position&, const position&) = default;
};

/// Limits above this are a fault of the peer (`grant_overflow`): no offset of a real session comes near, and
/// sums cannot wrap.
constexpr uint64_t offset_max = uint64_t{1} << 62;

/// What a sender says while it cannot go on: a state, repeated until it clears.
struct blocked_state {
  uint32_t epoch = 0;
  position limit;
  uint64_t need = 0;    ///< absolute offset in bytes that lets the head of the queue go
  uint64_t backlog = 0; ///< bytes that wait behind it, its own included
  friend bool operator==(const blocked_state&, const blocked_state&) = default;
};

/// The sender's half of a ration: what the peer allows. Integers only; time is an argument.
class ration_out {
public:
  /// The first limit, from `open` or `opened`. False: above `offset_max`.
  bool start(position limit);
  /// True when a message (or a run) of this cost may be handed over now.
  bool covers(uint64_t cost, uint64_t messages = 1) const {
    return sent_.plus(cost, messages).within(limit_);
  }
  /// Precondition: covers(cost, messages). No messages: a further fragment of one that was charged.
  void charge(uint64_t cost, uint64_t messages = 1);

  enum class effect : uint8_t { none, raised, overflow };
  /// A grant: the maximum within an epoch, older epochs are ignored.
  effect raise(uint32_t epoch, position limit);
  /// The receiver wants back what was not used: we keep the floor above what was sent, and never more than we
  /// had. The new limit, which is the answer. An epoch that is not newer changes nothing and answers the
  /// limit as it is.
  position reclaim(uint32_t epoch, uint64_t floor_bytes, uint64_t floor_messages);

  /// The head of the queue (cost) does not fit: from here `report` speaks until a charge succeeds.
  void block(uint64_t cost, uint64_t backlog, time_point now);
  /// The head that waited is gone (cancelled, expired, refused): nothing waits any more.
  void unblock() { blocked_ = false; }
  bool blocked() const { return blocked_; }
  time_point blocked_since() const { return blocked_since_; }
  /// The state to send now, if it is due: at once, then after 200 ms doubling to 5 s.
  std::optional<blocked_state> report(time_point now);
  /// When `report` is due next; time_point::max() while not blocked.
  time_point report_at() const { return blocked_ ? report_at_ : time_point::max(); }
  /// True once for the first charge after a block: that frame carries `flag::unblocked`.
  bool take_unblocked() { return std::exchange(unblocked_, false); }
  /// Its user waited for credit without saying so (it had nothing to send yet).
  void note_wait() { unblocked_ = true; }

  const position& sent() const { return sent_; }
  const position& limit() const { return limit_; }
  uint32_t epoch() const { return epoch_; }
  /// Bytes that may still be sent.
  uint64_t left_bytes() const { return limit_.bytes - sent_.bytes; }
  const blocked_state& state() const { return state_; }

  static constexpr duration report_first = std::chrono::milliseconds{200};
  static constexpr duration report_longest = std::chrono::seconds{5};

private:
  position sent_, limit_;
  uint32_t epoch_ = 0;
  bool blocked_ = false, unblocked_ = false;
  blocked_state state_;
  time_point blocked_since_{}, report_at_{};
  duration report_every_ = report_first;
};

struct ration_options {
  uint64_t bytes = 64 << 10; ///< W: what the peer may have under way
  uint64_t messages = 512;
  uint32_t
      grant_at = 4; ///< a grant leaves when W / grant_at came back (4: needs 1.5 x bandwidth-delay; 2: 2 x)
};

/// The receiver's half: what we allow. Invariants: consumed <= received <= granted, and granted - consumed is
/// at most W plus what was funded for one large message.
class ration_in {
public:
  explicit ration_in(const ration_options& o = {});

  /// Part of a message came in: `messages` is 1 with its first (or only) frame. False: beyond what was
  /// granted.
  bool arrive(uint64_t bytes, uint64_t messages);
  /// Memory died. Precondition: it had arrived.
  void consume(uint64_t bytes, uint64_t messages);
  /// The peer said that it waits. True when the limits it knows are older than ours (a grant was lost or is
  /// under way: say it again).
  bool peer_blocked(const blocked_state& s);
  bool peer_is_blocked() const { return blocked_.has_value(); }
  /// What the peer said last, while it waits.
  const std::optional<blocked_state>& peer_state() const { return blocked_; }
  /// The peer's head was refused: it does not wait for it any more.
  void forget_blocked() { blocked_.reset(); }
  /// Bytes beyond W that the blocked peer's next message needs, to be funded by the budget; 0 when W will do.
  uint64_t unfunded_bytes() const;
  /// Funds the message up to the offset the peer asked for. The extra leaves by itself as messages are
  /// consumed.
  void fund();
  /// The offset up to which a large message was funded; 0: none was, or it has come.
  uint64_t funded_bytes() const { return funded_bytes_ > received_.bytes ? funded_bytes_ : 0; }

  /// True when a grant should leave by itself: W / grant_at is unadvertised, or the peer waits and can now be
  /// served.
  bool grant_due() const;
  /// True when anything at all is unadvertised.
  bool unadvertised() const;
  /// The grant to send with a frame that leaves anyway; nothing when nothing is unadvertised.
  std::optional<position> take_grant();
  /// The limit again, as it is (the answer to a repeated `blocked`).
  position granted() const { return granted_; }

  /// Starts a reclaim: the epoch that grants carry from now on. The liability falls when `reclaimed` comes.
  uint32_t reclaim();
  /// The peer's answer. False: it names an epoch we did not start, or a limit below what arrived or above
  /// what was granted.
  bool reclaimed(uint32_t epoch, position limit);
  /// The peer's last word on what it sent. False: below what arrived or above what was granted. Afterwards
  /// granted == final.
  bool settle(position final);
  bool is_reclaiming() const { return reclaiming_ != 0; }

  /// What we owe: granted and not yet given back, bytes.
  uint64_t liability() const { return granted_.bytes - consumed_.bytes; }
  const position& received() const { return received_; }
  const position& consumed() const { return consumed_; }
  uint32_t epoch() const { return epoch_; }
  const ration_options& options() const { return options_; }
  /// A new W, in effect with the next grant.
  void set_ration(uint64_t bytes, uint64_t messages) { options_.bytes = bytes, options_.messages = messages; }

private:
  position target() const;

  ration_options options_;
  position received_, consumed_, granted_;
  uint64_t funded_bytes_ = 0; // offset up to which a large message is funded
  uint32_t epoch_ = 0, reclaiming_ = 0;
  bool settled_ = false;
  std::optional<blocked_state> blocked_;
};

} // namespace weir::net
