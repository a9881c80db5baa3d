#pragma once
// Tests of your services: link weir::testing. It knows no test framework.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <weir/node.hpp>

namespace weir::testing {

using duration = std::chrono::nanoseconds;

namespace detail {
struct insides;
struct path;
class world;
} // namespace detail

struct network_options {
  /// Of everything that is random in the network: the same seed gives the same run.
  uint64_t seed = 1;
  /// Gets one line for every dial, write, cut and end: what to print when a test fails, or to compare runs.
  std::function<void(const std::string& line)> trace = {};
  /// Most rounds at one moment of the clock. More of them mean that something turns without end, such as two
  /// actors that mail each other for ever.
  uint64_t rounds_max = 1'000'000;
};

/// What the network does of its own accord, drawn from its seed. By default nothing.
struct faults {
  /// Each write arrives up to so much later than `paths::delay` says. What arrives on different connections
  /// is re-ordered by it; one connection stays in order, as TCP does.
  duration delay_max{0};
  /// One write in so many cuts its connection instead; 0: none.
  uint32_t cut_one_in = 0;
  /// One write in so many holds up its direction of the connection for up to `stall_max`; 0: none.
  uint32_t stall_one_in = 0;
  duration stall_max = std::chrono::milliseconds{100};
  /// Reads get what has arrived in pieces of random size.
  bool pieces = false;
  /// The nodes take turns in random order; else in the order of `add_node`.
  bool turns = false;
};

/// What becomes of a dial.
enum class dialling : uint8_t {
  connects,
  refused, ///< connect_failed, after one round trip
  silent,  ///< connect_timeout, after `connect-timeout`
};

/// What carries the bytes between two nodes: `network::between` both ways, `network::from` one way. It holds
/// for the connections that are there and for those to come. A handle, valid as long as its network; the
/// verbs return it. A partition is `stall().dials(dialling::silent)`.
class paths {
public:
  /// From a write to its arrival. Begins with 0.
  paths& delay(duration d);
  /// Bytes go in and none comes out, until `resume`. Dials are silent meanwhile.
  paths& stall();
  paths& resume();
  /// Loses every connection, with what is under way on it. Either node may dial again.
  paths& cut();
  /// Bytes that may be under way on one direction of a connection before its writer has to wait. Begins with
  /// 64 KiB. 0: nothing goes in.
  paths& capacity(size_t bytes);
  paths& dials(dialling what);

  /// Dials that were begun, whatever became of them.
  uint64_t dialled() const;
  /// Connections that are there now, whoever dialled.
  size_t connections() const;
  /// Written and not read yet, on all connections.
  size_t bytes_under_way() const;

private:
  friend class network;
  paths(std::shared_ptr<detail::world> w, std::string a, std::string b, bool both);
  paths& change(const std::function<void(detail::path&)>& f);

  std::shared_ptr<detail::world> world_;
  std::string from_, to_;
  bool both_;
};

/// Nodes of one test, and what is between them. The nodes are real, with their actors, links and credit; but
/// they have no threads and no sockets. One thread, the test's, does everything inside the functions below,
/// by a clock that stands still in between: `advance(5s)` takes as long as what is to be done then. So a test
/// neither waits nor depends on the machine's load, and a failure comes back with its seed.
///
///     weir::testing::network net{sys, {.seed = 1}};
///     auto& server = net.add_node("server");
///     auto& client = net.add_node("client");
///     server.serve<Calculator>("calculator", server.spawn<calculator>());
///     auto calc = client.lookup<Calculator>("calculator", "tcp://server:7000");
///     net.between("client", "server").delay(20ms);
///
/// Everything of `weir::node` works, and so do `weir::client` and `weir::blocking_outlet`: where they wait
/// they move the time. Actors of `node.spawn` run in virtual time. Those of `sys.spawn` run on CAF's threads,
/// outside of it: nobody waits for them, so a test of such a service spawns it with `node.spawn`.
///
/// A network, its nodes and their refs are used by the thread that made it only. Of actors and what they
/// refer to: make what they refer to first, or end them before it goes; the nodes stop when the network goes.
class network {
public:
  explicit network(caf::actor_system& sys, network_options o = {});
  /// Stops the nodes, the last one first, each for at most its `drain-timeout` of virtual time.
  ~network();
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  // ---- nodes

  /// A node on a machine of its own, which has the name of the node: it listens on "tcp://NAME:7000" unless
  /// the options say where. All of `tcp://` and `unix://` works in it, also port 0, ranges, localhost and
  /// 0.0.0.0, and any host that is not another node's; a unix path is known in the whole network. Options
  /// that say "choose for me" do not look at this machine (64 MiB budget-bytes, 16 MiB outbound-bytes), and
  /// `io_threads` is 1 whatever they say. Throws start_error as the node's own constructor does, and
  /// std::invalid_argument for a name that is taken or is no host name.
  node& add_node(const std::string& name, node_options o = {});
  /// Stops it and takes it away; the name is free again.
  void remove_node(const std::string& name);
  /// Throws std::out_of_range when there is none.
  node& operator[](const std::string& name) const;

  // ---- time

  /// Since the network was made.
  duration now() const;
  /// Until nothing is to be done at this moment. Throws std::runtime_error, with the seed, when that does not
  /// come in `rounds_max` rounds; so do `advance` and `run_until`. The network can then only be destroyed.
  void run();
  /// Lets `d` pass: everything that is due by then happens, each at its time.
  void advance(duration d);
  /// Lets time pass until `done`, for at most `limit`. False: it is not.
  bool run_until(const std::function<bool()>& done, duration limit);
  /// Does `f` when `d` has passed: also while a blocking call waits. It must not wait itself.
  void after(duration d, std::function<void()> f);

  // ---- what goes wrong

  /// Throws std::out_of_range when there is no such node, or was never one.
  paths between(const std::string& a, const std::string& b) const;
  /// One way: what `from` sends, and its dials.
  paths from(const std::string& from, const std::string& to) const;
  void set_faults(const faults& f);
  /// `set_faults` with what every correct program gets on with: turns, pieces and delays of up to 2 ms.
  void shuffle() { set_faults({.delay_max = std::chrono::milliseconds{2}, .pieces = true, .turns = true}); }
  uint64_t seed() const;

  // ---- what is left

  /// Empty when every node owes and keeps as much as with no session at all (`node_stats::base_line`), and no
  /// actors of a node have waited for each other's credit in a circle (`stall-limit`); else one line for each
  /// of which that is not true, and the seed. Streams and refs must be gone; what the last ones gave back may
  /// be on its way for some milliseconds.
  std::string leftovers() const;

private:
  friend struct detail::insides;
  struct member;
  void check_rest() const;
  member& at(const std::string& name) const;
  node& add(const std::string& name, node_options o,
            const std::function<void(weir::detail::ground&)>& change);

  caf::actor_system& system_;
  std::shared_ptr<detail::world> world_;
  std::vector<std::unique_ptr<member>> members_;
};

} // namespace weir::testing
