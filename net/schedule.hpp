#pragma once
#include <array>

#include "net/frame.hpp"
#include "net/ring.hpp"

namespace weir::net {

/// Who writes next on one link. Lanes by rank, reply > normal > bulk, but while it has something to send
/// normal keeps a quarter of the bytes and bulk a twentieth. Within a lane sessions take turns by bytes
/// (deficit round robin: whoever sent more than its turn waits until the others have caught up, so the next
/// frame's size need not be known).
class schedule {
public:
  /// One lane of one session; part of the session, which must leave before it dies.
  struct member {
    void* owner = nullptr;
    lane in_lane = lane::normal;
    bool waiting = false; ///< in the schedule
    int64_t deficit = 0;  ///< bytes it may send in this turn
  };

  /// `m` has something to send. Nothing happens when it is waiting already.
  void add(member& m);
  void remove(member& m);
  /// Removes all: one by one each would look through those that are left.
  void clear();
  /// Nobody waits; without `bulk_too` those of the bulk lane do not count.
  bool empty(bool bulk_too) const { return waiting_ == (bulk_too ? 0 : lines_[lanes - 1].size()); }
  /// Whose turn it is; its deficit is positive. nullptr: nobody waits. The same again until `sent` or
  /// `remove`. Without `bulk_too` the bulk lane is passed over.
  member* next(bool bulk_too = true);
  /// What `m` = next() did with its turn: `bytes` sent; `more`: it has something left that may be sent now.
  void sent(member& m, uint64_t bytes, bool more);

  /// Bytes per turn: so small that nobody waits long, so large that a session with small messages fills it
  /// from one queue.
  static constexpr int64_t turn_bytes = 16 << 10;
  /// Of all bytes, while it has something to send: 1 / share.
  static constexpr std::array<int64_t, lanes> share{1, 4, 20};

private:
  size_t choose(size_t among) const;
  ring<member*>& line(size_t i) { return lines_[i]; }

  std::array<ring<member*>, lanes> lines_;
  std::array<int64_t, lanes> behind_{}; // bytes by which a lane is behind its share
  size_t waiting_ = 0;
};

} // namespace weir::net
