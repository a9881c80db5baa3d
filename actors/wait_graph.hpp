#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "net/frame.hpp"

namespace weir::actors {

/// Who waits, and who is waited for.
struct waiter {
  uint64_t actor = 0;
  uint64_t stream = 0; ///< one that comes in and leaves on an outlet of its own; 0: the actor as a whole
  friend auto operator<=>(const waiter&, const waiter&) = default;
};

/// `who` goes on when `on` gives back what it has, and not before.
struct wait_edge {
  waiter who, on;
  net::time_point since{};
  std::string name; ///< of `on`, for people
};

/// Waits each of which is for who waits next, the last one for who waits first. It begins with the smallest
/// of those in it, so the same cycle is the same whoever found it.
struct wait_cycle {
  std::vector<wait_edge> waits;
  /// When the last one began to wait, and so the cycle.
  net::time_point since() const;
};

/// Who waits for whom at one moment, and where that goes in a circle. Knows no actor, clock or thread. The
/// same edges in the same order give the same cycles.
class wait_graph {
public:
  void add(wait_edge e);
  /// One cycle of every set of waiters that all wait, over others, for each other; by their first waiters.
  /// Time and memory are linear in the edges.
  std::vector<wait_cycle> cycles() const;

private:
  using node = uint32_t;
  struct hash {
    size_t operator()(const waiter& w) const { return w.actor * 0x9e3779b97f4a7c15 ^ w.stream; }
  };
  /// The edges that leave each node, one node's behind the other's.
  struct leaving {
    std::vector<uint32_t> first, edges;
  };
  node node_of(const waiter& w);
  leaving sort_edges() const;
  std::vector<node> components(const leaving& out) const;
  wait_cycle cycle_from(node start, const leaving& out, const std::vector<node>& component,
                        std::vector<uint32_t>& came_by) const;

  std::unordered_map<waiter, node, hash> node_of_;
  std::vector<waiter> nodes_;
  std::vector<wait_edge> edges_;
  std::vector<std::pair<node, node>> ends_; // of each edge
};

} // namespace weir::actors
