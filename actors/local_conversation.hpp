#pragma once
#include "actors/session.hpp"

namespace weir::actors {

/// A session whose service is on the same node: the same credit, calls, deadlines and order as across a link,
/// but a message stays the buffer that its builder made. Owned by the session.
class local_conversation final : public net::round_end {
public:
  /// With a `reader` the service is one of rows, and calls them so.
  local_conversation(session& s, const found_service& f, uint64_t reader = 0);
  ~local_conversation();
  /// Funds the ration.
  failure start();

  void carry(ask& a, const caf::strong_actor_ptr& from);
  void give_up(uint64_t token, const caf::strong_actor_ptr& from);
  void answer(struct answer& a);
  void collect(const account::returned& r);
  void close();
  void end(const failure& why);
  /// What has gone to the service.
  const net::position& sent() const { return sent_; }
  /// The producer had to wait for credit.
  void note_wait() { waited_ = true; }
  /// Nothing has come for long: what its ration has grown by goes back. False: nothing was to be given.
  bool give_idle_ration();
  /// Another ration from here on; what is under way stays paid for until it comes back.
  void change_ration(const net::ration_options& to, const net::ration_range& range);
  void end_of_round() override;

private:
  friend class cycle_watch;
  friend class onlooker;
  struct call {
    caf::strong_actor_ptr who;
    uint64_t token = 0;
    net::time_point deadline;
    uint64_t room_bytes = 0;
    uint16_t generation = 0;
    bool open = false;
    net::time_point since{};
  };
  /// True: it went to the service (or its call has failed). False: no credit.
  bool deliver(ask& a, const caf::strong_actor_ptr& from);
  void fail(waiting_list::item& w, const failure& why);
  void arm_expiry();
  /// Charges what a reply takes beyond its room. Why not, else none.
  failure fund_reply(call& c, const net::outgoing& m);
  void deliver_run(const net::outgoing& run);
  bool covered(const net::outgoing& m) const { return sent_.plus(m.cost(), m.count).within(limit()); }
  net::position limit() const { return consumed_.plus(ration_.bytes, ration_.messages); }
  result<uint32_t> open_call(const ask& a, const caf::strong_actor_ptr& from);
  void close_call(call& c, uint32_t slot, reply r);
  void expire();
  void publish();
  void resumed(uint64_t cost);
  /// It stays as it is when the budget cannot pay for it.
  void set_ration(uint64_t bytes);
  void shrink();
  void recharge();
  void enlist();
  void delist();
  void finish_if_done();
  void touch();

  session& session_;
  service_port port_;
  net::ration_options ration_;
  net::tuner tuner_;
  net::position sent_, consumed_;
  std::vector<call> calls_;
  std::vector<uint32_t> free_;
  waiting_list queue_;
  size_t open_calls_ = 0;
  uint64_t charged_bytes_ = 0; // of the budget: the ration, or what is under way when it has become smaller
  uint64_t large_bytes_ = 0;   // what one message takes beyond the ration
  net::loop::timer_id timer_ = 0;
  bool funded_ = false, closing_ = false, opened_ = false, finished_ = false, in_round_ = false,
       waited_ = false;
};

} // namespace weir::actors
