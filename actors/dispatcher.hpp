#pragma once
#include <map>
#include <string>
#include <unordered_set>

#include "actors/messages.hpp"

namespace weir::actors {

/// Knows which actor serves a name, and deals out the places in its mailbox among the sessions that are
/// opened to it. One per node.
class dispatcher final : public pinnable {
public:
  explicit dispatcher(caf::actor_config& cfg) : pinnable(cfg) {}
  caf::behavior make_behavior() override;
  const char* name() const override { return "weir.dispatcher"; }

  struct entry {
    caf::actor service;
    std::shared_ptr<held_allowance> allowance;
    uint64_t interface = 0;
    bool stream = false;
    uint64_t mailbox_messages = 0; // 0: no limit
    uint64_t dealt = 0;            // of them, to sessions that are open
    uint64_t ration_bytes = 0;     // of its sessions; 0: the node's
  };
  /// What is served, by name. On its loop.
  const std::map<std::string, entry>& services() const { return services_; }

private:
  found_service find(const find_service& f);
  void serve(serve_service& s);

  std::map<std::string, entry> services_;
  std::unordered_set<caf::actor_id> serving_; // that were served and have not ended
};

} // namespace weir::actors
