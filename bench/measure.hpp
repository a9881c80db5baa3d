/// What a benchmark measures: latencies, processor time and memory of processes. Start reading at
/// bench/README.md.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <sys/types.h>

namespace weir::bench {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

inline double us(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}
inline double mb(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

/// Latencies in buckets that are 1/64 of their value wide (so a quantile is right to 0.8 %), as in
/// HdrHistogram. Exact below 64 ns, open above 73 minutes. Trivially copyable and valid when zeroed, so that
/// it can lie in a page that several processes share. `record` and the readers belong to one thread; `add_to`
/// may run in many at once.
class histogram {
public:
  void record(std::chrono::nanoseconds latency);

  /// Adds all counts to `shared` with atomic operations: each thread keeps a histogram and publishes it once.
  void add_to(histogram& shared) const;

  std::uint64_t count() const;

  /// The latency that a share `q` (0 to 1) of all recorded ones does not exceed; zero when nothing was
  /// recorded.
  std::chrono::nanoseconds quantile(double q) const;

  /// The largest latency, exact.
  std::chrono::nanoseconds max() const { return std::chrono::nanoseconds(max_); }

private:
  static constexpr unsigned sub_bits = 6;    // 64 buckets for each power of two
  static constexpr unsigned value_bits = 42; // 73 minutes in ns
  static constexpr std::size_t bucket_count = std::size_t{value_bits - sub_bits + 1} << sub_bits;

  static std::size_t bucket_of(std::uint64_t ns);
  static std::uint64_t middle_of(std::size_t bucket);

  std::array<std::uint64_t, bucket_count> counts_{};
  std::uint64_t max_ = 0;
};

/// User and system time of a process so far, all its threads, also ended ones. Empty when there is no such
/// process.
std::optional<seconds> cpu_time(pid_t pid);

/// Memory of a process that is in RAM, from /proc/PID/status.
struct memory {
  std::uint64_t resident_bytes = 0; ///< now (VmRSS)
  std::uint64_t peak_bytes = 0;     ///< the most since it was started by exec (VmHWM)
};

/// Empty when there is no such process or it has ended.
std::optional<memory> memory_of(pid_t pid);

} // namespace weir::bench
