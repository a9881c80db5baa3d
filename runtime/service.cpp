#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <kj/exception.h>

#include <weir/service.hpp>

#include "actors/link.hpp"
#include "actors/session.hpp"
#include "runtime/actor_core.hpp"
#include "runtime/message_parts.hpp"

namespace weir {
namespace detail {

/// Where the answers of one batch go: straight to their sessions when those are on the service's loop, else
/// by mail to who brought it.
class answer_sink {
public:
  answer_sink(actors::loop* home, caf::strong_actor_ptr from) : home_(home), from_(std::move(from)) {}
  void send(actors::answers a) const {
    if (a.items.empty())
      return;
    if (home_->here())
      actors::link::answer_all(a);
    else
      put(from_, nullptr, std::move(a));
  }
  /// By the clock that the deadlines of its requests are of.
  net::time_point now() const { return home_->waiting_clock(); }

private:
  actors::loop* home_;
  caf::strong_actor_ptr from_;
};

struct call_context::parts {
  parts(actors::delivery d, answer_sink s, actors::account* a, uint32_t id, net::time_point until,
        uint16_t method)
      : message(std::move(d)), sink(std::move(s)), from(a), call(id), deadline(until) {
    head.method = method;
    from->hold();
  }
  ~parts() {
    if (from)
      answer({},
             {errc::handler_failed, outcome::unknown, "the service dropped the request without an answer"});
  }
  void answer(net::outgoing m, failure why) {
    if (!from)
      return; // answered before
    actors::answers a;
    a.items.push_back({std::exchange(from, nullptr), call, std::move(m), std::move(why)});
    sink.send(std::move(a));
  }

  kept_message::parts message;
  answer_sink sink;
  actors::account* from; // one reference; null when answered
  uint32_t call;
  net::time_point deadline;
  heading head;
};

call_context::call_context(std::unique_ptr<parts> p) : parts_(std::move(p)) {}
call_context::call_context(call_context&&) noexcept = default;
call_context& call_context::operator=(call_context&&) noexcept = default;
call_context::~call_context() = default;
capnp::AnyPointer::Reader call_context::params() const { return parts_->message.reader.body(); }
void call_context::reply(uint64_t result_type, const std::function<void(capnp::AnyPointer::Builder)>& fill) {
  message_out m{{0, result_type, 0, parts_->head.method, 0}, 0};
  fill(m.body());
  parts_->answer(m.get().builder.finish(), {});
}
void call_context::fail(failure why) { parts_->answer({}, std::move(why)); }
bool call_context::answered() const { return parts_->from == nullptr; }
bool call_context::cancelled() const { return parts_->from && parts_->from->is_cancelled(parts_->call); }
std::chrono::milliseconds call_context::time_left() const {
  using std::chrono::milliseconds;
  if (parts_->deadline == net::time_point::max())
    return milliseconds::max();
  return std::chrono::duration_cast<milliseconds>(parts_->deadline - parts_->sink.now());
}

failure failure_of_exception() {
  try {
    throw;
  } catch (const kj::Exception& e) {
    return {errc::malformed_message, outcome::unknown, e.getDescription().cStr()};
  } catch (const std::exception& e) {
    return {errc::handler_failed, outcome::unknown, e.what()};
  } catch (...) {
    return {errc::handler_failed, outcome::unknown, "the handler threw something that is no std::exception"};
  }
}

void abort_by_exception(outlet_core& rows) { rows.abort(failure_of_exception()); }

class service_core {
public:
  explicit service_core(service_base& self) : self_(self) {}

  failure start(const handlers& list, const std::vector<std::string>& names) {
    by_method_.resize(names.size());
    for (auto& h : list.list())
      if (h.method.method < by_method_.size())
        by_method_[h.method.method] = h;
    for (size_t i = 0; i < names.size(); ++i)
      if (!by_method_[i].run)
        return {errc::bad_option, outcome::not_executed,
                fmt::format("the service has no handler for method '{}'", names[i])};
    return {};
  }
  void run(actors::arrived& m);

private:
  friend class call_frame;
  failure handle(actors::arrived& m, size_t i, const answer_sink& to, net::outgoing& answer, bool& answered);

  service_base& self_;
  std::vector<handler> by_method_;
  size_t expected_bytes_ = 256;
};

/// The request at hand, on the stack of the service.
class call_frame final : public current_call {
public:
  call_frame(actor& self, actors::arrived& m, size_t i, message_in& in, const answer_sink& to,
             size_t expected)
      : self_(self), arrived_(m), item_(i), in_(in), sink_(to), expected_(expected) {}

  capnp::AnyPointer::Reader params() override { return in_.body(); }
  capnp::AnyPointer::Builder results(uint64_t type) override {
    out.emplace(heading{0, type, 0, in_.head().method, 0}, expected_);
    return out->body();
  }
  std::unique_ptr<call_context> keep() override {
    auto& a = arrived_.batch[item_];
    if (!arrived_.allowance)
      return nullptr;
    auto d = arrived_.batch.hold(item_, arrived_.allowance);
    if (!d)
      return nullptr;
    kept = true;
    return std::make_unique<call_context>(std::make_unique<call_context::parts>(
        std::move(d), sink_, arrived_.batch.from(item_), a.call, a.deadline, in_.head().method));
  }

