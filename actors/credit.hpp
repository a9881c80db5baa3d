#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>

#include "actors/when_full.hpp"
#include "net/loop.hpp"
#include "net/message.hpp"
#include "net/ration.hpp"

namespace weir::actors {

class session;
class account;

/// Where accounts report to their loop. Outlives the loop: a message may be held longer than its node lives.
class credit_port {
public:
  explicit credit_port(net::loop& l) : loop_(&l) {}
  /// Takes over one reference of `a`. Not `urgent`: the loop hears of it in its next round. Any thread.
  void post(account* a, bool urgent);
  /// What is posted has become urgent. Any thread.
  void wake();
  /// What was posted. Loop only.
  void take(std::vector<account*>& out);
  /// The loop goes; from now on posts only drop their reference. Any thread.
  void close();

private:
  std::mutex mutex_;
  net::loop* loop_;
  std::vector<account*> posted_;
};

/// What the leases of a session share with it: credit comes back here when messages die, on any thread,
/// exactly once. Lives as long as the last lease, so longer than session, link and loop. The loop hears of it
/// only when enough has come back (`wake_at`).
class account {
public:
  account(std::shared_ptr<credit_port> port, session* owner) : session_(owner), port_(std::move(port)) {}

  void hold(uint32_t n = 1) { refs_.fetch_add(n, std::memory_order_relaxed); }
  void drop() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }

  /// Memory of requests or items died. Any thread.
  void give_back(uint64_t bytes, uint64_t messages);
  /// Memory of a reply died: its room. A sleeping loop is not woken for it below `reply_wake_bytes`: whoever
  /// looks at the budget or wants something from it does so in a round of the loop, which collects first. Any
  /// thread.
  void give_back_reply(uint64_t bytes);

  struct returned {
    uint64_t bytes = 0, messages = 0, reply_bytes = 0;
  };
  /// Loop only.
  returned take();
  /// What `take` would take, left there. Any thread.
  returned peek() const {
    return {bytes_.load(std::memory_order_relaxed), messages_.load(std::memory_order_relaxed),
            reply_bytes_.load(std::memory_order_relaxed)};
  }
  /// From how much on the loop wants to hear of it; with 0 (the session is gone, closing or blocked) of
  /// everything. Loop only; what is there already is not told again: take() it afterwards.
  void wake_at(uint64_t bytes, uint64_t messages) {
    wake_messages_.store(messages, std::memory_order_relaxed);
    wake_bytes_.store(bytes, std::memory_order_seq_cst);
  }
  /// The usual: from the part of the ration on that is worth a grant. Loop only.
  void wake_at_share_of(const net::ration_options& o) {
    wake_at(std::max<uint64_t>(1, o.bytes / o.grant_at), std::max<uint64_t>(1, o.messages / o.grant_at));
  }
  uint64_t wake_bytes() const { return wake_bytes_.load(std::memory_order_relaxed); }
  uint64_t wake_messages() const { return wake_messages_.load(std::memory_order_relaxed); }

  /// The caller of `call` has given it up: a handler that has not begun is not run. `calls_max`: slots there
  /// are. Loop only.
  void cancel(uint32_t call, uint32_t calls_max);
  /// Any thread.
  bool is_cancelled(uint32_t call) const {
    auto* c = cancelled_.load(std::memory_order_acquire);
    return c && c[call & 0xffff].load(std::memory_order_relaxed) == call >> 16;
  }

  /// nullptr once the session is gone: then what comes back goes to the budget. Loop only.
  session* owner() const { return session_; }
  void orphan() { session_ = nullptr; }
  /// The session through which who got a message of this account acts on the conversation itself: gives a
  /// stream up, sends rows back. Set before the first message is handed over. Null: none, or it is gone. Any
  /// thread.
  caf::strong_actor_ptr back() const { return caf::actor_cast<caf::strong_actor_ptr>(back_); }
  void set_back(caf::weak_actor_ptr s) { back_ = std::move(s); }

