// Every invariant of a link in words.
#include <algorithm>

#include "net/mux_state.hpp"

namespace weir::net {

/// Collects what does not hold.
class mux::state::complaints {
public:
  void expect(bool holds, const session& s, const char* words) {
    if (!holds)
      text_ += "session " + std::to_string(s.id()) + ": " + words + "\n";
  }
  void same(uint64_t a, uint64_t b, const char* words) {
    if (a != b)
      text_ += std::string{words} + " (" + std::to_string(a) + ", " + std::to_string(b) + ")\n";
  }
  std::string text() && { return std::move(text_); }

private:
  std::string text_;
};

/// What the sessions hold together, to be compared with the totals.
struct mux::state::holdings {
  uint64_t session_bytes = 0, large_bytes = 0, rooms = 0, queued_ledger = 0, here = 0, there = 0;
};

void mux::state::check_session(session& s, complaints& c, holdings& all) {
  auto& in = s.in_;
  c.expect(in.consumed().within(in.received()), s, "consumed beyond what was received");
  c.expect(in.received().within(in.granted()), s, "received beyond what was granted");
  c.expect(s.out_.sent().within(s.out_.limit()), s, "sent beyond its limit");
  c.expect(s.out_.sent().bytes + s.promised_out_ <= s.out_.limit().bytes, s, "promised beyond its limit");
  c.expect(in.received().bytes + s.promised_in_ <= in.granted().bytes || !s.live(), s,
           "was promised beyond what was granted");
  auto owes = s.live() ? in.liability() : s.charged_session_;
  auto charged = s.charged_session_ + s.charged_large_;
  c.expect(charged >= owes, s, "owes more than was charged");
  c.expect(!s.live() || charged <= std::max(in.options().bytes, owes), s, "was charged more than it owes");
  uint64_t bytes = 0, messages = 0, promised = 0;
  for (size_t i = 0; i < lanes; ++i) {
    auto& queue = s.queues_[i];
    for (size_t k = 0; k < queue.size(); ++k) {
      promised += queue[k].promised_bytes;
      if (!queue[k].message)
        continue;
      bytes += queue[k].message.cost();
      messages += queue[k].message.count;
      if (i != 0 && queue[k].sent_bytes != 0)
        promised += queue[k].message.body_bytes - queue[k].sent_bytes;
    }
  }
  c.expect(bytes == s.queued_bytes_ && messages == s.queued_messages_, s,
           "its queues do not hold what was counted");
  c.expect(promised == s.promised_out_, s, "promised is not what is left of its fragments");
  all.session_bytes += s.charged_session_;
  all.large_bytes += s.charged_large_;
  all.queued_ledger += bytes;
  s.calls_out_.for_each([&](uint32_t, calls_out::entry& e) { all.rooms += e.paid; });
  s.calls_in_.for_each(
      [&](uint32_t, calls_in::entry& e) { all.queued_ledger += e.parked ? e.parked->cost() : 0; });
  ++(s.opened_here_ ? all.here : all.there);
}

std::string mux::state::check() const {
  complaints c;
  holdings all;
  sessions_.for_each([&](session& s) { check_session(s, c, all); });
  c.same(all.session_bytes, owed_session_, "sessions: charged, counted");
  c.same(all.large_bytes, owed_large_, "large messages: charged, counted");
  c.same(all.rooms, owed_rooms_, "reply rooms: paid, counted");
  c.same(all.queued_ledger, queued_ledger_, "outbound: queued, counted");
  c.same(all.here, opened_here_, "sessions opened here");
  c.same(all.there, opened_there_, "sessions opened there");
  uint64_t in_flight = 0, flight_ledger = 0;
  for (size_t i = 0; i < flight_.size(); ++i)
    in_flight += flight_[i].size, flight_ledger += flight_[i].ledger;
  c.same(in_flight, flight_bytes_ + flight_offset_, "bytes on their way");
  c.same(flight_ledger, flight_ledger_, "outbound: on its way, counted");
  auto at_least = [&](uint64_t ledger, uint64_t ours, const char* words) {
    if (ledger < ours)
      c.same(ledger, ours, words);
  };
  at_least(inbound_.charged(charge::session), owed_session_, "the budget knows less of sessions");
  at_least(inbound_.charged(charge::large), owed_large_, "the budget knows less of large messages");
  at_least(inbound_.charged(charge::reply_room), owed_rooms_, "the budget knows less of reply rooms");
  at_least(outbound_.bytes(), queued_ledger_ + flight_ledger_, "the outbound ledger knows less");
  return std::move(c).text();
}

} // namespace weir::net
