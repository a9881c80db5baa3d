#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include "net/frame.hpp"
#include "net/slab.hpp"

namespace weir::net {

/// A whole message on its way out: room for one frame header, then the Cap'n Proto message (segment table and
/// segments) as it crosses the wire. Nearly always one piece; a message whose builder had to take more memory
/// has more, so nothing is copied.
struct outgoing {
  struct piece {
    slab_ref memory;
    const std::byte* at = nullptr;
    uint32_t size = 0;
  };

  slab_ref memory;
  std::byte* at = nullptr; ///< the header's place
  uint32_t size = 0;       ///< of the first piece, with the header
  uint32_t body_bytes = 0; ///< of all pieces, without the header: what `cost_of` takes
  uint32_t
      count = 1; ///< messages; above 1 a *run*: finished one-way frames one behind the other in this piece
  std::unique_ptr<std::vector<piece>> more;

  explicit operator bool() const { return at != nullptr; }
  /// Bytes for credit: of all messages of a run together.
  uint64_t cost() const { return uint64_t{message_overhead_bytes} * count + body_bytes; }
  /// Appends `next` when it lies right behind in the same slab and both are complete one-way frames. False:
  /// nothing was done. Precondition: both have their headers filled in.
  bool extend(const outgoing& next);
};

/// A copy of `m` in one piece, with room for a header of its own. Precondition: a single message.
outgoing copy_of(const outgoing& m);

/// A message in a run is at most this long, which is less than every peer takes in one frame.
constexpr uint32_t run_message_bytes_max = control_bytes_max;

/// Builds messages one behind the other in a slab of the calling thread, so that what one thread sends in one
/// round is contiguous and leaves in one iovec. A second builder while the first is at work is allowed, it
/// takes a slab of its own. What was not finished leaves no trace.
class message_builder final : public capnp::MessageBuilder {
public:
  /// `expected_bytes`: a guess of the finished size that makes one piece likely; a wrong guess costs a piece,
  /// never an error.
  explicit message_builder(size_t expected_bytes);
  ~message_builder() noexcept(false) override;

  kj::ArrayPtr<capnp::word> allocateSegment(uint minimum_words) override;
  /// The finished message; the builder must not be touched again.
  outgoing finish();
  /// Drops a message that will not be sent. When it is the last one that this thread has built its place is
  /// used again: a sender that is refused again and again would leave each of the few messages that are taken
  /// alone in a slab.
  static void take_back(outgoing m);

private:
  outgoing finish_pieces();
  void keep_rest();

  static constexpr uint32_t prefix_bytes = header_bytes +
                                           8; // the header and the table of a message with one segment
  slab_ref first_;                            // where `at_` lies
  std::byte* at_ = nullptr;
  std::vector<slab_ref> further_; // of the second segment and those behind
  uint32_t segments_ = 0;
  uint64_t allocated_words_ = 0;
  bool finished_ = false;
};

/// A received message: words of a Cap'n Proto message in memory that somebody else holds.
struct message_view {
  const uint64_t* words = nullptr;
  uint32_t count = 0;

  uint64_t bytes() const { return uint64_t{count} * 8; }
};

/// How a foreign message may be read: 64 levels, and 8 times its own size, so a small message cannot make
/// much work.
capnp::ReaderOptions reader_options(const message_view& v);

/// True when the segment table of `v` fits: 1 to 64 segments that together are exactly the message. Constant
/// memory.
bool well_formed(const message_view& v);

/// The scalars of an Envelope; read without a Cap'n Proto reader when the layout is the usual one.
struct envelope {
  uint64_t interface = 0;
  uint64_t type = 0;
  uint64_t trace = 0;
  uint16_t method = 0;
  uint32_t reply_room_bytes = 0;
};
/// False when `v` is no Envelope. Throws nothing. Precondition: well_formed(v).
bool read_envelope(const message_view& v, envelope& out);
/// The same of a message that was just built. False when its layout is not the usual one.
bool read_envelope(const outgoing& m, envelope& out);

/// A reply that carries a failure instead of a result. `text` is cut to 1024 bytes.
outgoing build_failure(const failure& f);
/// What such a reply says. `v` is a well-formed message whose envelope has the Failure type.
failure read_failure(const message_view& v);
uint64_t failure_type();

} // namespace weir::net
