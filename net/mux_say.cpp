// Control out. What must be said is a set of words per session and per link, never a queue, and it is put
// into frames when there is something to write.
#include <algorithm>

#include "net/mux_state.hpp"

namespace weir::net {

namespace {
/// Adds `entry` to `list` if the frame has room for it.
template <class Entry>
bool add(std::vector<Entry>& list, Entry entry, size_t& left) {
  auto bytes = say::encoded_bytes(entry);
  if (bytes > left)
    return false;
  left -= bytes;
  list.push_back(std::move(entry));
  return true;
}

/// Moves as many of `from` as the frame has room for.
template <class Entry, class From, class F>
bool add_all(std::vector<Entry>& list, std::vector<From>& from, size_t& left, F entry_of) {
  size_t n = 0;
  while (n < from.size() && add(list, entry_of(from[n]), left))
    ++n;
  from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n));
  return from.empty();
}
} // namespace

void mux::state::say(session& s, uint32_t words) {
  assert(!down_); // every session has ended with it
  s.words_ |= words;
  if (!std::exchange(s.in_dirty_, true))
    dirty_.push_back(&s);
}

void mux::state::say_lazily(session& s) {
  if (std::exchange(s.in_lazy_, true))
    return;
  if (lazy_.empty())
    lazy_at_ = now_ + short_wait;
  lazy_.push_back(&s);
}

bool mux::state::control_waits() const {
  if (fault_due_ || hello_due_)
    return true;
  if (down_ || !hello_came_)
    return false;
  return !dirty_.empty() || ping_due_ != 0 || pong_due_ != 0 || goaway_due_ || fin_due();
}

bool mux::state::fin_due() const {
  return (goaway_said_ || goaway_came_) && !fin_said_ && sessions_.size() == 0;
}

void mux::state::pack_control() {
  while (control_waits() && flight_bytes_ < flight_bytes_max) {
    out_.clear();
    auto left = say::entries_bytes_max;
    pack_link(left);
    if (!down_ && hello_came_)
      pack_sessions(left);
    if (out_.empty())
      continue; // what waited had nothing to say any more
    auto m = say::encode(out_);
    frame_header h;
    h.length = m.body_bytes;
    store_header(m.at, h);
    fly_whole(std::move(m), 0);
  }
}

say::hello mux::state::our_hello() const {
  say::hello h;
  h.cluster = options_.cluster;
  h.name = options_.node_name.substr(0, say::name_bytes_max);
  h.node_high = options_.node.high;
  h.node_low = options_.node.low;
  h.message_max = options_.message_bytes_max;
  h.frame_max = frame_bytes_max_;
  h.sessions_max = options_.sessions_max;
  h.calls_max = std::min(options_.calls_max, calls_max_ceiling);
  return h;
}

void mux::state::pack_link(size_t& left) {
  if (std::exchange(hello_due_, false)) {
    out_.hello = our_hello();
    left -= say::encoded_bytes(*out_.hello);
  }
  if (std::exchange(fault_due_, false)) {
    out_.fault = fault_;
    left -= say::encoded_bytes(fault_);
  }
  if (down_ || !hello_came_)
    return;
  if (std::exchange(goaway_due_, false)) {
    out_.goaway = goaway_;
    left -= say::encoded_bytes(goaway_);
    goaway_said_ = true;
  }
  if (ping_due_ != 0)
    pace_.mark(ping_due_, now_);
  out_.ping = std::exchange(ping_due_, 0);
  out_.pong = std::exchange(pong_due_, 0);
  if (fin_due())
    out_.fin = fin_said_ = true;
}

void mux::state::pack_sessions(size_t& left) {
  size_t n = 0;
  auto whole = true;
  for (; n < dirty_.size() && whole; ++n) {
    auto* s = std::exchange(dirty_[n], nullptr); // it may be buried by what it says
    s->in_dirty_ = false;
    whole = pack_session(*s, left);
    if (whole)
      continue;
    s->in_dirty_ = true;
    dirty_[n] = s; // goes on in the next frame
  }
  if (!whole)
    --n;
  dirty_.erase(dirty_.begin(), dirty_.begin() + static_cast<std::ptrdiff_t>(n));
  if (out_.empty())
    return;
  for (auto* s : lazy_) { // a frame leaves anyway
    if (left < say::encoded_bytes(say::grant{}))
      break;
    if (s->live() && (s->words_ & session::word_reclaim) == 0 && s->in_.unadvertised()) {
      left -= say::encoded_bytes(say::grant{});
      pack_grant(*s);
    }
  }
}

/// True: everything about `s` is said. The order of the words is the order in which the peer applies them.
bool mux::state::pack_session(session& s, size_t& left) {
  return pack_begin(s, left) && pack_credit(s, left) && pack_calls(s, left) && pack_end(s, left);
}

