#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <caf/actor.hpp>

#include "actors/caf.hpp"
#include "actors/credit.hpp"
#include "actors/gate.hpp"
#include "actors/rationing.hpp"
#include "net/ledger.hpp"
#include "net/loop.hpp"

namespace weir::actors {

class credit_manager;
class link;

/// Something to be done on a loop, kept by whoever hands it over: no lock, no memory.
class handed_over {
public:
  /// On the loop; from now on it may be handed over again.
  virtual void run() = 0;

protected:
  ~handed_over() = default;

private:
  friend class loop;
  handed_over* next_ = nullptr;
};

/// A loop that runs pinned actors and owns what they share: the ledgers and the port of returning credit.
class loop final : public net::loop, public std::enable_shared_from_this<loop> {
public:
  /// `inbound`, `outbound_bytes`: this loop's share of the node's budgets.
  loop(caf::actor_system& sys, const net::loop_options& o, const net::budget_options& inbound,
       uint64_t outbound_bytes);
  ~loop() override;

  /// The context that `pin_scope` takes: actors made in it live here.
  caf_context* own() { return &own_; }
  template <class T, class... Ts>
  caf::actor spawn(Ts&&... xs) {
    pin_scope pin{own()};
    return system_.spawn<T>(std::forward<Ts>(xs)...);
  }
  caf::actor_system& system() { return system_; }
  /// The loop of a pinned actor or nullptr.
  static loop* of(const pinnable& a);

  /// Runs `f` on the loop, in one of its next rounds. Any thread.
  void post(std::function<void()> f);
  /// Begins nothing new: no dial, no session; a link that comes up is refused. Links and local conversations
  /// end when what is under way on them has. `done` is called, on the loop, when all have. On the loop.
  void drain(std::function<void()> done);
  /// The same for what is done often: `what` runs once, in one of the next rounds, in the order of handing
  /// over. Whoever finds nothing else waiting wakes the loop, so many threads wake it once. False: the loop
  /// was shut down, nothing happens. Any thread.
  bool hand_over(handed_over& what);
  /// So many threads were just woken and will probably hand something over soon: when the first of them has,
  /// the others are let run before the loop goes on, so that it writes once for all of them. On the loop.
  void expect(uint32_t threads) { expected_ += threads; }
  /// Ends every session, link and endpoint of this loop; sessions that are made later refuse everything. On
  /// the loop.
  void shut_down();
  /// True: nothing new is begun. On the loop.
  bool stopping() const { return draining_; }
  /// After `stop`: the loop has no thread, and whoever brings it something (mail for its actors, a task) runs
  /// it before going on, one thread at a time. So nobody waits in vain, and what is left behind is answered.
  void retire();
  bool retired() const { return retired_.load(); }

  /// Says who held this loop for how long, when that was longer than `after`. Before `start`.
  using slow_report = std::function<void(std::string_view who, net::duration)>;
  void report_slow(net::duration after, slow_report f) {
    slow_after_ = after;
    slow_report_ = std::move(f);
  }
  net::duration slow_after() const { return slow_after_; }
  void say_slow(std::string_view who, net::duration took) const { slow_report_(who, took); }

