#pragma once
#include <memory>
#include <vector>

#include "net/frame.hpp"
#include "net/message.hpp"

namespace weir::net {

/// A call's id on the wire: a slot below the callee's `callsMax`, and a generation, so that a late word about
/// an earlier call of the slot is known as such. Never 0, because generations start at 1.
constexpr uint32_t call_id(uint16_t slot, uint16_t generation) { return uint32_t{generation} << 16 | slot; }
constexpr uint16_t slot_of(uint32_t call) { return static_cast<uint16_t>(call); }
constexpr uint16_t generation_of(uint32_t call) { return static_cast<uint16_t>(call >> 16); }

/// Slots are 16 bits wide; the peer may announce less.
constexpr uint32_t calls_max_ceiling = 1 << 16;

/// The calls that we opened on one session. A slot is free again when its answer came, or when the callee
/// confirmed its cancellation.
class calls_out {
public:
  enum class state : uint8_t {
    free,
    queued,   ///< not handed over: dropped without a trace when it is cancelled
    sending,  ///< its first fragment has left, its last has not
    sent,     ///< the callee has it
    cancelled ///< given up, `cancelled` or a late answer will free it
  };
  struct entry {
    state now = state::free;
    bool asked = false; ///< a larger answer waits for its funding
    uint16_t generation = 0;
    uint64_t token = 0;
    time_point deadline = time_point::max();
    uint64_t room = 0; ///< body bytes the answer may have
    uint64_t paid = 0; ///< what the inbound budget was charged for it
  };

  /// The peer's limit; before it is known nothing opens.
  void set_max(uint32_t calls_max);
  bool full() const { return free_.empty() && entries_.size() >= max_; }
  /// A new call in state queued; its id. Precondition: !full().
  uint32_t open(uint64_t token, time_point deadline, uint64_t room, uint64_t paid);
  /// nullptr: unknown by now.
  entry* find(uint32_t call);
  /// Frees the slot. Precondition: find(call).
  void close(uint32_t call);

  /// Frees every slot at once: the session is over.
  void clear();

  /// Calls whose slot is taken, cancelled ones included.
  size_t size() const { return size_; }
  /// Calls that still owe their caller an answer.
  size_t waiting() const { return waiting_; }
  /// Marks a call as given up. Precondition: find(call), not cancelled yet.
  void cancel(entry& e);
  /// No call's deadline is earlier. Found anew by `expired`.
  time_point next_deadline() const { return next_deadline_; }
  /// The ids of the calls that are past their deadline and not cancelled, into `out`.
  void expired(time_point now, std::vector<uint32_t>& out);
  template <class F>
  void for_each(F f) {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (auto& e = entries_[i]; e.now != state::free)
        f(call_id(static_cast<uint16_t>(i), e.generation), e);
  }

private:
  std::vector<entry> entries_;
  std::vector<uint16_t> free_;
  uint32_t max_ = 0;
  size_t size_ = 0, waiting_ = 0;
  time_point next_deadline_ = time_point::max();
};

/// The calls that the peer opened on one session, by slot. A slot is taken until its answer, or the word that
/// none will come, was handed over: what a peer that never reads can pile up is bounded by `callsMax`.
class calls_in {
public:
  enum class state : uint8_t {
    free,
    running,  ///< its handler owes an answer
    need,     ///< the answer is larger than its room and waits in `parked` for `fund`
    answered, ///< the answer is queued
    sending,  ///< its first fragment has left, its last has not
    cancelled ///< `cancelled` will be said
  };
  struct entry {
    state now = state::free;
    uint16_t generation = 0;
    uint64_t room = 0;
    std::unique_ptr<outgoing> parked;
  };

  void set_max(uint32_t calls_max) { max_ = calls_max; }
  enum class verdict : uint8_t { taken, above_limit, busy, bad_id };
  /// A request came. busy: the slot's last call has not ended, which a peer that keeps the rules cannot ask
  /// for.
  verdict open(uint32_t call, uint64_t room);
  /// nullptr: unknown by now.
  entry* find(uint32_t call);
  void close(uint32_t call);
  void clear();
  size_t size() const { return size_; }
  template <class F>
  void for_each(F f) {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (auto& e = entries_[i]; e.now != state::free)
        f(call_id(static_cast<uint16_t>(i), e.generation), e);
  }

private:
  std::vector<entry> entries_;
  uint32_t max_ = 0;
  size_t size_ = 0;
};

} // namespace weir::net
