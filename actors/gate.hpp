#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "net/errc.hpp"
#include "net/ration.hpp"

namespace weir::actors {

/// What waits to be sent in all sessions of one loop, as their gates count it: `outbound-bytes` is for all of
/// them together, however many there are. Any thread.
class outbound_room {
public:
  explicit outbound_room(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t left() const {
    auto b = bytes();
    return b < bytes_max_ ? bytes_max_ - b : 0;
  }
  /// Nothing large is queued, and no producer builds another message.
  bool full() const { return left() == 0; }
  /// From `before` to `after` bytes in one gate. The first ones of each are not counted: who sends little
  /// shares nothing with other threads, and has room whatever others do.
  void change(uint64_t before, uint64_t after) {
    auto by = counted(after) - counted(before); // modulo 2^64
    if (by != 0)
      bytes_.fetch_add(by, std::memory_order_relaxed);
  }
  static constexpr uint64_t free_bytes = 16 << 10; // in each gate

private:
  static uint64_t counted(uint64_t bytes) { return bytes > free_bytes ? bytes - free_bytes : 0; }
  const uint64_t bytes_max_;
  std::atomic<uint64_t> bytes_{0};
};

/// To a session: what its producer waits for, as far as it has not said so before. The session tells it when
/// to look again.
struct want {
  bool credit = false;
  uint64_t room_bytes = 0; ///< for a message of about so many while `outbound-bytes` is used up; 0: not that

  explicit operator bool() const { return credit || room_bytes != 0; }
};

/// What a session shares with those who send on it, from any thread: admission to its queue, and for a
/// stream's producer the limit it may offer up to. Outlives the session.
class gate {
public:
  gate(uint64_t bytes_max, uint64_t messages_max, std::shared_ptr<outbound_room> of_all)
      : bytes_max_(bytes_max), messages_max_(messages_max), of_all_(std::move(of_all)) {}
  ~gate() { of_all_->change(queued_bytes(), 0); } // what died elsewhere

  /// One atomic add each against `send-buffer`; what makes a queue long counts against `outbound-bytes`, too.
  /// False: nothing was queued. One message is always admitted to an empty queue while there is outbound
  /// room, so that one larger than the buffer can pass. Any thread.
  bool admit(uint64_t bytes, uint64_t messages) {
    auto before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
    auto m = messages_.fetch_add(messages, std::memory_order_relaxed);
    auto after = before + bytes;
    bool fits = before == 0 || (after <= bytes_max_ && m + messages <= messages_max_);
    if (fits && (after <= outbound_room::free_bytes || !of_all_->full())) {
      of_all_->change(before, after);
      return true;
    }
    auto now = bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    messages_.fetch_sub(messages, std::memory_order_relaxed);
    if (now != after) { // others came in between, and what they counted began above us
      of_all_->change(before, after);
      of_all_->change(now, now - bytes);
    }
    return false;
  }
  /// Handed over to the transport, or dropped. Any thread.
  void release(uint64_t bytes, uint64_t messages) {
    auto before = bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    messages_.fetch_sub(messages, std::memory_order_relaxed);
    of_all_->change(before, before - bytes);
  }
  /// Without asking: a single producer that has looked before (has_room_beside). Any thread.
  void charge(uint64_t bytes, uint64_t messages) {
    auto before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
    messages_.fetch_add(messages, std::memory_order_relaxed);
    of_all_->change(before, before + bytes);
  }
  bool has_room_beside(uint64_t bytes, uint64_t messages) const {
    return queued_bytes() + bytes < bytes_max_ && queued_messages() + messages < messages_max_ &&
           !of_all_->full();
  }
  /// All sessions of the loop together have no room.
  bool outbound_is_full() const { return of_all_->full(); }
  uint64_t queued_bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t queued_messages() const { return messages_.load(std::memory_order_relaxed); }
  /// Enough room in this session that it is worth waking a producer.
  bool has_much_room() const {
    return queued_bytes() <= bytes_max_ / 2 && queued_messages() <= messages_max_ / 2;
  }
  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t messages_max() const { return messages_max_; }

  /// 0 until the session is open. Any thread.
  uint32_t session_id() const { return session_id_.load(std::memory_order_acquire); }
  bool over() const { return over_.load(std::memory_order_acquire); }
  /// What a message that comes too late is told: why the session has ended. Precondition: over().
  const failure& why_over() const { return why_; }
  net::position limit() const {
    return {limit_bytes_.load(std::memory_order_acquire), limit_messages_.load(std::memory_order_acquire)};
  }
  /// The producer wants a `credit` message when the session is open.
  void want_credit(net::time_point now) {
    if (!waiting_.load(std::memory_order_relaxed))
      since_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    waiting_.store(true, std::memory_order_seq_cst);
  }
  /// The producer saw no limit or no room for a message of about so many bytes, and wants a `credit` message.
  /// What it has to say to the session for that, if anything: nothing before that is open. Look again
  /// afterwards.
  want wait(net::time_point now, uint64_t bytes) {
    want_credit(now);
    want w;
    w.credit = session_id() != 0 && !watched_.load(std::memory_order_seq_cst) && !watched_.exchange(true);
    if (of_all_->full() && !room_asked_.exchange(true))
      w.room_bytes = std::max<uint64_t>(bytes, 1);
    return w;
  }
  /// When the producer began to wait, for people.
  net::time_point wanted_since() const {
    return net::time_point{net::duration{since_.load(std::memory_order_relaxed)}};
  }

  /// What leaves here comes in on the stream of that session (`id` of the actor) alone, and nothing else
  /// waits for it.
  void pair_with(uint64_t session) { paired_with_.store(session, std::memory_order_relaxed); }
  uint64_t paired_with() const { return paired_with_.load(std::memory_order_relaxed); } ///< 0: none

  // ---- by the session, on its loop
  void open(uint32_t id) { session_id_.store(id, std::memory_order_release); }
  void publish(const net::position& limit) {
    limit_messages_.store(limit.messages, std::memory_order_release);
    limit_bytes_.store(limit.bytes, std::memory_order_seq_cst);
  }
  /// The first reason counts. Nothing that comes from now on is executed.
  void end(const failure& why) {
    if (over())
      return;
    why_ = {why.code, outcome::not_executed, why.text};
    if (why.code == errc::none)
      why_ = {errc::session_closed, outcome::not_executed, "the session is closed"};
    over_.store(true, std::memory_order_release);
  }
  /// From here on the producer says again that it wants credit, or room.
  void unwatch() { watched_.store(false, std::memory_order_seq_cst); }
  void room_is_answered() { room_asked_.store(false); }
  bool wanted() const { return waiting_.load(std::memory_order_seq_cst); }
  bool take_wanted() { return waiting_.exchange(false, std::memory_order_seq_cst); }

private:
  const uint64_t bytes_max_, messages_max_;
  const std::shared_ptr<outbound_room> of_all_;
  std::atomic<uint64_t> bytes_{0}, messages_{0};
  alignas(64) std::atomic<uint64_t> limit_bytes_{0};
  std::atomic<uint64_t> limit_messages_{0};
  std::atomic<uint32_t> session_id_{0};
  std::atomic<bool> waiting_{false}, over_{false}, watched_{false}, room_asked_{false};
  failure why_; // written once, before over_
  std::atomic<int64_t> since_{0};
  std::atomic<uint64_t> paired_with_{0};
};

} // namespace weir::actors
