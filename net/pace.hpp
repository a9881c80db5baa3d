#pragma once
#include <optional>

#include "net/frame.hpp"
#include "net/ring.hpp"

namespace weir::net {

/// How much bulk of one link may be on its way, so that what is more urgent never waits behind long queues in
/// sockets: twice what the link carries in a round trip, and 256 KiB at least. Marks (pings behind data) tell
/// by their answers what the peer has read, and how fast. Integers only; time is an argument. Owner: the mux.
class pace {
public:
  /// So much bulk was handed over.
  void sent(uint64_t bytes) {
    sent_ += bytes;
    busy_ = busy_ || !is_open();
  }
  uint64_t under_way() const { return sent_ - read_; }
  uint64_t window() const { return window_; }
  /// More bulk may leave.
  bool is_open() const { return under_way() < window_; }

  /// A mark behind what was handed over is worth a ping.
  bool wants_mark() const {
    return marks_.size() < marks_max && sent_ - marked_ >= window_ / marks_per_window;
  }
  bool has_mark() const { return !marks_.empty(); }
  void mark(uint64_t number, time_point now);
  /// The peer has read up to that mark: the round trip. Nothing: there is no such mark.
  std::optional<duration> answered(uint64_t number, time_point now);

  /// Bytes per second that the peer reads of a link that is kept busy; 0: not known.
  uint64_t rate() const { return rate_; }

  static constexpr uint64_t window_min = 256 << 10;
  static constexpr size_t marks_max = 8, marks_per_window = 4;
  /// Then the round trip is measured anew, with no more than this on its way, or our own queue would be taken
  /// for a long link.
  static constexpr duration shortest_lasts = std::chrono::seconds{10};
  static constexpr uint64_t window_measuring = 32 << 10;

private:
  struct point {
    uint64_t number = 0, sent = 0;
    uint64_t read = 0; // what the peer was known to have read then
    time_point at;
    bool busy = false;  // more would have been sent
    bool alone = false; // next to nothing was before it on its way
  };
  void measure(const point& of, duration round_trip, time_point now);

  ring<point> marks_;
  uint64_t sent_ = 0, marked_ = 0, read_ = 0;
  uint64_t window_ = window_min, rate_ = 0;
  bool busy_ = false;      // the window was full since the last mark
  bool measuring_ = false; // the shortest round trip
  duration shortest_{0};
  time_point shortest_at_{};
};

} // namespace weir::net
