// Bytes out: who may hand over what, and what is on its way to the socket.
#include <algorithm>
#include <array>

#include "net/mux_state.hpp"

namespace weir::net {

namespace {
const std::array<std::byte, preamble_bytes> preamble = [] {
  std::array<std::byte, preamble_bytes> p{};
  write_preamble(p.data());
  return p;
}();
} // namespace

// ---- the flight: what was handed over and not yet written

bool mux::state::wants_write() const {
  return !flight_.empty() || control_waits() ||
         (!down_ && (!schedule_.empty(pace_.is_open()) || pace_.wants_mark()));
}

size_t mux::state::gather(std::span<iovec> to, time_point now) {
  now_ = now;
  if (std::exchange(preamble_due_, false))
    fly({}, preamble.data(), preamble.size());
  pack_control();
  if (!down_ && !control_waits()) {
    fill_flight(to.size());
    pack_control(); // `blocked`, `close` and their like, behind the data they speak of
  }
  return emit(to);
}

size_t mux::state::emit(std::span<iovec> to) const {
  auto n = std::min(to.size(), flight_.size());
  for (size_t i = 0; i < n; ++i) {
    auto skip = i == 0 ? flight_offset_ : 0;
    to[i] = {const_cast<std::byte*>(flight_[i].at) + skip, flight_[i].size - skip};
  }
  return n;
}

void mux::state::wrote(size_t bytes) {
  assert(bytes <= flight_bytes_);
  flight_bytes_ -= bytes;
  bytes += std::exchange(flight_offset_, 0);
  while (!flight_.empty() && bytes >= flight_.front().size) {
    bytes -= flight_.front().size;
    outbound_.release(flight_.front().ledger);
    flight_ledger_ -= flight_.front().ledger;
    flight_.pop_front();
  }
  flight_offset_ = bytes;
  serve_starved();
}

/// Neighbours in memory become one piece. `ledger`: what is released from the outbound ledger once it was
/// written.
void mux::state::fly(slab_ref memory, const std::byte* at, size_t size, uint64_t ledger) {
  flight_bytes_ += size;
  flight_ledger_ += ledger;
  if (!flight_.empty()) {
    auto& last = flight_.back();
    if (last.memory == memory && last.at + last.size == at) {
      last.size += size;
      last.ledger += ledger;
      return;
    }
  }
  flight_.push_back({std::move(memory), at, size, ledger});
}

void mux::state::fly_whole(outgoing m, uint64_t ledger) {
  if (!m.more)
    return fly(std::move(m.memory), m.at, m.size, ledger);
  fly(std::move(m.memory), m.at, m.size);
  for (auto& p : *m.more) {
    auto last = &p == &m.more->back();
    fly(std::move(p.memory), p.at, p.size, last ? ledger : 0);
  }
}

std::byte* mux::state::scratch(size_t bytes) {
  if (!scratch_ || scratch_->size - scratch_->used < bytes) {
    scratch_.reset();
    scratch_ = slab_pool::build_pool().take(slab_pool::smallest);
  }
  auto* at = scratch_->data() + scratch_->used;
  scratch_->used += static_cast<uint32_t>(bytes);
  return at;
}

// ---- whose turn it is

void mux::state::activate(session& s, lane in_lane) {
  if (!s.established_)
    return;
  auto only_wished = s.queues_[static_cast<size_t>(s.blocked_lane_)].empty(); // what is queued goes first
  auto waits = in_lane != lane::reply && s.out_.blocked() && !only_wished && !head_covered(s);
  auto& queue = s.queues_[static_cast<size_t>(in_lane)];
  if (waits && in_lane == s.blocked_lane_ && !queue.empty() && queue.front().message &&
      queue.front().sent_bytes == 0 &&
      s.out_.state().need != s.out_.sent().bytes + cost_of_head(s, in_lane) + s.promised_out_)
    block(s, in_lane, cost_of_head(s, in_lane));
  if (queue.empty() || (waits && queue.front().sent_bytes == 0))
    return;
  schedule_.add(s.members_[static_cast<size_t>(in_lane)]);
}

void mux::state::activate_all(session& s) {
  activate(s, lane::reply);
  activate(s, lane::normal);
  activate(s, lane::bulk);
}

/// A ping behind the bulk that was handed over: its answer says that the peer has read it.
void mux::state::mark_if_due() {
  if (!pace_.wants_mark())
    return;
  ping_due_ = ++ping_nonce_;
  pack_control();
}

void mux::state::fill_flight(size_t entries_max) {
  mark_if_due();
  while (flight_bytes_ < flight_bytes_max && flight_.size() < entries_max) {
    auto* m = schedule_.next(pace_.is_open());
    if (!m)
      return;
    serve(*static_cast<session*>(m->owner), *m, entries_max);
    mark_if_due();
  }
}

void mux::state::serve(session& s, schedule::member& m, size_t entries_max) {
  uint64_t sent = 0;
  auto more = true;
  while (more && static_cast<int64_t>(sent) < m.deficit && flight_bytes_ < flight_bytes_max &&
         flight_.size() < entries_max) {
    auto n = hand_over(s, m.in_lane);
    sent += n;
    more = n != 0;
    if (m.in_lane == lane::bulk) {
      pace_.sent(n);
      if (more && (!pace_.is_open() || pace_.wants_mark()))
        break;
    }
  }
  schedule_.sent(m, sent, more);
}

// ---- the head of a queue

uint64_t mux::state::hand_over(session& s, lane in_lane) {
  auto& queue = s.queues_[static_cast<size_t>(in_lane)];
  while (!queue.empty() && drop_stale_head(s, in_lane)) {
  }
  if (queue.empty()) {
    settle_down(s);
    return 0;
  }
  auto n = hand_over_head(s, in_lane);
  if (queue.empty())
    settle_down(s);
  return n;
}

uint64_t mux::state::hand_over_head(session& s, lane in_lane) {
  auto& head = s.queues_[static_cast<size_t>(in_lane)].front();
  if (head.voided)
    return send_void(s, in_lane, head);
  if (head.sent_bytes != 0)
    return send_fragment(s, in_lane, head);
  if (head.message.count > 1)
    return send_run(s, in_lane, head);
  if (in_lane != lane::reply && !covered(s, in_lane, head))
    return 0;
  return head.message.body_bytes <= whole_bytes_max() ? send_whole(s, in_lane, head)
                                                      : send_fragment(s, in_lane, head);
}

/// Takes away what need not leave: holes, expired calls, messages above a limit that was learned later.
bool mux::state::drop_stale_head(session& s, lane in_lane) {
  auto& head = s.queues_[static_cast<size_t>(in_lane)].front();
  if (head.voided || head.sent_bytes != 0)
    return false;
  if (!head.message) {
    s.queues_[static_cast<size_t>(in_lane)].pop_front();
    return true;
  }
  auto expired = head.call != 0 && in_lane != lane::reply && head.deadline <= now_;
  auto too_large = head.message.count == 1 && in_lane != lane::reply &&
                   head.message.body_bytes > s.message_max_out_;
  if (expired)
    refuse_head(s, in_lane, errc::deadline_exceeded, "before it could be sent");
  else if (too_large)
    refuse_head(s, in_lane, errc::message_too_large, "above what the service takes");
  else
    return false;
  head_is_gone(s, in_lane);
  return true;
}

/// Fails the first message of the queue; of a run only the first one.
void mux::state::refuse_head(session& s, lane in_lane, errc reason, std::string text) {
  auto& queue = s.queues_[static_cast<size_t>(in_lane)];
  auto& head = queue.front();
  if (auto* e = head.call != 0 ? s.calls_out_.find(head.call) : nullptr)
    return fail_call(s, head.call, *e, reason, std::move(text));
  note(reason, &s, text);
  auto& f = happened(event::type::failed, &s);
  f.why = because(reason, outcome::not_executed, std::move(text));
  f.count = 1;
  f.token = head.token;
  auto first = split_run(head.message, 1);
  outbound_.release(first.cost());
  queued_ledger_ -= first.cost();
  s.queued_bytes_ -= first.cost();
  --s.queued_messages_;
  if (!head.message)
    queue.pop_front();
}

/// The head of `in_lane` was taken away: nothing waits for its credit any more.
void mux::state::head_is_gone(session& s, lane in_lane) {
  auto& queue = s.queues_[static_cast<size_t>(in_lane)];
  while (!queue.empty() && !queue.front().message && !queue.front().voided)
    queue.pop_front();
  if (s.out_.blocked() && s.blocked_lane_ == in_lane) {
    s.out_.unblock();
    activate_all(s);
  }
  settle_down(s);
}

// ---- the ration

bool mux::state::covered(session& s, lane in_lane, const session::queued& head) {
  auto cost = cost_of(head.message.body_bytes);
  auto first_in_line = !s.out_.blocked() || s.blocked_lane_ == in_lane ||
                       s.queues_[static_cast<size_t>(s.blocked_lane_)].empty();
  if (first_in_line && s.out_.covers(cost + s.promised_out_, 1))
    return true;
  if (first_in_line)
    block(s, in_lane, cost);
  return false;
}

void mux::state::block(session& s, lane in_lane, uint64_t cost) {
  s.blocked_lane_ = in_lane;
  s.out_.block(cost + s.promised_out_, std::max(s.queued_bytes_, cost), now_);
  say(s, session::word_blocked);
  starve(s);
}

uint64_t mux::state::cost_of_head(const session& s, lane in_lane) const {
  auto& queue = s.queues_[static_cast<size_t>(in_lane)];
  if (queue.empty() || !queue.front().message)
    return s.wanted_cost_;
  auto& m = queue.front().message;
  return m.count == 1 ? m.cost() : cost_of(load_header(m.at).length);
}

bool mux::state::head_covered(const session& s) const {
  return s.out_.covers(cost_of_head(s, s.blocked_lane_) + s.promised_out_, 1);
}

void mux::state::charge(session& s, uint64_t cost, uint64_t messages) {
  auto waited = s.out_.blocked();
  s.out_.charge(cost, messages);
  if (waited)
    activate_all(s);
}

} // namespace weir::net
