#pragma once
#include <set>

#include "frames.hpp"
#include "tests/simulation/dice.hpp"
#include "tests/support/mux_pair.hpp"

namespace weir::fuzz {

/// Makes frames that one side of a link hears and its peer has never said: damaged, made up, from nothing or
/// from what the peer did say. Most are nearly true, because what is far off ends with the first check.
class liar {
public:
  using dice = net::sim::dice;

  /// `forges`: it opens sessions of its own, which the peer knows nothing of.
  liar(dice& d, const net::test::peer& victim, bool forges) : d_(d), victim_(victim), forges_(forges) {}

  /// The victim has a session of which its peer knows as well.
  bool knows_any() const;
  /// Control of one to four words.
  frame control();
  /// A message, or a fragment of one.
  frame data();
  /// Changes a frame of the peer's. Empty: it is lost.
  std::vector<frame> change(frame f);
  /// A call that the victim has open on `session`, for answers.
  void note_call(uint32_t session, uint32_t call) { calls_.emplace_back(session, call); }

  // ---- sessions that lies were told of
  bool forged(uint32_t id) const { return forged_.contains(id); }
  bool touched(uint32_t id) const { return touched_.contains(id); }
  bool touched_none() const { return touched_.empty() && !touched_link_; }
  const std::set<uint32_t>& forged() const { return forged_; }
  /// Some word was about the whole link.
  bool touched_link() const { return touched_link_; }
  void touch_link() { touched_link_ = true; }
  /// What the victim says without what is about sessions that its peer does not know. Empty: nothing is left.
  std::vector<frame> without_forged(frame f) const;
  /// What settles a session of ours that the victim is done with, as an honest peer would say it.
  std::vector<frame> last_words() const;

private:
  const net::session* draw_known();
  uint32_t id_of(const net::session* s);
  uint32_t draw_new_session();
  uint64_t draw_number();
  net::position draw_position(const net::session* s);
  net::position draw_final(const net::session* s);
  uint32_t draw_call(uint32_t session);
  errc draw_reason() { return static_cast<errc>(d_.below(256)); }
  void add_session_word(net::say::control& c);
  void add_credit_word(net::say::control& c);
  void add_call_word(net::say::control& c);
  void add_link_word(net::say::control& c);
  frame fragment(uint32_t session, net::lane in_lane);
  template <class Entry>
  void bend(Entry& e);
  std::vector<frame> change_control(frame f);

  struct part {
    uint64_t left = 0;
    uint32_t id = 0;
  };
  dice& d_;
  const net::test::peer& victim_;
  const bool forges_;
  bool touched_link_ = false;
  std::set<uint32_t> forged_, touched_;
  uint32_t last_forged_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> calls_; // session and id
  std::map<std::pair<uint32_t, net::lane>, part> parts_;
};

} // namespace weir::fuzz
