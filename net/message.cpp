#include "net/message.hpp"

#include <algorithm>
#include <new>

#include "net/wire.capnp.h"

namespace weir::net {

namespace {
constexpr uint32_t segments_max = 64;
/// Small messages share slabs of this size: it stays in a core's second-level cache, and one `take` serves
/// hundreds of them.
constexpr size_t build_slab_bytes = 64 << 10;
/// Root pointer, envelope, and the pointer and list words of a small body: what a guess of the payload tends
/// to forget.
constexpr size_t guess_slack_bytes = 128;
/// A message that outgrew its guess grows by doubling, up to this much at a time.
constexpr uint64_t further_words_max = (4 << 20) / 8;
constexpr size_t failure_text_bytes_max = 1024;

/// Where this thread builds next; empty while a builder has it.
thread_local slab_ref current;

size_t table_words(size_t segments) { return (segments + 2) / 2; }

size_t room_in(const slab_ref& s) { return s ? s->size - s->used : 0; }

/// At most `bytes_max` bytes of `text`, not ending within a UTF-8 sequence.
std::string_view cut_text(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max)
    return text;
  auto end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return text.substr(0, end);
}
} // namespace

bool outgoing::extend(const outgoing& next) {
  if (more || next.more || !(memory == next.memory) || at + size != next.at)
    return false;
  auto too_long = [](const outgoing& m) { return m.count == 1 && m.body_bytes > run_message_bytes_max; };
  if (too_long(*this) || too_long(next))
    return false;
  size += next.size;
  body_bytes += next.body_bytes;
  count += next.count;
  return true;
}

// ---- building

outgoing copy_of(const outgoing& m) {
  outgoing out;
  out.memory = slab_pool::build_pool().take(header_bytes + m.body_bytes);
  out.at = out.memory->data();
  out.size = header_bytes + m.body_bytes;
  out.body_bytes = m.body_bytes;
  out.memory->used = out.size;
  std::memcpy(out.at, m.at, m.size);
  auto* to = out.at + m.size;
  for (const auto& p : m.more ? *m.more : std::vector<outgoing::piece>{}) {
    std::memcpy(to, p.at, p.size);
    to += p.size;
  }
  return out;
}

message_builder::message_builder(size_t expected_bytes) : first_(std::move(current)) {
  auto wanted = (expected_bytes + prefix_bytes + guess_slack_bytes + 7) / 8 * 8;
  if (room_in(first_) < wanted) {
    first_.reset();
    first_ = slab_pool::build_pool().take(std::max(build_slab_bytes, wanted));
  }
  at_ = first_->data() + first_->used;
}

message_builder::~message_builder() noexcept(false) {
  if (finished_)
    return;
  if (auto segments = getSegmentsForOutput(); segments.size() > 0)
    std::memset(at_ + prefix_bytes, 0, segments[0].size() * 8); // the next message is built here
  keep_rest();
}

void message_builder::keep_rest() {
  if (room_in(first_) > prefix_bytes + guess_slack_bytes)
    current = std::move(first_);
}

kj::ArrayPtr<capnp::word> message_builder::allocateSegment(uint minimum_words) {
  if (segments_ == segments_max)
    throw std::bad_alloc{};
  if (segments_++ == 0) {
    allocated_words_ = (room_in(first_) - prefix_bytes) / 8;
    assert(allocated_words_ >= minimum_words); // the root pointer comes first
    return {reinterpret_cast<capnp::word*>(at_ + prefix_bytes), allocated_words_};
  }
  auto words = std::max<uint64_t>(minimum_words,
                                  std::min(allocated_words_, further_words_max)); // twice as much each time
  further_.push_back(slab_pool::build_pool().take(words * 8));
  auto& memory = *further_.back().get();
  memory.used = memory.size; // all of it may be dirty: nobody builds behind this segment
  allocated_words_ += memory.size / 8;
  return {reinterpret_cast<capnp::word*>(memory.data()), memory.size / 8};
}

outgoing message_builder::finish() {
  assert(!finished_ && segments_ > 0);
  finished_ = true;
  if (segments_ > 1)
    return finish_pieces();
  auto words = static_cast<uint32_t>(getSegmentsForOutput()[0].size());
  uint32_t table[2] = {0, words};
  std::memcpy(at_ + header_bytes, table, sizeof table);
  outgoing m;
  m.memory = first_;
  m.at = at_;
  m.size = prefix_bytes + words * 8;
  m.body_bytes = m.size - static_cast<uint32_t>(header_bytes);
  first_->used += m.size;
  keep_rest();
  return m;
}

void message_builder::take_back(outgoing m) {
  if (m.more || !(m.memory == current) || m.at + m.size != current->data() + current->used)
    return;
  std::memset(m.at, 0, m.size);
  current->used -= m.size;
}

