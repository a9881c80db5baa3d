#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace weir::test {

/// A program that a test runs. Its stdout and stderr are the test's to read; it is killed, by its id, when
/// this object goes or the test dies. Own it on the main thread.
class process {
public:
  using limit = std::chrono::milliseconds;
  static constexpr limit patience{
      30'000}; ///< for what should take a moment: sanitizers and busy machines are slow

  struct ending {
    int status = -1; ///< of exit; 128 + signal when a signal ended it; -1 when it had to be killed at the
                     ///< limit
    std::string out; ///< what was not read before
    std::string err;
  };

  /// Of setrlimit: the resource and what it may have.
  using resource_limits = std::vector<std::pair<int, uint64_t>>;

  /// Starts `words[0]` with the environment of the test and `variables` on top, within `limits`. Actors of
  /// its nodes that wait in a circle for a second are found (WEIR_STALL_LIMIT), and what it says of them is a
  /// failure of the test.
  explicit process(std::vector<std::string> words,
                   const std::vector<std::pair<std::string, std::string>>& variables = {},
                   const resource_limits& limits = {});
  ~process();
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  pid_t pid() const { return pid_; }
  bool cycle_on_purpose = false; ///< its actors are to wait in a circle

  /// The next line of its stdout, without its end. Empty when it ends, or says nothing until the limit.
  std::optional<std::string> line(limit within = patience);
  /// What stands behind READY in its next line; a failure of the test when that is not what it says.
  std::string ready(limit within = patience);
  /// Waits for its end.
  ending end(limit within = patience);
  /// Asks it to end (SIGTERM) and waits.
  ending stop(limit within = patience);
  void send(int signal) const;
  /// Stops all its threads (SIGSTOP) and returns when they have; `send(SIGCONT)` lets them go on.
  void pause() const;
  bool running();
  /// The most memory it has had so far; 0 when it is gone.
  uint64_t peak_bytes() const;
  /// The processor time that its threads have used so far; after its end, all that it used.
  std::chrono::milliseconds cpu_time() const;

private:
  bool pump(std::chrono::steady_clock::time_point until);
  void reap(int options);

  std::string name_;
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  std::string out_text_, err_text_;
  std::optional<int> status_;
  std::chrono::milliseconds cpu_time_{0}; // in all, once it has ended
};

/// Runs a program to its end.
process::ending run(std::vector<std::string> words,
                    const std::vector<std::pair<std::string, std::string>>& variables = {});

/// Of any process: VmHWM, or VmRSS.
uint64_t memory_bytes(pid_t pid, const std::string& what = "VmHWM");

/// A directory for one test, removed with all that is in it.
class scratch {
public:
  scratch();
  ~scratch();
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  std::string path(const std::string& name = {}) const { return name.empty() ? path_ : path_ + "/" + name; }
  /// Writes a file and returns its path.
  std::string file(const std::string& name, std::string_view text) const;

private:
  std::string path_;
};

/// Looks every few milliseconds until `is_so` or the limit.
template <class F>
bool eventually(F is_so, process::limit within = process::patience);

void short_pause();

template <class F>
bool eventually(F is_so, process::limit within) {
  for (auto until = std::chrono::steady_clock::now() + within; !is_so(); short_pause())
    if (std::chrono::steady_clock::now() > until)
      return false;
  return true;
}

} // namespace weir::test
