#pragma once
#include "net/errc.hpp"
#include "net/message.hpp"

namespace weir::net {

/// One message in fragments as it comes in, one per session and lane. Memory is taken by `begin`, so the
/// total length must have been checked against limits and credit before.
class reassembly {
public:
  bool active() const { return total_ != 0; }
  /// Nobody wants the message any more: the rest of it is counted and needs no memory.
  bool discarding() const { return active() && !memory_; }

  /// Starts a message of `total` bytes. no_budget: the memory is not to be had.
  /// Precondition: not active, 0 < total, total % 8 == 0, total fits a slab.
  errc begin(uint64_t total, uint32_t id, time_point deadline, slab_pool& from);
  /// Starts a message that nobody wants.
  void begin_discarded(uint64_t total, uint32_t id);
  /// Another slice. errc::none, or malformed_message when it goes beyond the total, ends short of it, or ends
  /// without `last`.
  errc append(const std::byte* at, uint32_t n, bool last, time_point now);
  /// True when everything has come.
  bool complete() const { return active() && got_ == total_; }
  /// Frees the memory but goes on counting.
  void discard() { memory_.reset(); }
  /// Frees the memory: the message was handed on, void, or its session is over.
  void reset();

  message_view view() const {
    return {reinterpret_cast<const uint64_t*>(memory_->data()), static_cast<uint32_t>(total_ / 8)};
  }
  const slab_ref& memory() const { return memory_; }
  uint64_t total() const { return total_; }
  uint64_t got() const { return got_; }
  /// Bytes that are still to come: promised by the first fragment, so nobody else may use their credit.
  uint64_t missing() const { return total_ - got_; }
  uint32_t id() const { return id_; }
  time_point deadline() const { return deadline_; }
  /// When its last fragment came.
  time_point last_at() const { return last_at_; }

private:
  slab_ref memory_;
  uint64_t total_ = 0, got_ = 0;
  uint32_t id_ = 0;
  time_point deadline_ = time_point::max(), last_at_{};
};

} // namespace weir::net
