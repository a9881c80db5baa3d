#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/log.hpp"
#include "actors/wait_graph.hpp"
#include "net/ration.hpp"

namespace weir::actors {

class loop;
class session;

/// Finds actors of one node that wait in a circle for each other's credit: what rule R8 is there to prevent,
/// and no time heals. It counts and writes `wait_cycle`; it ends nothing and takes no credit in.
///
/// A producer waits for a service when it wants credit on a stream whose ration the service has and does not
/// give back: leases it. What lies in the service's mailbox or is being handled is no wait, however long that
/// takes: a mark sent behind it must have come through. Requests come back whatever becomes of them (handled,
/// held or refused), so calls are no waits. Sessions across a link are `weir why`'s to follow.
///
/// While sessions lead from the node to services of its own, each loop says now and then what waits there,
/// and the first loop joins that; else nothing is done at all. One per node, kept by its environment.
class cycle_watch : public std::enable_shared_from_this<cycle_watch> {
public:
  struct options {
    net::duration limit;  ///< a cycle that has lasted for so long is reported; more than 0
    net::duration period; ///< and again after so long, while it is there
  };
  /// `loops`: at least one; the first is where cycles are found.
  cycle_watch(const options& o, std::shared_ptr<journal> log,
              const std::vector<std::shared_ptr<loop>>& loops);

  /// A session to a service of this node has begun, or is over. Any loop.
  void begins();
  void ends() { sessions_.fetch_sub(1); }
  /// Whether it looks at all at this moment. Any thread.
  bool is_looking() const { return armed_.load(); }
  /// From one look to the next. A cycle is found when it has lasted for `limit`, at the latest a look later.
  net::duration interval() const;

  static constexpr size_t waits_max = 10'000; ///< of one loop in one look, the oldest sessions first
  static constexpr size_t named_max = 16;     ///< waiters of a cycle that a line names
  static constexpr net::duration shortest_interval = std::chrono::milliseconds{10};

private:
  /// What is known of a session whose producer waits; by its loop.
  struct stall {
    net::position sent, back;                   ///< to the service, and by it
    net::time_point since;                      ///< the first look that saw it so
    std::shared_ptr<std::atomic<bool>> through; ///< is the mark behind all that the service was given
  };
  using stalls = std::unordered_map<uint64_t, stall>; // by session
  struct watched_loop {
    std::weak_ptr<loop> at;
    stalls seen;                  // its own
    std::vector<wait_edge> waits; // what follows: the first loop's
    bool asked = false;           // and has not answered yet
  };

  void arm();
  void look();
  void ask(size_t i);
  void take(size_t i, uint64_t round, std::vector<wait_edge> waits);
  void join();
  void report(const std::vector<const wait_cycle*>& due, net::time_point now);
  static net::position given_back(const session& s);
  static bool waits(const session& s);
  std::vector<wait_edge> waits_at(loop& at, stalls& seen) const;
  bool is_stalled(const session& s, const stalls& before, stall& now) const;
  static wait_edge edge_of(const session& s, net::time_point since);

  const options options_;
  const std::shared_ptr<journal> log_;
  std::vector<watched_loop> loops_;
  std::atomic<uint64_t> sessions_{0};
  std::atomic<bool> armed_{false};
  uint64_t round_ = 0;
  size_t missing_ = 0;                        // answers of this round
  std::map<waiter, net::time_point> written_; // in this period: cycles, by their first waiter
};

} // namespace weir::actors
