// Bytes as they cross the wire, frame after frame: what is in them is read within its limits or refused, and
// what was understood is written and read as the same.
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <capnp/any.h>
#include <capnp/serialize.h>

#include "net/control.hpp"
#include "net/wire.capnp.h"
#include "tests/fuzz/require.hpp"

using namespace weir;
using namespace weir::net;
using fuzz::require;

namespace {

constexpr uint32_t body_bytes_max = 80 << 10; // what a link takes by default

/// Words in memory of exactly their size, so that a sanitizer sees each read beyond.
struct exact {
  exact(const uint8_t* at, size_t bytes) : exact(at, bytes, bytes) {}
  /// `whole` bytes, the first `bytes` of them from `at`. Both are multiples of 8.
  exact(const uint8_t* at, size_t bytes, size_t whole) : words(new uint64_t[whole / 8]), count(whole / 8) {
    std::memcpy(words.get(), at, bytes);
  }
  message_view view() const { return {words.get(), static_cast<uint32_t>(count)}; }

  std::unique_ptr<uint64_t[]> words;
  size_t count;
};

// ---- messages

size_t walk(capnp::AnyPointer::Reader p);

size_t walk(capnp::AnyStruct::Reader s) {
  size_t seen = s.getDataSection().size();
  for (auto p : s.getPointerSection())
    seen += walk(p);
  return seen;
}

/// Everything that can be reached; a reader's limits end it with an exception.
size_t walk(capnp::AnyPointer::Reader p) {
  if (p.isStruct())
    return walk(p.getAs<capnp::AnyStruct>());
  if (!p.isList())
    return 0;
  auto list = p.getAs<capnp::AnyList>();
  size_t seen = list.size();
  if (list.getElementSize() == capnp::ElementSize::POINTER)
    for (auto e : list.as<capnp::List<capnp::AnyPointer>>())
      seen += walk(e);
  if (list.getElementSize() == capnp::ElementSize::INLINE_COMPOSITE)
    for (auto e : list.as<capnp::List<capnp::AnyStruct>>())
      seen += walk(e);
  return seen;
}

kj::ArrayPtr<const capnp::word> words_of(const message_view& v) {
  return kj::arrayPtr(reinterpret_cast<const capnp::word*>(v.words), v.count);
}

/// What Cap'n Proto's own reader says of the envelope.
bool read_with_capnp(const message_view& v, envelope& out) {
  try {
    capnp::FlatArrayMessageReader reader{words_of(v), reader_options(v)};
    auto any = reader.getRoot<capnp::AnyPointer>();
    if (!any.isStruct())
      return false;
    auto e = any.getAs<wire::Envelope>();
    out = {e.getInterface(), e.getType(), e.getTrace(), e.getMethod(), e.getReplyRoom()};
    return true;
  } catch (const kj::Exception&) {
    return false;
  }
}

void check_message(const message_view& v) {
  if (!well_formed(v))
    return;
  envelope ours, theirs;
  auto read = read_envelope(v, ours);
  require(read == read_with_capnp(v, theirs), "both readers agree whether it is an envelope");
  if (read)
    require(ours.interface == theirs.interface && ours.type == theirs.type && ours.trace == theirs.trace &&
                ours.method == theirs.method && ours.reply_room_bytes == theirs.reply_room_bytes,
            "both readers see the same envelope");
  auto f = read_failure(v);
  require(f.code != errc::none && f.text.size() <= say::text_bytes_max,
          "a failure has a reason and bounded words");
  try {
    capnp::FlatArrayMessageReader reader{words_of(v), reader_options(v)};
    auto seen = walk(reader.getRoot<capnp::AnyPointer>());
    require(seen <= size_t{8} * 64 * (v.count + 1), "no more is read than the limit allows");
  } catch (const kj::Exception&) {
  }
}

// ---- control

/// Elements of all lists, and what they take in a frame at most.
struct content {
  size_t elements = 0, bytes = 0;
};

content content_of(const say::control& c) {
  content sum;
  auto add = [&](const auto&... lists) {
    auto one = [&](const auto& list) {
      for (const auto& e : list)
        ++sum.elements, sum.bytes += say::encoded_bytes(e);
    };
    (one(lists), ...);
  };
  add(c.opens, c.openeds, c.refuseds, c.grants, c.blockeds, c.reclaims, c.reclaimeds, c.aborts, c.closes,
      c.closeds, c.cancels, c.cancelleds, c.needs, c.funds, c.unfundeds);
  auto add_one = [&](const auto& e) { sum.bytes += e ? say::encoded_bytes(*e) : 0; };
  add_one(c.hello), add_one(c.goaway), add_one(c.fault);
  return sum;
}

void check_names(const say::control& c) {
  for (auto& o : c.opens)
    require(o.service.size() <= say::name_bytes_max, "a name is at most 255 bytes");
  if (c.hello)
    require(c.hello->cluster.size() <= say::name_bytes_max && c.hello->name.size() <= say::name_bytes_max,
            "a name is at most 255 bytes");
  for (auto& r : c.refuseds)
    require(r.text.size() <= say::text_bytes_max, "a text is at most 1024 bytes");
  for (auto& a : c.aborts)
    require(a.text.size() <= say::text_bytes_max, "a text is at most 1024 bytes");
}

exact body_of(const outgoing& m) {
  exact body{reinterpret_cast<const uint8_t*>(m.at + header_bytes), m.size - header_bytes, m.body_bytes};
  auto* to = reinterpret_cast<std::byte*>(body.words.get()) + m.size - header_bytes;
  if (m.more)
    for (auto& p : *m.more) {
      std::memcpy(to, p.at, p.size);
      to += p.size;
    }
  return body;
}

/// The same for all messages that say the same, however many segments they have.
std::vector<std::byte> canonical(const message_view& v) {
  capnp::FlatArrayMessageReader reader{words_of(v)};
  auto words = capnp::canonicalize(reader.getRoot<wire::Control>());
  auto bytes = std::as_bytes(std::span{words.asBytes().begin(), words.asBytes().end()});
  return {bytes.begin(), bytes.end()};
}

void check_control(const message_view& v) {
  say::control c;
  std::string why;
  auto e = say::decode(v, c, why);
  if (e != errc::none) {
    require(e == errc::malformed_control && !why.empty(), "malformed control is told in words");
    return;
  }
  auto has = content_of(c);
  require(has.elements <= say::entries_max, "a frame has at most so many elements");
  check_names(c);
  if (has.bytes > say::entries_bytes_max)
    return; // lists that lie on each other: more than anybody may write
  auto written = body_of(say::encode(c));
  require(written.count * 8 <= control_bytes_max, "what was packed by its sizes fits a frame");
  say::control again;
  require(say::decode(written.view(), again, why) == errc::none, "what is written can be read");
  require(canonical(body_of(say::encode(again)).view()) == canonical(written.view()),
          "what is written is read as the same");
}

// ---- frames

void check_ttl(uint16_t ttl) {
  auto left = decode_ttl(ttl);
  require(left >= duration::zero() && left <= std::chrono::hours{38}, "time left is in range");
  if (left > duration::zero())
    require(decode_ttl(encode_ttl(left)) == left, "time left is written as the same");
}

/// Bytes of it that the next frame follows; 0: there is no next one.
size_t check_frame(const uint8_t* at, size_t n) {
  if (n < header_bytes)
    return 0;
  auto h = load_header(reinterpret_cast<const std::byte*>(at));
  check_ttl(h.ttl);
  auto fault = check_header(h, body_bytes_max);
  auto body = std::min<size_t>(h.length, n - header_bytes) / 8 * 8;
  if (fault == errc::none) {
    auto most = h.kind == frame_kind::control ? control_bytes_max : body_bytes_max;
    require(h.length % 8 == 0 && h.length <= most, "a good header has a length within its limit");
    require((h.kind == frame_kind::control) == (h.session == 0), "only control has no session");
    require(h.kind == frame_kind::control || static_cast<size_t>(h.frame_lane()) < lanes,
            "there are three lanes");
  }
  exact copy{at + header_bytes, body};
  if (body <= control_bytes_max)
    check_control(copy.view());
  check_message(copy.view());
  return fault == errc::none && body == h.length ? header_bytes + body : 0;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < preamble_bytes)
    return 0;
  auto e = check_preamble(reinterpret_cast<const std::byte*>(data));
  require(e == errc::none || e == errc::bad_magic || e == errc::bad_version, "a preamble is ours or not");
  for (size_t at = preamble_bytes, n = 1; n != 0; at += n)
    n = check_frame(data + at, size - at);
  return 0;
}
