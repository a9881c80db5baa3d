#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

namespace weir::actors {

/// The actors that are the keys of `all`, the oldest first: what is done to each of them then depends on
/// where it lies in memory no more, and a run on virtual time can be repeated.
template <class Actors>
std::vector<typename Actors::key_type> in_order_of_birth(const Actors& all) {
  std::vector<typename Actors::key_type> ordered;
  ordered.reserve(all.size());
  for (auto& x : all)
    if constexpr (std::is_pointer_v<typename Actors::value_type>)
      ordered.push_back(x);
    else
      ordered.push_back(x.first);
  std::sort(ordered.begin(), ordered.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  return ordered;
}

} // namespace weir::actors
