#pragma once
#include <functional>
#include <string>
#include <vector>

#include <sys/uio.h>

#include "dice.hpp"
#include "net/control.hpp"
#include "net/slab.hpp"

namespace weir::net::sim {

/// What a pipe does to the grants that pass: the only words whose loss, repetition and delay the protocol
/// calls harmless.
struct mischief {
  unsigned lost_percent = 0, doubled_percent = 0, late_percent = 0;
  explicit operator bool() const { return lost_percent + doubled_percent + late_percent != 0; }
};

/// Bytes on their way in one direction, in the order in which they were written: the sender's and the
/// receiver's socket buffers.
class pipe {
public:
  size_t capacity = SIZE_MAX;
  time_point stalled_until{}; ///< nothing comes out before
  mischief with_grants;

  size_t size() const { return bytes_.size() - first_; }
  size_t room() const { return capacity - std::min(capacity, size()); }
  /// The first `n` bytes of what `v` describes.
  void write(const iovec* v, size_t n, dice& d);
  void take(std::byte* to, size_t n);
  void clear();

  // ---- what has passed
  uint64_t control_bytes = 0, control_frames = 0, data_bytes = 0, data_frames = 0;
  uint32_t control_longest = 0;
  /// Kinds of the frames in the order in which they left, while `records` is set.
  bool records = false;
  std::vector<frame_header> recorded;
  std::vector<std::byte> recorded_bytes;
  /// Told of every control frame and of every header of data, for a trace.
  std::function<void(const frame_header&, const say::control*)> spy;

private:
  void push(const std::byte* at, size_t n) { bytes_.insert(bytes_.end(), at, at + n); }
  size_t pass_preamble(const std::byte* at, size_t n);
  size_t pass_header(const std::byte* at, size_t n);
  size_t pass_body(const std::byte* at, size_t n);
  void count(const frame_header& h);
  void end_frame(dice& d);
  bool mangle(dice& d);
  void tell_spy() const;

  std::vector<std::byte> bytes_;
  size_t first_ = 0;
  size_t preamble_left_ = preamble_bytes, body_left_ = 0;
  std::vector<std::byte> header_; // of the frame that passes now
  bool holds_ = false;            // that frame passes when it is whole
  std::vector<uint64_t> body_;    // of control
  size_t body_bytes_ = 0;
  std::vector<say::grant> late_;
};

/// What a frame says, for a trace.
std::string in_words(const frame_header& h);
std::string in_words(const say::control& c);

/// Reads as a link does: into slabs, keeping what is not a whole frame yet. Messages in it live as long as
/// somebody holds `memory`.
class receive_buffer {
public:
  explicit receive_buffer(slab_pool& from) : pool_(from) {}
  size_t slab_bytes = 4 << 10;

  /// Room for `n` more bytes behind those that were not taken; `wanted`: the whole frame at the front.
  std::byte* prepare(size_t n, size_t wanted);
  void commit(size_t n) { end_ += n; }
  const std::byte* data() const { return memory_->data() + begin_; }
  size_t size() const { return end_ - begin_; }
  void taken(size_t n) { begin_ += n; }
  const slab_ref& memory() const { return memory_; }
  void clear();

private:
  slab_pool& pool_;
  slab_ref memory_;
  size_t begin_ = 0, end_ = 0;
};

} // namespace weir::net::sim
