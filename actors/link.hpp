#pragma once
#include <functional>
#include <unordered_map>

#include "actors/session.hpp"
#include "net/stream.hpp"

namespace weir::actors {

class endpoint;

/// The endpoint on a link's own loop that dialled it; null for an accepted one. (CAF would make a handle of a
/// plain pointer.)
struct link_owner {
  endpoint* who = nullptr;
};

/// One live connection: owns the stream and the protocol of the link (net::mux), lives on one loop for life.
/// Reads, hands each session its events by direct calls, each service its batch, and writes once a round. A
/// large read is worked off in slices with a write after each, so that the peer has something to do while we
/// do the rest.
class link final : public pinnable, public net::round_end {
public:
  /// Makes the stream when the link has started, on its loop.
  using stream_maker = std::function<std::unique_ptr<net::stream>()>;
  /// `owner` is told when hello is done and when the link is over.
  link(caf::actor_config& cfg, loop& l, environment_ptr env, stream_maker s, net::side side,
       link_owner owner);
  ~link() override;

  caf::behavior make_behavior() override;
  const char* name() const override { return "weir.link"; }
  void on_exit() override;

  // ---- from sessions and endpoints, on the loop
  net::mux& protocol() { return *mux_; }
  /// Something is to be written: at the end of this round.
  void touch();
  /// `s` has given the mux something: its gate is settled after the write.
  void note_queued(session& s) {
    if (s.note_queued())
      queued_.push_back(&s);
  }
  /// Opens a session on behalf of `s`. None: done; it gets on_opened or on_ended.
  failure open(session& s);
  void forget(session& s);
  net::session* protocol_of(session& s);
  void flush_port(service_port* p);
  service_port* port_of(const found_service& f);
  /// A session uses it no more, and has flushed it.
  void leave_port(service_port* p);
  void forget_port(service_port* p) { std::erase(touched_ports_, p); }
  void touch_port(service_port* p) { touched_ports_.push_back(p); }
  /// Answers, from services on this loop.
  static void answer_all(answers& a);
  bool ready() const { return !over_ && mux_ && mux_->ready(); }
  /// Ends when its sessions have; at once when the peer's hello has not come.
  void go_away(std::string why = "the node stops");
  /// Since when no session uses it, of either side; now while there is one.
  net::time_point idle_since() const { return sessions_.empty() && offered_.empty() ? idle_since_ : now(); }
  void close_idle_sessions();
  /// At once.
  void stop();
  net::time_point now() const { return loop_.now(); }
  const net::slab_ref& read_memory() const { return in_; }
  uint64_t late_frames() const { return mux_ ? mux_->late_frames() : 0; }

  void end_of_round() override;

private:
  friend class onlooker;
  bool refuse_at_birth();
  void leave_place();
  void wait_readable();
  void read();
  void make_room();
  void parse();
  void dispatch();
  void handle(net::event& e);
  void on_open(net::session& s);
  void on_found(found_service& f);
  bool accept(net::session& s, const found_service& f);
  void hand_over();
  void write();
  void settle_gates();
  void arm_timer();
  void finish(const failure& why);
  void note_reasons();
  bool was_up() const { return mux_->peer().node != net::node_id{}; }
  /// A peer that said that it goes, and has no session left, may.
  errc reason_of_loss() const {
    return peer_goes_ && mux_->session_count() == 0 ? errc::going_away : errc::link_lost;
  }
  /// For people.
  std::string describe() const;
  session* session_of(net::session* s) { return static_cast<session*>(s->owner); }

  loop& loop_;
  const environment_ptr env_;
  stream_maker make_stream_;
  const net::side side_;
  endpoint* owner_;
  caf::strong_actor_ptr owner_alive_; // as long as we may call it
  uint64_t place_ = 0;                // among the links accepted by the node; 0: none
  std::unique_ptr<net::stream> stream_;
  std::unique_ptr<net::mux> mux_;
  std::vector<net::event> events_;
  std::vector<net::noted_reason> reasons_;
  std::unordered_map<session*, caf::actor> sessions_; // keeps them alive
  std::unordered_map<session*, net::session*> opening_;
  std::unordered_map<uint32_t, net::session*> offered_; // waiting for the dispatcher
  std::unordered_map<caf::actor_id, std::unique_ptr<service_port>> ports_;
  std::vector<service_port*> touched_ports_;
  std::vector<session*> queued_;
  net::slab_ref in_; // holds [parsed_, end_), what is not parsed yet; null when there is nothing
  uint32_t parsed_ = 0, end_ = 0;
  size_t slice_ = 0;
  net::time_point idle_since_;
  net::loop::timer_id timer_ = 0;
  net::time_point timer_at_ = net::time_point::max();
  net::time_point made_at_{};
  uint64_t bytes_in_ = 0, bytes_out_ = 0, messages_in_ = 0;
  bool in_round_ = false, rearm_ = false, more_ = false, write_blocked_ = false, over_ = false,
       peer_goes_ = false, goes_ = false;

  static constexpr size_t slice_bytes = 6000; // answered before the rest of a read is looked at
  static constexpr size_t read_bytes_min = 16 << 10;
  static constexpr size_t hello_read_bytes = 4 << 10; // a slab of its own, until the peer's hello has come
};

} // namespace weir::actors
