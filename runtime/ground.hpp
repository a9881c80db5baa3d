#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <weir/node.hpp>

#include "actors/environment.hpp"
#include "actors/loop.hpp"

namespace weir::detail {

/// What a node of a test stands on in place of threads, clocks and sockets. Made by `weir::testing`, which
/// fills in the first part; the node's constructor fills in the second.
struct ground {
  net::loop_options loop;
  net::node_id id;
  uint32_t io_threads = 1; ///< loops
  /// Changes what the node has made of its options: how it dials and listens, and what a test of weir itself
  /// needs beyond what options allow.
  std::function<void(actors::environment&)> adjust;
  std::optional<net::budget_options> budget; ///< instead of what the options say

  std::function<void()> made; ///< what follows is there; nothing has run yet

  std::shared_ptr<actors::environment> env;
  std::vector<std::shared_ptr<actors::loop>> loops;
};

struct node_on_ground {
  static std::unique_ptr<node> make(caf::actor_system& sys, node_options o, ground& g) {
    return std::unique_ptr<node>{new node(sys, std::move(o), &g)};
  }
};

} // namespace weir::detail
