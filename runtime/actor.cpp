#include <fmt/format.h>
#include <kj/exception.h>

#include "runtime/actor_core.hpp"
#include "runtime/message_parts.hpp"

namespace weir {

namespace detail {

void init_own_types() { init_caf_types<caf::id_block::weir>(); }

net::outgoing finish_message(message_out& m, size_t& expected_bytes) {
  auto out = m.get().builder.finish();
  expected_bytes = out.body_bytes;
  return out;
}

void actor_core::carry(const session_guard& to, actors::ask a) {
  if (on_loop_of(*to.raw()))
    return to.raw()->carry(std::move(a), self_ptr());
  if (a.token != 0)
    a.bounce_to = self_ptr();
  a.bounced_by = to.raw()->entrance();
  put(to.handle(), self_ptr(), std::move(a));
}

void actor_core::want(const session_guard& on, const actors::want& what) {
  if (on_loop_of(*on.raw()))
    on.raw()->hear(what);
  else
    put(on.handle(), nullptr, what);
}

uint64_t actor_core::open(const std::shared_ptr<session_guard>& via, uint64_t result_type) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(calls_.size()));
    calls_.emplace_back();
  }
  auto slot = free_.back();
  free_.pop_back();
  auto& c = calls_[slot];
  c.session = via;
  c.result_type = result_type;
  c.open = c.wanted = true;
  return token_of(++c.generation, slot);
}

uint64_t actor_core::start_call(const ref_base& to, const call_options& o, message_out& m,
                                uint64_t result_type) {
  auto via = to.guard();
  auto token = open(via, result_type);
  actors::ask a;
  a.message = finish_message(m, expected_bytes_);
  a.token = token;
  a.deadline = now() + (o.timeout.count() > 0 ? net::duration{o.timeout} : via->raw()->env().call_timeout);
  a.reply_room_bytes = o.reply_room_bytes;
  a.in_lane = static_cast<net::lane>(o.lane);
  if (o.idempotent)
    find(token)->again.reset(
        new second_try{to, net::copy_of(a.message), a.deadline, a.reply_room_bytes, a.in_lane});
  send(*via, std::move(a));
  return token;
}

void actor_core::send(const session_guard& via, actors::ask a) {
  auto& gate = *via.raw()->entrance();
  if (gate.admit(a.message.cost(), 1))
    return carry(via, std::move(a));
  net::message_builder::take_back(std::move(a.message));
  via.raw()->env().log->count(errc::overloaded);
  put(self_ptr(), nullptr, actors::reply{a.token, send_buffer_full(gate)});
}

bool actor_core::start_tell(const ref_base& to, message_out& m, lane l) {
  auto via = to.guard();
  actors::ask a;
  a.message = finish_message(m, expected_bytes_);
  a.in_lane = static_cast<net::lane>(l);
  a.from_teller = teller_to(*via);
  if (!via->raw()->entrance()->admit(a.message.cost(), 1)) {
    net::message_builder::take_back(std::move(a.message));
    via->raw()->env().log->count(errc::overloaded);
    return false; // `a` tells that it is lost
  }
  carry(*via, std::move(a));
  return true;
}

const std::shared_ptr<actors::teller>& actor_core::teller_to(const session_guard& to) {
  if (tellers_.size() >= tellers_kept_) { // those that nobody else keeps any more are forgotten now and then
    std::erase_if(tellers_, [](auto& t) { return t.second.use_count() == 1 && t.second->lost == 0; });
    tellers_kept_ = std::max<size_t>(16, 2 * tellers_.size());
  }
  auto& t = tellers_[to.handle().id()];
  if (!t) {
    t = std::make_shared<actors::teller>();
    t->who = self_.address();
    t->session = to.handle().id();
  }
  return t;
}

void actor_core::on_undelivered(const actors::undelivered_note& n) {
  if (auto lost = n.about->lost.exchange(0))
    self_.on_undelivered({n.about->session, lost});
}

