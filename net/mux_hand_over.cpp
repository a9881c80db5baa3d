// Handing over one message: here its place in the stream is assigned and its header stamped.
#include <algorithm>

#include "net/mux_state.hpp"

namespace weir::net {

namespace {
/// The bytes [from, from + n) of a message's body, piece by piece.
template <class F>
void for_each_part(const outgoing& m, uint32_t from, uint32_t n, F f) {
  auto part = [&](const slab_ref& memory, const std::byte* at, uint32_t size) {
    if (from >= size) {
      from -= size;
      return;
    }
    auto take = std::min(size - from, n);
    if (take != 0)
      f(memory, at + from, take);
    from = 0;
    n -= take;
  };
  part(m.memory, m.at + header_bytes, m.size - static_cast<uint32_t>(header_bytes));
  if (m.more)
    for (auto& p : *m.more)
      part(p.memory, p.at, p.size);
}
} // namespace

/// One lasts a millisecond at most, where it is known how fast the link is.
uint32_t mux::state::fragment_now() const {
  if (pace_.rate() == 0)
    return fragment_bytes_;
  auto in_time = std::max<uint64_t>(pace_.rate() / 1000, fragment_bytes_min) / 8 * 8;
  return static_cast<uint32_t>(std::min<uint64_t>(in_time, fragment_bytes_));
}

uint64_t mux::state::whole_bytes_max() const {
  auto fragment = fragment_now();
  return std::min<uint64_t>(fragment + fragment / 4, peer_.frame_bytes_max);
}

frame_header mux::state::header_for(session& s, lane in_lane, const session::queued& head, uint32_t length) {
  frame_header h;
  h.length = length;
  h.session = s.id_;
  h.kind = frame_kind::message;
  h.flags = static_cast<uint8_t>(in_lane);
  h.id = head.call;
  if (head.deadline != time_point::max())
    h.ttl = encode_ttl(head.deadline - now_);
  if (in_lane != lane::reply && s.out_.take_unblocked())
    h.flags |= flag::unblocked;
  return h;
}

void mux::state::pop_head(session& s, lane in_lane) {
  auto& queue = s.queues_[static_cast<size_t>(in_lane)];
  auto& m = queue.front().message;
  s.queued_bytes_ -= m.cost();
  s.queued_messages_ -= m.count;
  queued_ledger_ -= m.cost();
}

/// The last byte of a message was handed over.
void mux::state::after_last(session& s, lane in_lane, uint32_t call) {
  if (call == 0)
    return;
  if (in_lane == lane::reply) {
    if (s.calls_in_.find(call))
      s.calls_in_.close(call);
  } else if (auto* e = s.calls_out_.find(call)) {
    e->now = calls_out::state::sent;
  }
}

uint64_t mux::state::send_whole(session& s, lane in_lane, session::queued& head) {
  auto body = head.message.body_bytes;
  if (in_lane != lane::reply)
    charge(s, cost_of(body), 1);
  store_header(head.message.at, header_for(s, in_lane, head, body));
  pop_head(s, in_lane);
  auto call = head.call;
  auto m = std::move(head.message);
  s.queues_[static_cast<size_t>(in_lane)].pop_front();
  auto cost = m.cost();
  fly_whole(std::move(m), cost);
  after_last(s, in_lane, call);
  return header_bytes + body;
}

/// The first `messages` of a run (all of it, if it has no more), which is shorter by them afterwards.
outgoing split_run(outgoing& run, uint32_t messages) {
  if (messages >= run.count)
    return std::exchange(run, outgoing{});
  outgoing first;
  first.memory = run.memory;
  first.at = run.at;
  first.count = messages;
  for (uint32_t i = 0; i < messages; ++i) {
    auto length = load_header(run.at + first.size).length;
    first.size += static_cast<uint32_t>(header_bytes) + length;
    first.body_bytes += length;
  }
  run.at += first.size;
  run.size -= first.size;
  run.body_bytes -= first.body_bytes;
  run.count -= messages;
  return first;
}

/// All of a run that the ration covers.
uint64_t mux::state::send_run(session& s, lane in_lane, session::queued& head) {
  auto& run = head.message;
  auto messages = run.count;
  if (s.out_.blocked() && s.blocked_lane_ != in_lane &&
      !s.queues_[static_cast<size_t>(s.blocked_lane_)].empty())
    return 0;
  if (!s.out_.covers(run.cost() + s.promised_out_, run.count)) {
    uint64_t cost = 0;
    auto* at = run.at;
    for (messages = 0; messages < run.count; ++messages) {
      auto length = load_header(at).length;
      if (!s.out_.covers(cost + cost_of(length) + s.promised_out_, messages + 1))
        break;
      cost += cost_of(length);
      at += header_bytes + length;
    }
  }
  if (messages == 0) {
    block(s, in_lane, cost_of(load_header(run.at).length));
    return 0;
  }
  auto m = split_run(run, messages);
  charge(s, m.cost(), m.count);
  if (s.out_.take_unblocked()) {
    auto h = load_header(m.at);
    h.flags |= flag::unblocked;
    store_header(m.at, h);
  }
  assert(load_header(m.at).session == s.id_ && load_header(m.at).frame_lane() == in_lane);
  s.queued_bytes_ -= m.cost();
  s.queued_messages_ -= m.count;
  queued_ledger_ -= m.cost();
  if (!run)
    s.queues_[static_cast<size_t>(in_lane)].pop_front();
  auto size = m.size;
  auto cost = m.cost();
  fly_whole(std::move(m), cost);
  return size;
}

uint64_t mux::state::send_fragment(session& s, lane in_lane, session::queued& head) {
  auto& m = head.message;
  auto first = head.sent_bytes == 0;
  auto left = m.body_bytes - head.sent_bytes;
  auto slice = std::min(fragment_now(), (peer_.frame_bytes_max - fragment_prefix_bytes) / 8 * 8);
  if (first || left > whole_bytes_max())
    slice = std::min(slice, left);
  else
    slice = left; // less than a quarter of a slice would remain
  auto last = slice == left;
  auto prefix = first ? fragment_prefix_bytes : 0;
  if (in_lane != lane::reply) {
    if (!first)
      s.promised_out_ -= slice;
    charge(s, slice + (first ? message_overhead_bytes : 0), first ? 1 : 0);
    if (first)
      s.promised_out_ += left - slice;
  }
  auto h = header_for(s, in_lane, head, prefix + slice);
  h.kind = frame_kind::fragment;
  if (last)
    h.flags |= flag::last;
  if (!first)
    h.ttl = 0;
  auto* at = scratch(header_bytes + prefix);
  store_header(at, h);
  uint64_t total = m.body_bytes;
  if (first)
    std::memcpy(at + header_bytes, &total, sizeof total);
  fly(scratch_, at, header_bytes + prefix);
  auto from = head.sent_bytes;
  head.sent_bytes += slice;
  for_each_part(m, from, slice,
                [&](const slab_ref& memory, const std::byte* part, uint32_t n) { fly(memory, part, n); });
  if (first)
    mark_sending(s, in_lane, head.call);
  if (last) {
    auto call = head.call;
    auto cost = m.cost();
    pop_head(s, in_lane);
    s.queues_[static_cast<size_t>(in_lane)].pop_front();
    flight_.back().ledger += cost;
    flight_ledger_ += cost;
    after_last(s, in_lane, call);
  }
  return header_bytes + prefix + slice;
}

void mux::state::mark_sending(session& s, lane in_lane, uint32_t call) {
  if (call == 0)
    return;
  if (in_lane == lane::reply) {
    if (auto* e = s.calls_in_.find(call))
      e->now = calls_in::state::sending;
  } else if (auto* e = s.calls_out_.find(call)) {
    e->now = calls_out::state::sending;
  }
}

/// Ends a message that was given up in the middle.
uint64_t mux::state::send_void(session& s, lane in_lane, session::queued& head) {
  frame_header h;
  h.session = s.id_;
  h.kind = frame_kind::fragment;
  h.flags = static_cast<uint8_t>(in_lane) | flag::last | flag::void_;
  h.id = head.call;
  auto* at = scratch(header_bytes);
  store_header(at, h);
  fly(scratch_, at, header_bytes);
  if (in_lane == lane::reply && s.calls_in_.find(head.call))
    s.calls_in_.close(head.call);
  s.promised_out_ -= head.promised_bytes;
  s.queues_[static_cast<size_t>(in_lane)].pop_front();
  activate_all(s); // what the promise kept waiting
  return header_bytes;
}

} // namespace weir::net
