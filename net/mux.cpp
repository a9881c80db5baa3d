#include <algorithm>
#include <cstdio>

#include "net/mux_state.hpp"

namespace weir::net {

std::string to_string(const node_id& id) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(id.high),
                static_cast<unsigned long long>(id.low));
  return text;
}

namespace {
constexpr uint32_t words(uint32_t bytes) { return bytes / 8 * 8; }
} // namespace

mux::state::state(link_options o, side s, budget& in, outbound_ledger& out, slab_pool& memory, time_point now)
    : options_(std::move(o)),
      side_(s),
      fragment_bytes_(words(options_.fragment_bytes)),
      frame_bytes_max_(std::max(fragment_bytes_ + words(fragment_bytes_ / 4), control_bytes_max)),
      inbound_(in),
      outbound_(out),
      reassembly_memory_(memory),
      now_(now),
      born_(now),
      next_id_(s == side::dialled ? 1 : 2),
      ping_at_(now + options_.ping_interval),
      last_received_(now),
      last_tick_(now) {
  assert(options_.fragment_bytes >= 64 && options_.cluster.size() <= say::name_bytes_max);
}

/// What was told and not fetched has no other holder than us.
mux::state::~state() {
  go_down(errc::link_lost, {});
  for (auto& e : events_) {
    if (e.what == event::type::request || e.what == event::type::item)
      inbound_.give(charge::session, e.cost);
    if (e.what == event::type::reply)
      inbound_.give(charge::reply_room, e.cost);
  }
  outbound_.release(flight_ledger_);
}

event& mux::state::happened(event::type what, session* on) {
  auto& e = events_.emplace_back();
  e.what = what;
  e.on = on;
  return e;
}

/// A handful of different reasons at most, so looking for one costs nothing beside what led here.
void mux::state::note(errc code, const session* s, std::string_view text) {
  for (auto& r : reasons_)
    if (r.code == code) {
      ++r.times;
      return;
    }
  auto& r = reasons_.emplace_back(noted_reason{code, 1, {}});
  if (s)
    r.text = "session " + std::to_string(s->id_) + " of '" + s->service_ + "': ";
  r.text += text;
}

// ---- the public face

mux::mux(link_options o, side s, budget& inbound, outbound_ledger& outbound, slab_pool& reassembly,
         time_point now)
    : state_(std::make_unique<state>(std::move(o), s, inbound, outbound, reassembly, now)) {}
mux::~mux() = default;

size_t mux::receive(const std::byte* at, size_t n, size_t slice, time_point now) {
  return state_->receive(at, n, slice, now);
}
size_t mux::wanted_bytes() const { return state_->wanted_bytes_; }
void mux::lost(errc reason, std::string text) { state_->go_down(reason, std::move(text)); }
bool mux::has_events() const { return !state_->events_.empty(); }
void mux::take_reasons(std::vector<noted_reason>& out) {
  assert(out.empty());
  std::swap(state_->reasons_, out);
}
bool mux::has_reasons() const { return !state_->reasons_.empty(); }

void mux::take_events(std::vector<event>& out) {
  assert(out.empty());
  auto& m = *state_;
  m.old_graves_.clear();
  std::swap(m.old_graves_, m.graves_);
  std::swap(m.events_, out);
}

session* mux::open(const open_request& r, failure& why) { return state_->open(r, why); }
bool mux::accept(session& s, const ration_options& in, uint64_t message_bytes_max,
                 const ration_range& range) {
  return state_->accept(s, in, message_bytes_max, range);
}
void mux::refuse(session& s, errc reason, std::string text, bool retryable) {
  state_->refuse(s, reason, std::move(text), retryable);
}
void mux::close(session& s) { state_->close(s); }
void mux::abort(session& s, errc reason, std::string text) { state_->abort(s, reason, std::move(text)); }

result<void> mux::post(session& s, outgoing m, lane in_lane, uint64_t token) {
  return state_->post(s, std::move(m), in_lane, token);
}
result<uint32_t> mux::call(session& s, outgoing m, const call_request& r) {
  return state_->call(s, std::move(m), r);
}
void mux::cancel(session& s, uint32_t call, errc reason) { state_->cancel(s, call, reason); }
void mux::reply(session& s, uint32_t call, outgoing m) { state_->reply(s, call, std::move(m)); }
void mux::reply_failure(session& s, uint32_t call, const failure& f) { state_->reply_failure(s, call, f); }
bool mux::want_credit(session& s, uint64_t cost) { return state_->want_credit(s, cost); }

uint64_t mux::message_bytes_max(const session& s) const { return s.message_max_out_; }

void mux::consumed(session& s, uint64_t bytes, uint64_t messages) { state_->consumed(s, bytes, messages); }
void mux::reply_died(uint64_t bytes) { state_->reply_died(bytes); }
void mux::reclaim(session& s) { state_->reclaim(s); }
bool mux::set_ration(session& s, uint64_t bytes, uint64_t messages) {
  return state_->set_ration(s, bytes, messages);
}
bool mux::change_ration(session& s, const ration_options& to, const ration_range& range) {
  return state_->change_ration(s, to, range);
}
void mux::set_fragment_bytes(uint32_t bytes) { state_->fragment_bytes_ = words(bytes); }
void mux::tune(session& s) { state_->tune(s); }
void mux::waited(session& s) { s.out_.note_wait(); }

void mux::go_away(errc reason, std::string text) { state_->go_away(reason, std::move(text)); }
bool mux::drained() const { return state_->drained(); }
void mux::fail(errc reason, std::string text) { state_->fail(reason, std::move(text)); }
bool mux::is_down() const { return state_->down_; }

bool mux::wants_write() const { return state_->wants_write(); }
size_t mux::gather(std::span<iovec> to, time_point now) { return state_->gather(to, now); }
void mux::wrote(size_t bytes) { state_->wrote(bytes); }

void mux::tick(time_point now) { state_->tick(now); }
time_point mux::next_tick() const { return state_->next_tick(); }

const peer_info& mux::peer() const { return state_->peer_; }
bool mux::ready() const { return state_->hello_came_ && !state_->down_; }
duration mux::round_trip() const { return state_->round_trip_; }
size_t mux::session_count() const {
  size_t n = 0;
  state_->sessions_.for_each([&](const session& s) { n += s.live(); });
  return n;
}
uint64_t mux::late_frames() const { return state_->late_frames_; }
std::string mux::check() const { return state_->check(); }

std::vector<const session*> mux::session_list() const {
  std::vector<const session*> all;
  state_->sessions_.for_each([&](const session& s) { all.push_back(&s); });
  std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  return all;
}

} // namespace weir::net
