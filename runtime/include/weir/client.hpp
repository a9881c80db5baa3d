#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <kj/exception.h>

#include <weir/actor.hpp>
#include <weir/errc.hpp>
#include <weir/message.hpp>
#include <weir/ref.hpp>

namespace weir {

class node;

namespace detail {

/// How a call of a thread ended: a message, or why there is none.
struct call_end {
  kept_message message;
  failure why;
};

class client_core;

/// The untyped half of a blocking outlet. Owner: the producing thread.
class blocking_outlet_core {
public:
  blocking_outlet_core(client_core& c, const ref_base& to, weir::lane lane);
  ~blocking_outlet_core();
  blocking_outlet_core(const blocking_outlet_core&) = delete;
  blocking_outlet_core& operator=(const blocking_outlet_core&) = delete;

  result<void> wait_for_room(std::chrono::milliseconds timeout);
  result<void> push(message_out& m);
  size_t expected_bytes() const { return expected_bytes_; }
  result<uint64_t> close(std::chrono::milliseconds timeout);
  void abort(failure why);

private:
  class line;
  std::shared_ptr<line> line_;
  failure refused_; ///< why it could not even begin
  std::chrono::milliseconds standard_timeout_{0};
  size_t expected_bytes_ = 256;
};

} // namespace detail

/// What a blocking call brought: the result, or a failure that says whether the handler ran. Owns the memory
/// of the result; its credit returns when this dies. Move-only. Any one thread at a time.
template <class Method>
class reply {
public:
  explicit reply(detail::call_end e) : message_(std::move(e.message)), why_(std::move(e.why)) {
    if (message_)
      open();
  }
  /// True: there is a result.
  explicit operator bool() const { return static_cast<bool>(message_); }
  /// Precondition of both: there is a result. Valid as long as this lives. Reading a field throws
  /// kj::Exception when the peer sent bytes that are not what they say.
  const typename Method::result& operator*() const { return result_; }
  const typename Method::result* operator->() const { return &result_; }
  /// Code none when there is a result.
  const failure& error() const { return why_; }

private:
  void open() {
    try {
      result_ = message_.body().template getAs<typename Method::results>();
    } catch (const kj::Exception& e) {
      why_ = {errc::malformed_message, outcome::done, e.getDescription().cStr()};
      message_ = {};
    }
  }

  detail::kept_message message_;
  failure why_;
  typename Method::result result_;
};

/// The way in for threads outside CAF: the verbs of `weir::actor`, but the calling thread waits. Many threads
/// may share one, and should: what they send at the same time leaves in one write. Every wait has an end: its
/// time-out, or the end of the session or node. Make it on a thread outside CAF; it must not outlive the
/// node, and calls must have returned before it goes.
///
/// A thread that runs a loop of the node (a handler of `node.spawn`) must not wait: its calls fail at once
/// with `not_supported`. Handlers on CAF's scheduler would block one of its threads; actors use
/// `weir::actor::call`.
class client {
public:
  explicit client(node& n);
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// Calls a method and waits for the answer: `fill(Method::args)` builds the parameters in place. Returns at
  /// the deadline (`timeout`, or the node's `call-timeout`) with `deadline_exceeded` at the latest, give or
  /// take the 10 ms in which the loop says whether the call had left; it is given up at its service, too.
  template <class Method, class Fill>
  reply<Method> call(const ref<typename Method::interface>& to, const call_options& o, Fill fill) {
    if (auto why = refusal(to); why.code != errc::none)
      return reply<Method>{{{}, std::move(why)}};
    const auto& id = Method::id();
    detail::message_out m{
        {id.interface, detail::type_id<typename Method::params>(), o.trace, id.method, o.reply_room_bytes},
        expected_bytes()};
    fill(m.body().template initAs<typename Method::params>());
    return reply<Method>{call(to, o, m, detail::type_id<typename Method::results>())};
  }
  template <class Method, class Fill>
  reply<Method> call(const ref<typename Method::interface>& to, Fill fill) {
    return call<Method>(to, call_options{}, std::move(fill));
  }

  /// One way: the method runs, its results are dropped. Never waits, any thread. Errors: `overloaded` (more
  /// than `send-buffer` waits there), `session_closed`, `shutting_down`: nothing was queued.
  template <class Method, class Fill>
  result<void> tell(const ref<typename Method::interface>& to, Fill fill,
                    weir::lane lane = weir::lane::normal) {
    const auto& id = Method::id();
    detail::message_out m{{id.interface, detail::type_id<typename Method::params>(), 0, id.method, 0},
                          expected_bytes()};
    fill(m.body().template initAs<typename Method::params>());
    return tell(to, m, lane);
  }
  /// One-way messages of all threads that were queued and could not be delivered after all.
  uint64_t undelivered() const;

  // ---- for weir
  detail::client_core& core() { return *core_; }

private:
  static size_t expected_bytes();
  failure refusal(const detail::ref_base& to) const;
  detail::call_end call(const detail::ref_base& to, const call_options& o, detail::message_out& m,
                        uint64_t result_type);
  result<void> tell(const detail::ref_base& to, detail::message_out& m, weir::lane lane);

  std::unique_ptr<detail::client_core> core_;
};

/// `weir::outlet` for a thread outside CAF: a stream on a session of its own, under credit. One thread at a
/// time; it must not outlive the client. When it is destroyed without `close`, the stream ends with what was
/// pushed.
template <class T>
class blocking_outlet {
public:
  blocking_outlet(client& c, const ref<T>& to, weir::lane lane = weir::lane::normal)
      : core_(c.core(), to, lane) {}

  /// Waits for ration and room, runs `fill(T::Builder)` and queues the message; it leaves by itself.
  /// `timeout` 0: the node's `call-timeout`. Errors: `deadline_exceeded` (nothing was done, try again),
  /// whatever ended the stream, `session_closed` after `close` or `abort`, `not_supported` on a loop of the
  /// node.
  template <class Fill>
  result<void> push(Fill fill, std::chrono::milliseconds timeout = {}) {
    if (auto ok = core_.wait_for_room(timeout); !ok)
      return ok;
    detail::message_out m{{0, detail::type_id<T>(), 0, 0, 0}, core_.expected_bytes()};
    fill(m.body().template initAs<T>());
    return core_.push(m);
  }
  /// Ends the stream and waits until the sink has handled all of it: how many messages that were. On
  /// `deadline_exceeded` (`unknown`) it still ends, and `close` may be called again to wait for longer.
  result<uint64_t> close(std::chrono::milliseconds timeout = {}) { return core_.close(timeout); }
  /// Gives the stream up: what is under way is dropped, and the sink's `on_ended` gets `why` (code and text).
  /// Does not wait.
  void abort(failure why) { core_.abort(std::move(why)); }

private:
  detail::blocking_outlet_core core_;
};

} // namespace weir
