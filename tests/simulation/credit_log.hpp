#pragma once
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "wire.hpp"

namespace weir::net::sim {

struct port;

/// What happens to the credit of each direction of each session, in the words of tests/model/replay.pml,
/// which holds it against the model. It watches: what a side has heard, and how its sessions stand after each
/// step.
class credit_log {
public:
  /// SIM_CREDIT names the file; nullptr without it.
  static std::unique_ptr<credit_log> from_environment();
  explicit credit_log(std::FILE* to) : to_(to) {}
  /// Writes one direction after the other.
  ~credit_log();
  credit_log(const credit_log&) = delete;
  credit_log& operator=(const credit_log&) = delete;

  /// Both ends of a link begin anew.
  void dialled(const port& a, const port& b);
  /// `p` has taken these bytes and done what they say.
  void heard(const port& p, const std::byte* at, size_t n);
  /// How the sessions of `p` stand now.
  void look(const port& p);

private:
  struct ear {
    unsigned dial = 0;
    bool preamble = false;
    std::map<std::pair<uint32_t, lane>, bool> in_fragments;
  };
  struct direction {
    std::string events, state_in, state_out; ///< states: as they were written last
  };
  direction& of(const port& sender, uint32_t session);
  void heard_data(const port& p, const frame_header& h);
  void heard_control(const port& p, const frame_header& h, const std::byte* body);
  void heard_ends(const port& p, const say::control& c);

  std::FILE* to_;
  std::map<unsigned, ear> ears_;
  std::map<std::tuple<unsigned, unsigned, uint32_t>, direction> directions_; // sender's port, dial, session
};

} // namespace weir::net::sim
