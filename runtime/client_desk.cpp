#include "runtime/client_desk.hpp"

#include <bit>
#include <thread>

namespace weir::detail {

namespace {
const failure node_stops{errc::shutting_down, outcome::unknown, "the node stops"};
} // namespace

void waiting_call::run() {
  auto me = std::move(self);
  if (given_up)
    at->give_up(*me);
  else
    at->carry(std::move(me));
}

caf::behavior desk::make_behavior() {
  teller_->who = address();
  ignore_unexpected();
  return {[this](const actors::close_session&) { quit(caf::exit_reason::normal); }};
}

/// What its sessions say does not wait for its turn: they say it on the loop.
enqueue_result desk::enqueue(caf::mailbox_element_ptr x, caf_context* ctx) {
  auto& c = content_of(*x);
  if (auto* r = content_as<actors::reply>(c))
    on_reply(*r);
  else if (auto* o = content_as<actors::outlet_event>(c))
    on_outlet_event(*o);
  else if (auto* u = content_as<actors::undelivered_note>(c))
    undelivered_.fetch_add(u->about->lost.exchange(0), std::memory_order_relaxed);
  else
    return pinnable::enqueue(std::move(x), ctx);
  return enqueued();
}

void desk::carry(std::shared_ptr<waiting_call> c) {
  if (c->state.fetch_or(waiting_call::carried, std::memory_order_acq_rel) & waiting_call::dropped) {
    c->session->raw()->entrance()->release(c->what.message.cost(), c->what.message.count);
    return; // its thread has gone
  }
  if (over_) {
    c->session->raw()->entrance()->release(c->what.message.cost(), c->what.message.count);
    c->why = {errc::shutting_down, outcome::not_executed, node_stops.text};
    return finish(*c);
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(calls_.size()));
    calls_.emplace_back();
  }
  auto slot = free_.back();
  free_.pop_back();
  auto& to = calls_[slot];
  c->token = uint64_t{++to.generation} << 32 | (slot + 1);
  auto a = std::move(c->what);
  a.token = c->token;
  auto session = c->session; // its thread may let go of it before `carry` returns
  to.who = std::move(c);
  session->raw()->carry(std::move(a), self_ptr());
}

void desk::tell(actors::session& s, actors::ask a) {
  a.from_teller = teller_;
  s.carry(std::move(a), self_ptr());
}

void desk::give_up(const waiting_call& c) {
  if (!(c.state.load(std::memory_order_acquire) & waiting_call::done))
    c.session->raw()->give_up(c.token, self_ptr());
}

void desk::on_reply(actors::reply& r) {
  auto slot = static_cast<uint32_t>(r.token & 0xffffffff) - 1;
  if (slot >= calls_.size() || calls_[slot].generation != r.token >> 32 || !calls_[slot].who)
    return;
  auto c = std::exchange(calls_[slot].who, nullptr);
  free_.push_back(slot);
  c->in = std::move(r.in);
  c->why = std::move(r.why);
  finish(*c);
}

void desk::finish(waiting_call& c) {
  auto n = c.sleeper;
  if (!(c.state.fetch_or(waiting_call::done, std::memory_order_seq_cst) & waiting_call::sleeping))
    return; // it will see it
  if (over_)
    return bell_of(n).ring(bit_of(n));
  due_[n / sleepers_per_bell % bell_count] |= bit_of(n);
  if (!std::exchange(in_round_, true))
    loop_.at_end_of_round(*this);
}

void desk::end_of_round() {
  in_round_ = false;
  for (size_t i = 0; i < bell_count; ++i)
    if (auto bits = std::exchange(due_[i], 0)) {
      bells_[i].ring(bits);
      loop_.expect(static_cast<uint32_t>(std::popcount(bits)));
    }
}

uint64_t desk::add_line(std::shared_ptr<stream_line> l) {
  if (over_)
    l->on_event({actors::outlet_event::type::failed, 0, 0, node_stops});
  else
    lines_[++last_line_] = std::move(l);
  return last_line_;
}

void desk::on_outlet_event(const actors::outlet_event& e) {
  auto i = lines_.find(e.outlet);
  if (i == lines_.end())
    return;
  auto line = i->second;
  if (e.what != actors::outlet_event::type::credit)
    lines_.erase(i);
  line->on_event(e);
}

void desk::on_exit() {
  over_ = true;
  loop_.forget(*this);
  end_of_round();
  for (auto& c : calls_)
    if (auto who = std::exchange(c.who, nullptr)) {
      who->why = node_stops;
      finish(*who);
    }
  calls_.clear();
  free_.clear();
  for (auto& [id, line] : std::exchange(lines_, {}))
    line->on_event({actors::outlet_event::type::failed, id, 0, node_stops});
}

client_core::client_core(std::vector<caf::actor> desks, std::chrono::milliseconds call_timeout)
    : handles_(std::move(desks)), call_timeout_(call_timeout) {
  for (auto& h : handles_)
    desks_.push_back(static_cast<desk*>(caf::actor_cast<caf::abstract_actor*>(h)));
}

client_core::~client_core() {
  for (auto& h : handles_)
    put(h, nullptr, actors::close_session{});
}

failure client_core::refusal(const ref_base& to) const {
  for (auto* d : desks_)
    if (!d->home().may_wait())
      return {errc::not_supported, outcome::not_executed,
              "this thread runs a loop of the node, which weir::client would block: an actor has to use "
              "weir::actor::call and weir::outlet"};
  if (!to)
    return {errc::session_closed, outcome::not_executed, "the ref is empty"};
  return {};
}

desk* client_core::desk_of(const actors::session& s) const {
  for (auto* d : desks_)
    if (&d->home() == &s.home())
      return d;
  return nullptr;
}

void client_core::sleep_for(net::duration d) const {
  auto& home = desks_[0]->home();
  if (!home.is_virtual())
    return std::this_thread::sleep_for(d);
  for (auto until = home.now() + d; home.move_on(until);) {
  }
}

net::splitmix64 client_core::random() const {
  auto& home = desks_[0]->home();
  return net::splitmix64{home.is_virtual() ? home.draw_seed()
                                           : reinterpret_cast<uintptr_t>(&home) ^
                                                 uint64_t(now().time_since_epoch().count())};
}

uint64_t client_core::undelivered() const {
  uint64_t n = 0;
  for (auto* d : desks_)
    n += d->undelivered();
  return n;
}

uint32_t number_of_this_thread() {
  static std::atomic<uint32_t> last{0};
  thread_local const uint32_t mine = last.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

} // namespace weir::detail