  std::shared_ptr<outlet_core> rows() override {
    auto back = arrived_.batch.from(item_)->back();
    auto* raw = back ? static_cast<actors::session*>(caf::actor_cast<caf::abstract_actor*>(back)) : nullptr;
    if (!raw || !raw->claim()) {
      refusal = {errc::wrong_type, outcome::not_executed, "the method answers with a stream: open_stream"};
      return nullptr;
    }
    auto session = std::make_shared<session_guard>(caf::actor_cast<caf::actor>(back), raw);
    kept_message query{std::make_unique<kept_message::parts>(arrived_.batch.lease(item_))};
    return std::make_shared<outlet_core>(self_, std::move(session), std::move(query));
  }

  std::optional<message_out> out;
  failure refusal;
  bool kept = false;

private:
  actor& self_;
  actors::arrived& arrived_;
  size_t item_;
  message_in& in_;
  const answer_sink& sink_;
  size_t expected_;
};

/// One request. What it returns is the answer when it is a failure; else `answer`, when `answered`.
failure service_core::handle(actors::arrived& m, size_t i, const answer_sink& to, net::outgoing& answer,
                             bool& answered) {
  auto& item = m.batch[i];
  message_in in{item.message.words, item.message.count};
  auto& head = in.head();
  auto refuse = [](errc code, std::string text) {
    return failure{code, outcome::not_executed, std::move(text)};
  };
  if (item.deadline <= (self_.pinned_to() ? self_.core().now() : to.now()))
    return refuse(errc::deadline_exceeded, "expired before it was run");
  if (head.interface != self_.interface())
    return refuse(errc::wrong_interface, fmt::format("a call of interface {:#x} to a service of {:#x}",
                                                     head.interface, self_.interface()));
  if (head.method >= by_method_.size())
    return refuse(errc::no_such_method, fmt::format("method {} of {}", head.method, by_method_.size()));
  auto& h = by_method_[head.method];
  if (head.type != h.params_type)
    return refuse(errc::wrong_type, fmt::format("a body of type {:#x}, not {:#x}", head.type, h.params_type));
  call_frame frame{self_, m, i, in, to, expected_bytes_};
  handler_watch watch{self_.core()};
  try {
    h.run(frame);
  } catch (...) {
    return failure_of_exception();
  }
  if (frame.refusal.code != errc::none)
    return frame.refusal;
  if (frame.out) {
    answer = finish_message(*frame.out, expected_bytes_);
    answered = true;
  } else if (!frame.kept) {
    return refuse(
        errc::overloaded,
        fmt::format("the service holds {} messages with {} bytes already (held-messages, held-bytes)",
                    m.allowance ? m.allowance->messages() : 0, m.allowance ? m.allowance->bytes() : 0));
  }
  return {};
}

void service_core::run(actors::arrived& m) {
  actors::at_work work{m.allowance.get(), self_.core().now()};
  if (m.allowance && self_.core().served_as.empty())
    self_.core().served_as = m.allowance->name;
  answer_sink to{m.home, self_.current_sender()};
  actors::answers out;
  out.items.reserve(m.batch.size());
  for (size_t i = 0; i < m.batch.size(); ++i) {
    auto has_place = m.batch[i].call == 0 || !m.allowance || m.allowance->mailbox.leave();
    if (m.batch[i].call != 0 && m.batch.from(i)->is_cancelled(m.batch[i].call)) {
      m.batch.release(i); // not run: nobody waits for it
      continue;
    }
    net::outgoing answer;
    bool answered = false;
    auto why = has_place ? handle(m, i, to, answer, answered) : m.allowance->mailbox.refusal();
    if (auto call = m.batch[i].call; call != 0 && (answered || why.code != errc::none)) {
      m.batch.from(i)->hold();
      out.items.push_back({m.batch.from(i), call, std::move(answer), std::move(why)});
    }
    m.batch.release(i);
  }
  to.send(std::move(out));
}

} // namespace detail

service_base::service_base(caf::actor_config& cfg)
    : actor(cfg), service_(std::make_unique<detail::service_core>(*this)) {}
service_base::~service_base() = default;

caf::behavior service_base::make_behavior() {
  failure why;
  try {
    why = service_->start(make_handlers(), method_names());
  } catch (const std::exception& e) {
    why = {errc::bad_option, outcome::not_executed, fmt::format("make_handlers threw: {}", e.what())};
  } catch (...) {
    why = {errc::bad_option, outcome::not_executed, "make_handlers threw something"};
  }
  say_started(why);
  if (why.code != errc::none)
    quit(caf::exit_reason::user_shutdown);
  return {[this](actors::arrived& m) { service_->run(m); }, [this](actors::reply& r) { core().on_reply(r); }};
}

bool service_base::handle_arrived(void* arrived) {
  service_->run(*static_cast<actors::arrived*>(arrived));
  return true;
}

void service_base::say_started(failure why) {
  if (!std::exchange(start_said_, true))
    start_.set_value(std::move(why));
}

void service_base::on_exit() {
  say_started({errc::bad_option, outcome::not_executed, "the service ended before it had started"});
  actor::on_exit();
}

} // namespace weir
