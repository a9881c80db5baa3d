#include "runtime/bell.hpp"

#include <cerrno>
#include <climits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weir::detail {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

bool bell::sleep(uint32_t seen, uint32_t bits, std::chrono::steady_clock::time_point deadline) {
  using namespace std::chrono;
  auto at = deadline.time_since_epoch(); // of CLOCK_MONOTONIC, as the futex wants it
  auto whole = duration_cast<seconds>(at);
  timespec until{whole.count(), static_cast<long>(duration_cast<nanoseconds>(at - whole).count())};
  auto r = syscall(SYS_futex, &rung_, FUTEX_WAIT_BITSET_PRIVATE, seen, &until, nullptr, bits);
  return r == 0 || errno != ETIMEDOUT;
}

void bell::ring(uint32_t bits) {
  rung_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &rung_, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, bits);
}

} // namespace weir::detail
