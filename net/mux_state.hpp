#pragma once
#include <functional>

#include "net/control.hpp"
#include "net/mux.hpp"
#include "net/pace.hpp"
#include "net/ring.hpp"
#include "net/schedule.hpp"
#include "net/session_table.hpp"

namespace weir::net {

/// How far a sender goes back when it is asked to (`reclaim`): it keeps this much above what it has sent.
constexpr uint64_t reclaim_floor_bytes = tuner::floor_bytes;
constexpr uint64_t reclaim_floor_messages = tuner::floor_messages;
/// No room for a reply is smaller, whatever was said, so a failure always fits. Both sides know it.
constexpr uint64_t reply_room_bytes_min = 1280;
/// One flight to the socket.
constexpr size_t flight_bytes_max = 256 << 10;
/// No slice is made shorter because the link is slow.
constexpr uint64_t fragment_bytes_min = 4 << 10;
/// Credit that came back and is too little for a grant of its own leaves after this long; other waits are
/// looked at as often.
constexpr duration short_wait = std::chrono::milliseconds{10};

/// The first `messages` of a run (all of it, if it has no more), which is shorter by them afterwards.
outgoing split_run(outgoing& run, uint32_t messages);

/// The inside of a mux. Each group of functions has a source file of its own, named above it.
struct mux::state {
  state(link_options o, side s, budget& in, outbound_ledger& out, slab_pool& memory, time_point now);
  ~state();

  // ---- mux_sessions.cpp: from the first word to the last
  session* open(const open_request& r, failure& why);
  bool accept(session& s, const ration_options& in, uint64_t message_bytes_max, const ration_range& range);
  void refuse(session& s, errc reason, std::string text, bool retryable);
  void close(session& s);
  void abort(session& s, errc reason, std::string text);
  /// Says `close` or `closed` as soon as it is time to.
  void settle_down(session& s);
  /// Tells everybody that `s` is over and gives back what it holds, except for what the peer may still send
  /// to a tombstone.
  void finish(session& s, session::state next, std::unique_ptr<failure> why);
  /// Forgets `s`; the object stays until the second `take_events` from now.
  void bury(session& s);
  /// Takes all sessions out of all lists that they wait in.
  void clear_lists();
  session* add_session(uint32_t id, bool opened_here);
  void fail_calls(session& s, const failure& why, outcome of_sent);
  void drop_queues(session& s, const failure& why);
  void fail_queued(session& s, const session::queued& q, const failure& why);
  void go_away(errc reason, std::string text);
  bool drained() const;
  void fail(errc reason, std::string text);
  void go_down(errc reason, std::string text);

  // ---- mux_calls.cpp: what users send, calls and answers
  result<void> post(session& s, outgoing m, lane in_lane, uint64_t token);
  result<uint32_t> call(session& s, outgoing m, const call_request& r);
  void cancel(session& s, uint32_t call, errc reason);
  void reply(session& s, uint32_t call, outgoing m);
  void reply_failure(session& s, uint32_t call, const failure& f);
  bool want_credit(session& s, uint64_t cost);
  uint64_t room_for(const outgoing& m, const call_request& r) const;
  result<void> may_queue(session& s, const outgoing& m);
  void enqueue(session& s, outgoing m, lane in_lane, uint32_t call, time_point deadline, uint64_t token = 0);
  void enqueue_reply(session& s, calls_in::entry& e, uint32_t call, outgoing m);
  /// Takes a queued message out; one that has left in part ends with `void`. False: it is not in the queue.
  bool take_out(session& s, lane in_lane, uint32_t call);
  void drop_message(session& s, lane in_lane, session::queued& q);
  void give_up_queues(session& s);
  void fail_call(session& s, uint32_t call, calls_out::entry& e, errc reason, std::string text);
  void free_call(session& s, uint32_t call, calls_out::entry& e);
  void fund_reply(session& s, uint32_t call, uint64_t bytes);
  void cancelled_by_peer(session& s, uint32_t call);

