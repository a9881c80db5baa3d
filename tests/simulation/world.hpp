#pragma once
#include "credit_log.hpp"
#include "node.hpp"

namespace weir::net::sim {

/// Nodes, the links between them, and the time. Everything that happens in it is checked when it has
/// happened.
class world {
public:
  /// `tracing`: each event is printed.
  explicit world(plan p, uint64_t seed = 1, bool tracing = false);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  plan with;
  dice chance;
  oracle known;
  time_point now{std::chrono::hours{1}};
  std::vector<std::unique_ptr<node>> nodes;
  std::vector<std::unique_ptr<port>> ports; ///< link k: 2k dialled, 2k + 1 accepted

  // ---- a run by the seed
  void run();
  void step();
  /// Everything flows, is answered and consumed; nobody may wait for anything for longer than `longest_wait`.
  void drain();
  /// Closes what is open, drains, says goodbye, and expects the base line.
  void finish();

  // ---- verbs of the scenarios; each is followed by every check
  node& at(unsigned i) { return *nodes[i]; }
  mux& link(unsigned port_index) { return *ports[port_index]->link; }
  /// Hello on all links.
  void connect();
  /// A session from the dialling side of link `k` (or from the other).
  side_of& open(unsigned k = 0, bool stream = false, bool from_acceptor = false);
  uint64_t call(side_of& s, const call_options& o);
  void post(side_of& s, uint32_t body_bytes, lane in_lane = lane::normal);
  void abort(side_of& s, errc reason = errc::cancelled);
  void close(side_of& s);
  /// Bytes move, services and producers work, until nothing does.
  void flow();
  /// The same without anybody reading, answering or producing.
  bool move_bytes();
  void pass(duration d);
  /// Runs `verb` on `p` and looks at everything afterwards.
  template <class F>
  void doing(port& p, F verb) {
    verb();
    touch(p);
  }
  void touch(port& p);
  bool write(port& p, size_t most);
  bool deliver(port& p, size_t most, size_t slice);
  void cut(port& p, errc reason);
  void redial();
  void go_away(port& p);

  /// Who waits for what; empty when nobody does.
  std::string waiting() const;
  std::string sessions_left() const;
  void expect_base_line() const;
  void trace(const std::string& what) const;
  bool tracing() const { return tracing_; }
  duration longest_drain{0};
  uint64_t events = 0;

  static constexpr duration longest_wait = std::chrono::seconds{60};

private:
  void dial(port& dialled, port& accepted);
  bool work();
  void tick(port& p);
  void pass_to_next_tick();
  void check(port& p);
  void check_conversations(const port& p);
  void settle(std::string (world::*not_yet)() const, const char* what);
  void part();
  void stall();
  void act(action a);

  bool tracing_;
  std::unique_ptr<credit_log> credit_ = credit_log::from_environment();
  std::array<iovec, 64> iovecs_{};
};

/// One seed from the first byte to the base line, on a thread of its own, because builders keep a slab per
/// thread from one message to the next. Empty, or what broke.
std::string run_seed(uint64_t seed, bool tracing);

} // namespace weir::net::sim
