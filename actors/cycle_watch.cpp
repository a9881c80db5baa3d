#include "actors/cycle_watch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/local_conversation.hpp"
#include "actors/loop.hpp"

namespace weir::actors {

cycle_watch::cycle_watch(const options& o, std::shared_ptr<journal> log,
                         const std::vector<std::shared_ptr<loop>>& loops)
    : options_(o), log_(std::move(log)) {
  for (auto& l : loops)
    loops_.emplace_back().at = l;
}

net::duration cycle_watch::interval() const { return std::max(options_.limit / 4, shortest_interval); }

// ---- the rounds, on the first loop

void cycle_watch::begins() {
  sessions_.fetch_add(1);
  if (armed_.exchange(true))
    return;
  if (auto home = loops_[0].at.lock())
    home->post([self = shared_from_this()] { self->arm(); });
}

void cycle_watch::arm() {
  if (auto home = loops_[0].at.lock())
    home->at(home->now() + interval(), [self = shared_from_this()] { self->look(); });
}

/// A loop that has not answered since the last look is held up by a handler: what waits there is left out,
/// and so is every cycle that goes through it.
void cycle_watch::look() {
  if (missing_ > 0)
    join();
  if (sessions_.load() == 0) {
    armed_.store(false);
    if (sessions_.load() == 0 || armed_.exchange(true))
      return; // or one that has begun in between found us armed
  }
  ++round_;
  missing_ = loops_.size();
  for (size_t i = 0; i < loops_.size(); ++i)
    ask(i);
  arm();
}

void cycle_watch::ask(size_t i) {
  auto& l = loops_[i];
  l.waits.clear();
  auto at = l.at.lock();
  if (l.asked || !at)
    return; // one question at a time
  l.asked = true;
  at->post([self = shared_from_this(), i, round = round_, raw = at.get()] {
    auto waits = self->waits_at(*raw, self->loops_[i].seen);
    if (auto home = self->loops_[0].at.lock())
      home->post(
          [self, i, round, waits = std::move(waits)]() mutable { self->take(i, round, std::move(waits)); });
  });
}

void cycle_watch::take(size_t i, uint64_t round, std::vector<wait_edge> waits) {
  loops_[i].asked = false;
  if (round != round_ || missing_ == 0)
    return; // too late
  loops_[i].waits = std::move(waits);
  if (--missing_ == 0)
    join();
}

void cycle_watch::join() {
  missing_ = 0;
  auto home = loops_[0].at.lock();
  if (!home)
    return;
  wait_graph graph;
  for (auto& l : loops_)
    for (auto& w : std::exchange(l.waits, {}))
      graph.add(std::move(w));
  auto found = graph.cycles();
  auto now = home->now();
  std::erase_if(written_, [&](auto& w) { return now - w.second >= options_.period; });
  std::vector<const wait_cycle*> due;
  for (auto& c : found)
    if (written_.emplace(c.waits.front().who, now).second)
      due.push_back(&c);
  if (!due.empty())
    report(due, now);
}

/// "'a' (actor 12) -> 'b' (actor 13) -> 'a' (actor 12)"
static std::string names_of(const wait_cycle& c) {
  auto named = [](const wait_edge& e) {
    return e.on.stream == 0 ? fmt::format("'{}' (actor {})", e.name, e.on.actor)
                            : fmt::format("'{}' (actor {}, stream {})", e.name, e.on.actor, e.on.stream);
  };
  auto text = named(c.waits.back()); // for whom is waited last waits first
  for (size_t i = 0; i < c.waits.size(); ++i)
    if (i < cycle_watch::named_max || i + 1 == c.waits.size())
      text += " -> " + named(c.waits[i]);
    else if (i == cycle_watch::named_max)
      text += fmt::format(" -> {} more", c.waits.size() - i - 1);
  return text;
}

void cycle_watch::report(const std::vector<const wait_cycle*>& due, net::time_point now) {
  log_->count(errc::wait_cycle, due.size() - 1);
  log_->note(errc::wait_cycle, 1, [&] {
    auto& first = *due.front();
    auto others = due.size() == 1 ? std::string{} : fmt::format(" (and {} more such)", due.size() - 1);
    auto lasts = std::chrono::duration_cast<std::chrono::milliseconds>(now - first.since());
    return fmt::format("{}{}: for {} ms each has waited for credit of the next, which leases what it was "
                       "given (stall-limit); let what comes in on a stream leave on an outlet of that stream "
                       "alone, as weir::relay does (rule R8)",
                       names_of(first), others, lasts.count());
  });
}

// ---- what waits, on each loop

/// By the service, also what its session was not told of yet.
net::position cycle_watch::given_back(const session& s) {
  auto r = s.account_->peek();
  return s.local_->consumed_.plus(r.bytes, r.messages);
}

/// The service was handed the whole ration and has some of it, and the producer wants more.
bool cycle_watch::waits(const session& s) {
  if (s.stage_ != session::stage::local || s.closing_ || !s.producer_ || !s.gate_->wanted())
    return false;
  auto& c = *s.local_;
  auto limit = c.limit();
  auto spent = c.sent_.messages >= limit.messages || c.sent_.bytes >= limit.bytes || !c.queue_.empty();
  return spent && c.port_.batch.empty() && c.sent_ != given_back(s);
}

std::vector<wait_edge> cycle_watch::waits_at(loop& at, stalls& seen) const {
  std::vector<session*> waiting;
  for (auto* s : at.local_sessions)
    if (waits(*s))
      waiting.push_back(s);
  std::sort(waiting.begin(), waiting.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
  waiting.resize(std::min(waiting.size(), waits_max));
  stalls still;
  std::vector<wait_edge> all;
  for (auto* s : waiting) {
    auto& now = still[s->id()];
    if (is_stalled(*s, seen, now))
      all.push_back(edge_of(*s, now.since));
  }
  seen = std::move(still);
  return all;
}

/// Whether it has waited for `limit`, for a service that has leased what it has. The time begins with
/// the first look that sees it as it is now, and with the last one by which the service had not come to what
/// it was given.
bool cycle_watch::is_stalled(const session& s, const stalls& before, stall& now) const {
  auto time = s.loop_.now();
  auto known = before.find(s.id());
  auto sent = s.local_->sent_, back = given_back(s);
  if (known == before.end() || known->second.sent != sent || known->second.back != back) {
    now = {sent, back, time, std::make_shared<std::atomic<bool>>(false)};
    put(s.local_->port_.to, nullptr, mailbox_mark{now.through});
    return false;
  }
  now = known->second;
  if (!now.through->load())
    now.since = time;
  return time - now.since >= options_.limit;
}

/// A stream that is paired with an outlet waits for that outlet only, and its producer for it alone.
wait_edge cycle_watch::edge_of(const session& s, net::time_point since) {
  auto& port = s.local_->port_;
  wait_edge e;
  e.who = {s.producer_->id(), s.gate_->paired_with()};
  e.on = {port.to->id(), s.account_->paired() ? s.id() : 0};
  e.since = since;
  e.name = port.reader == 0 ? s.target_.service : "reader of " + s.target_.service;
  return e;
}

} // namespace weir::actors
