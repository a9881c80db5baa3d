#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weir/service.hpp>

#include "actors/environment.hpp"
#include "actors/snapshot.capnp.h"

namespace weir {

/// What a probe service may look at. Constant; outlives the service.
struct probed_node {
  actors::environment_ptr env;
  std::string cluster;
  std::function<std::vector<std::pair<std::string, std::string>>()> options;
  std::function<std::vector<std::string>()> addresses;
  net::time_point started;
};

/// The service `weir.probe` of every node: answers with a snapshot of it. Each loop looks at itself when it
/// has time; one that does not within `patience` is left out. On the node's first loop.
class probe_service final : public service<snapshot::Prober> {
public:
  using look = method<&snapshot::Prober::Client::lookRequest>;
  static constexpr const char* served_as = "weir.probe";
  static constexpr uint64_t held_bytes = 4 << 10, held_messages = 16; ///< requests that wait for the loops
  static constexpr uint64_t ration_bytes = 16 << 10;                  ///< also a full budget has so much
  static constexpr uint64_t listed_max = 1000;
  static constexpr std::chrono::milliseconds patience{500};

  probe_service(caf::actor_config& cfg, std::shared_ptr<const probed_node> of)
      : service(cfg), of_(std::move(of)) {}
  handlers make_handlers() override;

protected:
  void on_exit() override;

private:
  struct pending;
  void begin(const weir::request<look>& rq);
  void finish(pending& p);
  void fill(snapshot::Snapshot::Builder to, const pending& p) const;
  void fill_services(snapshot::Snapshot::Builder to) const;

  std::shared_ptr<const probed_node> of_;                // until it ends
  std::map<uint64_t, std::shared_ptr<pending>> pending_; // at most held_messages
  uint64_t last_ = 0;
};

} // namespace weir
