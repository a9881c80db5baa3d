#include "net/ledger.hpp"

#include <algorithm>
#include <numeric>

namespace weir::net {

std::string_view to_string(charge c) {
  switch (c) {
  case charge::session:
    return "session";
  case charge::large:
    return "large";
  case charge::held:
    return "held";
  case charge::reply_room:
    return "reply_room";
  }
  return "unknown";
}

budget::budget(const budget_options& o) : options_(o) { assert(o.reserve_bytes <= o.bytes); }

bool budget::take(charge c, uint64_t bytes) {
  if (bytes > free_bytes()) {
    ++refused_;
    return false;
  }
  of(c) += bytes;
  return true;
}

void budget::give(charge c, uint64_t bytes) {
  assert(of(c) >= bytes);
  of(c) -= bytes;
  refill_reserve();
}

void budget::set_pinned(uint64_t bytes) {
  pinned_ = bytes;
  refill_reserve();
}

void budget::move(charge from, charge to, uint64_t bytes) {
  assert(of(from) >= bytes);
  of(from) -= bytes;
  of(to) += bytes;
}

bool budget::take_reserve(reserve r, charge c, uint64_t bytes) {
  auto& lent = lent_[static_cast<size_t>(r)];
  if (lent != 0 || bytes == 0 || bytes > reserve_each_bytes()) {
    ++refused_;
    return false;
  }
  lent = bytes;
  of(c) += bytes;
  return true;
}

uint64_t budget::shrink(uint64_t bytes) {
  auto given = std::min(bytes, free_bytes());
  options_.bytes -= given;
  return given;
}

void budget::grow(uint64_t bytes) {
  auto due = std::min(overdue_, bytes);
  overdue_ -= due;
  options_.bytes += bytes - due;
}

void budget::change(uint64_t before, uint64_t after) {
  if (after >= before)
    return grow(after - before);
  auto less = before - after;
  auto now = std::min(less, pool_bytes());
  options_.bytes -= now;
  overdue_ += less - now;
}

void budget::refill_reserve() {
  if (lent_[0] == 0 && lent_[1] == 0)
    return;
  for (auto& lent : lent_)
    lent -= std::min(lent, free_bytes());
}

uint64_t budget::liability() const {
  auto charged = std::accumulate(charged_.begin(), charged_.end(), uint64_t{0});
  return charged + options_.reserve_bytes - lent_[0] - lent_[1] + pinned_;
}

uint64_t budget::free_bytes() const {
  auto owed = liability();
  return owed < options_.bytes ? options_.bytes - owed : 0;
}

bool outbound_ledger::admit(uint64_t bytes) {
  if (bytes > bytes_max_ || bytes_ > bytes_max_ - bytes)
    return false;
  add(bytes);
  return true;
}

void outbound_ledger::add(uint64_t bytes) {
  bytes_ += bytes;
  peak_ = std::max(peak_, bytes_);
}

void outbound_ledger::release(uint64_t bytes) {
  assert(bytes_ >= bytes);
  bytes_ -= bytes;
}

} // namespace weir::net
