#pragma once
#include <cstring>
#include <utility>
#include <vector>

#include "net/control.hpp"

namespace weir::fuzz {

/// One frame, as it crosses the wire.
struct frame {
  std::vector<uint64_t> words;

  std::byte* at() { return reinterpret_cast<std::byte*>(words.data()); }
  const std::byte* at() const { return reinterpret_cast<const std::byte*>(words.data()); }
  size_t bytes() const { return words.size() * 8; }
  net::frame_header header() const { return net::load_header(at()); }
  bool is_control() const { return header().kind == net::frame_kind::control; }
  net::message_view body() const {
    return {words.data() + net::header_bytes / 8,
            static_cast<uint32_t>(words.size() - net::header_bytes / 8)};
  }
};

inline frame frame_of(const net::frame_header& h, const net::outgoing& m) {
  frame f;
  f.words.resize((net::header_bytes + m.body_bytes) / 8);
  auto* to = f.at();
  std::memcpy(to, m.at, m.size);
  to += m.size;
  if (m.more)
    for (auto& p : *m.more)
      std::memcpy(std::exchange(to, to + p.size), p.at, p.size);
  net::store_header(f.at(), h);
  return f;
}

inline frame frame_of(const net::say::control& c) {
  auto m = net::say::encode(c);
  net::frame_header h;
  h.length = m.body_bytes;
  return frame_of(h, m);
}

/// Cuts what one side writes into frames; the preamble is one of eight bytes.
class splitter {
public:
  template <class F>
  void feed(const std::byte* at, size_t n, F on_frame) {
    for (size_t i = 0; i < n; ++i) {
      if (have_ % 8 == 0)
        whole_.words.push_back(0);
      whole_.at()[have_++] = at[i];
      if (have_ == wanted_ && preamble_came_ && have_ == net::header_bytes)
        wanted_ += whole_.header().length;
      if (have_ < wanted_)
        continue;
      preamble_came_ = true;
      have_ = 0;
      wanted_ = net::header_bytes;
      on_frame(std::exchange(whole_, {}));
    }
  }

private:
  frame whole_;
  size_t have_ = 0, wanted_ = net::preamble_bytes;
  bool preamble_came_ = false;
};

} // namespace weir::fuzz
