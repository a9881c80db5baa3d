#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace weir::detail {

/// Where threads sleep until a loop rings: a futex, and one bit for each of up to 32 threads, so that one
/// system call wakes exactly those that are meant. To sleep: `look`, then look whether it is needed, then
/// `sleep`.
class bell {
public:
  uint32_t look() const { return rung_.load(std::memory_order_seq_cst); }
  /// Sleeps until a ring for one of `bits` since `seen`, at most until `deadline`; may also return for
  /// nothing. False: the deadline has passed.
  bool sleep(uint32_t seen, uint32_t bits, std::chrono::steady_clock::time_point deadline);
  /// Wakes whoever sleeps with one of `bits`. Any thread.
  void ring(uint32_t bits);

private:
  alignas(64) std::atomic<uint32_t> rung_{0};
};

} // namespace weir::detail
