#pragma once
#include <algorithm>
#include <deque>
#include <utility>

#include "actors/messages.hpp"

namespace weir::actors {

/// Deadlines of what waits are looked at so often.
constexpr net::duration deadline_grain = std::chrono::milliseconds{10};

/// Messages that wait in a session, for its opening or for credit, in order. What may wait was admitted by
/// the session's gate (`send-buffer`), so it is bounded. Owner: the session or its local conversation.
class waiting_list {
public:
  struct item {
    ask what;
    caf::strong_actor_ptr from;
  };

  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  void push_back(item i) {
    deadline_ = std::min(deadline_, i.what.deadline);
    items_.push_back(std::move(i));
  }
  void push_front(item i) {
    deadline_ = std::min(deadline_, i.what.deadline);
    items_.push_front(std::move(i));
  }
  item pop_front() {
    auto i = std::move(items_.front());
    items_.pop_front();
    if (items_.empty())
      deadline_ = net::time_point::max();
    return i;
  }
  std::deque<item> take_all() {
    deadline_ = net::time_point::max();
    return std::exchange(items_, {});
  }
  /// No item's deadline is earlier; max: none has one.
  net::time_point deadline() const { return deadline_; }
  /// Calls whose deadline has passed, in order.
  std::deque<item> take_expired(net::time_point now) {
    return take([&](const item& i) { return i.what.deadline <= now; });
  }
  /// The call `token` of `from`: one or none.
  std::deque<item> take_call(uint64_t token, const caf::strong_actor_ptr& from) {
    return take([&](const item& i) { return token != 0 && i.what.token == token && i.from == from; });
  }

private:
  template <class F>
  std::deque<item> take(F wanted) {
    std::deque<item> taken, left;
    deadline_ = net::time_point::max();
    for (auto& i : items_)
      if (wanted(i)) {
        taken.push_back(std::move(i));
      } else {
        deadline_ = std::min(deadline_, i.what.deadline);
        left.push_back(std::move(i));
      }
    items_ = std::move(left);
    return taken;
  }

  std::deque<item> items_;
  net::time_point deadline_ = net::time_point::max();
};

} // namespace weir::actors
