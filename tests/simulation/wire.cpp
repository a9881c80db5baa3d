#include "wire.hpp"

#include <algorithm>

namespace weir::net::sim {

// ---- the pipe

void pipe::write(const iovec* v, size_t n, dice& d) {
  for (; n > 0; ++v) {
    auto left = std::min(n, v->iov_len);
    auto* at = static_cast<const std::byte*>(v->iov_base);
    if (records)
      recorded_bytes.insert(recorded_bytes.end(), at, at + left);
    n -= left;
    while (left > 0) {
      size_t passed = 0;
      if (preamble_left_ > 0)
        passed = pass_preamble(at, left);
      else if (header_.size() < header_bytes)
        passed = pass_header(at, left);
      else
        passed = pass_body(at, left);
      at += passed;
      left -= passed;
      if (header_.size() == header_bytes && body_left_ == 0)
        end_frame(d);
    }
  }
}

size_t pipe::pass_preamble(const std::byte* at, size_t n) {
  n = std::min(n, preamble_left_);
  push(at, n);
  preamble_left_ -= n;
  return n;
}

/// Bytes pass as they come, so a frame may be cut anywhere; only what mischief may change is kept until it is
/// whole.
size_t pipe::pass_header(const std::byte* at, size_t n) {
  if (header_.empty())
    holds_ = static_cast<bool>(with_grants);
  n = std::min(n, header_bytes - header_.size());
  header_.insert(header_.end(), at, at + n);
  if (!holds_)
    push(at, n);
  if (header_.size() < header_bytes)
    return n;
  auto h = load_header(header_.data());
  count(h);
  body_left_ = h.length;
  body_bytes_ = 0;
  if (h.kind == frame_kind::control)
    body_.resize(h.length / 8);
  if (!holds_)
    return n;
  holds_ = h.kind == frame_kind::control;
  if (!holds_)
    push(header_.data(), header_bytes);
  return n;
}

size_t pipe::pass_body(const std::byte* at, size_t n) {
  n = std::min(n, body_left_);
  body_left_ -= n;
  if (!holds_)
    push(at, n);
  if (load_header(header_.data()).kind == frame_kind::control) {
    std::copy_n(at, n, reinterpret_cast<std::byte*>(body_.data()) + body_bytes_);
    body_bytes_ += n;
  }
  return n;
}

void pipe::count(const frame_header& h) {
  auto is_control = h.kind == frame_kind::control;
  (is_control ? control_bytes : data_bytes) += header_bytes + h.length;
  ++(is_control ? control_frames : data_frames);
  if (is_control)
    control_longest = std::max(control_longest, h.length);
  if (records)
    recorded.push_back(h);
}

void pipe::end_frame(dice& d) {
  if (spy)
    tell_spy();
  if (holds_ && !mangle(d)) {
    push(header_.data(), header_bytes);
    push(reinterpret_cast<const std::byte*>(body_.data()), body_bytes_);
  }
  header_.clear();
}

void pipe::tell_spy() const {
  auto h = load_header(header_.data());
  say::control c;
  std::string why;
  auto is_control = h.kind == frame_kind::control;
  if (is_control)
    say::decode({body_.data(), static_cast<uint32_t>(body_bytes_ / 8)}, c, why);
  spy(h, is_control ? &c : nullptr);
}

/// Passes on a control frame with other grants than it had. False: it is to be passed as it is.
bool pipe::mangle(dice& d) {
  say::control c;
  std::string why;
  if (say::decode({body_.data(), static_cast<uint32_t>(body_bytes_ / 8)}, c, why) != errc::none)
    return false;
  if ((c.grants.empty() && late_.empty()) || c.hello)
    return false;
  std::vector<say::grant> kept;
  for (auto& g : c.grants) {
    if (d.chance(with_grants.late_percent))
      late_.push_back(g);
    if (!d.chance(with_grants.lost_percent))
      kept.push_back(g);
    if (d.chance(with_grants.doubled_percent))
      kept.push_back(g);
  }
  while (!late_.empty() && kept.size() < 64 && d.chance(30)) {
    kept.push_back(late_.front());
    late_.erase(late_.begin());
  }
  c.grants = std::move(kept);
  if (c.empty())
    return true;
  auto m = say::encode(c);
  frame_header h;
  h.length = m.body_bytes;
  store_header(m.at, h);
  push(m.at, m.size);
  if (m.more)
    for (auto& p : *m.more)
      push(p.at, p.size);
  return true;
}

void pipe::take(std::byte* to, size_t n) {
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(first_), n, to);
  first_ += n;
  if (first_ == bytes_.size())
    bytes_.clear(), first_ = 0;
  if (first_ > (64 << 10)) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

void pipe::clear() {
  bytes_.clear(), header_.clear(), late_.clear();
  first_ = body_left_ = 0;
  preamble_left_ = preamble_bytes;
}

// ---- the receive buffer

std::byte* receive_buffer::prepare(size_t n, size_t wanted) {
  auto rest = size();
  auto room = std::max(rest + n, wanted);
  if (memory_ && begin_ == end_ && memory_.sole())
    begin_ = end_ = 0;
  if (!memory_ || memory_->size - begin_ < room) {
    auto next = pool_.take(std::max(slab_bytes, room));
    if (rest != 0)
      std::copy_n(data(), rest, next->data());
    memory_ = std::move(next);
    begin_ = 0;
    end_ = rest;
  }
  return memory_->data() + end_;
}

void receive_buffer::clear() {
  memory_.reset();
  begin_ = end_ = 0;
}

} // namespace weir::net::sim
