#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <weir/errc.hpp>
#include <weir/message.hpp>
#include <weir/method.hpp>
#include <weir/ref.hpp>

namespace weir {

namespace detail {
void init_own_types();
}

/// Must run once, before the first actor_system_config is made: CAF 1.x wants to know all message types by
/// then (0.17 does not mind). `Blocks`: the id blocks of your own. `WEIR_MAIN` does it; a `weir::config` does
/// it for weir's own types.
template <class... Blocks>
void init_types() {
  detail::init_own_types();
  init_caf_types<Blocks...>();
}

/// Who goes first on a link. Order holds within one lane of one session.
enum class lane : uint8_t {
  normal = 1,
  bulk = 2,   ///< gives way to the others, down to 5 % of the link
  urgent = 0, ///< before everything but control
};

struct call_options {
  /// From now; travels with the call, and a call that has not begun by then is not run. 0: the node's
  /// `call-timeout` (30 s).
  std::chrono::milliseconds timeout{0};
  weir::lane lane = weir::lane::normal;
  /// Bytes paid for the reply before the call leaves; 0: the node's `reply-room`. A larger reply costs a
  /// round trip to be funded.
  uint32_t reply_room_bytes = 0;
  /// Handed on untouched.
  uint64_t trace = 0;
  /// Running it twice does no harm: a call that fails because its link, session or service is gone or has no
  /// room is made again, with full jitter from 10 ms to 1 s, until its deadline, also when the first one may
  /// have run. Keeps a copy of the parameters until it has ended.
  bool idempotent = false;
};

/// So many one-way messages to `session` were lost: not queued, because more than `send-buffer` waited there
/// already, or queued when the session ended.
struct undelivered {
  caf::actor_id session = 0;
  uint64_t count = 0;
};

class actor;
template <class Method>
class rows;

namespace detail {

class actor_core;
class outlet_core;

class reply_handler {
public:
  virtual ~reply_handler() = default;
  virtual void on_reply(capnp::AnyPointer::Reader results) = 0;
  virtual void on_failure(const failure& why) = 0;
};

template <class Results, class Ok, class Bad>
class typed_reply_handler final : public reply_handler {
public:
  typed_reply_handler(Ok ok, Bad bad) : ok_(std::move(ok)), bad_(std::move(bad)) {}
  void on_reply(capnp::AnyPointer::Reader results) override { ok_(results.getAs<Results>()); }
  void on_failure(const failure& why) override { bad_(why); }

private:
  Ok ok_;
  Bad bad_;
};

/// A coroutine that waits for the answer to a call; it lives in the frame of that coroutine.
class reply_waiter {
public:
  /// The results, which it owns from now on. Throws kj::Exception when they are not what they should be.
  virtual void take(kept_message m) = 0;
  virtual void take(failure why) = 0;
  virtual void resume() = 0;

protected:
  ~reply_waiter() = default;
};

} // namespace detail

/// A call under way. `then` says what happens next, or `co_await` waits for it (task.hpp). While this lives
/// an answer that has come is kept for them; when it dies before, the outcome is dropped. Move-only; used on
/// its actor.
template <class Method>
class pending_call {
public:
  pending_call(actor& self, uint64_t token) : self_(&self), token_(token) {}
  pending_call(pending_call&& other) noexcept : self_(other.self_), token_(std::exchange(other.token_, 0)) {}
  pending_call& operator=(pending_call&& other) noexcept {
    std::swap(self_, other.self_);
    std::swap(token_, other.token_);
    return *this;
  }
  ~pending_call();

  /// Calls `ok(Method::result)` or `bad(const weir::failure&)`, exactly one of them, once, on this actor. The
  /// result is valid during the call. Returns what `actor::cancel` takes.
  template <class Ok, class Bad>
  uint64_t then(Ok ok, Bad bad);
  template <class Ok>
  uint64_t then(Ok ok) {
    return then(std::move(ok), [](const failure&) {});
  }
  /// What `actor::cancel` takes; 0 after `then`.
  uint64_t id() const { return token_; }

