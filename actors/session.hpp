#pragma once
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/environment.hpp"
#include "actors/loop.hpp"
#include "actors/messages.hpp"
#include "actors/waiting.hpp"
#include "net/mux.hpp"
#include "net/uri.hpp"

namespace weir::actors {

class endpoint;
class link;
class local_conversation;

/// What one loop collects for one service, or for one stream of rows, in one round; handed over as one
/// mailbox element.
struct service_port {
  caf::strong_actor_ptr to;
  std::shared_ptr<held_allowance> allowance;
  arrivals batch;
  uint32_t
      sessions = 0;    ///< that use it; without any it is given up, and with it the service and its allowance
  uint64_t reader = 0; ///< of `to`: these are rows for it

  /// `from`: who takes the answers.
  void hand_over(loop& home, caf::strong_actor_ptr from);
};

/// Who has opened a stream of rows, and what it calls it.
struct row_reader {
  caf::strong_actor_ptr who;
  uint64_t id = 0;
};

/// One conversation, as everybody sees it: an actor. Lives on the loop of its link, which calls it directly;
/// so do user actors of that loop. Others mail it. It begins unbound (looking for its service), is then bound
/// to a link or to a service of this node, and ends as an actor with the reason why the conversation is over.
class session final : public pinnable {
public:
  struct target {
    std::string service;
    uint64_t interface = 0;
    bool stream = false;
    bool here_first = true;      ///< a service of this node is taken before one of the peers
    std::vector<net::uri> peers; ///< asked in turn
    uint64_t rows = 0;           ///< type of the items that the service sends back; 0: none
  };
  /// To be opened.
  session(caf::actor_config& cfg, loop& l, environment_ptr env, target to, row_reader reader = {});
  /// Accepted by `l`.
  session(caf::actor_config& cfg, loop& l, environment_ptr env, link& from, net::session* protocol);
  ~session() override;

  caf::behavior make_behavior() override;
  const char* name() const override { return "weir.session"; }
  void on_exit() override;

  // ---- any thread
  const std::shared_ptr<gate>& entrance() const { return gate_; }
  loop& home() const { return loop_; }
  const target& to() const { return target_; }
  /// True: the caller is on this session's loop and may call what follows.
  bool here() const { return loop_.here(); }
  const environment& env() const { return *env_; }
  /// Another session to the same service; with a `reader` one whose request opens a stream of rows.
  caf::actor sibling(uint64_t rows = 0, row_reader reader = {}) const;
  /// True once: who gets it has this session for itself.
  bool claim() { return !claimed_.exchange(true); }

  // ---- from user actors, on the loop
  /// Carries a call or a one-way message that was admitted by the gate. The answer comes to `from` as a
  /// `reply`. One-way messages that are lost are told to their teller.
  void carry(ask a, const caf::strong_actor_ptr& from);
  void give_up(uint64_t token, const caf::strong_actor_ptr& from);
  /// Answers a request that arrived here.
  void answer_call(answer& a);
  /// The producer waits: it is told when there is what it waits for.
  void hear(const want& w);
  /// Says who produces on this session: it gets `outlet_event`s, also when the session is over.
  void set_producer(caf::strong_actor_ptr producer, uint64_t outlet);
  /// The user is done: what is queued still leaves, then the session ends.
  void close();
  /// The user gives it up: what is queued is dropped, the other side is told why.
  void abort(const failure& why);

  // ---- from the endpoint and the link, on the loop
  /// The endpoint has a link for it (a reason: it cannot be opened there), or gives it up.
  failure bind(link* l);
  void fail(const failure& why);
  void on_opened();
  void on_reply(net::event& e, const net::slab_ref& read_memory);
  void on_failed(net::event& e);
  void on_arrival(net::event& e, const net::slab_ref& read_memory);
  void on_credit();
  /// The peer waits for credit: every bit of it is told at once.
  void on_peer_blocked();
  /// It had to wait, and goes on: its ration may be too small.
  void on_peer_resumed();
  /// The caller of a request that came here has given it up.
  void on_cancelled(uint32_t call) { account_->cancel(call, env_->link.calls_max); }
  void on_finished();
  void on_ended(const failure& why, uint64_t consumed);
  /// After a write: what has left frees room in the gate.
  void settle_gate();
  /// Bound to its service, after `open` was accepted.
  void serve(service_port* port, const found_service& f);
  net::session* protocol() { return protocol_; }
  /// Marks it as one whose gate is to be settled. True: it was not yet.
  bool note_queued() { return !std::exchange(queued_noted_, true); }
  void forget_queued() { queued_noted_ = false; }
  bool queue_is_noted() const { return queued_noted_; }
  bool queue_is_empty() const { return in_queue_messages_ == 0; }

