#include "net/slab.hpp"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

namespace weir::net {

namespace {
size_t class_of(size_t bytes) {
  auto rounded = std::bit_ceil(bytes < slab_pool::smallest ? slab_pool::smallest : bytes);
  return static_cast<size_t>(std::countr_zero(rounded) - std::countr_zero(slab_pool::smallest));
}
void destroy(slab* s) {
  s->~slab();
  std::free(s);
}
} // namespace

void slab_ref::release(slab* s) noexcept { s->home->give(s); }

slab_pool& slab_pool::build_pool() {
  static auto* pool = make(true); // outlives every thread that still holds a message
  return *pool;
}

slab_ref slab_pool::take(size_t bytes) {
  auto index = class_of(bytes);
  if (index >= classes)
    throw std::bad_alloc{};
  slab* s = nullptr;
  {
    std::lock_guard guard{mutex_};
    if (auto& list = free_[index]; !list.empty()) {
      s = list.back();
      list.pop_back();
    }
  }
  if (s) {
    if (zeroed_)
      std::memset(s->data(), 0, s->used);
    s->refs.store(1, std::memory_order_relaxed);
  } else {
    auto size = smallest << index;
    auto* raw = zeroed_ ? std::calloc(1, sizeof(slab) + size) : std::malloc(sizeof(slab) + size);
    if (!raw)
      throw std::bad_alloc{};
    s = new (raw) slab;
    s->size = static_cast<uint32_t>(size);
    s->home = this;
  }
  s->used = 0;
  owners_.fetch_add(1, std::memory_order_relaxed);
  alive_bytes_.fetch_add(s->size, std::memory_order_relaxed);
  return slab_ref{s};
}

void slab_pool::give(slab* s) noexcept {
  alive_bytes_.fetch_sub(s->size, std::memory_order_relaxed);
  bool kept = false;
  {
    std::lock_guard guard{mutex_};
    auto& list = free_[class_of(s->size)];
    kept = (list.size() + 1) * s->size <= kept_bytes_max && list.size() < list.capacity();
    if (!kept && (list.size() + 1) * s->size <= kept_bytes_max) {
      try {
        list.reserve(list.size() * 2 + 4);
        kept = true;
      } catch (const std::bad_alloc&) {
        kept = false; // then it is freed below
      }
    }
    if (kept)
      list.push_back(s);
  }
  if (!kept)
    destroy(s);
  drop_owner();
}

void slab_pool::retire() { drop_owner(); }

void slab_pool::drop_owner() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete this;
}

slab_pool::~slab_pool() {
  for (auto& list : free_)
    for (auto* s : list)
      destroy(s);
}

} // namespace weir::net
