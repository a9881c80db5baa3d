#pragma once
#include <unordered_map>
#include <vector>

#include <weir/actor.hpp>
#include <weir/rows.hpp>
#include <weir/stream.hpp>
#include <weir/task.hpp>

#include "actors/loop.hpp"
#include "actors/messages.hpp"
#include "actors/session.hpp"
#include "net/backoff.hpp"

namespace weir::detail {

/// What an actor of a user keeps to talk through weir: open calls, outlets. Owner: that actor.
class actor_core {
public:
  explicit actor_core(actor& self)
      : self_(self),
        loop_(actors::loop::of(self)),
        random_(loop_ && loop_->is_virtual() ? loop_->draw_seed() : self.id()) {}
  ~actor_core() { stop(); }

  uint64_t start_call(const ref_base& to, const call_options& o, message_out& m, uint64_t result_type);
  bool start_tell(const ref_base& to, message_out& m, lane l);
  void expect(uint64_t token, std::unique_ptr<reply_handler> h);
  /// Nobody asks for the outcome of the call any more.
  void forget(uint64_t token);
  /// Fills `w` when the call is over. False: not yet.
  bool take_reply(uint64_t token, reply_waiter& w);
  /// `w` (nullptr: nobody) is filled and resumed when the call is over.
  void wait_for(uint64_t token, reply_waiter* w);
  void cancel(uint64_t token);
  /// The time has come to make a call again.
  void on_retry(uint64_t token);
  void on_reply(actors::reply& r);

  /// Coroutines that have begun on this actor and not ended, and those of them that sleep.
  task_frame* tasks = nullptr;
  uint64_t sleep(std::chrono::nanoseconds d, std::coroutine_handle<> who);
  void wake(uint64_t sleeper) { sleepers_.erase(sleeper); }
  void on_wake_up(uint64_t sleeper);

  void on_outlet_event(const actors::outlet_event& e);
  void on_undelivered(const actors::undelivered_note& n);
  /// At the end of each run of the actor: what its outlets have collected leaves.
  void flush();
  void stop();

  /// The first is 1.
  uint64_t add_outlet(outlet_core& o);
  void remove_outlet(uint64_t id) { outlets_.erase(id); }

  /// Streams that this actor has opened at services.
  uint64_t next_reader() { return ++last_reader_; }
  void add_reader(uint64_t id, const std::shared_ptr<rows_core>& r);
  void remove_reader(uint64_t id) { readers_.erase(id); }
  void on_rows(actors::rows_arrived& m);
  /// No more comes; says so, once.
  void end_rows(uint64_t reader, const failure& why);

  void mark_dirty(uint64_t outlet) { dirty_.push_back(outlet); }
  void carry(const session_guard& to, actors::ask a);
  /// Tells the session of an outlet what that waits for.
  void want(const session_guard& on, const actors::want& what);

  // ---- who holds a loop for too long
  void begin_turn();
  void end_turn();
  friend class handler_watch;
  /// The name it is served under, when it has been at work as a service.
  std::string served_as;

  bool on_loop_of(const actors::session& s) const { return loop_ && &s.home() == loop_; }
  caf::strong_actor_ptr self_ptr() const { return caf::strong_actor_ptr{self_.ctrl()}; }
  net::time_point now() const { return loop_ ? loop_->now() : std::chrono::steady_clock::now(); }
  size_t expected_bytes() const { return expected_bytes_; }

private:
  /// What a call that may be made again needs for it.
  struct second_try {
    ref_base to;
    net::outgoing message; // a copy
    net::time_point deadline;
    uint32_t reply_room_bytes = 0;
    net::lane in_lane = net::lane::normal;
    net::backoff delay{{std::chrono::milliseconds{10}, std::chrono::seconds{1}}};
    bool waiting = false;
    actors::ask ask(uint64_t token) const;
  };
  struct open_call {
    std::unique_ptr<reply_handler> handler;
    std::unique_ptr<second_try> again;
    reply_waiter* waiter = nullptr;
    std::unique_ptr<actors::reply> came; // and is waited for later
    std::weak_ptr<session_guard> session;
    uint64_t result_type = 0;
    uint32_t generation = 0;
    bool open = false, wanted = false;
  };
  static uint64_t token_of(uint32_t generation, size_t slot) {
    return uint64_t{generation} << 32 | (slot + 1);
  }
  open_call* find(uint64_t token);
  void finish(uint64_t token, open_call& c, actors::reply& r);
  uint64_t open(const std::shared_ptr<session_guard>& via, uint64_t result_type);
  void send(const session_guard& via, actors::ask a);
  /// True: the call goes on, in a moment.
  bool try_again(uint64_t token, open_call& c, const failure& why);
  const std::shared_ptr<actors::teller>& teller_to(const session_guard& to);
  void close(uint64_t token, open_call& c);
  static void fill(reply_waiter& w, actors::reply& r, uint64_t type);
  void take_row(rows_core& r, actors::arrivals& batch, size_t item);
  void stop_readers();

  actor& self_;
  actors::loop* const loop_;
  std::vector<open_call> calls_;
  std::vector<uint32_t> free_;
  std::unordered_map<uint64_t, outlet_core*> outlets_;
  std::vector<uint64_t> dirty_;
  uint64_t last_outlet_ = 0;
  std::unordered_map<caf::actor_id, std::shared_ptr<actors::teller>> tellers_; // by session
  size_t tellers_kept_ = 16;
  net::splitmix64 random_;
  std::unordered_map<uint64_t, std::weak_ptr<rows_core>> readers_;
  uint64_t last_reader_ = 0;
  std::unordered_map<uint64_t, std::coroutine_handle<>> sleepers_;
  uint64_t last_sleeper_ = 0;
  size_t expected_bytes_ = 256;
  net::time_point turn_began_{};
  uint32_t handled_ = 0;      // handlers run in this turn
  bool each_handler_ = false; // is timed, since a turn was slow
};

/// Times one handler of an actor on a loop once one of its turns was slow. Lives as long as the handler runs.
class handler_watch {
public:
  explicit handler_watch(actor_core& of) : of_(of) {
    ++of_.handled_;
    if (of_.each_handler_)
      began_ = std::chrono::steady_clock::now();
  }
  ~handler_watch() {
    if (of_.each_handler_ && began_ != net::time_point{})
      end();
  }
  handler_watch(const handler_watch&) = delete;
  handler_watch& operator=(const handler_watch&) = delete;

private:
  void end();
  actor_core& of_;
  net::time_point began_{};
};

/// The type of an answer that says: a stream begins. It has no body.
constexpr uint64_t stream_begins = 0;

/// The actor whose handler this thread runs, or nullptr.
actor* running_actor();

/// What the exception that is being handled says to a caller.
failure failure_of_exception();

/// Why `g` has admitted nothing.
failure send_buffer_full(const actors::gate& g);
/// Why a reply is not the results of `type`; none: it is.
failure fault_of(const message_in& in, const net::message_view& v, uint64_t type);

/// Another attempt at a call that ended with `e` may do better.
bool may_pass(errc e);

/// A message that leaves: built, with its size as the guess for the next one of its kind.
net::outgoing finish_message(message_out& m, size_t& expected_bytes);

} // namespace weir::detail
