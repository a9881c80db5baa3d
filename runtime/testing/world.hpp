#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <weir/testing.hpp>

#include "actors/environment.hpp"
#include "actors/loop.hpp"
#include "net/backoff.hpp"

namespace weir::testing::detail {

class wire;

/// One direction between two nodes, for all their connections.
struct path {
  std::string from, to;
  net::duration delay{0};
  size_t capacity = 64 << 10;
  bool stalled = false;
  dialling dials = dialling::connects;
  uint64_t dialled = 0;
};

/// Who listens somewhere, as long as it does.
struct listening {
  std::string node;
  std::function<void(actors::environment::stream_maker)> accepted;
};

/// The time of a network, what is planned in it, and what is between its nodes. Every loop of a network
/// shares it. The test's thread only.
class world final : public net::time_mover, public std::enable_shared_from_this<world> {
public:
  explicit world(network_options o);

  // ---- time
  net::time_point now() const { return now_; }
  net::duration elapsed() const;
  bool moving() const override { return moving_; }
  bool move_on(net::time_point t) override;
  /// Until nothing is to be done now.
  void settle();
  /// That did not come within `rounds_max`; the time moves no more.
  bool restless() const { return rounds_ > options_.rounds_max; }
  void plan(net::time_point t, std::function<void()> f) { planned_.emplace(t, std::move(f)); }
  /// Forgets what is planned and who listens.
  void end();
  void add_loop(const std::shared_ptr<actors::loop>& l);

  // ---- chance
  uint64_t seed() const { return options_.seed; }
  /// From 0 to `most`.
  uint64_t draw(uint64_t most);
  bool one_in(uint32_t n) { return n > 0 && draw(n - 1) == 0; }
  faults chance;

  // ---- places
  void add_place(const std::string& node) { places_.insert(node); }
  bool knows(const std::string& node) const { return places_.contains(node); }
  path& between(const std::string& from, const std::string& to);
  std::unique_ptr<net::dial> connect(const std::string& node, net::loop& l, const net::uri& to,
                                     net::duration timeout, net::dial::on_result f);
  result<std::unique_ptr<net::listener>> listen(const std::string& node, const net::uri& at,
                                                std::function<void(actors::environment::stream_maker)> f);
  /// Those between two nodes, whoever dialled; also what has ended and has still somebody to tell.
  std::vector<std::shared_ptr<wire>> wires(const std::string& a, const std::string& b);

  bool traces() const { return static_cast<bool>(options_.trace); }
  void trace(const std::string& what) const;

private:
  struct attempt;
  class dial_handle;
  class listener;
  friend class listener;
  using address = std::pair<std::string, uint16_t>; // a unix path has port 0

  address address_of(const std::string& node, const net::uri& u) const;
  result<address> free_address(const std::string& node, const net::uri& at);
  void dial_at(net::time_point t, const std::shared_ptr<attempt>& a,
               void (world::*what)(const std::shared_ptr<attempt>&));
  void connect_now(const std::shared_ptr<attempt>& a);
  void refuse(const std::shared_ptr<attempt>& a);
  void time_out(const std::shared_ptr<attempt>& a);
  void finish(const std::shared_ptr<attempt>& a, result<std::unique_ptr<net::stream>> r);
  std::vector<std::shared_ptr<actors::loop>> live_loops();
  bool turn();
  bool run_planned();
  void set_now(net::time_point t);
  net::time_point next();

  const network_options options_;
  net::splitmix64 random_;
  net::time_point now_;
  bool moving_ = false;
  uint64_t rounds_ = 0; // at this moment
  std::multimap<net::time_point, std::function<void()>> planned_;
  std::vector<std::weak_ptr<actors::loop>> loops_;
  std::set<std::string> places_; // of all nodes that are or were
  std::map<std::pair<std::string, std::string>, path> paths_;
  std::map<address, listening> listening_;
  std::vector<std::weak_ptr<wire>> wires_;
  uint64_t last_wire_ = 0;
  uint16_t last_port_ = 49151; // where the ports that nobody names begin
};

/// The loops, the environment and the place of a node, for weir's own tests.
struct insides {
  static weir::detail::ground& of(network& n, const std::string& name);
  /// `network::add_node` of a node that is changed beyond what options allow.
  static node& add(network& n, const std::string& name, node_options o,
                   const std::function<void(weir::detail::ground&)>& change);
};

} // namespace weir::testing::detail