  // ---- mux_receive.cpp: frames in
  size_t receive(const std::byte* at, size_t n, size_t slice, time_point now);
  bool receive_preamble(const std::byte* at);
  bool header_fault(const frame_header& h, errc e);
  void take_frame(const frame_header& h, const std::byte* body);
  session* session_of(uint32_t id, bool& late);
  void take_data(session& s, const frame_header& h, const std::byte* body);
  void take_message(session& s, const frame_header& h, const message_view& v, const slab_ref& memory,
                    uint64_t cost, time_point deadline);
  void take_request(session& s, const frame_header& h, const message_view& v, const slab_ref& memory,
                    uint64_t cost, time_point deadline);
  void take_reply(session& s, uint32_t call, const message_view& v, const slab_ref& memory);
  void take_fragment(session& s, const frame_header& h, const std::byte* body);
  bool first_fragment(session& s, reassembly& part, const frame_header& h, const std::byte* body,
                      uint32_t slice);
  void take_whole(session& s, reassembly& part, const frame_header& h);
  void take_void(session& s, reassembly& part, const frame_header& h);
  void discard(session& s, const frame_header& h, const std::byte* body);
  errc allowed(const session& s, const frame_header& h) const;
  time_point deadline_of(const frame_header& h) const;
  void note_arrival(session& s, const frame_header& h, const position& before, uint64_t cost);

  // ---- mux_control.cpp: control in
  void take_control(const message_view& v);
  void take_hello(const say::hello& h);
  void apply_sessions();
  void apply_credit();
  void apply_ends();
  void apply_calls();
  void apply_link();
  void on_open(say::open& o);
  void on_opened(session& s, const say::opened& o);
  void on_refused(session& s, say::refused& r);
  void on_grant(session& s, const say::grant& g);
  void on_blocked(session& s, const say::blocked& b);
  void on_reclaim(session& s, const say::reclaim& r);
  void on_reclaimed(session& s, const say::reclaimed& r);
  void on_abort(session& s, say::abort& a);
  void over_with_closed(session& s);
  void on_close(session& s, const say::close& c);
  void on_closed(session& s, const say::closed& c);
  void on_cancelled(session& s, uint32_t call);
  void on_need(session& s, uint32_t call, uint64_t bytes);
  void on_fund(session& s, uint32_t call, uint64_t bytes);
  void on_unfunded(session& s, const say::unfunded& u);
  /// The session that a control member names, or nullptr (late, or the link has failed because it was never
  /// opened).
  session* named(uint32_t id);

  // ---- mux_credit.cpp: the inbound budget
  void consumed(session& s, uint64_t bytes, uint64_t messages);
  void reply_died(uint64_t bytes);
  void reclaim(session& s);
  bool set_ration(session& s, uint64_t bytes, uint64_t messages);
  bool change_ration(session& s, const ration_options& to, const ration_range& range);
  void ask_back(session& s);
  void tune(session& s);
  void shrink(session& s);
  bool may_grow_by(uint64_t bytes) const;
  /// Gives back what `s` no longer owes.
  void recharge(session& s);
  void give_rooms(uint64_t bytes);
  void grant_if_due(session& s);
  /// Funds what the peer waits for, or puts it in line.
  void fund_request(session& s);
  bool try_fund_request(session& s);
  bool try_fund_reply(session& s, uint32_t call, uint64_t bytes);
  void refuse_request(session& s, uint64_t need, errc reason);
  /// Those in line for funding, in order; the ones that waited too long are refused.
  void serve_waiting();
  errc reason_of(const session& s) const;
  /// `event::credit` for those that may send again.
  void starve(session& s);
  void serve_starved();
  bool may_send_again(const session& s) const;

  // ---- mux_send.cpp: bytes out
  bool wants_write() const;
  size_t gather(std::span<iovec> to, time_point now);
  void wrote(size_t bytes);
  size_t emit(std::span<iovec> to) const;
  void fly(slab_ref memory, const std::byte* at, size_t size, uint64_t ledger = 0);
  void fly_whole(outgoing m, uint64_t ledger);
  void mark_if_due();
  void fill_flight(size_t entries_max);
  void serve(session& s, schedule::member& m, size_t entries_max);
  void activate(session& s, lane in_lane);
  void activate_all(session& s);
  /// Hands over what is at the head of a queue. Its bytes; 0: nothing may leave.
  uint64_t hand_over(session& s, lane in_lane);
  uint64_t hand_over_head(session& s, lane in_lane);
  bool drop_stale_head(session& s, lane in_lane);
  void head_is_gone(session& s, lane in_lane);
  bool covered(session& s, lane in_lane, const session::queued& head);
  void block(session& s, lane in_lane, uint64_t cost);
  uint64_t cost_of_head(const session& s, lane in_lane) const;
  bool head_covered(const session& s) const;
  void refuse_head(session& s, lane in_lane, errc reason, std::string text);
  void charge(session& s, uint64_t cost, uint64_t messages);
  std::byte* scratch(size_t bytes);

