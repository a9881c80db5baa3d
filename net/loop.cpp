#include <algorithm>
#include <cassert>
#include <future>

#include <sched.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "net/loop_io.hpp"

namespace weir::net {

namespace asio = boost::asio;
using std::chrono::steady_clock;

namespace {
constexpr time_point virtual_start{std::chrono::hours{1}};
constexpr duration longest_sleep = std::chrono::seconds{60};
constexpr int short_sleep = 3;            // times `spin`
constexpr int rounds_when_stopped = 1024; // an actor that never rests must not keep who brought it mail
} // namespace

loop::loop(const loop_options& o)
    : options_(o),
      io_(std::make_unique<io>()),
      now_(o.virtual_time ? virtual_start : steady_clock::now()),
      spin_budget_(o.spin) {
  if (o.virtual_time)
    thread_id_ = std::this_thread::get_id();
}

loop::~loop() { stop(); }

void loop::start() {
  if (options_.virtual_time)
    return;
  std::promise<void> ready;
  thread_ = std::thread{[this, &ready] {
    thread_id_ = std::this_thread::get_id();
    ready.set_value();
    run();
  }};
  ready.get_future().wait();
}

void loop::stop() {
  stopping_.store(true);
  if (!thread_.joinable())
    return;
  wake();
  thread_.join();
}

void loop::wake() {
  remote_.store(true);
  if (here())
    return;
  if (asleep_.load() && asleep_.exchange(false)) // one wake-up for any number of arrivals
    asio::post(io_->context, [] {});
}

time_point loop::fresh_now() {
  if (!options_.virtual_time)
    now_ = steady_clock::now();
  return now_;
}

time_point loop::waiting_clock() const { return options_.virtual_time ? now_ : steady_clock::now(); }

void loop::forget(round_end& r) {
  std::erase(ending_, &r);
  std::replace(ended_.begin(), ended_.end(), &r, static_cast<round_end*>(nullptr));
}

loop::timer_id loop::at(time_point t, std::function<void()> f) {
  timers_.emplace(t, std::pair{++last_timer_, std::move(f)});
  return last_timer_;
}

void loop::cancel(timer_id id) {
  auto i = std::find_if(timers_.begin(), timers_.end(), [id](auto& x) { return x.second.first == id; });
  if (i != timers_.end())
    timers_.erase(i);
}

slab_ref& loop::read_slab(size_t room) {
  if (!read_slab_ || read_slab_->size - read_slab_->used < room)
    read_slab_ = read_slabs_->take(std::max(room, read_slab_bytes));
  return read_slab_;
}

time_point loop::next_timer() const { return timers_.empty() ? time_point::max() : timers_.begin()->first; }

void loop::run() {
  begin();
  auto guard = asio::make_work_guard(io_->context);
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (run_round())
      io_->context.poll_one();
    else if (!spin())
      sleep();
  }
}

/// True: there is more to do at once.
bool loop::run_round() {
  if (!options_.virtual_time)
    now_ = steady_clock::now();
  if (woken()) {
    remote_.store(false);
    take_remote();
  }
  fire_timers();
  bool more = run_ready();
  ended_.swap(ending_);
  for (size_t i = 0; i < ended_.size(); ++i)
    if (auto* r = ended_[i])
      r->end_of_round();
  ended_.clear();
  return more || has_ready() || !ending_.empty() || woken() || next_timer() <= now_;
}

void loop::fire_timers() {
  while (next_timer() <= now_) {
    auto f = std::move(timers_.begin()->second.second);
    timers_.erase(timers_.begin());
    f();
  }
}

/// Polls for a while. The while is halved when it was in vain and restored when a sleep turns out to have
/// been short: a sleep and its wake-up on both sides make a round trip about three times as long as it is
/// when both spin. Yields, or it would take the core from the very thread it waits for.
bool loop::spin() {
  if (spin_budget_ <= std::chrono::microseconds{1})
    return false;
  auto until = steady_clock::now() + spin_budget_;
  do {
    if (io_->context.poll_one() || woken())
      return true;
    sched_yield();
  } while (steady_clock::now() < until);
  spin_budget_ /= 2;
  return false;
}

void loop::sleep() {
  asleep_.store(true);
  auto before = steady_clock::now();
  if (!remote_.load() && !stopping_.load())
    io_->context.run_one_until(std::min(next_timer(), before + longest_sleep));
  asleep_.store(false);
  if (steady_clock::now() - before < short_sleep * options_.spin)
    spin_budget_ = options_.spin;
}

void loop::run_until_idle() {
  assert(options_.virtual_time);
  do {
    while (io_->context.poll() > 0) {
    }
    io_->context.restart();
  } while (run_round());
}

void loop::step() {
  assert(options_.virtual_time);
  io_->context.poll();
  io_->context.restart();
  run_round();
}

void loop::run_stopped() {
  thread_id_ = std::this_thread::get_id();
  for (int n = 0; n < rounds_when_stopped; ++n) {
    io_->context.restart();
    io_->context.poll();
    if (!run_round())
      break;
  }
  thread_id_ = std::thread::id{};
}

void loop::advance(duration d) {
  assert(options_.virtual_time);
  auto end = now_ + d;
  run_until_idle();
  while (next_timer() <= end) {
    now_ = next_timer();
    run_until_idle();
  }
  now_ = end;
  run_until_idle();
}

} // namespace weir::net
