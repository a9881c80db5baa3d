#include "actors/wait_graph.hpp"

#include <algorithm>
#include <limits>

namespace weir::actors {

namespace {
constexpr uint32_t none = std::numeric_limits<uint32_t>::max();
} // namespace

net::time_point wait_cycle::since() const {
  auto latest = net::time_point::min();
  for (auto& w : waits)
    latest = std::max(latest, w.since);
  return latest;
}

wait_graph::node wait_graph::node_of(const waiter& w) {
  auto [at, is_new] = node_of_.try_emplace(w, static_cast<node>(nodes_.size()));
  if (is_new)
    nodes_.push_back(w);
  return at->second;
}

void wait_graph::add(wait_edge e) {
  auto from = node_of(e.who), to = node_of(e.on);
  ends_.emplace_back(from, to);
  edges_.push_back(std::move(e));
}

wait_graph::leaving wait_graph::sort_edges() const {
  leaving out{std::vector<uint32_t>(nodes_.size() + 1), std::vector<uint32_t>(edges_.size())};
  for (auto& [from, to] : ends_)
    ++out.first[from + 1];
  for (size_t n = 0; n < nodes_.size(); ++n)
    out.first[n + 1] += out.first[n];
  auto next = out.first;
  for (uint32_t e = 0; e < ends_.size(); ++e)
    out.edges[next[ends_[e].first]++] = e;
  return out;
}

/// Of each node the component that it belongs to: all of a component reach each other. Tarjan's way, with a
/// stack of its own: a chain of waits may be long.
std::vector<wait_graph::node> wait_graph::components(const leaving& out) const {
  struct frame {
    node at;
    uint32_t next; // edge
  };
  auto count = nodes_.size();
  std::vector<uint32_t> seen(count, none), lowest(count);
  std::vector<node> component(count, none), open;
  std::vector<frame> way;
  uint32_t last_seen = 0;
  auto enter = [&](node n) {
    seen[n] = lowest[n] = last_seen++;
    open.push_back(n);
    way.push_back({n, out.first[n]});
  };
  for (node root = 0; root < count; ++root) {
    if (seen[root] == none)
      enter(root);
    while (!way.empty()) {
      auto at = way.back().at;
      if (way.back().next < out.first[at + 1]) {
        auto to = ends_[out.edges[way.back().next++]].second;
        if (seen[to] == none)
          enter(to);
        else if (component[to] == none)
          lowest[at] = std::min(lowest[at], seen[to]);
        continue;
      }
      way.pop_back();
      if (!way.empty())
        lowest[way.back().at] = std::min(lowest[way.back().at], lowest[at]);
      for (bool more = lowest[at] == seen[at]; more;) { // what is open above it is its component
        auto n = open.back();
        open.pop_back();
        component[n] = at;
        more = n != at;
      }
    }
  }
  return component;
}

/// The shortest way from `start` back to it within its component; without any waits when there is none.
/// `came_by`: the edge by which each node was reached first, `none` before.
wait_cycle wait_graph::cycle_from(node start, const leaving& out, const std::vector<node>& component,
                                  std::vector<uint32_t>& came_by) const {
  std::vector<node> reached{start};
  for (size_t i = 0; i < reached.size() && came_by[start] == none; ++i)
    for (auto e = out.first[reached[i]]; e < out.first[reached[i] + 1]; ++e) {
      auto to = ends_[out.edges[e]].second;
      if (component[to] != component[start] || came_by[to] != none)
        continue;
      came_by[to] = out.edges[e];
      reached.push_back(to);
    }
  wait_cycle found;
  if (came_by[start] == none)
    return found;
  auto at = start;
  do {
    found.waits.push_back(edges_[came_by[at]]);
    at = ends_[came_by[at]].first;
  } while (at != start);
  std::reverse(found.waits.begin(), found.waits.end());
  return found;
}

std::vector<wait_cycle> wait_graph::cycles() const {
  auto out = sort_edges();
  auto component = components(out);
  std::vector<node> smallest(nodes_.size(), none); // of each component
  for (node n = 0; n < nodes_.size(); ++n)
    if (auto& s = smallest[component[n]]; s == none || nodes_[n] < nodes_[s])
      s = n;
  std::vector<uint32_t> came_by(nodes_.size(), none);
  std::vector<wait_cycle> all;
  for (auto start : smallest)
    if (start != none)
      if (auto found = cycle_from(start, out, component, came_by); !found.waits.empty())
        all.push_back(std::move(found));
  std::sort(all.begin(), all.end(),
            [](auto& a, auto& b) { return a.waits.front().who < b.waits.front().who; });
  return all;
}

} // namespace weir::actors