bool mux::state::pack_begin(session& s, size_t& left) {
  if (s.words_ & session::word_open) {
    say::open o{s.id_, s.service_, s.interface_, s.stream_, options_.reply_room_bytes, s.in_.granted()};
    if (!add(out_.opens, std::move(o), left))
      return false;
    s.words_ &= ~session::word_open;
  }
  if (s.words_ & session::word_opened) {
    auto own = s.message_max_in_ != options_.message_bytes_max ? s.message_max_in_ : 0;
    if (!add(out_.openeds, {s.id_, s.in_.granted(), own}, left))
      return false;
    s.words_ &= ~session::word_opened;
  }
  return true;
}

bool mux::state::pack_credit(session& s, size_t& left) {
  constexpr size_t most = 160; // what the words below may need together
  constexpr uint32_t words = session::word_grant | session::word_blocked | session::word_reclaim |
                             session::word_reclaimed | session::word_unfunded;
  if ((s.words_ & words) == 0)
    return true;
  if (left < most)
    return false;
  left -= most;
  if (s.words_ & session::word_reclaim)
    out_.reclaims.push_back({s.id_, s.in_.epoch()});
  else if (s.words_ & session::word_grant)
    pack_grant(s);
  if (s.words_ & session::word_blocked)
    pack_blocked(s);
  if (s.words_ & session::word_reclaimed)
    out_.reclaimeds.push_back({s.id_, s.out_.epoch(), s.out_.limit()});
  if (s.words_ & session::word_unfunded)
    out_.unfundeds.push_back({s.id_, s.unfunded_bytes_, s.unfunded_reason_});
  s.words_ &= ~words;
  return true;
}

/// Not while a reclaim is under way: its answer sets the limit, and a grant would raise it again.
void mux::state::pack_grant(session& s) {
  if (s.in_.is_reclaiming())
    return;
  s.in_.take_grant();
  uint64_t unfinished = 0;
  for (size_t i = 1; i < lanes; ++i)
    unfinished += s.parts_[i].active();
  out_.grants.push_back(
      {s.id_, s.in_.epoch(), s.in_.granted(), s.in_.received().messages - unfinished, reason_of(s)});
}

void mux::state::pack_blocked(session& s) {
  auto report = s.out_.report(now_);
  wake_at(s.out_.report_at());
  if (report && !head_covered(s))
    out_.blockeds.push_back({s.id_, *report});
}

bool mux::state::pack_calls(session& s, size_t& left) {
  if ((s.words_ & session::word_calls) == 0)
    return true;
  auto of_call = [&](uint32_t call) { return say::call{s.id_, call}; };
  auto of_room = [&](const std::pair<uint32_t, uint64_t>& r) { return say::room{s.id_, r.first, r.second}; };
  auto before = s.cancelleds_;
  auto all = add_all(out_.cancels, s.cancels_, left, of_call);
  auto confirmed = add_all(out_.cancelleds, s.cancelleds_, left, of_call);
  for (size_t i = 0; i + s.cancelleds_.size() < before.size(); ++i)
    if (s.calls_in_.find(before[i]))
      s.calls_in_.close(before[i]);
  all = add_all(out_.needs, s.needs_, left, of_room) && all && confirmed;
  all = add_all(out_.funds, s.funds_, left, of_room) && all;
  if (all)
    s.words_ &= ~session::word_calls;
  settle_down(s);
  return all;
}

bool mux::state::pack_end(session& s, size_t& left) {
  if (s.words_ & session::word_refused) {
    if (!add(out_.refuseds, {s.id_, s.why_.code, s.why_.text, s.retryable_}, left))
      return false;
    bury(s);
    return true;
  }
  if (s.words_ & session::word_abort) {
    if (!add(out_.aborts, {s.id_, s.why_.code, s.why_.text, s.out_.sent()}, left))
      return false;
    s.words_ &= ~session::word_abort;
  }
  if (s.words_ & session::word_close) {
    if (!add(out_.closes, {s.id_, s.out_.sent()}, left))
      return false;
    s.words_ &= ~session::word_close;
    s.close_said_ = true;
  }
  if (s.words_ & session::word_closed) {
    if (!add(out_.closeds, {s.id_, s.in_.consumed().messages, s.out_.sent()}, left))
      return false;
    s.words_ &= ~session::word_closed;
    s.closed_said_ = true;
    auto done = !s.live() || !s.close_said_ || s.closed_came_; // else the peer has to say it as well
    if (s.live() && done)
      finish(s, session::state::over,
             s.why_.code != errc::none ? std::make_unique<failure>(s.why_) : nullptr);
    if (done)
      bury(s);
  }
  return true;
}

} // namespace weir::net
