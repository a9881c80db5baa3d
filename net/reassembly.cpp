#include "net/reassembly.hpp"

#include <new>

namespace weir::net {

errc reassembly::begin(uint64_t total, uint32_t id, time_point deadline, slab_pool& from) {
  assert(!active() && total > 0 && total % 8 == 0);
  try {
    memory_ = from.take(total);
  } catch (const std::bad_alloc&) {
    return errc::no_budget;
  }
  memory_->used = static_cast<uint32_t>(total);
  total_ = total;
  got_ = 0;
  id_ = id;
  deadline_ = deadline;
  return errc::none;
}

void reassembly::begin_discarded(uint64_t total, uint32_t id) {
  total_ = total;
  got_ = 0;
  id_ = id;
}

errc reassembly::append(const std::byte* at, uint32_t n, bool last, time_point now) {
  assert(active());
  if (n > missing() || last != (n == missing()))
    return errc::malformed_message;
  if (memory_)
    std::memcpy(memory_->data() + got_, at, n);
  got_ += n;
  last_at_ = now;
  return errc::none;
}

void reassembly::reset() {
  memory_.reset();
  total_ = got_ = 0;
  id_ = 0;
}

} // namespace weir::net
