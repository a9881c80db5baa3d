#pragma once
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "net/mux.hpp"

/// Two muxes in one test, joined by a pipe that splits as it is told, under a time that only the test moves.
/// Single-threaded.
namespace weir::net::test {

/// An Envelope whose body is `bytes` of data.
outgoing build_message(std::string_view bytes, uint32_t reply_room_bytes = 0);
/// `n` bytes to put into one.
inline std::string bytes(size_t n) { return std::string(n, 'x'); }
/// Finished one-way frames of `s`, one behind the other.
outgoing run_for(const session& s, const std::vector<std::string>& bodies, lane in = lane::normal);
/// The data in the body of such a message; what a failure says if it is one.
std::string read_body(const message_view& v);

/// An event as a test keeps it: the message is copied out.
struct seen {
  event::type what{};
  session* on = nullptr;
  lane in_lane = lane::normal;
  uint32_t call = 0;
  uint64_t token = 0;
  uint64_t cost = 0;
  uint64_t message_bytes = 0;
  bool deadline = false;
  std::string body;
  failure why;
  uint32_t session_id = 0; ///< the id of `on`, which may be forgotten by now
};

/// One side: a mux with ledgers of its own and a user that by default accepts, answers with the same body and
/// consumes at once.
class peer {
public:
  struct settings {
    link_options link;
    budget_options inbound{16 << 20, 8 << 20};
    uint64_t outbound_bytes = 16 << 20;
    ration_options ration{64 << 10, 512, 4};
    ration_range range{}; ///< of what it accepts
    uint64_t service_message_bytes_max = 0;
  };
  peer(settings s, side which, time_point now);

  settings with;
  budget inbound;
  outbound_ledger outbound;
  slab_pool_owner memory{false};
  mux link;

  // ---- what the user does with what comes
  bool accepts = true;  ///< answers `open`; if not, the test does
  bool consumes = true; ///< gives credit back at once; if not, `consume_all` does
  bool answers = true;  ///< answers every request with its body
  std::function<std::string(const std::string&)> handler = [](const std::string& in) { return in; };

  // ---- verbs
  session& open(const std::string& service = "echo", bool stream = false, ration_options back = {0, 0, 4});
  /// The token; expects that it is taken.
  uint64_t call(session& s, std::string_view body, call_request r = {});
  void post(session& s, std::string_view body, lane in_lane = lane::normal);
  void consume_all();
  /// Costs of what the user holds: of replies, and of messages whose session is over.
  uint64_t held_replies() const;
  uint64_t held_of_ended() const;
  /// The requests that were not answered, in order.
  std::vector<seen> unanswered;
  void answer(const seen& request, std::string_view body);

  // ---- what came
  std::vector<seen> events;
  size_t count(event::type t) const;
  const seen* last(event::type t) const;
  /// The end of the call `token`: its reply or failure; nullptr while it is open.
  const seen* end_of(uint64_t token) const;
  /// Fetches the mux's events and does what the user does.
  void fetch();

private:
  void on_event(event& e);
  struct holding {
    session* on;
    bool ended;
    uint64_t cost;
    bool reply;
  };
  std::vector<holding> held_;
  uint64_t tokens_ = 0;
};

/// Bytes on their way in one direction.
class pipe {
public:
  size_t capacity = SIZE_MAX; ///< what the "socket buffer" takes
  size_t room() const { return capacity - std::min(capacity, bytes_.size()); }
  size_t size() const { return bytes_.size(); }
  void write(const iovec* v, size_t n, size_t bytes);
  void push(const void* at, size_t n);
  /// Changes the byte at `at` on its way.
  void damage(size_t at, std::byte x) { bytes_[at] ^= x; }
  /// Moves up to `n` bytes into the reader's buffer.
  void deliver(peer& to, size_t n, time_point now);

private:
  std::deque<std::byte> bytes_;
  std::vector<uint64_t> buffer_; // what the reader has not taken, 8-byte aligned
  size_t used_ = 0;
};

/// Settings of the two sides as most tests want them: different nodes.
peer::settings client_settings();
peer::settings server_settings();
/// With a budget of `pool` bytes beside the reserve.
peer::settings with_budget(peer::settings s, uint64_t pool, uint64_t reserve);

class mux_pair {
public:
  explicit mux_pair(peer::settings client = client_settings(), peer::settings server = server_settings());

  time_point now{std::chrono::hours{1}};
  peer client, server;
  pipe to_server, to_client;
  size_t read_bytes = 64 << 10;  ///< of one delivery
  size_t entries_max = 64;       ///< iovecs of one gather
  size_t write_bytes = SIZE_MAX; ///< of one write
  bool checks = true;            ///< every step looks at every invariant

  /// Exchanges hello.
  void connect();
  /// Moves bytes both ways until nothing moves any more.
  void exchange();
  /// One write of `from`, as much as the pipe takes.
  bool write(peer& from, pipe& to);
  /// One round in both directions. False: nothing moved.
  bool step();
  /// Moves time, ticks both and exchanges.
  void advance(duration d, duration by = std::chrono::milliseconds{10});
  /// Both budgets hold exactly their reserve, both outbound ledgers nothing.
  void expect_base_line();
  void expect_invariants();
};

} // namespace weir::net::test

/// The words of a test of two muxes.
namespace weir::net::test::words {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::bytes;
using test::client_settings;
using test::mux_pair;
using test::peer;
using test::run_for;
using test::server_settings;
using test::with_budget;
using type = event::type;

} // namespace weir::net::test::words