actor_core::open_call* actor_core::find(uint64_t token) {
  auto slot = (token & 0xffffffff) - 1;
  if (slot >= calls_.size() || !calls_[slot].open || calls_[slot].generation != token >> 32)
    return nullptr;
  return &calls_[slot];
}

void actor_core::expect(uint64_t token, std::unique_ptr<reply_handler> h) {
  auto* c = find(token);
  if (!c)
    return;
  c->handler = std::move(h);
  if (auto came = std::move(c->came))
    finish(token, *c, *came);
}

void actor_core::forget(uint64_t token) {
  auto* c = find(token);
  if (!c)
    return;
  c->wanted = false;
  if (c->came)
    close(token, *c);
}

bool actor_core::take_reply(uint64_t token, reply_waiter& w) {
  auto* c = find(token);
  if (!c) {
    w.take(failure{errc::unknown_call, outcome::unknown, "the outcome of this call was taken before"});
    return true;
  }
  auto came = std::move(c->came);
  if (!came)
    return false;
  auto type = c->result_type;
  close(token, *c);
  fill(w, *came, type);
  return true;
}

void actor_core::wait_for(uint64_t token, reply_waiter* w) {
  if (auto* c = find(token)) {
    c->waiter = w;
    c->wanted = w != nullptr;
  }
}

void actor_core::cancel(uint64_t token) {
  auto* c = find(token);
  auto session = c ? c->session.lock() : nullptr;
  auto again = c ? std::move(c->again) : nullptr; // not once more
  if (again && again->waiting)
    return put(
        self_ptr(), nullptr,
        actors::reply{token, failure{errc::cancelled, outcome::unknown, "cancelled between two attempts"}});
  if (!session)
    return;
  if (on_loop_of(*session->raw()))
    session->raw()->give_up(token, self_ptr());
  else
    put(session->handle(), self_ptr(), actors::cancel_call{token});
}

void actor_core::on_reply(actors::reply& r) {
  if (auto* c = find(r.token))
    finish(r.token, *c, r);
}

void actor_core::close(uint64_t token, open_call& c) {
  c.open = false;
  c.waiter = nullptr;
  c.came = nullptr;
  c.again = nullptr;
  c.session.reset();
  free_.push_back(static_cast<uint32_t>((token & 0xffffffff) - 1));
}

failure send_buffer_full(const actors::gate& g) {
  if (g.outbound_is_full())
    return {errc::overloaded, outcome::not_executed,
            "all that may wait to be sent on this loop does (outbound-bytes)"};
  return {errc::overloaded, outcome::not_executed,
          fmt::format("{} bytes in {} messages wait for the session already (send-buffer)", g.queued_bytes(),
                      g.queued_messages())};
}

failure fault_of(const message_in& in, const net::message_view& v, uint64_t type) {
  if (in.head().type == net::failure_type())
    return net::read_failure(v);
  if (in.head().type != type)
    return {errc::wrong_type, outcome::done,
            fmt::format("the reply has type {:#x}, not {:#x}", in.head().type, type)};
  return {};
}

void actor_core::fill(reply_waiter& w, actors::reply& r, uint64_t type) {
  if (!r.in)
    return w.take(std::move(r.why));
  auto parts = std::make_unique<kept_message::parts>(std::move(r.in));
  if (auto why = fault_of(parts->reader, parts->owner.view(), type); why.code != errc::none)
    return w.take(std::move(why));
  try {
    w.take(kept_message{std::move(parts)});
  } catch (const kj::Exception& e) { // foreign bytes that are not what they say
    w.take(failure{errc::malformed_message, outcome::done, e.getDescription().cStr()});
  }
}