  /// What comes on this stream leaves on an outlet of its own (`gate::pair_with`). Any thread.
  void pair() { paired_.store(true, std::memory_order_relaxed); }
  bool paired() const { return paired_.load(std::memory_order_relaxed); }

  /// Cleared by the loop when it has taken this account from its port.
  void unlist() { listed_.store(0, std::memory_order_seq_cst); }

  /// Room for replies that may lie here while the loop sleeps; a sixteenth of the smallest budget.
  static constexpr uint64_t reply_wake_bytes = 64 << 10;

private:
  static constexpr uint8_t is_listed = 1, is_urgent = 2;
  ~account() { delete[] cancelled_.load(std::memory_order_acquire); }
  void notify(bool urgent);

  session* session_;
  caf::weak_actor_ptr back_;
  const std::shared_ptr<credit_port> port_;
  std::atomic<uint32_t> refs_{1};
  std::atomic<uint8_t> listed_{0};
  std::atomic<bool> paired_{false};
  std::atomic<uint64_t> wake_bytes_{0}, wake_messages_{0};
  /// By the slot of a call the generation that was cancelled last, which is never 0; made when there is one.
  std::atomic<std::atomic<uint16_t>*> cancelled_{nullptr};
  alignas(64) std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> messages_{0}, reply_bytes_{0};
};

/// The calls that wait in a service's mailbox, where it is not their senders who wait (`when_full`). Any
/// thread.
class mailbox_limit {
public:
  explicit mailbox_limit(when_full w = when_full::wait, uint64_t messages = 0)
      : what_(messages == 0 ? when_full::wait : w), messages_(messages) {}

  when_full what() const { return what_; }
  uint64_t messages() const { return messages_; }
  uint64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// A call comes. False: there is no place for it.
  bool enter() {
    if (what_ == when_full::wait)
      return true;
    auto before = waiting_.fetch_add(1, std::memory_order_relaxed);
    if (what_ == when_full::drop_oldest || before < messages_)
      return true;
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  /// Its turn has come. False: too many wait behind it.
  bool leave() {
    return what_ == when_full::wait || waiting_.fetch_sub(1, std::memory_order_relaxed) <= messages_;
  }
  /// Why a call has no place.
  failure refusal() const;

private:
  const when_full what_;
  const uint64_t messages_;
  std::atomic<uint64_t> waiting_{0};
};

/// An allowance of bytes and messages that a service has paid for once and hands to the messages it holds,
/// and what else its sessions share. Any thread.
class held_allowance {
public:
  held_allowance(uint64_t bytes, uint64_t messages, std::string service = {}, when_full w = when_full::wait,
                 uint64_t mailbox_messages = 0)
      : mailbox(w, mailbox_messages), name(std::move(service)), bytes_max_(bytes), messages_max_(messages) {}

