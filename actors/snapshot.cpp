#include "actors/snapshot.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "actors/credit_manager.hpp"
#include "actors/endpoint.hpp"
#include "actors/link.hpp"
#include "actors/local_conversation.hpp"

namespace weir::actors {

namespace {

uint64_t nanos(net::duration d) { return d.count() > 0 ? static_cast<uint64_t>(d.count()) : 0; }

void put_position(snapshot::Position::Builder to, const net::position& p) {
  to.setBytes(p.bytes);
  to.setMessages(p.messages);
}

/// What a service still has of a session.
net::position outstanding(const net::position& received, const net::position& consumed) {
  return {received.bytes - consumed.bytes, received.messages - consumed.messages};
}

} // namespace

/// Who waits, for what, and since when.
struct onlooker::seen {
  session* who = nullptr;
  const char* blocked_by = ""; // empty: it is not
  net::duration blocked{0}, oldest_call{0}, stalled{0};
  uint64_t need = 0;
  net::position outstanding;

  net::duration longest() const { return std::max({blocked, oldest_call, stalled}); }
};

onlooker::seen onlooker::see(session& s) {
  using stage = session::stage;
  s.collect();
  seen what{.who = &s, .outstanding = {}};
  auto now = s.loop_.now();
  auto blocked = [&](const char* by, net::time_point since) {
    what.blocked_by = by;
    what.blocked = std::max(now - since, net::duration{1});
  };
  auto& gate = *s.gate_;
  auto waits = s.producer_ && gate.wanted();
  if (s.stage_ == stage::remote) {
    auto& p = *s.protocol_;
    what.outstanding = outstanding(p.in().received(), p.in().consumed());
    what.need = p.out().blocked() ? p.out().state().need : 0;
    auto used_up = p.out().sent().messages >= p.out().limit().messages ||
                   p.out().sent().bytes >= p.out().limit().bytes;
    if (p.out().blocked())
      blocked(p.blocked_reason() == errc::no_budget ? "budget" : "service", p.out().blocked_since());
    else if (!s.waiting_.empty())
      blocked("outbound", gate.wanted_since() == net::time_point{} ? now : gate.wanted_since());
    else if (waits && used_up)
      blocked("service", gate.wanted_since());
    else if (waits && gate.outbound_is_full())
      blocked("outbound", gate.wanted_since());
    else if (waits && !gate.has_much_room())
      blocked("link", gate.wanted_since());
  } else if (s.stage_ == stage::local) {
    auto& c = *s.local_;
    what.outstanding = outstanding(c.sent_, c.consumed_);
    auto used_up = c.sent_.messages >= c.limit().messages || c.sent_.bytes >= c.limit().bytes;
    if (!c.queue_.empty() || (waits && used_up))
      blocked("service", gate.wanted_since() != net::time_point{} ? gate.wanted_since() : s.stalled_since_);
  } else if (s.stage_ != stage::over && (waits || !s.waiting_.empty())) {
    blocked("opening", s.made_at_);
  }
  for (auto& c : s.callers_)
    if (c.who)
      what.oldest_call = std::max(what.oldest_call, now - c.since);
  if (s.local_)
    for (auto& c : s.local_->calls_)
      if (c.open)
        what.oldest_call = std::max(what.oldest_call, now - c.since);
  if (what.outstanding.messages > 0 && s.stalled_since_ != net::time_point{})
    what.stalled = now - s.stalled_since_;
  return what;
}

void onlooker::show_remote(session& s, snapshot::Session::Builder to) {
  if (s.link_) {
    to.setPeer(s.link_->mux_->peer().name);
    to.setPeerNode(to_string(s.link_->mux_->peer().node));
  }
  if (!s.protocol_)
    return;
  auto& p = *s.protocol_;
  using state = net::session::state;
  to.setId(p.id());
  to.setState(p.now() == state::closing || p.peer_closed() ? "closing" : "open");
  put_position(to.initSent(), p.out().sent());
  put_position(to.initLimit(), p.out().limit());
  put_position(to.initGranted(), p.in().granted());
  put_position(to.initReceived(), p.in().received());
  put_position(to.initConsumed(), p.in().consumed());
  to.setBacklog(p.out().blocked() ? p.queued_bytes() : 0);
  to.setOpenCalls(p.calls_open());
  to.setAnswersOwed(p.answers_open());
  if (auto& peer = p.in().peer_state()) {
    to.setPeerBlocked(true);
    to.setPeerNeed(peer->need);
    to.setPeerBacklog(peer->backlog);
  }
}

void onlooker::show_local(session& s, snapshot::Session::Builder to) {
  auto& c = *s.local_;
  to.setState(c.closing_ ? "closing" : "open");
  put_position(to.initSent(), c.sent_);
  put_position(to.initLimit(), c.limit());
  put_position(to.initGranted(), c.limit());
  put_position(to.initReceived(), c.sent_);
  put_position(to.initConsumed(), c.consumed_);
  to.setOpenCalls(c.open_calls_);
  to.setAnswersOwed(c.open_calls_);
}

void onlooker::show_users(session& s, snapshot::Session::Builder to) {
  std::set<uint64_t> users;
  auto add = [&](const caf::strong_actor_ptr& a) {
    if (a)
      users.insert(a->id());
  };
  add(s.producer_);
  for (auto& c : s.callers_)
    add(c.who);
  if (s.local_)
    for (auto& c : s.local_->calls_)
      add(c.who);
  for (auto& w : s.waiting_)
    add(w.from);
  auto list = to.initUsers(static_cast<unsigned>(users.size()));
  unsigned i = 0;
  for (auto id : users)
    list.set(i++, id);
}

void onlooker::show(session& s, const seen& what, snapshot::Session::Builder to) {
  using stage = session::stage;
  auto dialled = !s.port_ && s.next_peer_ > 0;
  to.initSent(), to.initLimit(), to.initGranted(), to.initReceived(), to.initConsumed();
  to.setPeer(""), to.setPeerNode(""), to.setUri("");
  to.setService(s.target_.service);
  to.setInterface(fmt::format("{:#x}", s.target_.interface));
  to.setStream(s.target_.stream);
  to.setDirection(s.stage_ == stage::local ? "local" : s.port_ ? "accepted" : "opened");
  to.setState(s.stage_ == stage::unbound && !dialled ? "looking" : "opening"); // unless it is further
  if (dialled)
    to.setUri(net::to_string(s.target_.peers[s.next_peer_ - 1]));
  to.setAgeNanos(nanos(s.loop_.now() - s.made_at_));
  if (s.stage_ == stage::local)
    show_local(s, to);
  else
    show_remote(s, to);
  to.setQueuedBytes(s.gate_->queued_bytes());
  to.setQueuedMessages(s.gate_->queued_messages());
  to.setBlocked(*what.blocked_by != '\0');
  to.setBlockedBy(what.blocked_by);
  to.setBlockedNanos(nanos(what.blocked));
  to.setNeed(what.need);
  to.setOldestCallNanos(nanos(what.oldest_call));
  to.setStalledNanos(nanos(what.stalled));
  if (s.service_)
    to.setServiceActor(s.service_.id());
  show_users(s, to);
}

void onlooker::show(link& l, snapshot::Link::Builder to) {
  auto& mux = *l.mux_;
  to.setPeer(mux.peer().name);
  to.setNode(l.was_up() ? to_string(mux.peer().node) : "");
  to.setAddress(l.stream_->describe());
  to.setDialled(l.side_ == net::side::dialled);
  if (l.owner_)
    to.setUri(net::to_string(l.owner_->address()));
  to.setState(!mux.ready() ? "hello" : l.peer_goes_ || l.goes_ ? "going" : "up");
  to.setAgeNanos(nanos(l.loop_.now() - l.made_at_));
  to.setRoundTripNanos(nanos(mux.round_trip()));
  to.setBytesIn(l.bytes_in_);
  to.setBytesOut(l.bytes_out_);
  to.setMessagesIn(l.messages_in_);
  uint64_t out = 0;
  mux.for_each_session([&](const net::session& s) { out += s.out().sent().messages; });
  to.setMessagesOut(out);
  to.setSessions(mux.session_count());
  to.setWriteBlocked(l.write_blocked_);
  to.setLateFrames(mux.late_frames());
}

void onlooker::show_serving(const std::vector<seen>& sessions, snapshot::Loop::Builder to) {
  struct sum {
    uint64_t sessions = 0;
    net::position waiting;
    net::duration stalled{0};
  };
  std::map<uint64_t, sum> all;
  for (auto& what : sessions) {
    if (!what.who->service_)
      continue;
    auto& of = all[what.who->service_.id()];
    ++of.sessions;
    of.waiting = of.waiting.plus(what.outstanding.bytes, what.outstanding.messages);
    of.stalled = std::max(of.stalled, what.stalled);
  }
  auto list = to.initServing(static_cast<unsigned>(all.size()));
  unsigned i = 0;
  for (auto& [actor, of] : all) {
    auto one = list[i++];
    one.setActor(actor);
    one.setSessions(of.sessions);
    one.setWaitingMessages(of.waiting.messages);
    one.setWaitingBytes(of.waiting.bytes);
    one.setStalledNanos(nanos(of.stalled));
  }
}

void onlooker::look(loop& at, snapshot::Loop::Builder to, size_t listed_max) {
  to.setAnswered(true);
  at.credit().measure_pinned();
  auto& budget = at.inbound();
  auto in = to.initInbound();
  in.setBudget(budget.options().bytes);
  in.setFree(budget.free_bytes());
  in.setLiability(budget.liability());
  in.setReserve(budget.options().reserve_bytes);
  in.setSession(budget.charged(net::charge::session));
  in.setLarge(budget.charged(net::charge::large));
  in.setHeld(budget.charged(net::charge::held));
  in.setReplyRoom(budget.charged(net::charge::reply_room));
  in.setPinned(budget.pinned());
  in.setRefused(budget.refused());
  auto out = to.initOutbound();
  out.setBytes(at.outbound().bytes());
  out.setBytesMax(at.outbound().bytes_max());
  out.setPeak(at.outbound().peak());

  to.setLinksTotal(at.links.size());
  auto links = to.initLinks(static_cast<unsigned>(std::min(listed_max, at.links.size())));
  auto next = at.links.begin();
  for (auto one : links)
    show(*(next++)->first, one);

  auto sessions_of_now = at.sessions; // collecting may end one
  std::vector<seen> all;
  for (auto* s : sessions_of_now)
    if (at.sessions.count(s) > 0)
      all.push_back(see(*s));
  std::erase_if(all, [&](auto& x) { return at.sessions.count(x.who) == 0; });
  to.setSessionsTotal(all.size());
  auto n = std::min(listed_max, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(n), all.end(),
                    [](auto& a, auto& b) { return a.longest() > b.longest(); });
  auto sessions = to.initSessions(static_cast<unsigned>(n));
  for (unsigned i = 0; i < n; ++i)
    show(*all[i].who, all[i], sessions[i]);
  show_serving(all, to);
}

} // namespace weir::actors
