#pragma once
#include <deque>

#include "liar.hpp"
#include "watch.hpp"

namespace weir::fuzz {

/// Two muxes under a script. One of them, the victim, hears lies among what the other says. What holds
/// whatever a peer does must hold for both, and what no lie was told of must go on as if there were none.
class lied_to {
public:
  using dice = net::sim::dice;

  explicit lied_to(dice d);
  void run();

private:
  /// One side, and its way to the other.
  struct end {
    end(net::test::peer::settings s, net::side which, net::time_point now);
    net::test::peer peer;
    watch seen;
    splitter cut;
    std::deque<frame> waiting; ///< written, not on their way yet
    net::test::pipe on_the_way;
    std::deque<std::pair<size_t, frame>> passing; ///< what is on its way, and where it ends
    size_t pushed = 0, delivered = 0;
  };
  struct open_call {
    end* by = nullptr;
    uint32_t session = 0, id = 0;
  };

  end& other(const end& e) { return &e == &client_ ? server_ : client_; }
  end& any() { return d_.chance(50) ? client_ : server_; }
  bool write(end& from);
  bool deliver(end& from, size_t n);
  bool move_all();
  bool link_lives() const { return client_.peer.link.ready() && server_.peer.link.ready(); }

  void act();
  void act_user(uint64_t what);
  net::session* pick(end& e);
  void open();
  void call();
  void post();
  void cancel();
  void end_session();
  void set_ration();
  void answer();
  void pass_time();
  void bye();
  void lie(uint64_t what);
  void tell(std::vector<frame> lies);
  void garble();

  void look();
  void look_at_events(end& e);
  void look_at_end(end& e, const net::test::seen& ended);
  void look_at_memory(const end& e);
  void look_at_ledgers(const end& e);
  bool honest(uint32_t session) const;

  void settle();
  void settle_once();
  void expect_settled();
  void expect_base_line();

  dice d_;
  uint64_t habits_;
  net::time_point now_{std::chrono::hours{1}};
  end client_, server_;
  end &victim_, &peer_;
  liar liar_;
  const size_t write_bytes_, entries_max_;
  bool garbled_ = false;                ///< bytes were damaged: the watches do not know what is heard
  std::map<uint64_t, open_call> calls_; // by token
  uint64_t tokens_ = 0;
};

} // namespace weir::fuzz
