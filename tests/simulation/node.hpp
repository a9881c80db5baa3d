#pragma once
#include <functional>
#include <memory>

#include "oracle.hpp"
#include "plan.hpp"

namespace weir::net::sim {

class node;
class world;

/// One end of a link.
struct port {
  node* of = nullptr;
  unsigned index = 0; ///< among the ports of all nodes
  port* peer = nullptr;
  side which = side::dialled;
  std::unique_ptr<mux> link;
  std::unique_ptr<receive_buffer> in;
  pipe out;
  bool more = false;  ///< whole frames may wait in `in`
  bool down = false;  ///< `down` was told
  bool going = false; ///< `going_away` was told, or said
  std::vector<side_of*> live;
};

struct call_options {
  uint32_t body_bytes = 0;
  uint32_t room_bytes = 0;
  unsigned depth = 0;
  duration timeout = duration::max();
  lane in_lane = lane::normal;
  uint64_t parent = 0;
};

/// A node: its ledgers, its services and its users. Its verbs do one thing each and leave the events to
/// `fetch`.
class node {
public:
  node(world& w, node_plan p, unsigned index);
  ~node();

  world& in;
  node_plan with;
  unsigned index;
  budget inbound;
  outbound_ledger outbound;
  slab_pool_owner receive_pool{false}, reassembly_pool{false};
  std::vector<port*> ports;

  // ---- the users' verbs
  side_of* open(port& p, bool stream, failure& why);
  /// The token; 0: refused.
  uint64_t call(side_of& s, const call_options& o, failure& why);
  bool post(side_of& s, uint32_t body_bytes, lane in_lane, failure& why);
  /// Up to `n` messages in one run. How many were queued.
  unsigned post_run(side_of& s, unsigned n, uint32_t body_bytes, lane in_lane);
  /// The producer of `s` goes on while it has credit.
  void offer(side_of& s);
  void cancel(uint64_t token);

  // ---- the services' verbs
  /// Handles the oldest letter that may be read (all of them: also of sessions that nobody reads). False:
  /// there is none.
  bool handle(bool all);
  /// Answers one request that waits for nothing. False: there is none.
  bool finish_task(bool any_order);
  bool drop_kept();
  /// Accepts or refuses a session that was offered a while ago.
  bool answer_offer();
  bool drop_reply();

  // ---- at random
  void act(action a, port& p);
  uint32_t draw_body();
  uint32_t draw_answer();

  void fetch(port& p);
  /// Not empty: what does not add up.
  std::string check() const;

  std::deque<letter> mail;
  std::vector<task> tasks;
  std::vector<letter> kept, replies;
  std::vector<std::pair<side_of*, session*>> offers; ///< not answered yet
  uint64_t held_bytes = 0, orphan_bytes = 0, reply_bytes = 0, open_rooms = 0;
  uint64_t held_peak = 0, refused_holds = 0, handled = 0;
  /// For scenarios: what is done with a letter instead of what the habits say. False: as usual.
  std::function<bool(letter&)> handler;
  bool draining = false;

private:
  void on_event(port& p, event& e);
  void on_open(port& p, event& e);
  void answer_open(side_of& s, session& on);
  void on_data(port& p, event& e);
  void on_request(side_of& s, event& e, const stamp& st, uint32_t bytes);
  void on_reply(port& p, event& e);
  void on_failed(side_of& s, event& e);
  void on_cancelled(side_of& s, uint32_t call);
  void on_ended(port& p, side_of& s, event& e);
  void on_down(port& p, event& e);
  void end_call(uint64_t token, const failure* f);
  void take_letter(port& p, side_of& s, event& e, kind what, uint64_t token);

public:
  bool hold(letter& l);
  void die(letter& l);
  void run(letter l);
  void answer(letter& l, uint32_t body_bytes);
  void refuse(letter& l, errc reason, outcome what);
  void abort(side_of& s, errc reason);

private:
  void handle_item(letter l);
  void handle_request(letter l);
  bool nest(letter& l, call_record& c);
  side_of* pick(port& p, bool (*fits)(const side_of&));
  void act_open(port& p);
  void act_call(port& p);
  std::string check_budget() const;
  uint64_t graves_may_owe() const;
  ration_options draw_ration(const ration_options& most);
  ration_range draw_range(const ration_options& now);

  std::vector<event> batch_;
};

} // namespace weir::net::sim