  mailbox_limit mailbox;
  const std::string name; ///< of the service
  bool take(uint64_t bytes);
  void give(uint64_t bytes);
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t messages() const { return messages_.load(std::memory_order_relaxed); }
  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t messages_max() const { return messages_max_; }
  /// Its service works on a batch since then (0: on none), in nanoseconds of the steady clock: for people.
  void set_busy_since(int64_t nanos) { busy_since_.store(nanos, std::memory_order_relaxed); }
  int64_t busy_since() const { return busy_since_.load(std::memory_order_relaxed); }
  /// A copy of a message, small ones several to a slab. On the service that the allowance belongs to.
  std::pair<net::message_view, net::slab_ref> copy(const net::message_view& v);

private:
  const uint64_t bytes_max_, messages_max_;
  std::atomic<uint64_t> bytes_{0}, messages_{0};
  std::atomic<int64_t> busy_since_{0};
  net::slab_ref copies_; // the slab that the last copy went to
};

/// Says that a service is at work, while it lives.
class at_work {
public:
  at_work(held_allowance* of, net::time_point now) : of_(of) {
    if (of_)
      of_->set_busy_since(now.time_since_epoch().count());
  }
  ~at_work() {
    if (of_)
      of_->set_busy_since(0);
  }
  at_work(const at_work&) = delete;
  at_work& operator=(const at_work&) = delete;

private:
  held_allowance* of_;
};

/// One received message as its reader holds it; the credit returns when it dies. Move-only.
class delivery {
public:
  delivery() = default;
  /// Takes over one hold of `a`. `cost` goes back as a message's charge.
  static delivery message(net::message_view v, net::slab_ref memory, account* a, uint64_t cost) {
    return delivery{v, std::move(memory), a, cost, false};
  }
  /// The same for a reply: `room` goes back as reply room. `a` may be null: nothing was charged.
  static delivery reply(net::message_view v, net::slab_ref memory, account* a, uint64_t room) {
    return delivery{v, std::move(memory), a, room, true};
  }
  static delivery held(net::message_view v, net::slab_ref memory, std::shared_ptr<held_allowance> h,
                       uint64_t cost) {
    delivery d{v, std::move(memory), nullptr, cost, false};
    d.held_ = std::move(h);
    return d;
  }
  delivery(delivery&& other) noexcept { swap(other); }
  delivery& operator=(delivery&& other) noexcept {
    delivery moved{std::move(other)};
    swap(moved);
    return *this;
  }
  ~delivery();

  explicit operator bool() const { return view_.words != nullptr; }
  const net::message_view& view() const { return view_; }
  uint64_t cost() const { return cost_; }

private:
  delivery(net::message_view v, net::slab_ref memory, account* a, uint64_t cost, bool reply)
      : view_(v), memory_(std::move(memory)), account_(a), cost_(cost), reply_(reply) {}
  void swap(delivery& other) noexcept;

  net::message_view view_;
  net::slab_ref memory_;
  account* account_ = nullptr;
  std::shared_ptr<held_allowance> held_;
  uint64_t cost_ = 0;
  bool reply_ = false;
};

/// One message of a batch.
struct arrival {
  net::message_view message;
  net::time_point deadline = net::time_point::max();
  uint64_t cost = 0;  ///< 0: leased, whoever has the lease gives it back
  uint32_t call = 0;  ///< 0: one way
  uint32_t share = 0; ///< index into the batch's shares
};

/// What one read brought for one service, of all sessions together, in order. Its credit comes back message
/// by message as the service gets on with it (`release`), and in any case when the batch dies. Move-only.
class arrivals {
public:
  arrivals() = default;
  arrivals(arrivals&&) noexcept = default;
  arrivals& operator=(arrivals&& other) noexcept {
    give_back_all();
    items_ = std::move(other.items_);
    shares_ = std::move(other.shares_);
    memory_ = std::move(other.memory_);
    return *this;
  }
  ~arrivals() { give_back_all(); }

  /// `memory`: what `message` lies in.
  void add(account* from, const arrival& a, const net::slab_ref& memory);
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  void reserve(size_t n) { items_.reserve(n); }
  const arrival& operator[](size_t i) const { return items_[i]; }
  account* from(size_t i) const { return shares_[items_[i].share].from; }
  /// The memory of item `i`.
  net::slab_ref memory_of(size_t i) const;
  /// The reader is done with item `i`; once per item.
  void release(size_t i);
  /// Moves item `i` out of the session's charge into `h`: a copy when it is small or its slab is large, else
  /// a share of its slab. Empty when the allowance is full: nothing happened.
  delivery hold(size_t i, const std::shared_ptr<held_allowance>& h);
  /// Takes item `i` out as it is: it stays charged to its session until the delivery dies. At most once per
  /// item, before `release`.
  delivery lease(size_t i);

private:
  struct share {
    account* from = nullptr;
    uint64_t total_bytes = 0, total_messages = 0; // still to be given back
    uint64_t ready_bytes = 0, ready_messages = 0; // of these: released, not yet told
  };
  void give_back_all() noexcept;

  std::vector<arrival> items_;
  std::vector<share> shares_;
  std::vector<net::slab_ref> memory_;
};

} // namespace weir::actors
