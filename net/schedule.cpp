#include "net/schedule.hpp"

#include <algorithm>

namespace weir::net {

void schedule::add(member& m) {
  if (m.waiting)
    return;
  m.waiting = true;
  m.deficit = 0;
  line(static_cast<size_t>(m.in_lane)).push_back(&m);
  ++waiting_;
}

void schedule::remove(member& m) {
  if (!m.waiting)
    return;
  m.waiting = false;
  line(static_cast<size_t>(m.in_lane)).erase_if([&](member* x) { return x == &m; });
  --waiting_;
}

void schedule::clear() {
  for (auto& members : lines_)
    for (; !members.empty(); members.pop_front())
      members.front()->waiting = false;
  waiting_ = 0;
}

/// The first lane that is behind its share, else the one of highest rank that has somebody waiting.
size_t schedule::choose(size_t among) const {
  for (size_t i = among; i-- > 1;)
    if (!lines_[i].empty() && behind_[i] > 0)
      return i;
  for (size_t i = 0; i < among; ++i)
    if (!lines_[i].empty())
      return i;
  return lanes;
}

schedule::member* schedule::next(bool bulk_too) {
  static_assert(static_cast<size_t>(lane::bulk) == lanes - 1);
  auto chosen = choose(bulk_too ? lanes : lanes - 1);
  if (chosen == lanes)
    return nullptr;
  auto& members = line(chosen);
  while (members.front()->deficit <= 0) {
    auto* m = members.front();
    m->deficit += turn_bytes;
    if (m->deficit > 0)
      break;
    members.pop_front();
    members.push_back(m);
  }
  return members.front();
}

void schedule::sent(member& m, uint64_t bytes, bool more) {
  auto n = static_cast<int64_t>(bytes);
  auto mine = static_cast<size_t>(m.in_lane);
  m.deficit -= n;
  for (size_t i = 1; i < lanes; ++i) {
    if (lines_[i].empty())
      behind_[i] = 0;
    else if (i != mine)
      behind_[i] += n / share[i];
    else if (behind_[i] > 0)
      behind_[i] -= n - n / share[i]; // served by rank it pays nothing
  }
  auto& members = line(mine);
  assert(members.front() == &m);
  if (more && m.deficit > 0)
    return;
  members.pop_front();
  if (more)
    members.push_back(&m);
  else {
    m.waiting = false;
    m.deficit = 0;
    --waiting_;
  }
}

} // namespace weir::net