void actor_core::finish(uint64_t token, open_call& c, actors::reply& r) {
  failure why = r.why;
  if (r.in) {
    auto& v = r.in.view();
    why = fault_of(message_in{v.words, v.count}, v, c.result_type);
  }
  if (why.code != errc::none && try_again(token, c, why))
    return;
  if (auto* waiter = c.waiter) {
    auto type = c.result_type;
    close(token, c);
    fill(*waiter, r, type);
    return waiter->resume();
  }
  if (!c.handler && c.wanted) {
    c.came = std::make_unique<actors::reply>(std::move(r));
    return;
  }
  auto handler = std::move(c.handler);
  close(token, c);
  if (!handler)
    return;
  if (why.code != errc::none)
    return handler->on_failure(why);
  handler_watch watch{*this};
  try {
    message_in in{r.in.view().words, r.in.view().count};
    handler->on_reply(in.body());
  } catch (const kj::Exception& e) { // foreign bytes that are not what they say
    handler->on_failure({errc::malformed_message, outcome::done, e.getDescription().cStr()});
  }
}

uint64_t actor_core::add_outlet(outlet_core& o) {
  outlets_[++last_outlet_] = &o;
  return last_outlet_;
}

void actor_core::stop() {
  while (tasks)
    tasks->handle().destroy(); // which takes it out of the list
  sleepers_.clear();
  stop_readers();
  calls_.clear();
  free_.clear();
  tellers_.clear();
  for (auto& [id, o] : outlets_)
    o->abandon();
}

namespace {
thread_local actor* running = nullptr;
} // namespace

actor* running_actor() { return running; }

} // namespace detail

actor::actor(caf::actor_config& cfg) : pinnable(cfg), core_(std::make_unique<detail::actor_core>(*this)) {
  handle_unmatched([this](content& c) {
    if (auto* r = content_as<actors::reply>(c))
      core_->on_reply(*r);
    else if (auto* a = content_as<actors::arrived>(c))
      handle_arrived(a);
    else if (auto* o = content_as<actors::outlet_event>(c))
      core_->on_outlet_event(*o);
    else if (auto* s = content_as<actors::stream_event>(c))
      handle_stream_event(s);
    else if (auto* rows = content_as<actors::rows_arrived>(c))
      core_->on_rows(*rows);
    else if (auto* u = content_as<actors::undelivered_note>(c))
      core_->on_undelivered(*u);
    else if (auto* again = content_as<actors::retry_call>(c))
      core_->on_retry(again->token);
    else if (auto* w = content_as<actors::wake_up>(c))
      core_->on_wake_up(w->sleeper);
    else if (auto* m = content_as<actors::mailbox_mark>(c))
      m->through->store(true);
  });
}

actor::~actor() = default;

caf::behavior actor::make_behavior() {
  return {[this](actors::reply& r) { core_->on_reply(r); }};
}

actor::resume_result actor::resume(caf_context* ctx, size_t max_throughput) {
  auto* before = std::exchange(detail::running, this);
  core_->begin_turn();
  auto r = pinnable::resume(ctx, max_throughput);
  core_->flush();
  core_->end_turn();
  if (getf(caf::abstract_actor::is_terminated_flag))
    core_->stop(); // also when an `on_exit` of the user's does not call ours
  detail::running = before;
  return r;
}

void actor::on_exit() { core_->stop(); }

void actor::cancel(uint64_t call) { core_->cancel(call); }
void actor::expect(uint64_t token, std::unique_ptr<detail::reply_handler> h) {
  core_->expect(token, std::move(h));
}
size_t actor::expected_bytes() const { return core_->expected_bytes(); }
void actor::forget(uint64_t token) { core_->forget(token); }
bool actor::take_reply(uint64_t token, detail::reply_waiter& w) { return core_->take_reply(token, w); }
void actor::wait_for(uint64_t token, detail::reply_waiter* w) { core_->wait_for(token, w); }
void actor::on_task_failed(const failure& why) {
  quit(caf::make_error(caf::sec::runtime_error, to_string(why)));
}
bool actor::handle_arrived(void*) { return false; }
bool actor::handle_stream_event(void*) { return false; }

uint64_t actor::start_call(const detail::ref_base& to, const call_options& o, detail::message_out& m,
                           uint64_t result_type) {
  return core_->start_call(to, o, m, result_type);
}
bool actor::start_tell(const detail::ref_base& to, detail::message_out& m, weir::lane lane) {
  return core_->start_tell(to, m, lane);
}

} // namespace weir
