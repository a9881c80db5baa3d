#include "net/calls.hpp"

#include <algorithm>

namespace weir::net {

// ---- the caller's side

void calls_out::set_max(uint32_t calls_max) { max_ = std::min(calls_max, calls_max_ceiling); }

uint32_t calls_out::open(uint64_t token, time_point deadline, uint64_t room, uint64_t paid) {
  assert(!full());
  if (free_.empty()) {
    free_.push_back(static_cast<uint16_t>(entries_.size()));
    entries_.emplace_back();
  }
  auto slot = free_.back();
  free_.pop_back();
  auto& e = entries_[slot];
  auto generation = static_cast<uint16_t>(e.generation == 0xffff ? 1 : e.generation + 1);
  e = {state::queued, false, generation, token, deadline, room, paid};
  next_deadline_ = std::min(next_deadline_, deadline);
  ++size_;
  ++waiting_;
  return call_id(slot, generation);
}

calls_out::entry* calls_out::find(uint32_t call) {
  if (slot_of(call) >= entries_.size())
    return nullptr;
  auto& e = entries_[slot_of(call)];
  return e.now != state::free && e.generation == generation_of(call) ? &e : nullptr;
}

void calls_out::close(uint32_t call) {
  auto* e = find(call);
  assert(e);
  if (e->now != state::cancelled)
    --waiting_;
  e->now = state::free;
  --size_;
  free_.push_back(slot_of(call));
}

void calls_out::clear() {
  for_each([&](uint32_t call, entry&) { close(call); });
}

void calls_out::cancel(entry& e) {
  assert(e.now != state::free && e.now != state::cancelled);
  e.now = state::cancelled;
  --waiting_;
}

void calls_out::expired(time_point now, std::vector<uint32_t>& out) {
  next_deadline_ = time_point::max();
  for_each([&](uint32_t call, entry& e) {
    if (e.now == state::cancelled)
      return;
    if (e.deadline <= now)
      out.push_back(call);
    else
      next_deadline_ = std::min(next_deadline_, e.deadline);
  });
}

// ---- the callee's side

calls_in::verdict calls_in::open(uint32_t call, uint64_t room) {
  auto slot = slot_of(call);
  if (generation_of(call) == 0)
    return verdict::bad_id;
  if (slot >= max_)
    return verdict::above_limit;
  if (slot >= entries_.size())
    entries_.resize(std::max<size_t>(slot + 1, std::min<size_t>(max_, entries_.size() * 2)));
  auto& e = entries_[slot];
  if (e.now != state::free)
    return verdict::busy;
  e.now = state::running;
  e.generation = generation_of(call);
  e.room = room;
  ++size_;
  return verdict::taken;
}

calls_in::entry* calls_in::find(uint32_t call) {
  if (slot_of(call) >= entries_.size())
    return nullptr;
  auto& e = entries_[slot_of(call)];
  return e.now != state::free && e.generation == generation_of(call) ? &e : nullptr;
}

void calls_in::close(uint32_t call) {
  auto* e = find(call);
  assert(e);
  e->now = state::free;
  e->parked.reset();
  --size_;
}

void calls_in::clear() {
  for_each([&](uint32_t call, entry&) { close(call); });
}

} // namespace weir::net
