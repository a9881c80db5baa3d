#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace weir::net {

class slab_pool;

/// A reference-counted block of memory that messages are read into or built in. Whoever holds a message holds
/// its slab; the last one gives it back to its pool. Immutable once another holder has seen it, except for
/// the part behind `used`, which belongs to the one that took it.
struct slab {
  std::atomic<uint32_t> refs{1};
  uint32_t size = 0; ///< bytes behind this header
  uint32_t used = 0; ///< bytes that may be dirty
  uint32_t unused_ = 0;
  slab_pool* home = nullptr;

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(slab) % 8 == 0, "messages are word-aligned");

/// One reference to a slab. Any thread.
class slab_ref {
public:
  slab_ref() = default;
  /// Takes over one reference.
  explicit slab_ref(slab* s) noexcept : slab_(s) {}
  slab_ref(slab_ref&& other) noexcept : slab_(std::exchange(other.slab_, nullptr)) {}
  slab_ref(const slab_ref& other) noexcept : slab_(other.slab_) {
    if (slab_)
      slab_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  slab_ref& operator=(slab_ref other) noexcept {
    std::swap(slab_, other.slab_);
    return *this;
  }
  ~slab_ref() { reset(); }

  void reset() noexcept {
    if (slab_ && slab_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
      release(slab_);
    slab_ = nullptr;
  }
  slab* operator->() const { return slab_; }
  slab* get() const { return slab_; }
  explicit operator bool() const { return slab_ != nullptr; }
  bool sole() const { return slab_->refs.load(std::memory_order_acquire) == 1; }
  friend bool operator==(const slab_ref& a, const slab_ref& b) { return a.slab_ == b.slab_; }

private:
  static void release(slab* s) noexcept;
  slab* slab_ = nullptr;
};

/// Where slabs come from and go back to, by size class (powers of two). Lives until its owner and the last of
/// its slabs are gone. Any thread may give back; `take` too.
class slab_pool {
public:
  /// `zeroed`: slabs come with zero bytes, as Cap'n Proto wants them to build in.
  static slab_pool* make(bool zeroed) { return new slab_pool(zeroed); }
  /// The owner goes; slabs that are still held keep the pool alive.
  void retire();
  /// The pool that all builders of this process share; never retired.
  static slab_pool& build_pool();

  slab_pool(const slab_pool&) = delete;
  slab_pool& operator=(const slab_pool&) = delete;

  /// A slab of at least `bytes`. Throws std::bad_alloc.
  slab_ref take(size_t bytes);
  /// Bytes of slabs that are held somewhere (without what waits in the pool).
  size_t alive_bytes() const { return alive_bytes_.load(std::memory_order_relaxed); }

  static constexpr size_t smallest = 4 << 10;
  /// Free bytes kept per size class; above it memory goes back to the system.
  static constexpr size_t kept_bytes_max = 4 << 20;

private:
  friend class slab_ref;
  explicit slab_pool(bool zeroed) : zeroed_(zeroed) {}
  ~slab_pool();
  void give(slab* s) noexcept;
  void drop_owner() noexcept;

  static constexpr size_t classes = 20;
  const bool zeroed_;
  std::atomic<size_t> owners_{1}; // the owner and each slab that is held
  std::atomic<size_t> alive_bytes_{0};
  std::mutex mutex_;
  std::vector<slab*> free_[classes];
};

/// The holder of a pool of its own.
class slab_pool_owner {
public:
  explicit slab_pool_owner(bool zeroed) : pool_(slab_pool::make(zeroed)) {}
  ~slab_pool_owner() { pool_->retire(); }
  slab_pool_owner(const slab_pool_owner&) = delete;
  slab_pool_owner& operator=(const slab_pool_owner&) = delete;
  slab_pool* operator->() const { return pool_; }
  slab_pool& operator*() const { return *pool_; }

private:
  slab_pool* pool_;
};

} // namespace weir::net
