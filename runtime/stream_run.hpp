#pragma once
#include <memory>
#include <utility>

#include <weir/ref.hpp>

#include "actors/gate.hpp"
#include "actors/messages.hpp"
#include "actors/session.hpp"
#include "net/message.hpp"

namespace weir::detail {

/// A run goes to its session when it has this much, or earlier when its producer says so.
constexpr uint32_t run_bytes_max = 64 << 10;

/// What one producer has offered to its session and not handed over yet. Owner: the producer.
class stream_run {
public:
  stream_run(std::shared_ptr<actors::gate> g, net::lane in_lane) : gate_(std::move(g)), in_lane_(in_lane) {}

  actors::gate& gate() const { return *gate_; }
  explicit operator bool() const { return static_cast<bool>(run_); }
  /// Ration and room for one more; false before the session is open.
  bool may_send() const {
    if (gate_->session_id() == 0)
      return false;
    auto limit = gate_->limit();
    return sent_.bytes < limit.bytes && sent_.messages < limit.messages &&
           gate_->has_room_beside(run_ ? run_.cost() : 0, run_ ? run_.count : 0);
  }
  /// False: `next` does not fit behind what is there, which must be taken first. Stamped already: it may be
  /// added again.
  bool add(net::outgoing& next) {
    if (!run_)
      run_ = std::move(next);
    else if (!run_.extend(next))
      return false;
    return true;
  }
  /// Writes the header of `next` and counts it.
  void stamp(net::outgoing& next) {
    net::frame_header h;
    h.length = next.body_bytes;
    h.session = gate_->session_id();
    h.kind = net::frame_kind::message;
    h.flags = static_cast<uint8_t>(in_lane_);
    net::store_header(next.at, h);
    sent_ = sent_.plus(next.cost(), 1);
  }
  bool is_full() const { return run_.body_bytes >= run_bytes_max; }
  /// All of it, charged to the gate, for `session::carry`. Precondition: there is something.
  actors::ask take() {
    actors::ask a;
    a.message = std::exchange(run_, {});
    a.in_lane = in_lane_;
    gate_->charge(a.message.cost(), a.message.count);
    return a;
  }
  void drop() { run_ = {}; }

private:
  std::shared_ptr<actors::gate> gate_;
  net::lane in_lane_;
  net::position sent_;
  net::outgoing run_;
};

/// A session that this producer has for itself: that of `to`, or another one to the same service.
std::shared_ptr<session_guard> claim_session(const ref_base& to);

} // namespace weir::detail
