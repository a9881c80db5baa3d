#pragma once
#include <bit>
#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace weir::net {

/// A queue in one block of memory that grows by doubling and is used again and again: no allocation per
/// element, unlike std::deque. Popped elements are reset to T{} at once, so they hold no memory. Whoever owns
/// one bounds it.
template <class T>
class ring {
public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  /// Counted from the front.
  T& operator[](size_t i) { return items_[(first_ + i) & mask()]; }
  const T& operator[](size_t i) const { return items_[(first_ + i) & mask()]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }

  void push_back(T x) {
    if (size_ == items_.size())
      grow();
    items_[(first_ + size_++) & mask()] = std::move(x);
  }
  void pop_front() {
    assert(size_ > 0);
    items_[first_] = T{};
    first_ = (first_ + 1) & mask();
    --size_;
  }
  void clear() {
    while (!empty())
      pop_front();
  }
  /// Takes out every element for which `drop` is true, in order.
  template <class F>
  void erase_if(F drop) {
    size_t kept = 0;
    for (size_t i = 0; i < size_; ++i) {
      if (drop((*this)[i]))
        continue;
      if (kept != i)
        (*this)[kept] = std::move((*this)[i]);
      ++kept;
    }
    for (auto i = kept; i < size_; ++i)
      (*this)[i] = T{};
    size_ = kept;
  }

private:
  size_t mask() const { return items_.size() - 1; }
  void grow() {
    std::vector<T> wider(items_.empty() ? 8 : items_.size() * 2);
    for (size_t i = 0; i < size_; ++i)
      wider[i] = std::move((*this)[i]);
    items_ = std::move(wider);
    first_ = 0;
  }

  std::vector<T> items_; // a power of two
  size_t first_ = 0, size_ = 0;
};

} // namespace weir::net
