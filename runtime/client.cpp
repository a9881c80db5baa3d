#include <fmt/format.h>

#include <weir/client.hpp>
#include <weir/node.hpp>

#include "runtime/actor_core.hpp"
#include "runtime/client_desk.hpp"
#include "runtime/message_parts.hpp"

namespace weir {

namespace {

using detail::waiting_call;

/// How long after its deadline a thread waits for the loop to say whether the call had left.
constexpr std::chrono::milliseconds verdict_wait{10};

constexpr size_t bytes_at_first = 256;
/// Its size is the guess for this thread's next message; forgotten with each new client, so that what a test
/// on virtual time sends does not depend on the tests before it.
thread_local size_t last_bytes = bytes_at_first;

failure because(errc code, std::string text) { return {code, outcome::not_executed, std::move(text)}; }
const failure shut_down{errc::shutting_down, outcome::not_executed, "the node was stopped"};

/// Where this thread waited last.
thread_local std::shared_ptr<waiting_call> own_place;

/// The place where this thread waits; another one while the loop still has to do with the last one.
std::shared_ptr<waiting_call> place_to_wait() {
  if (!own_place || own_place.use_count() > 1)
    own_place = std::make_shared<waiting_call>();
  else
    std::atomic_thread_fence(std::memory_order_acquire);
  own_place->state.store(0, std::memory_order_relaxed);
  own_place->given_up = false;
  own_place->why = {};
  own_place->sleeper = detail::number_of_this_thread();
  return own_place;
}

/// The call has been answered for its thread. What the loop still needs goes with the loop's reference.
void leave(waiting_call& c) {
  if (c.state.load(std::memory_order_acquire) & waiting_call::done)
    c.session.reset();
  else
    own_place.reset();
}

/// True: it is done. False: `until` has passed.
bool wait(waiting_call& c, net::time_point until) {
  auto& bell = c.at->bell_of(c.sleeper);
  auto bit = detail::desk::bit_of(c.sleeper);
  if (c.state.fetch_or(waiting_call::sleeping, std::memory_order_seq_cst) & waiting_call::done)
    return true;
  for (bool in_time = true;;) {
    auto seen = bell.look();
    if (c.state.load(std::memory_order_seq_cst) & waiting_call::done)
      return true;
    if (!in_time)
      return false;
    in_time = c.at->sleep(bell, seen, bit, until);
  }
}

bool hand_over(const std::shared_ptr<waiting_call>& c) {
  c->self = c;
  if (c->at->home().hand_over(*c))
    return true;
  c->self.reset();
  return false;
}

/// What is said of a call whose deadline has passed. Gives it up, here and at its service.
failure expire(const std::shared_ptr<waiting_call>& c, std::chrono::milliseconds timeout) {
  auto before = c->state.fetch_or(waiting_call::dropped, std::memory_order_acq_rel);
  if (before & waiting_call::done)
    return {};
  if (!(before & waiting_call::carried))
    return because(errc::deadline_exceeded,
                   fmt::format("it was still waiting for the loop after {} ms", timeout.count()));
  c->given_up = true;
  if (!hand_over(c) || !wait(*c, c->at->home().waiting_clock() + verdict_wait))
    return {errc::deadline_exceeded, outcome::unknown,
            fmt::format("no answer within {} ms", timeout.count())};
  if (c->why.code == errc::cancelled)
    return {errc::deadline_exceeded, c->why.what, fmt::format("no answer within {} ms", timeout.count())};
  return {};
}

/// What came, if it is what was asked for.
detail::call_end read(waiting_call& c, uint64_t result_type) {
  if (!c.in)
    return {{}, std::move(c.why)};
  auto parts = std::make_unique<detail::kept_message::parts>(std::move(c.in));
  if (auto why = detail::fault_of(parts->reader, parts->owner.view(), result_type); why.code != errc::none)
    return {{}, std::move(why)};
  return {detail::kept_message{std::move(parts)}, {}};
}

detail::call_end attempt(detail::client_core& core, const detail::ref_base& to, const call_options& o,
                         net::outgoing message, std::chrono::milliseconds timeout, net::time_point until,
                         uint64_t result_type) {
  auto guard = to.guard();
  auto& session = *guard->raw();
  auto* at = core.desk_of(session);
  if (!at)
    return {{}, because(errc::not_supported, "the ref is of another node")};
  auto c = place_to_wait();
  auto& a = c->what;
  a.message = std::move(message);
  a.deadline = until;
  a.reply_room_bytes = o.reply_room_bytes;
  a.in_lane = static_cast<net::lane>(o.lane);
  auto& gate = *session.entrance();
  if (!gate.admit(a.message.cost(), 1)) {
    net::message_builder::take_back(std::exchange(a.message, {}));
    return {{}, detail::send_buffer_full(gate)};
  }
  c->at = at;
  c->session = std::move(guard);
  if (!hand_over(c)) {
    gate.release(a.message.cost(), 1);
    net::message_builder::take_back(std::exchange(a.message, {}));
    c->session.reset();
    return {{}, shut_down};
  }
  if (!wait(*c, until))
    if (auto why = expire(c, timeout); why.code != errc::none) {
      leave(*c);
      return {{}, std::move(why)};
    }
  auto end = read(*c, result_type);
  leave(*c);
  return end;
}

/// A one-way message on its way to the loop.
class told final : public actors::handed_over {
public:
  told(detail::desk& at, std::shared_ptr<detail::session_guard> s, actors::ask a)
      : at_(at), desk_(at.self_ptr()), session_(std::move(s)), what_(std::move(a)) {}
  void run() override {
    at_.tell(*session_->raw(), std::move(what_));
    delete this;
  }
  /// It was not handed over.
  void refuse() {
    session_->raw()->entrance()->release(what_.message.cost(), what_.message.count);
    net::message_builder::take_back(std::move(what_.message));
    delete this;
  }

private:
  ~told() = default;
  detail::desk& at_;
  caf::strong_actor_ptr desk_;
  std::shared_ptr<detail::session_guard> session_;
  actors::ask what_;
};

} // namespace

client::client(node& n)
    : core_(std::make_unique<detail::client_core>(
          n.open_desks(), std::chrono::duration_cast<std::chrono::milliseconds>(n.options().call_timeout))) {
  last_bytes = bytes_at_first;
}

client::~client() = default;

uint64_t client::undelivered() const { return core_->undelivered(); }
size_t client::expected_bytes() { return last_bytes; }
failure client::refusal(const detail::ref_base& to) const { return core_->refusal(to); }

detail::call_end client::call(const detail::ref_base& to, const call_options& o, detail::message_out& m,
                              uint64_t result_type) {
  auto timeout = o.timeout.count() > 0 ? o.timeout : core_->call_timeout();
  auto until = core_->now() + timeout;
  auto message = detail::finish_message(m, last_bytes);
  if (!o.idempotent)
    return attempt(*core_, to, o, std::move(message), timeout, until, result_type);
  net::backoff delays{{std::chrono::milliseconds{10}, std::chrono::seconds{1}}};
  auto random = core_->random();
  for (;;) {
    auto end = attempt(*core_, to, o, net::copy_of(message), timeout, until, result_type);
    auto delay = delays.next(random);
    if (!detail::may_pass(end.why.code) || end.why == shut_down || core_->now() + delay >= until)
      return end;
    core_->sleep_for(delay);
  }
}

result<void> client::tell(const detail::ref_base& to, detail::message_out& m, weir::lane lane) {
  if (!to)
    return because(errc::session_closed, "the ref is empty");
  auto guard = to.guard();
  auto& session = *guard->raw();
  auto* at = core_->desk_of(session);
  if (!at)
    return because(errc::not_supported, "the ref is of another node");
  actors::ask a;
  a.message = detail::finish_message(m, last_bytes);
  a.in_lane = static_cast<net::lane>(lane);
  auto& gate = *session.entrance();
  bool over = gate.over();
  if (over || !gate.admit(a.message.cost(), 1)) {
    net::message_builder::take_back(std::move(a.message));
    return over ? because(errc::session_closed, "the session is over") : detail::send_buffer_full(gate);
  }
  auto* t = new told{*at, std::move(guard), std::move(a)};
  if (at->home().hand_over(*t))
    return {};
  t->refuse();
  return shut_down;
}

} // namespace weir