  // ---- mux_hand_over.cpp: one message out
  frame_header header_for(session& s, lane in_lane, const session::queued& head, uint32_t length);
  uint64_t send_whole(session& s, lane in_lane, session::queued& head);
  uint64_t send_run(session& s, lane in_lane, session::queued& head);
  uint64_t send_fragment(session& s, lane in_lane, session::queued& head);
  uint64_t send_void(session& s, lane in_lane, session::queued& head);
  void pop_head(session& s, lane in_lane);
  void mark_sending(session& s, lane in_lane, uint32_t call);
  void after_last(session& s, lane in_lane, uint32_t call);
  uint64_t whole_bytes_max() const;
  uint32_t fragment_now() const;

  // ---- mux_say.cpp: control out
  void say(session& s, uint32_t words);
  void say_lazily(session& s);
  bool control_waits() const;
  void pack_control();
  void pack_link(size_t& left);
  void pack_sessions(size_t& left);
  bool pack_session(session& s, size_t& left);
  bool pack_begin(session& s, size_t& left);
  bool pack_credit(session& s, size_t& left);
  bool pack_calls(session& s, size_t& left);
  bool pack_end(session& s, size_t& left);
  void pack_grant(session& s);
  void pack_blocked(session& s);
  say::hello our_hello() const;
  bool fin_due() const;

  // ---- mux_time.cpp
  void tick(time_point now);
  time_point next_tick() const;
  void wake_at(time_point t) { session_timer_at_ = std::min(session_timer_at_, t); }
  void tick_sessions();
  void tick_session(session& s);
  time_point timer_of(const session& s) const;
  void expire_calls(session& s);

  // ---- mux_check.cpp
  class complaints;
  struct holdings;
  std::string check() const;
  static void check_session(session& s, complaints& c, holdings& all);

  event& happened(event::type what, session* on);
  /// For `take_reasons`; `s`: whose it is, null for the link's.
  void note(errc code, const session* s, std::string_view text);
  std::unique_ptr<failure> because(errc reason, outcome what, std::string text) const {
    return std::make_unique<failure>(failure{reason, what, std::move(text)});
  }

  // ---- the link
  const link_options options_;
  const side side_;
  uint32_t fragment_bytes_;
  const uint32_t frame_bytes_max_;
  budget& inbound_;
  outbound_ledger& outbound_;
  slab_pool& reassembly_memory_;
  time_point now_;
  const time_point born_;
  peer_info peer_;
  bool preamble_came_ = false, hello_came_ = false, down_ = false, fault_due_ = false;
  bool goaway_said_ = false, goaway_due_ = false, goaway_came_ = false, fin_said_ = false, fin_came_ = false;
  say::goaway goaway_;
  say::fault fault_;
  size_t wanted_bytes_ = 0;
  std::vector<event> events_;
  std::vector<noted_reason> reasons_; // each code once

  // ---- sessions
  session_table sessions_;
  session* last_session_ = nullptr; // the one of the last frame
  uint32_t next_id_, highest_peer_id_ = 0;
  size_t opened_here_ = 0, opened_there_ = 0;
  std::vector<std::unique_ptr<session>> graves_, old_graves_;
  std::vector<session*> dirty_;   // have something to say
  std::vector<session*> lazy_;    // have unadvertised credit, too little for a grant of its own
  std::vector<session*> starved_; // wait for `event::credit`
  time_point lazy_at_ = time_point::max();

  // ---- waiting for funds, first come, first served
  struct waiting {
    session* who = nullptr;
    uint32_t call = 0; // 0: a message of the peer; else its answer to this call
    uint64_t bytes = 0;
    time_point since;
  };
  ring<waiting> waiting_requests_, waiting_replies_;
  uint64_t owed_session_ = 0, owed_large_ = 0, owed_rooms_ = 0; // of this link, in the inbound budget

  // ---- out
  struct piece {
    slab_ref memory;
    const std::byte* at = nullptr;
    size_t size = 0;
    uint64_t ledger = 0; // released when it has been written
  };
  ring<piece> flight_;
  size_t flight_bytes_ = 0, flight_offset_ = 0; // offset: of the first piece, written already
  schedule schedule_;
  pace pace_;
  slab_ref scratch_;
  uint64_t queued_ledger_ = 0, flight_ledger_ = 0;
  bool preamble_due_ = true, hello_due_ = true;
  say::control out_, in_;

  // ---- time
  uint64_t ping_nonce_ = 0, ping_due_ = 0, pong_due_ = 0;
  time_point ping_at_, last_received_;
  duration round_trip_{0};
  time_point session_timer_at_ = time_point::max(), last_tick_;
  std::vector<uint32_t> expired_;
  std::vector<session*> due_;
  uint64_t late_frames_ = 0;
};

} // namespace weir::net
