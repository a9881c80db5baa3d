#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "frames.hpp"
#include "tests/support/mux_pair.hpp"

namespace weir::fuzz {

/// Watches one side of a link from outside: what it hears, what it says and what it tells its user. Whatever
/// it hears, true or not, it must keep the rules: this knows them a second time, from net/PROTOCOL.md, and
/// not from the mux. Breaks off (`require`) when one is broken.
class watch {
public:
  watch(std::string who, net::side which) : who_(std::move(who)), odd_(which == net::side::dialled) {}

  /// A whole frame that this side has read.
  void heard(const frame& f);
  /// A whole frame that it has written.
  void said(const frame& f);
  /// What it told its user.
  void told(const net::test::seen& e);

  /// All that it has said was seen: what it has taken must be what it had allowed.
  void quiet();

  /// What its user has got on session `id`.
  net::position taken(uint32_t id) const;
  /// A session of ours or the peer's that still has a word to say.
  bool alive(uint32_t id) const;

private:
  /// A message of which a part has left.
  struct part {
    uint64_t left = 0;
    uint32_t id = 0;
  };
  struct known {
    bool ours = false, opened = false, dead = false, ended = false;
    bool waits_for_last = false; ///< said `close`: its answer is all that it may say
    // ---- what it may send, and has sent
    net::position limit, sent;
    uint32_t epoch = 0;
    std::map<uint32_t, net::position> granted; ///< heard, by epoch
    uint64_t promised = 0;
    std::array<part, net::lanes> parts;
    std::map<uint16_t, uint32_t> calls; ///< requests that have left whole and were not answered, by slot
    std::set<uint32_t> ended_calls;     ///< heard, maybe before the request was seen
    // ---- what it has allowed, and has taken
    net::position allowed, taken;
    uint32_t allowed_epoch = 0;
    std::map<uint32_t, unsigned> asked;   ///< requests that it has heard and not answered: how often each
    std::map<uint32_t, unsigned> running; ///< those of them that its user has got
  };

  void must(bool holds, const known* s, const char* what);
  known& session_said(uint32_t id, const char* what);
  known* find(uint32_t id);
  known* find_or_early(uint32_t id);

  void hear_control(const net::say::control& c);
  void hear_data(const net::frame_header& h);
  static void end_call(known& s, uint32_t call);
  static void end_request(known& s, uint32_t call);
  void say_control(const net::say::control& c);
  void say_opens(const net::say::control& c);
  void say_credit(const net::say::control& c);
  void say_ends(const net::say::control& c);
  void say_calls(const net::say::control& c);
  void say_data(const frame& f);
  void say_first(known& s, const frame& f, part& p);
  void say_last(known& s, const net::frame_header& h);

  std::string who_;
  bool odd_; // its own session ids
  bool preamble_said_ = false, preamble_heard_ = false, hello_said_ = false, faulted_ = false;
  std::optional<net::say::hello> peer_;
  uint32_t last_own_ = 0;
  std::map<uint32_t, known> sessions_, early_; // early: heard of before its `open` was seen
};

} // namespace weir::fuzz
