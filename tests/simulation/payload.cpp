#include "payload.hpp"

#include <cstring>

#include "net/wire.capnp.h"

namespace weir::net::sim {

namespace {
uint64_t mix(uint64_t a, uint64_t b) {
  auto z = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6))) * 0xbf58476d1ce4e5b9ull;
  return z ^ (z >> 29);
}
uint64_t trace_of(const stamp& s) { return uint64_t{s.conversation} << 32 | s.sequence; }
uint16_t method_of(const stamp& s) {
  return static_cast<uint16_t>(static_cast<unsigned>(s.what) | static_cast<unsigned>(s.in_lane) << 2 |
                               (s.from_opener ? 1u : 0u) << 4);
}
uint64_t check_word(const stamp& s, uint32_t bytes) {
  return mix(mix(mix(s.token, trace_of(s)), method_of(s)), bytes) | 1;
}

void fill(capnp::byte* at, size_t n, uint64_t check) {
  uint64_t word = check;
  for (; n >= 8; at += 8, n -= 8, word += check)
    std::memcpy(at, &word, 8);
  std::memcpy(at, &word, n);
}
bool filled(const capnp::byte* at, size_t n, uint64_t check) {
  uint64_t word = check, got = 0;
  for (; n >= 8; at += 8, n -= 8, word += check) {
    std::memcpy(&got, at, 8);
    if (got != word)
      return false;
  }
  return std::memcmp(at, &word, n) == 0;
}
} // namespace

outgoing build(const stamp& s, uint32_t body_bytes, uint32_t reply_room, size_t guessed) {
  message_builder b{guessed};
  auto e = b.initRoot<wire::Envelope>();
  auto check = check_word(s, body_bytes);
  e.setInterface(s.token);
  e.setType(check);
  e.setTrace(trace_of(s));
  e.setMethod(method_of(s));
  e.setReplyRoom(reply_room);
  auto data = e.getBody().initAs<capnp::Data>(body_bytes);
  fill(data.begin(), data.size(), check);
  return b.finish();
}

std::string read(const message_view& v, stamp& s, uint32_t& body_bytes) {
  envelope e;
  if (!well_formed(v) || !read_envelope(v, e))
    return "no envelope";
  s.token = e.interface;
  s.conversation = static_cast<uint32_t>(e.trace >> 32);
  s.sequence = static_cast<uint32_t>(e.trace);
  s.what = static_cast<kind>(e.method & 3);
  s.in_lane = static_cast<lane>(e.method >> 2 & 3);
  s.from_opener = (e.method >> 4 & 1) != 0;
  try {
    capnp::FlatArrayMessageReader reader{kj::arrayPtr(reinterpret_cast<const capnp::word*>(v.words), v.count),
                                         reader_options(v)};
    auto data = reader.getRoot<wire::Envelope>().getBody().getAs<capnp::Data>();
    body_bytes = static_cast<uint32_t>(data.size());
    if (e.type != check_word(s, body_bytes))
      return "the stamp is not what was stamped";
    if (!filled(data.begin(), data.size(), e.type))
      return "the body is not what was written";
  } catch (const kj::Exception& x) {
    return x.getDescription().cStr();
  }
  return {};
}

} // namespace weir::net::sim
