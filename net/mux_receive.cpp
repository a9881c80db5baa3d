// Frames in. Every check comes before memory is taken.
#include <algorithm>

#include "net/mux_state.hpp"

namespace weir::net {

size_t mux::state::receive(const std::byte* at, size_t n, size_t slice, time_point now) {
  if (down_)
    return n;
  now_ = now;
  if (n != 0)
    last_received_ = now;
  wanted_bytes_ = 0;
  size_t used = 0;
  if (!preamble_came_) {
    if (n < preamble_bytes)
      return 0;
    if (!receive_preamble(at))
      return n;
    used = preamble_bytes;
  }
  while (!down_ && used < slice && n - used >= header_bytes) {
    auto h = load_header(at + used);
    auto e = check_header(h, frame_bytes_max_);
    if (e != errc::none && header_fault(h, e))
      break;
    auto whole = header_bytes + h.length;
    if (n - used < whole) {
      wanted_bytes_ = whole;
      break;
    }
    auto* body = at + used + header_bytes;
    used += whole;
    if (e == errc::none)
      take_frame(h, body);
    else if (auto* s = sessions_.find(h.session))
      abort(*s, e, "a frame header that cannot be");
  }
  serve_waiting();
  serve_starved();
  return down_ ? n : used;
}

bool mux::state::receive_preamble(const std::byte* at) {
  auto e = check_preamble(at);
  preamble_came_ = true;
  if (e == errc::bad_magic)
    fail(e, "the first bytes are not 'weir'");
  if (e == errc::bad_version)
    fail(e, "this side speaks version " + std::to_string(protocol_version));
  return e == errc::none;
}

/// True when the link has failed. False: the frame's end is certain, so it costs no more than its session.
bool mux::state::header_fault(const frame_header& h, errc e) {
  auto certain = e == errc::malformed_frame &&
                 (h.kind == frame_kind::message || h.kind == frame_kind::fragment) && h.length % 8 == 0 &&
                 h.length <= frame_bytes_max_ && h.session != 0 && hello_came_;
  bool late = false;
  if (certain && (session_of(h.session, late) || late))
    return false;
  if (down_)
    return true;
  if (e == errc::malformed_frame) {
    auto kind = static_cast<unsigned>(h.kind);
    fail(e, "kind " + std::to_string(kind) + ", flags " + std::to_string(h.flags) + ", length " +
                std::to_string(h.length));
  } else {
    auto most = h.kind == frame_kind::control ? control_bytes_max : frame_bytes_max_;
    fail(e, "a body of " + std::to_string(h.length) + " bytes, the limit is " + std::to_string(most));
  }
  return true;
}

void mux::state::take_frame(const frame_header& h, const std::byte* body) {
  if (h.kind == frame_kind::control)
    return take_control({reinterpret_cast<const uint64_t*>(body), h.length / 8});
  if (!hello_came_)
    return fail(errc::bad_state, "data before hello");
  bool late = false;
  auto* s = session_of(h.session, late);
  if (!s) {
    if (late)
      ++late_frames_;
    return;
  }
  if (!s->live())
    return discard(*s, h, body);
  if (auto e = allowed(*s, h); e != errc::none)
    return abort(*s, e, "a frame that this session does not allow now");
  if (h.kind == frame_kind::fragment)
    return take_fragment(*s, h, body);
  take_data(*s, h, body);
}

/// nullptr: over (`late`), or never opened, which fails the link.
session* mux::state::session_of(uint32_t id, bool& late) {
  if (last_session_ && last_session_->id_ == id)
    return last_session_;
  auto* s = sessions_.find(id);
  auto unsaid = s && (s->words_ & session::word_open) != 0; // so nobody else can know of it
  if (s && !unsaid)
    return last_session_ = s;
  auto ours = (id & 1) == (next_id_ & 1);
  late = id != 0 && !unsaid && (ours ? id < next_id_ : id <= highest_peer_id_);
  if (!late)
    fail(errc::unknown_session, "session " + std::to_string(id) + " was never opened");
  return nullptr;
}

errc mux::state::allowed(const session& s, const frame_header& h) const {
  if (!s.established_)
    return errc::bad_state;
  if (h.frame_lane() == lane::reply)
    return s.opened_here_ && h.id != 0 ? errc::none : errc::bad_state;
  if (s.close_came_ || fin_came_)
    return errc::bad_state;
  return h.id == 0 || (!s.opened_here_ && !s.stream_) ? errc::none : errc::bad_state;
}

time_point mux::state::deadline_of(const frame_header& h) const {
  return h.ttl == 0 ? time_point::max() : now_ + decode_ttl(h.ttl);
}

void mux::state::take_data(session& s, const frame_header& h, const std::byte* body) {
  message_view v{reinterpret_cast<const uint64_t*>(body), h.length / 8};
  if (s.parts_[static_cast<size_t>(h.frame_lane())].active())
    return abort(s, errc::bad_state, "a message within another one's fragments");
  if (h.frame_lane() == lane::reply) {
    if (!well_formed(v))
      return abort(s, errc::malformed_message, "not a Cap'n Proto message");
    return take_reply(s, h.id, v, {});
  }
  auto cost = cost_of(h.length);
  auto before = s.in_.received();
  auto limit = s.in_.granted().bytes - before.bytes - s.promised_in_;
  if (cost > limit || !s.in_.arrive(cost, 1))
    return abort(s, errc::credit_exceeded,
                 "a message of " + std::to_string(h.length) + " bytes without credit");
  note_arrival(s, h, before, cost);
  take_message(s, h, v, {}, cost, deadline_of(h));
}

/// Of a message that has begun to come, for the size of the ration.
void mux::state::note_arrival(session& s, const frame_header& h, const position& before, uint64_t cost) {
  if (s.tuner_.is_fixed())
    return;
  auto waited = (h.flags & flag::unblocked) != 0;
  s.tuner_.arrives(before, cost, waited);
  if (waited)
    happened(event::type::resumed, &s);
}

/// A whole request or item whose cost has arrived in the ration.
void mux::state::take_message(session& s, const frame_header& h, const message_view& v,
                              const slab_ref& memory, uint64_t cost, time_point deadline) {
  if (v.bytes() > s.message_max_in_ || !well_formed(v)) {
    s.in_.consume(cost, 1);
    if (v.bytes() > s.message_max_in_)
      return abort(s, errc::message_too_large, "above the service's limit");
    return abort(s, errc::malformed_message, "not a Cap'n Proto message");
  }
  if (h.id != 0 && s.close_said_ && !s.opened_here_)
    return consumed(s, cost, 1); // dropped unrun: our `close` tells its sender
  if (h.id != 0)
    return take_request(s, h, v, memory, cost, deadline);
  auto& e = happened(event::type::item, &s);
  e.in_lane = h.frame_lane();
  e.message = v;
  e.cost = cost;
  e.deadline = deadline;
  e.memory = memory;
}

void mux::state::take_request(session& s, const frame_header& h, const message_view& v,
                              const slab_ref& memory, uint64_t cost, time_point deadline) {
  envelope e;
  auto readable = read_envelope(v, e);
  auto verdict = calls_in::verdict::bad_id;
  auto room = e.reply_room_bytes != 0 ? e.reply_room_bytes : s.reply_room_;
  if (readable)
    verdict = s.calls_in_.open(h.id, std::max<uint64_t>(room, reply_room_bytes_min));
  if (!readable || verdict != calls_in::verdict::taken) {
    s.in_.consume(cost, 1);
    if (!readable)
      return abort(s, errc::malformed_message, "no envelope");
    if (verdict == calls_in::verdict::above_limit)
      return abort(s, errc::too_many_calls, "above " + std::to_string(options_.calls_max) + " open calls");
    return abort(s, errc::bad_state, "the id of a call that has not ended");
  }
  if (s.state_ == session::state::closing) {
    s.words_ &= ~session::word_close; // it has not left, and goes behind the answer
    reply_failure(s, h.id, {errc::session_closed, outcome::not_executed, "the service closes this session"});
    return consumed(s, cost, 1);
  }
  auto& r = happened(event::type::request, &s);
  r.in_lane = h.frame_lane();
  r.call = h.id;
  r.message = v;
  r.cost = cost;
  r.deadline = deadline;
  r.memory = memory;
}

void mux::state::take_reply(session& s, uint32_t call, const message_view& v, const slab_ref& memory) {
  auto* e = s.calls_out_.find(call);
  if (!e) {
    ++late_frames_;
    return;
  }
  if (e->now == calls_out::state::queued || e->now == calls_out::state::sending)
    return abort(s, errc::bad_state, "an answer to a call that was not made yet");
  if (v.bytes() > e->room)
    return abort(s, errc::credit_exceeded, "an answer beyond its room");
  if (e->now == calls_out::state::cancelled)
    return free_call(s, call, *e);
  auto& r = happened(event::type::reply, &s);
  r.in_lane = lane::reply;
  r.call = call;
  r.token = e->token;
  r.message = v;
  r.memory = memory;
  r.cost = e->paid;
  owed_rooms_ -= e->paid; // from here it is the holder's
  e->paid = 0;
  free_call(s, call, *e);
}

// ---- fragments

void mux::state::take_fragment(session& s, const frame_header& h, const std::byte* body) {
  auto in_lane = static_cast<size_t>(h.frame_lane());
  auto data = h.frame_lane() != lane::reply;
  auto& part = s.parts_[in_lane];
  if ((h.flags & flag::void_) != 0)
    return take_void(s, part, h);
  auto first = !part.active();
  if (first && h.length <= fragment_prefix_bytes)
    return abort(s, errc::malformed_message, "a first fragment without a length");
  auto prefix = first ? fragment_prefix_bytes : 0;
  auto slice = h.length - prefix;
  if (first && !first_fragment(s, part, h, body, slice))
    return;
  if (part.id() != h.id)
    return abort(s, errc::bad_state, "fragments of two messages in one lane");
  if (slice > part.missing())
    return abort(s, errc::malformed_message, "more than the length that was said");
  if (data) {
    if (first)
      note_arrival(s, h, s.in_.received(), cost_of(part.total()));
    auto in_ration = s.in_.arrive(slice + (first ? message_overhead_bytes : 0), first ? 1 : 0);
    assert(in_ration); // first_fragment asked for the whole
    (void)in_ration;
    if (!first)
      s.promised_in_ -= slice;
  }
  if (part.append(body + prefix, slice, (h.flags & flag::last) != 0, now_) != errc::none) {
    if (data)
      s.in_.consume(slice, 0); // the rest of the message is given back by `finish`
    return abort(s, errc::malformed_message, "`last` where the length does not say so");
  }
  if (!part.complete())
    return wake_at(now_ + options_.fragment_timeout);
  take_whole(s, part, h);
}

void mux::state::take_whole(session& s, reassembly& part, const frame_header& h) {
  auto memory = part.memory();
  auto v = memory ? part.view() : message_view{};
  auto total = part.total();
  auto deadline = part.deadline();
  part.reset();
  if (h.frame_lane() != lane::reply)
    return take_message(s, h, v, memory, cost_of(total), deadline);
  if (memory && !well_formed(v))
    return abort(s, errc::malformed_message, "not a Cap'n Proto message");
  if (memory)
    return take_reply(s, h.id, v, memory);
  ++late_frames_; // an answer that nobody wanted
  if (auto* e = s.calls_out_.find(h.id); e && e->now == calls_out::state::cancelled)
    free_call(s, h.id, *e);
}

/// Limits, credit, then memory. False: the session was aborted.
bool mux::state::first_fragment(session& s, reassembly& part, const frame_header& h, const std::byte* body,
                                uint32_t slice) {
  uint64_t total = 0;
  std::memcpy(&total, body, sizeof total);
  auto data = h.frame_lane() != lane::reply;
  auto no = [&](errc e, std::string text) {
    abort(s, e, std::move(text));
    return false;
  };
  if (total % 8 != 0 || total < slice)
    return no(errc::malformed_message, "a length of " + std::to_string(total));
  if (total > (data ? s.message_max_in_ : options_.message_bytes_max))
    return no(errc::message_too_large, "a message of " + std::to_string(total) + " bytes");
  if (data) {
    auto limit = s.in_.granted().bytes - s.in_.received().bytes - s.promised_in_;
    if (cost_of(total) > limit || s.in_.granted().messages == s.in_.received().messages)
      return no(errc::credit_exceeded, "a message of " + std::to_string(total) + " bytes without credit");
  } else {
    auto* e = s.calls_out_.find(h.id);
    if (e && total > e->room)
      return no(errc::credit_exceeded, "an answer beyond its room");
    if (!e || e->now == calls_out::state::cancelled) {
      part.begin_discarded(total, h.id);
      return true;
    }
    if (e->now != calls_out::state::sent)
      return no(errc::bad_state, "an answer to a call that was not made yet");
  }
  if (auto e = part.begin(total, h.id, deadline_of(h), reassembly_memory_); e != errc::none)
    return no(e, "no memory");
  if (data)
    s.promised_in_ += total - slice;
  return true;
}

void mux::state::take_void(session& s, reassembly& part, const frame_header& h) {
  if (!part.active() || part.id() != h.id)
    return abort(s, errc::bad_state, "the end of a message that was not begun");
  if (h.frame_lane() == lane::reply) {
    part.reset();
    if (auto* e = s.calls_out_.find(h.id)) {
      if (e->now == calls_out::state::cancelled)
        return free_call(s, h.id, *e);
      abort(s, errc::bad_state, "an answer was given up that nobody cancelled");
    }
    return;
  }
  auto got = part.got();
  s.promised_in_ -= part.missing();
  part.reset();
  consumed(s, message_overhead_bytes + got, 1);
}

/// Data for a session that is over here: a tombstone counts what still comes, so its liability falls with it.
void mux::state::discard(session& s, const frame_header& h, const std::byte* body) {
  ++late_frames_;
  if (s.state_ != session::state::tombstone || h.frame_lane() == lane::reply)
    return;
  auto& part = s.parts_[static_cast<size_t>(h.frame_lane())];
  uint64_t bytes = h.length, messages = 1, total = 0;
  if (h.kind == frame_kind::fragment) {
    auto first = !part.active();
    if (first && h.length > fragment_prefix_bytes) {
      std::memcpy(&total, body, sizeof total);
      bytes -= fragment_prefix_bytes;
      if (total >= bytes && total % 8 == 0 && total != 0)
        part.begin_discarded(total, h.id);
    }
    messages = first ? 1 : 0;
    if ((h.flags & flag::last) != 0)
      part.reset();
  }
  auto cost = bytes + messages * message_overhead_bytes;
  if (!s.in_.arrive(cost, messages))
    return;
  s.in_.consume(cost, messages);
  s.charged_session_ -= cost;
  owed_session_ -= cost;
  inbound_.give(charge::session, cost);
}

} // namespace weir::net
