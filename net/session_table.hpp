#pragma once
#include <bit>
#include <vector>

#include "net/session.hpp"

namespace weir::net {

/// Sessions by id: open addressing with linear probing, at most half full, so a look-up is one multiplication
/// and mostly one comparison. The owner of a link bounds the number of sessions.
class session_table {
public:
  session_table() : slots_(16) {}

  session* find(uint32_t id) const {
    for (auto i = home(id);; i = next(i)) {
      if (!slots_[i].who || slots_[i].id == id)
        return slots_[i].who;
    }
  }
  /// Precondition: `id` is not in the table.
  void insert(uint32_t id, session* s) {
    if (2 * (size_ + 1) > slots_.size())
      grow();
    place(id, s);
    ++size_;
  }
  void erase(uint32_t id) {
    auto i = home(id);
    while (slots_[i].id != id || !slots_[i].who)
      i = next(i);
    --size_;
    for (auto j = next(i); slots_[j].who; j = next(j)) { // what probed over the hole moves into it
      auto distance = (j - home(slots_[j].id)) & mask();
      if (distance < ((j - i) & mask()))
        continue;
      slots_[i] = slots_[j];
      i = j;
    }
    slots_[i] = {};
  }
  size_t size() const { return size_; }
  template <class F>
  void for_each(F f) const {
    for (auto& x : slots_)
      if (x.who)
        f(*x.who);
  }

private:
  struct slot {
    uint32_t id = 0;
    session* who = nullptr;
  };
  size_t mask() const { return slots_.size() - 1; }
  size_t home(uint32_t id) const { return (id * uint64_t{0x9e3779b97f4a7c15} >> 40) & mask(); }
  size_t next(size_t i) const { return (i + 1) & mask(); }
  void place(uint32_t id, session* s) {
    auto i = home(id);
    while (slots_[i].who)
      i = next(i);
    slots_[i] = {id, s};
  }
  void grow() {
    auto old = std::move(slots_);
    slots_ = std::vector<slot>(old.size() * 2);
    for (auto& x : old)
      if (x.who)
        place(x.id, x.who);
  }

  std::vector<slot> slots_;
  size_t size_ = 0;
};

} // namespace weir::net
