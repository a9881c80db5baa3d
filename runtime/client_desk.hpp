#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include <weir/client.hpp>

#include "actors/loop.hpp"
#include "actors/messages.hpp"
#include "actors/session.hpp"
#include "net/backoff.hpp"
#include "runtime/bell.hpp"

namespace weir::detail {

class desk;

/// One call of a thread outside CAF, or the place for one: shared by the thread that waits and the desk.
class waiting_call final : public actors::handed_over {
public:
  /// What is known of it, as bits.
  enum : uint32_t {
    carried = 1,  ///< by the loop: the session has it
    done = 2,     ///< by the loop: `in` or `why` is there
    sleeping = 4, ///< by the thread: it wants to be woken
    dropped = 8,  ///< by the thread: not to be carried any more
  };

  std::atomic<uint32_t> state{0};
  desk* at = nullptr;
  uint32_t sleeper = 0; ///< number of the thread
  std::shared_ptr<session_guard> session;
  actors::ask what;
  uint64_t token = 0;    ///< of the desk
  bool given_up = false; ///< by the thread, before it is handed over for the second time
  actors::delivery in;   ///< empty when it failed
  failure why;
  std::shared_ptr<waiting_call> self; ///< while it is handed over

  void run() override;
};

/// A stream of a thread outside CAF, as its desk sees it. On the loop.
class stream_line {
public:
  virtual void on_event(const actors::outlet_event& e) = 0;

protected:
  ~stream_line() = default;
};

/// Where threads outside CAF meet one loop: an actor of that loop for its sessions, which has no mailbox for
/// what they answer. An answer is put straight into the place where its thread waits, and at the end of the
/// round all these threads are woken together.
class desk final : public pinnable, public net::round_end {
public:
  desk(caf::actor_config& cfg, actors::loop& l) : pinnable(cfg), loop_(l) {}

  caf::behavior make_behavior() override;
  const char* name() const override { return "weir.desk"; }
  void on_exit() override;
  enqueue_result enqueue(caf::mailbox_element_ptr x, caf_context* ctx) override;
  void end_of_round() override;

  // ---- any thread
  actors::loop& home() const { return loop_; }
  uint64_t undelivered() const { return undelivered_.load(std::memory_order_relaxed); }
  bell& bell_of(uint32_t sleeper) { return bells_[sleeper / sleepers_per_bell % bells_.size()]; }
  /// `bell::sleep`; where the loop's time is virtual the thread moves it instead.
  bool sleep(bell& b, uint32_t seen, uint32_t bits, net::time_point until) {
    return loop_.is_virtual() ? loop_.move_on(until) : b.sleep(seen, bits, until);
  }
  static uint32_t bit_of(uint32_t sleeper) { return uint32_t{1} << (sleeper % sleepers_per_bell); }

  // ---- on the loop
  void carry(std::shared_ptr<waiting_call> c);
  void give_up(const waiting_call& c);
  void tell(actors::session& s, actors::ask a);
  /// The first is 1.
  uint64_t add_line(std::shared_ptr<stream_line> l);
  void remove_line(uint64_t id) { lines_.erase(id); }
  caf::strong_actor_ptr self_ptr() { return caf::strong_actor_ptr{ctrl()}; }

private:
  static constexpr uint32_t sleepers_per_bell = 32; // bits of a futex
  static constexpr size_t bell_count = 8;           // beyond 256 threads some are woken for nothing

  void on_reply(actors::reply& r);
  void on_outlet_event(const actors::outlet_event& e);
  void finish(waiting_call& c);

  struct open_call {
    std::shared_ptr<waiting_call> who;
    uint32_t generation = 0;
  };
  actors::loop& loop_;
  std::vector<open_call> calls_; // one per thread that waits, at most
  std::vector<uint32_t> free_;
  std::unordered_map<uint64_t, std::shared_ptr<stream_line>> lines_;
  uint64_t last_line_ = 0;
  std::array<uint32_t, bell_count> due_{}; // bits to be rung at the end of the round
  bool in_round_ = false, over_ = false;
  std::shared_ptr<actors::teller> teller_ = std::make_shared<actors::teller>();
  std::atomic<uint64_t> undelivered_{0};
  std::array<bell, bell_count> bells_;
};

/// The desks of one client, one per loop of its node.
class client_core {
public:
  explicit client_core(std::vector<caf::actor> desks, std::chrono::milliseconds call_timeout);
  ~client_core();
  client_core(const client_core&) = delete;
  client_core& operator=(const client_core&) = delete;

  /// Why the calling thread must not wait for `to`; none: it may.
  failure refusal(const ref_base& to) const;
  /// That of the loop of `s`; nullptr: it belongs to another node.
  desk* desk_of(const actors::session& s) const;
  uint64_t undelivered() const;
  std::chrono::milliseconds call_timeout() const { return call_timeout_; }
  /// By the clock of the node.
  net::time_point now() const { return desks_[0]->home().waiting_clock(); }
  void sleep_for(net::duration d) const;
  net::splitmix64 random() const;

private:
  std::vector<caf::actor> handles_;
  std::vector<desk*> desks_;
  std::chrono::milliseconds call_timeout_;
};

/// Of this thread, for `waiting_call::sleeper`.
uint32_t number_of_this_thread();

} // namespace weir::detail
