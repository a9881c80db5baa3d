#include "net/backoff.hpp"

#include <cassert>
#include <limits>

namespace weir::net {

uint64_t splitmix64::operator()() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

backoff::backoff(const backoff_options& o) : options_(o) { assert(o.base.count() > 0 && o.cap >= o.base); }

std::chrono::nanoseconds backoff::next(splitmix64& random) {
  auto most = static_cast<uint64_t>(ceiling().count());
  if (attempts_ < std::numeric_limits<uint32_t>::max())
    ++attempts_;
  // The remainder prefers the small delays, by less than 1 in 10^6 for a cap of an hour: nobody will notice.
  return std::chrono::nanoseconds{static_cast<int64_t>(random() % (most + 1))};
}

std::chrono::nanoseconds backoff::ceiling() const {
  constexpr uint32_t shift_max = 62; // base * 2^attempt must not overflow
  if (attempts_ > shift_max || options_.base.count() > options_.cap.count() >> attempts_)
    return options_.cap;
  return std::chrono::nanoseconds{options_.base.count() << attempts_};
}

} // namespace weir::net
