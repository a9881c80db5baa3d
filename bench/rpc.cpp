#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include <sys/prctl.h>

#include <weir/client.hpp>

#include "bench/messages.hpp"
#include "bench/modes.hpp"
#include "bench/raw.hpp"
#include "bench/weir_mode.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

namespace {

using namespace std::chrono_literals;
using program::Blob;
using program::Echo;
using program::echo_method;

constexpr std::uint64_t callers_per_session = 1000,
                        bytes_per_session = 512 << 10; // within calls-max and send-buffer
constexpr std::uint64_t small_reply_bytes = 3 << 10, reply_room_max = 1 << 20;
constexpr auto pause_after_failure = 10ms;
constexpr std::uint64_t scheduled_sessions = 16; // for calls on schedule, of which very many may be open
constexpr int calls_per_turn = 64;               // then answers have their turn
constexpr auto
    tick = 50us; // calls that are due within it leave together: waking up for each costs more than it

/// A recorder for each thread that measures: callers on CAF's scheduler wander from one to another.
class thread_recorders {
public:
  explicit thread_recorders(shared_state& state) : state_(state) {}

  /// That of this thread. One object of this class in a process.
  recorder& here() {
    thread_local recorder* mine = nullptr;
    if (mine == nullptr) {
      std::lock_guard guard(mutex_);
      mine = &all_.emplace_back(state_);
    }
    return *mine;
  }

private:
  shared_state& state_;
  std::mutex mutex_;
  std::deque<recorder> all_;
};

/// What the callers of a process share.
struct caller_run {
  caller_run(const rpc_shape& shape, shared_state& s)
      : state(s),
        recorders(s),
        pattern(shape.bytes, std::byte{'x'}),
        callers(shape.callers),
        working(shape.rate > 0 ? 1 : shape.callers) {
    if (shape.rate > 0)
      interval = std::chrono::duration_cast<clock::duration>(
          seconds(static_cast<double>(shape.processes) / shape.rate));
    if (shape.bytes > small_reply_bytes)
      options.reply_room_bytes = static_cast<std::uint32_t>(std::min(shape.bytes + 1024, reply_room_max));
  }

  /// When call `n` of caller `i` is due.
  clock::time_point due(std::uint64_t i, std::uint64_t n) const {
    return start + interval * static_cast<clock::rep>(i + n * callers);
  }

  void failed(std::string_view why) {
    ++state.errors;
    if (!told.exchange(true))
      fmt::print(stderr, "weir bench rpc: a call failed: {}\n", why);
  }

  shared_state& state;
  thread_recorders recorders;
  std::vector<std::byte> pattern;
  std::uint64_t callers;
  call_options options;
  clock::duration interval{0}; ///< between calls of this process; 0: closed loop
  clock::time_point start = clock::now();
  std::atomic<std::uint64_t> working;    ///< actors that have not ended
  std::atomic<bool> told_to_look{false}; ///< the pacer has a message that it has not read
  std::promise<void> ended;
  std::atomic<bool> told{false};
};

/// Whether `answer` is what call `sequence` has sent.
bool is_answer(Blob::Reader answer, std::uint64_t sequence, const caller_run& run) {
  auto data = answer.getData();
  return answer.getSequence() == sequence && data.size() == run.pattern.size() &&
         answer.getCheck() == program::check_of(sequence, data);
}

/// Has one call open, and the next one when it is answered.
class caller final : public weir::actor {
public:
  caller(caf::actor_config& cfg, caller_run& run, std::uint64_t index, ref<Echo> echo)
      : actor(cfg), run_(run), index_(index), echo_(std::move(echo)) {}

  caf::behavior make_behavior() override {
    return {[this](begin_work) { begin(); },
            [this](more_work) {
              open_ = false;
              next();
            },
            [this](end_work) {
              ending_ = true;
              if (!open_)
                leave();
            }};
  }

private:
  void begin() {
    open_ = true;
    from_ = clock::now();
    sequence_ = index_ << 40 | ++calls_;
    call<echo_method>(echo_, run_.options,
                      [this](echo_method::args to) {
                        program::fill_blob(to, sequence_, run_.pattern, run_.pattern.size());
                      })
        .then([this](echo_method::result answer) { answered(answer); },
              [this](const failure& why) { failed(why); });
  }

