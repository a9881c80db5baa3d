#include "runtime/message_parts.hpp"

namespace weir::detail {

static_assert(sizeof(message_out) >= sizeof(message_out::parts));

message_out::message_out(const heading& h, size_t expected_bytes) {
  auto& p = *new (space_) parts(expected_bytes);
  p.envelope = p.builder.initRoot<wire::Envelope>();
  p.envelope.setInterface(h.interface);
  p.envelope.setType(h.type);
  p.envelope.setTrace(h.trace);
  p.envelope.setMethod(h.method);
  p.envelope.setReplyRoom(h.reply_room_bytes);
}

message_out::~message_out() { get().~parts(); }

capnp::AnyPointer::Builder message_out::body() { return get().envelope.getBody(); }

struct message_in::parts {
  explicit parts(const net::message_view& v)
      : reader(kj::arrayPtr(reinterpret_cast<const capnp::word*>(v.words), v.count), net::reader_options(v)) {
  }
  capnp::FlatArrayMessageReader reader;
};

message_in::message_in(const uint64_t* words, uint32_t count) {
  static_assert(sizeof space_ >= sizeof(parts));
  net::message_view v{words, count};
  net::envelope e;
  if (net::read_envelope(v, e))
    head_ = {e.interface, e.type, e.trace, e.method, e.reply_room_bytes};
  new (space_) parts(v);
}

message_in::~message_in() { reinterpret_cast<parts*>(space_)->~parts(); }

capnp::AnyPointer::Reader message_in::body() {
  return reinterpret_cast<parts*>(space_)->reader.getRoot<wire::Envelope>().getBody();
}

kept_message::kept_message() = default;
kept_message::kept_message(std::unique_ptr<parts> p) : parts_(std::move(p)) {}
kept_message::kept_message(kept_message&&) noexcept = default;
kept_message& kept_message::operator=(kept_message&&) noexcept = default;
kept_message::~kept_message() = default;
capnp::AnyPointer::Reader kept_message::body() const { return parts_->reader.body(); }

} // namespace weir::detail
