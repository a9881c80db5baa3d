#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "net/frame.hpp"
#include "net/slab.hpp"

namespace weir::net {

/// Told once at the end of the round in which it asked for it: where a socket does its one write.
class round_end {
public:
  virtual void end_of_round() = 0;

protected:
  ~round_end() = default;
};

/// Who moves the clock of loops on virtual time, for a thread that has to wait for one of them.
class time_mover {
public:
  virtual ~time_mover() = default;
  /// True: the calling thread is moving it already (it runs a handler, or what a test has planned) and must
  /// not wait.
  virtual bool moving() const = 0;
  /// Does what is to be done next, at most until `t`. False: `t` has come, or nobody may wait.
  virtual bool move_on(time_point t) = 0;
};

struct loop_options {
  std::chrono::microseconds spin{
      20}; ///< how long to poll before sleeping; 0: never. Costs no CPU per call, see bench/README.md
  bool virtual_time = false;              ///< no thread: the test calls `run_until_idle` and `advance`
  std::shared_ptr<time_mover> mover = {}; ///< virtual time: by whom threads wait
  uint64_t seed = 0;                      ///< virtual time: of what is random on the loop
};

/// One thread, one Asio io_context. A round runs what is ready, then gives each socket that has something to
/// write its one write. Everything but `wake`, `here` and `stop` belongs to the loop's thread.
class loop {
public:
  using timer_id = uint64_t;

  explicit loop(const loop_options& o);
  virtual ~loop();
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;

  void start();
  /// Ends the thread and waits for it. What is still queued is not run. Precondition: not on the loop.
  void stop();
  bool here() const { return std::this_thread::get_id() == thread_id_.load(std::memory_order_relaxed); }
  /// Makes a round happen soon. Any thread.
  void wake();
  /// Lets the next round take what was left, whenever that is: a loop that sleeps goes on sleeping. Any
  /// thread.
  void remind() { remote_.store(true); }

  /// The time of this round: one clock reading for all of it.
  time_point now() const { return now_; }
  /// Reads the clock again, where a round has been long.
  time_point fresh_now();
  void at_end_of_round(round_end& r) { ending_.push_back(&r); }
  /// Forgets a `round_end` that goes away.
  void forget(round_end& r);
  /// Runs `f` at or after `t` on the loop.
  timer_id at(time_point t, std::function<void()> f);
  void cancel(timer_id id);

  slab_pool& read_slabs() { return *read_slabs_; }
  /// The slab that sockets of this loop read into, with at least `room` bytes free behind `used`.
  slab_ref& read_slab(size_t room);

  /// Bytes of read slabs that somebody holds; without the current one while nobody else does.
  size_t pinned_slab_bytes() const {
    auto alive = read_slabs_->alive_bytes();
    return read_slab_ && read_slab_.sole() ? alive - read_slab_->size : alive;
  }

  /// The io_context, as a pointer so that this header does not need Asio's.
  struct io;
  io& asio() { return *io_; }

  // ---- virtual time
  bool is_virtual() const { return options_.virtual_time; }
  /// The clock that measures waiting for this loop. Any thread; a virtual one: the test's.
  time_point waiting_clock() const;
  /// What a thread does in place of sleeping while it waits for a virtual loop. False: `until` has come.
  bool move_on(time_point until) { return options_.mover && options_.mover->move_on(until); }
  /// False: the calling thread runs this loop and would wait for itself.
  bool may_wait() const {
    return options_.virtual_time ? options_.mover && !options_.mover->moving() : !here();
  }
  /// Another one each time, the same ones in each run.
  uint64_t draw_seed() { return options_.seed + ++seeds_drawn_; }
  void run_until_idle();
  /// One round.
  void step();
  /// Nothing is to be done before `next_timer`.
  bool idle() const { return !woken() && !has_ready() && ending_.empty() && next_timer() > now_; }
  time_point next_timer() const;
  /// The next rounds are at `t`.
  void set_time(time_point t) { now_ = t; }
  /// Moves the clock, firing timers in order, and runs until idle after each.
  void advance(duration d);

  static constexpr size_t read_slab_bytes = 256 << 10;

protected:
  /// On the thread of the loop, before its first round.
  virtual void begin() {}
  /// Runs a bounded number of ready tasks. True: there are more.
  virtual bool run_ready() = 0;
  /// Whether `run_ready` has something to do: what the end of a round made ready must not wait for the next
  /// event.
  virtual bool has_ready() const { return false; }
  /// Takes what other threads left. Called when `wake` or `remind` was.
  virtual void take_remote() = 0;
  /// The calling thread does a bounded number of rounds of a loop that has stopped, as if it were the loop's.
  /// One thread at a time.
  void run_stopped();

private:
  void run();
  bool run_round();
  void fire_timers();
  bool spin();
  void sleep();
  bool woken() const { return remote_.load(std::memory_order_relaxed); }

  loop_options options_;
  std::unique_ptr<io> io_;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};
  time_point now_;
  std::vector<round_end*> ending_, ended_;
  std::multimap<time_point, std::pair<timer_id, std::function<void()>>> timers_;
  timer_id last_timer_ = 0;
  duration spin_budget_;
  uint64_t seeds_drawn_ = 0;
  slab_pool_owner read_slabs_{false};
  slab_ref read_slab_;
  alignas(64) std::atomic<bool> remote_{false};
  std::atomic<bool> asleep_{false}, stopping_{false};
};

} // namespace weir::net
