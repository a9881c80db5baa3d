#include "actors/loop.hpp"

#include <algorithm>

#include <sched.h>

#include "actors/birth_order.hpp"
#include "actors/credit_manager.hpp"
#include "actors/endpoint.hpp"

namespace weir::actors {

namespace {
/// In the place of the list once nothing is taken any more.
class nothing_more final : public handed_over {
  void run() override {}
} closed;
} // namespace

loop::loop(caf::actor_system& sys, const net::loop_options& o, const net::budget_options& inbound,
           uint64_t outbound_bytes)
    : net::loop(o),
      system_(sys),
      own_(sys, *this),
      guest_(sys, *this),
      room_(std::make_shared<outbound_room>(outbound_bytes)),
      port_(std::make_shared<credit_port>(*this)) {
  credit_handle_ = spawn<credit_manager>(std::ref(*this), inbound, outbound_bytes);
  credit_ = static_cast<credit_manager*>(caf::actor_cast<caf::abstract_actor*>(credit_handle_));
}

loop::~loop() {
  stop();
  port_->close();
  std::lock_guard guard{mutex_};
  for (auto* r : ready_)
    drop_resumable(r);
  for (auto* r : remote_)
    drop_resumable(r);
  for (auto* r : leaving_)
    drop_resumable(r);
}

loop* loop::of(const pinnable& a) {
  auto* own = dynamic_cast<own_context*>(a.pinned_to());
  return own ? &own->home : nullptr;
}

void loop::ready(caf::resumable* r) {
  if (here())
    return ready_.push_back(r);
  {
    std::lock_guard guard{mutex_};
    remote_.push_back(r);
  }
  brought();
}

void loop::begin() { sending_context() = &guest_; }

void loop::lead_out(caf::resumable* r) {
  if (here())
    leaving_.push_back(r);
  else
    to_scheduler(system_, r);
}

void loop::let_out() {
  if (leaving_.size() == 1)
    to_scheduler(system_, leaving_[0]);
  else if (!leaving_.empty())
    to_scheduler(system_, new bunch{leaving_});
  leaving_.clear();
}

void loop::post(std::function<void()> f) {
  {
    std::lock_guard guard{mutex_};
    tasks_.push_back(std::move(f));
  }
  brought();
}

void loop::brought() {
  wake();
  if (retired_.load())
    serve_retired();
}

void loop::retire() {
  retired_.store(true);
  serve_retired();
}

void loop::serve_retired() {
  auto self = weak_from_this().lock(); // what ends now may have been the last to know this loop
  for (bool first = true;; first = false) {
    {
      std::lock_guard guard{mutex_};
      if (first && serving_)
        return; // who serves looks again before it goes
      serving_ = first || !remote_.empty() || !tasks_.empty();
      if (!serving_)
        return;
    }
    run_stopped();
  }
}

void loop::drain(std::function<void()> done) {
  draining_ = true;
  drained_ = std::move(done);
  for (auto& [uri, e] : std::unordered_map{endpoints}) // before the links: it would dial again
    static_cast<endpoint*>(caf::actor_cast<caf::abstract_actor*>(e))->drain();
  for (auto* l : in_order_of_birth(links)) // one that ends here lives until its mail has come
    l->go_away();
  for (auto* s : in_order_of_birth(sessions))
    s->drain();
}

bool loop::is_drained() const {
  return links.empty() &&
         std::none_of(sessions.begin(), sessions.end(), [](auto* s) { return s->is_draining(); });
}

bool loop::hand_over(handed_over& what) {
  auto* before = handed_over_.load(std::memory_order_relaxed);
  do {
    if (before == &closed)
      return false;
    what.next_ = before;
  } while (!handed_over_.compare_exchange_weak(before, &what, std::memory_order_acq_rel));
  if (!before)
    wake();
  return true;
}

uint32_t loop::run_handed_over(handed_over* last) {
  if (last == &closed)
    return 0;
  handed_over* first = nullptr;
  uint32_t count = 0;
  for (; last; ++count) {
    auto* before = last->next_;
    last->next_ = first;
    first = std::exchange(last, before);
  }
  while (first) {
    auto* next = first->next_; // it may be gone, or on its way again, when it has run
    first->run();
    first = next;
  }
  return count;
}

void loop::take_handed_over() {
  auto waits = [this] {
    auto* last = handed_over_.load(std::memory_order_relaxed);
    return last && last != &closed;
  };
  while (waits()) {
    auto came = run_handed_over(handed_over_.exchange(nullptr, std::memory_order_acq_rel));
    expected_ -= std::min(expected_, came);
    if (expected_ == 0)
      return;
    sched_yield();
    if (!waits())
      expected_ = 0; // they have other things to do
  }
}

void loop::stand_in_line(session& s, uint64_t bytes) {
  room_line_.push_back({caf::actor_cast<caf::actor>(&s), &s, bytes});
  serve_room_line();
}

void loop::serve_room_line() {
  for (auto left = room_->left(); !room_line_.empty() && left > 0;) {
    auto next = std::move(room_line_.front());
    room_line_.pop_front();
    left -= std::min(left, std::max<uint64_t>(next.bytes, 1));
    next.who->has_room();
  }
}

/// CAF keeps a monitor, and the memory of who has it, until the service ends. So there is one per service,
/// and not one per session that it ever had.
void loop::watch_service(const caf::actor& service, session& s) {
  auto [of, is_new] = watched_services_.try_emplace(service.id());
  of->second.insert(&s);
  if (!is_new)
    return;
  credit_->watch(service, [this, id = service.id()](const caf::error&) {
    auto gone = watched_services_.extract(id);
    for (auto* x : in_order_of_birth(gone.mapped()))
      x->service_is_gone();
  });
}

void loop::forget_watch(const caf::actor& service, session& s) {
  if (auto of = watched_services_.find(service.id()); of != watched_services_.end())
    of->second.erase(&s);
}

void loop::tune(const limits& to) {
  if (to.number < limits_now.number)
    return;
  inbound().change(limits_now.budget_bytes, to.budget_bytes);
  limits_now = to;
  for (auto& [l, handle] : links)
    l->protocol().set_fragment_bytes(to.fragment_bytes);
  for (auto* s : in_order_of_birth(sessions)) // the first ones get what there is
    s->change_ration();
}

void loop::shut_down() {
  draining_ = true;
  run_handed_over(handed_over_.exchange(&closed, std::memory_order_acq_rel));
  for (auto& [uri, e] : endpoints)
    put(e, nullptr, close_session{});
  endpoints.clear();
  put(credit_handle_, nullptr, close_session{});
  while (!links.empty())
    for (auto* l : in_order_of_birth(links))
      if (links.contains(l))
        l->stop();
  while (!sessions.empty())
    for (auto* s : in_order_of_birth(sessions))
      if (sessions.contains(s))
        s->on_ended({errc::shutting_down, outcome::unknown, "the node stops"}, 0);
  room_line_.clear(); // their producers know already
}

void loop::take_remote() {
  std::vector<std::function<void()>> tasks;
  {
    std::lock_guard guard{mutex_};
    arrived_.swap(remote_);
    tasks.swap(tasks_);
  }
  collect_credit(); // before anybody asks what is owed
  for (auto& f : tasks)
    f();
  take_handed_over();
  ready_.insert(ready_.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
}

bool loop::run_ready() {
  let_out(); // what the sockets brought does not wait for who runs here
  for (size_t n = 0; n < resumes_per_round && !ready_.empty(); ++n) {
    auto* r = ready_.front();
    ready_.pop_front();
    if (run_resumable(r, &guest_, messages_per_resume))
      busy_.push_back(r); // it had its share: now the sockets
  }
  ready_.insert(ready_.end(), busy_.begin(), busy_.end());
  busy_.clear();
  let_out();
  if (drained_ && is_drained())
    std::exchange(drained_, nullptr)();
  return !ready_.empty();
}

void loop::collect_credit() {
  port_->take(credited_);
  for (auto* a : credited_) {
    a->unlist();
    if (auto* s = a->owner()) {
      s->collect();
    } else {
      give_back(a->take());
    }
    a->drop();
  }
  credited_.clear();
}

void loop::give_back(const account::returned& r) {
  unconsumed_bytes -= r.bytes;
  if (r.bytes)
    inbound().give(net::charge::session, r.bytes);
  if (r.reply_bytes)
    inbound().give(net::charge::reply_room, r.reply_bytes);
}

net::budget& loop::inbound() { return credit_->inbound(); }
net::outbound_ledger& loop::outbound() { return credit_->outbound(); }

} // namespace weir::actors