  void answered(Blob::Reader answer) {
    if (!is_answer(answer, sequence_, run_))
      run_.failed("the answer is not what was sent");
    else
      run_.recorders.here().record(from_, clock::now());
    open_ = false;
    next();
  }

  void failed(const failure& why) {
    run_.failed(to_string(why));
    // Open until then: a lost link is no reason to spin.
    put_at(system(), std::chrono::steady_clock::now() + pause_after_failure,
           caf::actor_cast<caf::strong_actor_ptr>(this), more_work{});
  }

  void next() {
    if (ending_)
      leave();
    else
      begin();
  }

  void leave() {
    echo_ = {};
    quit();
    if (--run_.working == 0)
      run_.ended.set_value();
  }

  caller_run& run_;
  const std::uint64_t index_;
  ref<Echo> echo_;
  bool open_ = false, ending_ = false;
  std::uint64_t calls_ = 0, sequence_ = 0;
  clock::time_point from_;
};

/// Calls on schedule, whether answers come or not. A call is timed from when it was due, which was fixed when
/// the run began, so that one that has to wait (`open_max`) counts with its waiting time.
class pacer final : public weir::actor {
public:
  /// `each`: calls that may be open on a session.
  pacer(caf::actor_config& cfg, caller_run& run, std::vector<ref<Echo>> sessions, std::uint64_t each)
      : actor(cfg), run_(run), sessions_(std::move(sessions)), open_max_(each * sessions_.size()) {}

  caf::behavior make_behavior() override {
    return {[this](begin_work) {
              run_.told_to_look = false;
              begin_due();
            },
            [this](more_work) { begin_due(); }, [this](end_work) { end(); }};
  }

private:
  clock::time_point next_due() const { return run_.start + run_.interval * static_cast<clock::rep>(begun_); }

  void begin_due() {
    auto now = clock::now();
    for (int i = 0; !ending_ && open_ < open_max_ && next_due() <= now; ++i)
      if (i < calls_per_turn)
        begin(next_due());
      else
        return put(caf::actor_cast<caf::actor>(this), nullptr, more_work{});
  }

  void begin(clock::time_point due) {
    const auto& to = sessions_[begun_ / calls_per_turn % sessions_.size()];
    const auto sequence = ++begun_;
    ++open_;
    call<echo_method>(to, run_.options,
                      [&](echo_method::args to_fill) {
                        program::fill_blob(to_fill, sequence, run_.pattern, run_.pattern.size());
                      })
        .then(
            [this, due, sequence](echo_method::result answer) {
              if (!is_answer(answer, sequence, run_))
                run_.failed("the answer is not what was sent");
              else
                run_.recorders.here().record_due(due, clock::now());
              ended();
            },
            [this](const failure& why) {
              run_.failed(to_string(why));
              ended();
            });
  }

  void ended() {
    --open_;
    if (ending_)
      leave_if_done();
    else if (open_ + 1 == open_max_)
      begin_due();
  }

  /// What was due and could not begin has waited so far at least.
  void end() {
    ending_ = true;
    for (auto now = clock::now(); next_due() <= now; ++begun_)
      run_.recorders.here().record_due(next_due(), now);
    leave_if_done();
  }

  void leave_if_done() {
    if (open_ > 0)
      return;
    sessions_.clear();
    quit();
    if (--run_.working == 0)
      run_.ended.set_value();
  }

