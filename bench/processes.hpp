/// The processes of a benchmark: servers and clients are always started by fork and exec, so that the
/// processor time and memory of each are its own; they agree on phases and give results through one shared
/// page.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure.hpp"

namespace weir::bench {

/// A run that cannot go on: what happened and what to do about it, in one line. Caught by the mode's main
/// only.
class bench_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// `what`, and what the system says about `errno`.
[[noreturn]] void throw_system_error(std::string_view what);

/// The phases of a run. The parent advances them, everybody else looks.
enum class phase : std::uint32_t {
  warm_up, ///< clients connect, say `ready` and work; nothing is counted
  measure, ///< what happens now counts
  over,    ///< clients stop, publish, say `finished` and stay, so that their memory can still be read
  leave,   ///< clients end
};

/// What all processes of a run see. The counters are for the mode to use; what each means is in
/// bench/README.md.
struct shared_state {
  std::atomic<phase> now{phase::warm_up};
  std::atomic<std::uint32_t> ready{0};    ///< client processes that have connected
  std::atomic<std::uint32_t> finished{0}; ///< client processes that have published
  std::atomic<std::uint64_t> errors{0};
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> received{0};
  std::atomic<std::uint64_t> offered{0};
  std::atomic<std::uint64_t> handled{0};
  std::atomic<std::uint64_t> undelivered{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<clock::rep> started{0}; ///< of `clock`, the same clock in all processes of a machine
  std::atomic<clock::rep> ended{0};
  std::atomic<std::uint32_t> wanted{0};  ///< the step that the parent has asked for, in modes that have some
  std::atomic<std::uint32_t> reached{0}; ///< the last step that the client has done
  std::array<std::atomic<double>, 4> values{}; ///< what a mode measures in its client; it says in which order
  histogram latency;      ///< only by `histogram::add_to` and, when all have finished, by the parent
  histogram idle_latency; ///< as `latency`, of calls with nothing beside them
};

/// One `shared_state` in memory without a file. It is neither copied nor moved; children get it by
/// inheritance.
class shared_page {
public:
  /// The descriptor that a child finds the page at.
  static constexpr int child_descriptor = 3;
  struct inherited {};

  shared_page();                   ///< a new page
  explicit shared_page(inherited); ///< the page that our parent gave us; bench_error if it gave none
  ~shared_page();
  shared_page(const shared_page&) = delete;
  shared_page& operator=(const shared_page&) = delete;

  shared_state& state() { return *state_; }
  int descriptor() const { return descriptor_; }

private:
  int descriptor_ = -1;
  shared_state* state_ = nullptr;
};

/// What one thread of a client measures; publishes in its destructor, so destroy it before saying `finished`.
class recorder {
public:
  explicit recorder(shared_state& state) : state_(state) {}
  ~recorder() { kept_.add_to(state_.latency); }
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  bool running() const { return state_.now.load(std::memory_order_relaxed) < phase::over; }
  void record(clock::time_point from, clock::time_point to) {
    if (state_.now.load(std::memory_order_relaxed) == phase::measure)
      kept_.record(to - from);
  }
  /// The same of a call that was due at `from`: it also counts when it ends after the measuring, or the
  /// slowest would be left out.
  void record_due(clock::time_point from, clock::time_point to) {
    if (state_.now.load(std::memory_order_relaxed) >= phase::measure)
      kept_.record(to - from);
  }

private:
  shared_state& state_;
  histogram kept_;
};

/// A client waits, in steps of a millisecond, until the parent has reached `wanted`.
void wait_for(const shared_state& state, phase wanted);

/// A client waits until the parent asks for a step after `last`, or wants no more (phase `over`); which one,
/// 0: no more.
std::uint32_t next_step(const shared_state& state, std::uint32_t last);

/// A client's last words: says `finished` and stays until it may leave.
void finish(shared_state& state);

/// A server's first words on stdout, which the parent waits for: `READY address`.
void say_ready(std::string_view address);

/// The path of the running program.
std::string own_program();

/// One child process. Its stdout is ours to read, it is killed when this object or the *thread* that made it
/// ends (PR_SET_PDEATHSIG): make it on the main thread. Killed by its id only.
class child_process {
public:
  struct settings {
    shared_page* page = nullptr; ///< given to the child when set
    bool collect_errors = false; ///< keep its stderr for `errors()` instead of letting it through
  };

  child_process(const std::string& program, const std::vector<std::string>& arguments, settings with);
  ~child_process();
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  pid_t pid() const { return pid_; }

  /// The address behind READY. bench_error when the child ends or says nothing for `limit`.
  std::string wait_ready(std::chrono::milliseconds limit);

  /// All of its stdout until it closes it.
  std::string read_all();

  /// What it wrote to stderr so far, with `collect_errors`.
  std::string errors() const;

  /// Its exit status (128 + signal when it was killed) if it has ended.
  std::optional<int> status();

  /// Waits until it has ended; at most `limit`, after which it is killed.
  int wait(std::chrono::milliseconds limit);

  /// Asks it to end (SIGTERM) and kills it when it has not within a second.
  void stop();

private:
  pid_t pid_ = -1;
  int output_ = -1;
  int errors_ = -1;
  std::optional<int> status_;
};

} // namespace weir::bench