outgoing message_builder::finish_pieces() {
  auto segments = getSegmentsForOutput();
  auto table_bytes = table_words(segments.size()) * 8;
  outgoing m;
  m.memory = slab_pool::build_pool().take(header_bytes + table_bytes);
  m.at = m.memory->data();
  m.size = static_cast<uint32_t>(header_bytes + table_bytes);
  m.memory->used = m.size;
  m.body_bytes = static_cast<uint32_t>(table_bytes);
  m.more = std::make_unique<std::vector<outgoing::piece>>();
  auto* table = reinterpret_cast<uint32_t*>(m.at + header_bytes);
  *table++ = static_cast<uint32_t>(segments.size() - 1);
  for (size_t i = 0; i < segments.size(); ++i) {
    auto bytes = static_cast<uint32_t>(segments[i].size() * 8);
    *table++ = static_cast<uint32_t>(segments[i].size());
    m.more->push_back(
        {i == 0 ? first_ : further_[i - 1], reinterpret_cast<const std::byte*>(segments[i].begin()), bytes});
    m.body_bytes += bytes;
  }
  first_->used += prefix_bytes + m.more->front().size;
  keep_rest();
  return m;
}

// ---- reading

capnp::ReaderOptions reader_options(const message_view& v) {
  capnp::ReaderOptions o;
  o.nestingLimit = 64;
  o.traversalLimitInWords = uint64_t{v.count} * 8;
  return o;
}

bool well_formed(const message_view& v) {
  if (v.count == 0)
    return false;
  auto word32 = [&](uint64_t i) { return static_cast<uint32_t>(v.words[i / 2] >> (i % 2 * 32)); };
  auto segments = uint64_t{word32(0)} + 1;
  if (segments > segments_max || table_words(segments) > v.count)
    return false;
  uint64_t total = table_words(segments);
  for (uint64_t i = 1; i <= segments; ++i)
    total += word32(i);
  return total == v.count;
}

namespace {
/// From the first segment of a message, when the root is a struct of today's size or larger that follows its
/// pointer in there.
bool read_envelope_quickly(const uint64_t* segment, uint64_t count, envelope& out) {
  assert(count != 0);
  auto root = segment[0]; // offset in words above the two low bits, then words of data, then pointers
  auto offset = static_cast<int32_t>(static_cast<uint32_t>(root)) >> 2;
  auto data = (root >> 32) & 0xffff;
  if ((root & 3) != 0 || offset < 0 || data < 4)
    return false;
  if (uint64_t(offset) + 1 + data + (root >> 48) > count)
    return false;
  auto* at = segment + 1 + offset;
  out = {at[0], at[1], at[2], static_cast<uint16_t>(at[3]), static_cast<uint32_t>(at[3] >> 32)};
  return true;
}

bool read_envelope_slowly(const message_view& v, envelope& out) {
  try {
    capnp::FlatArrayMessageReader reader{kj::arrayPtr(reinterpret_cast<const capnp::word*>(v.words), v.count),
                                         reader_options(v)};
    auto any = reader.getRoot<capnp::AnyPointer>();
    if (any.isNull() || !any.isStruct())
      return false;
    auto e = any.getAs<wire::Envelope>();
    out = {e.getInterface(), e.getType(), e.getTrace(), e.getMethod(), e.getReplyRoom()};
    return true;
  } catch (const kj::Exception&) {
    return false;
  }
}

failure read_failure_body(const message_view& v) {
  capnp::FlatArrayMessageReader reader{kj::arrayPtr(reinterpret_cast<const capnp::word*>(v.words), v.count),
                                       reader_options(v)};
  auto f = reader.getRoot<wire::Envelope>().getBody().getAs<wire::Failure>();
  auto known_reason = f.getReason() != 0 && f.getReason() <= 255;
  auto known_outcome = f.getOutcome() <= static_cast<uint8_t>(outcome::unknown);
  auto text = f.getText();
  return {known_reason ? static_cast<errc>(f.getReason()) : errc::handler_failed,
          known_outcome ? static_cast<outcome>(f.getOutcome()) : outcome::unknown,
          std::string{cut_text({text.begin(), text.size()}, failure_text_bytes_max)}};
}
} // namespace

bool read_envelope(const message_view& v, envelope& out) {
  if (v.count < 2)
    return false;
  auto usual = static_cast<uint32_t>(v.words[0]) == 0 && read_envelope_quickly(v.words + 1, v.count - 1, out);
  return usual || read_envelope_slowly(v, out);
}

bool read_envelope(const outgoing& m, envelope& out) {
  assert(m.count == 1);
  auto* at = m.more ? m.more->front().at : m.at + header_bytes + 8;
  auto bytes = m.more ? m.more->front().size : m.body_bytes - 8;
  return read_envelope_quickly(reinterpret_cast<const uint64_t*>(at), bytes / 8, out);
}

uint64_t failure_type() { return capnp::typeId<wire::Failure>(); }

outgoing build_failure(const failure& f) {
  auto text = cut_text(f.text, failure_text_bytes_max);
  message_builder b{text.size() + 128};
  auto e = b.initRoot<wire::Envelope>();
  e.setType(failure_type());
  auto body = e.getBody().initAs<wire::Failure>();
  body.setReason(static_cast<uint16_t>(f.code));
  body.setOutcome(static_cast<uint8_t>(f.what));
  auto to = body.initText(static_cast<unsigned>(text.size()));
  std::memcpy(to.begin(), text.data(), text.size());
  return b.finish();
}

failure read_failure(const message_view& v) {
  try {
    return read_failure_body(v);
  } catch (const kj::Exception&) {
    return {errc::malformed_message, outcome::unknown, "the answer is a failure that cannot be read"};
  }
}

} // namespace weir::net