  caller_run& run_;
  std::vector<ref<Echo>> sessions_;
  const std::uint64_t open_max_;
  std::uint64_t begun_ = 0, open_ = 0;
  bool ending_ = false;
};

/// Tells the pacer when calls are due, until the run is over.
void keep_schedule(caller_run& run, const caf::actor& pacer) {
  prctl(PR_SET_TIMERSLACK, 1UL); // or a sleep is 50 us too long
  while (run.state.now < phase::over) {
    auto now = clock::now();
    auto next = run.start + ((now - run.start) / run.interval + 1) * run.interval;
    std::this_thread::sleep_for(std::clamp<clock::duration>(next - now, tick, 10ms));
    if (!run.told_to_look.exchange(true))
      put(pacer, nullptr, begin_work{});
  }
}

std::uint64_t callers_of_a_session(const rpc_shape& shape) {
  return std::clamp<std::uint64_t>(bytes_per_session / (shape.bytes + 256), 1, callers_per_session);
}

ref<Echo> open_session(client_node& node, const std::string& address) {
  auto echo = node.node().lookup<Echo>("echo", address);
  ask<echo_method>(
      node, echo, [](echo_method::args) {}, [](echo_method::result) {}); // now it is open
  return echo;
}

void run_schedule(client_node& node, const std::string& address, const rpc_shape& shape,
                  shared_state& state) {
  caller_run run(shape, state);
  std::vector<ref<Echo>> sessions;
  for (std::uint64_t i = 0; i < scheduled_sessions; ++i)
    sessions.push_back(open_session(node, address));
  auto paced = node.spawn<pacer>(run, std::move(sessions), callers_of_a_session(shape));
  ++state.ready;
  run.start = clock::now();
  keep_schedule(run, paced);
  put(paced, nullptr, end_work{});
  run.ended.get_future().wait();
}

void run_client(client_node& node, const std::string& address, const rpc_shape& shape, shared_state& state) {
  caller_run run(shape, state);
  std::vector<caf::actor> callers;
  ref<Echo> echo;
  for (std::uint64_t i = 0; i < shape.callers; ++i) {
    if (i % callers_of_a_session(shape) == 0)
      echo = open_session(node, address);
    callers.push_back(node.spawn<caller>(run, i, echo));
  }
  echo = {};
  ++state.ready;
  for (const auto& one : callers)
    put(one, nullptr, begin_work{});
  wait_for(state, phase::over);
  for (const auto& one : callers)
    put(one, nullptr, end_work{});
  run.ended.get_future().wait();
}

/// One blocking call behind the other until the run is over.
void keep_calling(weir::client& via, const ref<Echo>& echo, caller_run& run, std::uint64_t index) {
  recorder record(run.state);
  for (std::uint64_t n = 0; record.running(); ++n) {
    auto from = clock::now();
    if (run.interval > 0ns) {
      from = run.due(index, n);
      std::this_thread::sleep_until(from);
    }
    auto sequence = index << 40 | (n + 1);
    auto answer = via.call<echo_method>(echo, run.options, [&](echo_method::args to) {
      program::fill_blob(to, sequence, run.pattern, run.pattern.size());
    });
    if (!answer) {
      run.failed(to_string(answer.error()));
      std::this_thread::sleep_for(pause_after_failure); // a lost link is no reason to spin
    } else if (!is_answer(*answer, sequence, run)) {
      run.failed("the answer is not what was sent");
    } else {
      record.record(from, clock::now());
    }
  }
}

void run_threads(client_node& node, const std::string& address, const rpc_shape& shape, shared_state& state) {
  caller_run run(shape, state);
  weir::client via{node.node()};
  std::vector<std::jthread> threads;
  ref<Echo> echo;
  for (std::uint64_t i = 0; i < shape.callers; ++i) {
    if (i % callers_of_a_session(shape) == 0)
      echo = open_session(node, address);
    threads.emplace_back([&via, &run, echo, i] { keep_calling(via, echo, run, i); });
  }
  ++state.ready;
}

void client(client_node& node, const std::string& address, const rpc_shape& shape, shared_state& state) {
  if (shape.style == "threads") // both publish when they are done
    run_threads(node, address, shape, state);
  else if (shape.rate > 0)
    run_schedule(node, address, shape, state);
  else
    run_client(node, address, shape, state);
  finish(state);
}

} // namespace

int rpc_main(int argc, char** argv) {
  weir_mode<rpc_shape, rpc_result> mode{
      "rpc", "calls from many callers to one service, and how long they take", run_rpc, raw_rpc, client};
  return run_weir_mode(mode, argc, argv,
                       [](const options&, const rpc_shape&) -> std::optional<int> { return std::nullopt; });
}

} // namespace weir::bench
