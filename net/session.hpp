#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "net/calls.hpp"
#include "net/message.hpp"
#include "net/ration.hpp"
#include "net/reassembly.hpp"
#include "net/ring.hpp"
#include "net/schedule.hpp"
#include "net/tuner.hpp"

namespace weir::net {

/// One conversation on a link, as the protocol sees it. Owned by the mux; others look at it and keep `owner`.
/// A session that is over stays where it is until the second `take_events` after its `ended`, and everything
/// asked of it then is done without effect.
class session {
public:
  enum class state : uint8_t {
    opening, ///< we said `open`, the answer has not come
    offered, ///< the peer said `open`, we have not answered
    open,
    closing,   ///< we said (or will say) `close`
    tombstone, ///< aborted by us; discards and counts until the peer has said what it sent
    over       ///< `ended` was told (or it was refused); our last word about it may still have to leave
  };

  uint32_t id() const { return id_; }
  state now() const { return state_; }
  bool opened_here() const { return opened_here_; }
  const std::string& service() const { return service_; }
  uint64_t interface() const { return interface_; }
  bool is_stream() const { return stream_; }
  uint64_t tag() const { return tag_; }
  const ration_out& out() const { return out_; }
  const ration_in& in() const { return in_; }
  /// Its ration sizes itself; else it is as it was set.
  bool is_tuned() const { return !tuner_.is_fixed(); }
  uint64_t queued_bytes() const { return queued_bytes_; }
  uint64_t queued_messages() const { return queued_messages_; }
  size_t calls_open() const { return calls_out_.size(); }
  size_t answers_open() const { return calls_in_.size(); }
  /// The peer has said `close`: it waits until everything was consumed.
  bool peer_closed() const { return close_came_; }
  /// The peer's reason why there is no more credit, while this side is blocked.
  errc blocked_reason() const { return out_.blocked() ? blocked_reason_ : errc::none; }

  void* owner = nullptr; ///< whoever acts for it

private:
  friend class mux;
  session(uint32_t id, bool opened_here) : id_(id), opened_here_(opened_here), in_(ration_options{0, 0, 4}) {
    for (size_t i = 0; i < lanes; ++i) {
      members_[i].owner = this;
      members_[i].in_lane = static_cast<lane>(i);
    }
  }
  bool live() const { return state_ != state::tombstone && state_ != state::over; }
  bool may_send() const { return state_ == state::opening || state_ == state::open; }
  bool nothing_queued() const { return queues_[0].empty() && queues_[1].empty() && queues_[2].empty(); }

  /// A message that waits for its hand-over. Without a message it was taken out and is skipped.
  struct queued {
    outgoing message;
    uint32_t call = 0;
    uint32_t sent_bytes = 0;     ///< of a message in fragments: handed over so far
    bool voided = false;         ///< given up in the middle: ends with a `void` fragment
    uint32_t promised_bytes = 0; ///< of a voided one: what nobody else may use until the `void` has left
    time_point deadline = time_point::max();
    uint64_t token = 0; ///< of a one-way message
  };
  /// What must be said of this session: a set, so it is bounded whatever happens before it can be written.
  enum word : uint32_t {
    word_open = 1 << 0,
    word_opened = 1 << 1,
    word_refused = 1 << 2,
    word_grant = 1 << 3,
    word_blocked = 1 << 4,
    word_reclaim = 1 << 5,
    word_reclaimed = 1 << 6,
    word_abort = 1 << 7,
    word_close = 1 << 8,
    word_closed = 1 << 9,
    word_unfunded = 1 << 10,
    word_calls = 1 << 11, ///< one of the lists below is not empty
  };

  uint32_t id_;
  bool opened_here_;
  state state_ = state::opening;
  bool stream_ = false;
  bool established_ = false; ///< `opened` was said or came: data may leave
  uint64_t interface_ = 0, tag_ = 0;
  std::string service_;

  // ---- data out
  ration_out out_;
  std::array<ring<queued>, lanes> queues_;
  std::array<schedule::member, lanes> members_;
  uint64_t queued_bytes_ = 0, queued_messages_ = 0;
  uint64_t message_max_out_ = 0;
  uint64_t promised_out_ = 0; ///< what is still to be sent of messages in fragments whose first has left
  lane
      blocked_lane_ = lane::normal; ///< whose head waits for the ration; the other lane does not take it away
  uint64_t wanted_cost_ = 0;        ///< said by `want_credit` for a message that is not queued
  errc blocked_reason_ = errc::none;
  uint64_t refused_cost_ = 0,
           refused_room_ = 0; ///< what the outbound ledger and the inbound budget had no room for

  // ---- data in
  ration_in in_;
  tuner tuner_;
  std::array<reassembly, lanes> parts_;
  uint64_t promised_in_ = 0; ///< as promised_out_, of the peer
  uint64_t message_max_in_ = 0;
  uint64_t charged_session_ = 0, charged_large_ = 0; ///< in the inbound budget
  time_point funded_at_ = time_point::max();  ///< the last step of a funded message that has not come whole
  time_point reclaim_at_ = time_point::max(); ///< when `reclaim` was asked, until its answer

  // ---- calls
  calls_out calls_out_;
  calls_in calls_in_;
  uint32_t reply_room_ = 0; ///< said by `open`

  // ---- what must be said
  uint32_t words_ = 0;
  bool close_said_ = false, close_came_ = false, closed_came_ = false, closed_said_ = false;
  bool retryable_ = false;
  failure why_; ///< of `refused` or `abort`
  uint64_t unfunded_bytes_ = 0, peer_consumed_ = 0;
  errc unfunded_reason_ = errc::none;
  std::vector<uint32_t> cancels_, cancelleds_;
  std::vector<std::pair<uint32_t, uint64_t>> needs_, funds_;

  // ---- lists of the mux that hold it
  bool in_dirty_ = false, in_lazy_ = false, in_starved_ = false, in_waiting_ = false;
};

} // namespace weir::net
