#pragma once
#include "net/ration.hpp"

namespace weir::net {

/// Between what a receiver may change a ration by itself.
struct ration_range {
  uint64_t floor_bytes = 0;
  uint64_t ceiling_bytes = 0; ///< 0: the ration is fixed
  bool messages_too = false;  ///< the message ration follows the bytes; else it stays as it is
};

/// Sizes the ration of one direction of a session by what its receiver sees. It grows where the service had
/// nothing to do while the sender waited for credit, and it shrinks where messages wait for the service for
/// longer than they should. A slow service stays at the floor, a fast one gets what its round trip needs.
/// Integers only; time is an argument. Owner: the receiver's half of the session.
class tuner {
public:
  explicit tuner(const ration_range& r = {}) : range_(r) {}
  bool is_fixed() const { return range_.ceiling_bytes == 0; }
  const ration_range& range() const { return range_; }

  /// A message of this cost begins to come behind `before`. `waited`: its sender had to wait with it.
  void arrives(const position& before, uint64_t cost, bool waited) {
    largest_ = std::max(largest_, cost);
    if (waited)
      waited_ = true, before_ = before, with_ = before.plus(cost, 1);
  }
  /// The bytes of the ration after that frame, as it is `now`: everything that came back before it is in
  /// `consumed`. Where the messages stay as they are, no more than so many messages need.
  uint64_t grown(const ration_options& now, const position& consumed, const position& granted);
  /// The ration after something came back, now `bytes`. `waiting`: what came and has not come back.
  uint64_t shrunk(uint64_t bytes, uint64_t consumed, uint64_t waiting, time_point now, duration round_trip);
  /// The message ration that goes with so many bytes.
  static uint64_t messages_of(uint64_t bytes) { return std::max(floor_messages, bytes / bytes_per_message); }
  /// What goes with a ration of so many bytes, where `messages` go with it now.
  uint64_t messages_for(uint64_t bytes, uint64_t messages) const;

  static constexpr uint64_t floor_bytes = 16 << 10, floor_messages = 16;
  static constexpr uint64_t start_bytes = 64 << 10;
  static constexpr uint64_t ceiling_bytes = 16 << 20;
  static constexpr uint64_t bytes_per_message = 128; ///< the message ration is the part of the other one
  /// How long what came may wait for its service before the ration shrinks, and how often that is looked at.
  static constexpr duration wait_max = std::chrono::milliseconds{20};
  static constexpr duration look_every = std::chrono::milliseconds{10};

private:
  ration_range range_;
  uint64_t largest_ = 0; // cost of a recent message
  bool waited_ = false;
  position before_, with_;
  position grown_at_; // what was granted when it grew last
  time_point looked_at_{};
  uint64_t consumed_ = 0; // at that time, bytes
};

} // namespace weir::net