  // ---- for weir
  actor& self() const { return *self_; }
  uint64_t release() { return std::exchange(token_, 0); }

private:
  actor* self_;
  uint64_t token_;
};

/// The base of every actor that talks through weir: an event-based CAF actor. `node.spawn<T>(...)` puts it on
/// a loop (short handlers), `sys.spawn<T>(...)` on CAF's scheduler (handlers that compute). Its own messages
/// go into `make_behavior` as with any CAF actor.
class actor : public pinnable {
public:
  explicit actor(caf::actor_config& cfg);
  ~actor() override;

  /// Ready for weir's messages only; override it for your own.
  caf::behavior make_behavior() override;

  /// Calls a method: `fill(Method::args)` builds the parameters in place. Never blocks. What cannot be sent
  /// fails with an outcome that says so: `not_executed` is safe to retry.
  template <class Method, class Fill>
  pending_call<Method> call(const ref<typename Method::interface>& to, const call_options& o, Fill fill) {
    const auto& id = Method::id();
    detail::message_out m{
        {id.interface, detail::type_id<typename Method::params>(), o.trace, id.method, o.reply_room_bytes},
        expected_bytes()};
    fill(m.body().template initAs<typename Method::params>());
    return {*this, start_call(to, o, m, detail::type_id<typename Method::results>())};
  }
  template <class Method, class Fill>
  pending_call<Method> call(const ref<typename Method::interface>& to, Fill fill) {
    return call<Method>(to, call_options{}, std::move(fill));
  }
  /// Asks a method that is served by `on_stream` for a stream of its results; see rows.hpp, which this needs.
  /// The time-out is that of the opening: for the stream itself there is none. What cannot be opened ends
  /// with a reason.
  template <class Method, class Fill>
  rows<Method> open_stream(const ref<typename Method::interface>& to, const call_options& o, Fill fill);

  /// Gives a call up, here and at its service; its `bad` gets `cancelled`.
  void cancel(uint64_t call);

  /// One way: the method runs, its results are dropped. False: more than `send-buffer` waits there; nothing
  /// was queued, and `on_undelivered` will say how often that happened.
  template <class Method, class Fill>
  bool tell(const ref<typename Method::interface>& to, Fill fill, weir::lane lane = weir::lane::normal) {
    const auto& id = Method::id();
    detail::message_out m{{id.interface, detail::type_id<typename Method::params>(), 0, id.method, 0},
                          expected_bytes()};
    fill(m.body().template initAs<typename Method::params>());
    return start_tell(to, m, lane);
  }
  /// At most one per session is on its way at any time; `count` says how many messages it stands for.
  virtual void on_undelivered(const undelivered& u) { static_cast<void>(u); }
  /// An exception has left a `weir::task` that answers no request: as one that leaves any other handler of a
  /// CAF actor it ends this actor, unless this is overridden.
  virtual void on_task_failed(const failure& why);

  // ---- for weir
  detail::actor_core& core() { return *core_; }
  void expect(uint64_t token, std::unique_ptr<detail::reply_handler> h);
  void forget(uint64_t token);
  bool take_reply(uint64_t token, detail::reply_waiter& w);
  void wait_for(uint64_t token, detail::reply_waiter* w);

protected:
  resume_result resume(caf_context* ctx, size_t max_throughput) override;
  void on_exit() override;
  /// Messages of weir that are for services and sinks. True: it was one.
  virtual bool handle_arrived(void* arrived);
  virtual bool handle_stream_event(void* event);

private:
  size_t expected_bytes() const;
  uint64_t start_call(const detail::ref_base& to, const call_options& o, detail::message_out& m,
                      uint64_t result_type);
  bool start_tell(const detail::ref_base& to, detail::message_out& m, weir::lane lane);

  std::unique_ptr<detail::actor_core> core_;
};

template <class Method>
template <class Ok, class Bad>
uint64_t pending_call<Method>::then(Ok ok, Bad bad) {
  auto token = release();
  self_->expect(token, std::make_unique<detail::typed_reply_handler<typename Method::results, Ok, Bad>>(
                           std::move(ok), std::move(bad)));
  return token;
}

template <class Method>
pending_call<Method>::~pending_call() {
  if (token_ != 0)
    self_->forget(token_);
}

} // namespace weir
