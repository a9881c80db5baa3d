#include <optional>

#include <kj/exception.h>

#include <weir/stream.hpp>

#include "runtime/actor_core.hpp"
#include "runtime/message_parts.hpp"
#include "runtime/stream_run.hpp"

namespace weir {
namespace detail {

struct outlet_core::parts {
  parts(actor& a, std::shared_ptr<session_guard> s, net::lane in_lane)
      : self(a),
        handle(s->handle()),
        session(std::move(s)),
        gate(session->raw()->entrance()),
        run(gate, in_lane) {}

  actor& self;
  caf::actor handle; // of its own session
  std::shared_ptr<session_guard> session;
  std::shared_ptr<actors::gate> gate;
  stream_run run; // offered, not carried yet
  uint64_t id = 0;
  bool dirty = false, closed = false;
  kept_message query;          // of rows
  uint64_t consumed = 0;       // when it is over and was not lost
  std::optional<failure> over; // none in it: closed

  void flush() {
    dirty = false;
    if (run)
      self.core().carry(*session, run.take());
  }
};

std::shared_ptr<session_guard> claim_session(const ref_base& to) {
  auto session = to.guard();
  if (session->raw()->claim())
    return session;
  session = guard_of(session->raw()->sibling());
  session->raw()->claim();
  return session;
}

outlet_core::outlet_core(actor& self, const ref_base& to, lane l) { enter(self, claim_session(to), l); }

outlet_core::outlet_core(actor& self, std::shared_ptr<session_guard> session, kept_message query) {
  enter(self, std::move(session), weir::lane::normal);
  parts_->query = std::move(query);
}

void outlet_core::enter(actor& self, std::shared_ptr<session_guard> session, weir::lane l) {
  parts_ = std::make_unique<parts>(self, std::move(session), static_cast<net::lane>(l));
  parts_->id = self.core().add_outlet(*this);
  parts_->gate->want_credit(self.core().now()); // told when it is open
  put(parts_->handle, nullptr, actors::produce{parts_->id, self.core().self_ptr(), parts_->gate});
}

outlet_core::~outlet_core() {
  if (waiter)
    waiter->on = nullptr;
  abandon();
  parts_->self.core().remove_outlet(parts_->id);
}

void outlet_core::abandon() {
  if (parts_->query)
    abort({errc::handler_failed, outcome::unknown, "the service dropped the stream without an end"});
  else
    abort({errc::session_aborted, outcome::unknown, "the producer went without closing the stream"});
}

void outlet_core::on_end(std::function<void(uint64_t)> ok, std::function<void(const failure&)> bad) {
  on_closed = std::move(ok);
  on_failed = std::move(bad);
  if (auto& p = *parts_; p.over && p.over->code != errc::none)
    put(p.self.core().self_ptr(), nullptr,
        actors::outlet_event{actors::outlet_event::type::failed, p.id, 0, *p.over});
}

bool outlet_core::may_build() {
  auto& p = *parts_;
  if (p.closed || p.gate->over())
    return false;
  if (p.run.may_send())
    return true;
  p.flush(); // or the credit that it waits for would never come
  if (auto what = p.gate->wait(p.self.core().now(), expected_bytes_))
    p.self.core().want(*p.session, what);
  return p.run.may_send(); // it may have come in between
}

void outlet_core::push(message_out& m) {
  auto& p = *parts_;
  auto next = finish_message(m, expected_bytes_);
  p.run.stamp(next);
  if (!p.run.add(next)) {
    p.flush();
    p.run.add(next);
  }
  if (p.run.is_full())
    p.flush();
  if (!p.dirty && p.run) {
    p.dirty = true;
    p.self.core().mark_dirty(p.id);
  }
}

void outlet_core::close() {
  auto& p = *parts_;
  if (std::exchange(p.closed, true))
    return;
  p.flush();
  put(p.handle, nullptr, actors::close_session{});
}

void outlet_core::abort(failure why) {
  auto& p = *parts_;
  if (std::exchange(p.closed, true))
    return;
  p.run.drop();
  put(p.handle, nullptr, actors::abort_session{std::move(why)}); // not from an actor that may be dying
}

void outlet_core::pair_with(const inlet_core& in) {
  auto* from = static_cast<actors::account*>(in.from);
  auto session = from->back();
  if (!session)
    return; // over: nobody waits for it any more
  parts_->gate->pair_with(session->id());
  from->pair();
}

capnp::AnyPointer::Reader outlet_core::query() const { return parts_->query.body(); }

bool outlet_core::ask(outlet_waiter& w) {
  auto& p = *parts_;
  if (!p.over)
    return w.what == outlet_waiter::wish::credit && !p.closed && may_build();
  w.consumed = p.consumed;
  w.why = *p.over;
  if (w.what == outlet_waiter::wish::credit && w.why.code == errc::none)
    w.why = {errc::session_closed, outcome::not_executed, "the stream is closed"};
  return true;
}

/// Resumes who waits for what has just happened; the outlet may be gone afterwards.
static void tell_waiter(outlet_core& o) {
  if (o.waiter && o.ask(*o.waiter))
    std::exchange(o.waiter, nullptr)->resume();
}

void actor_core::flush() {
  for (size_t i = 0; i < dirty_.size(); ++i)
    if (auto o = outlets_.find(dirty_[i]); o != outlets_.end())
      o->second->get().flush();
  dirty_.clear();
}

void actor_core::on_outlet_event(const actors::outlet_event& e) {
  auto i = outlets_.find(e.outlet);
  if (i == outlets_.end())
    return;
  auto& o = *i->second;
  using type = actors::outlet_event::type;
  switch (e.what) {
  case type::credit: {
    auto f = std::move(o.on_credit); // it may destroy the outlet
    if (f)
      f();
    if (auto still = outlets_.find(e.outlet); still != outlets_.end()) {
      if (!still->second->on_credit)
        still->second->on_credit = std::move(f);
      tell_waiter(*still->second);
    }
    return;
  }
  case type::closed:
    o.get().over = failure{};
    o.get().consumed = e.consumed;
    if (auto f = std::move(o.on_closed))
      f(e.consumed);
    break;
  case type::failed:
    o.get().over = e.why;
    if (auto f = std::move(o.on_failed))
      f(e.why);
    break;
  }
  if (auto still = outlets_.find(e.outlet); still != outlets_.end())
    tell_waiter(*still->second);
}

kept_message inlet_core::hold() {
  auto& a = *static_cast<actors::arrivals*>(batch);
  auto d = a.hold(item, std::static_pointer_cast<actors::held_allowance>(allowance));
  return d ? kept_message{std::make_unique<kept_message::parts>(std::move(d))} : kept_message{};
}

kept_message inlet_core::lease() {
  return kept_message{
      std::make_unique<kept_message::parts>(static_cast<actors::arrivals*>(batch)->lease(item))};
}

void inlet_core::abort(failure why) const {
  put(static_cast<actors::account*>(from)->back(), nullptr, actors::abort_session{std::move(why)});
}

} // namespace detail

struct sink_base::parts {
  struct stream {
    detail::inlet_core core;
    actors::account* from = nullptr; // held until it ended, so its address is not used again
    bool failed = false;             // on_message threw: no more of it is handled
  };
  std::unordered_map<uint64_t, stream> streams;
  ~parts() {
    for (auto& [id, s] : streams)
      s.from->drop();
  }
};

sink_base::sink_base(caf::actor_config& cfg) : actor(cfg), parts_(std::make_unique<parts>()) {}
sink_base::~sink_base() = default;

bool sink_base::handle_stream_event(void* event) {
  auto& e = *static_cast<actors::stream_event*>(event);
  using what = actors::stream_event::type;
  if (e.what == what::opened) {
    auto& s = parts_->streams[e.stream];
    s.core.id = e.stream;
    s.from = e.take_account();
    s.core.from = s.from;
    opened(s.core);
    return true;
  }
  auto i = parts_->streams.find(e.stream);
  if (i == parts_->streams.end())
    return true;
  if (e.what == what::finished) {
    finished(i->second.core);
    return true;
  }
  ended(i->second.core, e.why);
  i->second.from->drop();
  parts_->streams.erase(i);
  return true;
}

bool sink_base::handle_arrived(void* arrived) {
  auto& m = *static_cast<actors::arrived*>(arrived);
  actors::at_work work{m.allowance.get(), core().now()};
  if (m.allowance && core().served_as.empty())
    core().served_as = m.allowance->name;
  parts::stream* at = nullptr;
  for (size_t i = 0; i < m.batch.size(); ++i) {
    auto* from = m.batch.from(i);
    if (!at || at->from != from) {
      auto found = parts_->streams.find(reinterpret_cast<uintptr_t>(from));
      at = found == parts_->streams.end() ? nullptr : &found->second;
    }
    if (at && !at->failed) {
      auto& c = at->core;
      c.batch = &m.batch;
      c.item = i;
      c.allowance = m.allowance;
      ++c.messages;
      auto& v = m.batch[i].message;
      detail::handler_watch watch{core()};
      try {
        message(c, detail::message_in{v.words, v.count}.body());
      } catch (...) { // foreign bytes that are not what they say, or the handler: a stream has no holes
        at->failed = true;
        c.abort(detail::failure_of_exception());
      }
      c.batch = nullptr;
    }
    m.batch.release(i);
  }
  return true;
}

} // namespace weir