  // ---- from the loop
  /// There is what its producer stood in line for.
  void has_room() {
    gate_->room_is_answered();
    wake_producer();
  }
  /// The node stops: a session of a user takes no more calls and ends when those that are open have. A stream
  /// is its producer's to end.
  void drain();
  /// True: it is to end and has not; those on a link end with that.
  bool is_draining() const { return closing_ && stage_ != stage::over && !link_; }
  /// Credit has come back.
  void collect();
  /// The rations of the loop have been changed: this one's too, unless its service has its own.
  void change_ration();
  /// Takes back what a ration has grown by when nothing has come for so long. Called every so often.
  void look_if_idle(net::duration after);
  /// It ends, by mail: behind the last answers of the service, which may be in its mailbox.
  void service_is_gone();

private:
  friend class cycle_watch;
  friend class local_conversation;
  friend class onlooker;
  enum class stage : uint8_t { unbound, opening, remote, local, over };
  static constexpr net::duration press_soonest = std::chrono::milliseconds{1},
                                 press_latest = std::chrono::milliseconds{10};

  caf::behavior refuse_all();
  void look_up();
  failure open_way_back();
  failure serve_rows();
  uint64_t item_type() const { return target_.stream ? target_.interface : target_.rows; }
  void on_found(found_service& f);
  void converse_here(const found_service& f);
  void next_peer(failure why);
  void carry_remote(ask& a, const caf::strong_actor_ptr& from);
  void drain_waiting();
  void tell_opened();
  void on_lost_message(net::event& e);
  void end_now(const failure& why);
  void fail_waiting(const failure& why);
  void cancel_timers();
  /// Something has left the gate: others may be waiting for its place.
  void release(uint64_t cost, uint64_t count) {
    gate_->release(cost, count);
    loop_.serve_room_line();
  }
  void note_ration(const found_service& f);
  void watch_producer();
  void press_for_credit(uint64_t told);
  bool has_credit() const;
  void wake_producer();
  void tell_producer(outlet_event e);
  uint32_t add_caller(const caf::strong_actor_ptr& from, uint64_t token);
  reply end_caller(uint64_t ticket, caf::strong_actor_ptr& who);
  uint64_t note_teller(std::shared_ptr<teller> t);
  void arm_expiry();
  void expire();
  void fail_waiting(waiting_list::item& w, const failure& why);
  /// True: the loop is to be woken earlier than before.
  bool update_wake();
  void finish(const failure& why, uint64_t consumed);
  void refuse(const caf::strong_actor_ptr& from, ask& a, uint64_t cost, uint64_t count, const failure& why);
  void refuse(const caf::strong_actor_ptr& from, ask& a, const failure& why) {
    refuse(from, a, a.message.cost(), a.message.count, why);
  }
  bool has_outbound_room(uint64_t cost) const;
  void retry_later();
  /// Counts what no link has counted.
  void note(const failure& why) const;
  static void tell_failure(const caf::strong_actor_ptr& to, ask& a, const failure& why);

  loop& loop_;
  const environment_ptr env_;
  target target_;
  row_reader reader_;   // of the rows, on the opener's side
  service_port rows_;   // for it, when they come across a link
  caf::actor way_back_; // the session that carries them when the service is of this node
  bool sends_stream_;   // what this side sends has no holes
  size_t next_peer_ = 0;
  stage stage_ = stage::unbound;
  std::shared_ptr<gate> gate_;
  account* account_;
  link* link_ = nullptr;
  net::session* protocol_ = nullptr;
  std::unique_ptr<local_conversation> local_;
  service_port* port_ = nullptr; // of the service, on the accepting side
  caf::actor service_;
  uint64_t mailbox_messages_ = 0, dealt_messages_ = 0;
  bool own_ration_ = false; // its service's
  waiting_list waiting_;
  struct caller {
    caf::strong_actor_ptr who;
    uint64_t token = 0;
    uint32_t call = 0;
    net::time_point since{};
  };
  std::vector<caller> callers_; // by ticket, which is the token that the mux knows; each is over exactly once
  std::vector<uint32_t> free_tickets_;
  std::unordered_map<uint64_t, std::shared_ptr<teller>> tellers_; // of what is queued, by their address
  size_t tellers_kept_ = 16;
  caf::strong_actor_ptr producer_; // lives as long as its stream; one that ends abandons its outlets
  uint64_t outlet_ = 0, told_ = 0; // told: how often it was
  net::duration press_after_ = press_latest;
  net::loop::timer_id press_ = 0;
  bool pressed_ = false; // every bit of credit is told at once, until the producer has got some
  net::loop::timer_id retry_ = 0, expiry_ = 0;
  uint64_t in_queue_bytes_ = 0, in_queue_messages_ = 0; // admitted and given to the mux
  net::time_point made_at_{}, stalled_since_{}; // stalled: the service has something of it and gave nothing
                                                // back since; nothing: it has nothing
  net::position seen_;                          // what had come in when it was looked at last
  net::time_point seen_at_{};                   // since when that has not changed
  std::atomic<bool> claimed_{false};
  bool queued_noted_ = false;
  bool closing_ = false, close_said_ = false, stream_opened_ = false;
  caf::actor self_;              // until it is over: others may forget it, its work may not
  net::slab_ref small_messages_; // its own slab, while the read slabs pin too much
};

} // namespace weir::actors