  /// Keeps the books of this loop; its links and sessions call it directly.
  credit_manager& credit() { return *credit_; }
  const caf::actor& credit_handle() const { return credit_handle_; }
  net::budget& inbound();
  net::outbound_ledger& outbound();
  const std::shared_ptr<credit_port>& port() { return port_; }
  /// What `node::tune` may change.
  struct limits {
    rationing rations;
    uint32_t fragment_bytes = 0; ///< of its links; 0: as the environment says
    uint64_t budget_bytes = 0;   ///< its part of the node's, whatever it has lent or borrowed
    uint64_t number = 0;         ///< later ones have a higher one
  };
  /// How its sessions get their rations, among others. Loop only.
  limits limits_now;
  /// At once for all that is there; what was overtaken by later ones changes nothing.
  void tune(const limits& to);
  /// What one gets at first.
  net::ration_options first_ration() { return limits_now.rations.first(inbound()); }
  /// What its sessions may keep to be sent, all together.
  const std::shared_ptr<outbound_room>& room() const { return room_; }
  /// A producer on `s` wants to build a message of about so many bytes and found no room: `s` is told in its
  /// turn (`session::has_room`). Loop only, as is what follows.
  void stand_in_line(session& s, uint64_t bytes);
  /// Room may have come back: tells as many as it will do for.
  void serve_room_line();
  /// The dialling endpoints of this loop, by uri, and its live sessions and links. Loop only.
  std::unordered_map<std::string, caf::actor> endpoints;
  std::unordered_set<session*> sessions;
  std::unordered_set<session*> local_sessions; ///< of them, those to services of this node
  std::unordered_map<link*, caf::actor> links;
  /// `s` is told when `service` ends (`session::service_is_gone`), until it is forgotten. Loop only.
  void watch_service(const caf::actor& service, session& s);
  void forget_watch(const caf::actor& service, session& s);
  /// The services that are watched, each with the sessions that are to be told. One stays, also when its last
  /// session has gone, until it ends: there are never more than living services.
  const std::unordered_map<caf::actor_id, std::unordered_set<session*>>& watched_services() const {
    return watched_services_;
  }
  /// Credit of a session that is gone returns to the budget.
  void give_back(const account::returned& r);
  /// Bytes that arrived and were not given back yet, of all links of this loop; kept up to date by the links.
  uint64_t unconsumed_bytes = 0;
  /// Of the budget, what the allowances of services take that were served here. Loop only.
  uint64_t served_bytes = 0;

private:
  /// Two faces: actors that are pinned here are enqueued with `own`; whatever else CAF would run on the
  /// context of an actor that runs here (because that actor sent to it or spawned it) goes to CAF's
  /// scheduler, all of a round together.
  class own_context final : public context_base {
  public:
    own_context(caf::actor_system& sys, loop& l) : context_base(sys), home(l) {}
    loop& home;

  protected:
    void ready(caf::resumable* r) override { home.ready(r); }
  };
  class guest_context final : public context_base {
  public:
    guest_context(caf::actor_system& sys, loop& l) : context_base(sys), home_(l) {}

  protected:
    void ready(caf::resumable* r) override { home_.lead_out(r); }

  private:
    loop& home_;
  };

  void begin() override;
  bool run_ready() override;
  bool has_ready() const override { return !ready_.empty() || !leaving_.empty(); }
  void take_remote() override;
  void ready(caf::resumable* r);
  void lead_out(caf::resumable* r);
  void let_out();
  void brought();
  void serve_retired();
  void collect_credit();
  bool is_drained() const;
  void take_handed_over();
  /// How many that were.
  uint32_t run_handed_over(handed_over* last);

  caf::actor_system& system_;
  net::duration slow_after_ = net::duration::max();
  slow_report slow_report_;
  own_context own_;
  guest_context guest_;
  caf::actor credit_handle_;
  credit_manager* credit_ = nullptr;
  const std::shared_ptr<outbound_room> room_;
  struct in_line {
    caf::actor keep;
    session* who;
    uint64_t bytes;
  };
  std::deque<in_line> room_line_; // each session once at a time (gate::wait)
  std::unordered_map<caf::actor_id, std::unordered_set<session*>> watched_services_;
  std::shared_ptr<credit_port> port_;
  std::vector<account*> credited_;
  std::deque<caf::resumable*> ready_;
  std::mutex mutex_;
  std::vector<caf::resumable*> remote_, arrived_, busy_;
  std::vector<caf::resumable*> leaving_; // to CAF's scheduler, at the end of the round
  std::vector<std::function<void()>> tasks_;
  bool serving_ = false; // a thread runs the retired loop; under mutex_
  std::atomic<bool> retired_{false};
  bool draining_ = false;
  std::function<void()> drained_; // to be told
  uint32_t expected_ = 0;         // threads that have not handed over anything since
  alignas(64) std::atomic<handed_over*> handed_over_{nullptr}; // the last one first

  static constexpr size_t resumes_per_round = 4096; // then the sockets have their turn
  static constexpr size_t messages_per_resume = 300;
};

} // namespace weir::actors
