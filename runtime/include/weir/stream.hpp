#pragma once
#include <functional>

#include <weir/actor.hpp>

namespace weir {

namespace detail {

class inlet_core;
class outlet_core;

/// A coroutine that waits for news of an outlet; it lives in the frame of that coroutine.
class outlet_waiter {
public:
  enum class wish : uint8_t { credit, end };
  explicit outlet_waiter(wish w) : what(w) {}
  virtual void resume() = 0;

  const wish what;
  outlet_core* on = nullptr; ///< nullptr once it is gone: then nobody is resumed
  uint64_t consumed = 0;     ///< when it was closed
  failure why;               ///< when it was lost

protected:
  ~outlet_waiter() = default;
};

/// The untyped half of an outlet. Owner: the producing actor.
class outlet_core {
public:
  outlet_core(actor& self, const ref_base& to, weir::lane lane);
  /// Of rows that answer the request `query`, on its session. When it dies without `close` they have failed.
  outlet_core(actor& self, std::shared_ptr<session_guard> session, kept_message query);
  ~outlet_core();
  outlet_core(const outlet_core&) = delete;
  outlet_core& operator=(const outlet_core&) = delete;

  bool may_build();
  void push(message_out& m);
  size_t expected_bytes() const { return expected_bytes_; }
  void close();
  void abort(failure why);
  /// Its actor is over, and so is the stream unless it was closed.
  void abandon();
  /// What `then` of a closed stream waits for; comes at once when the stream was lost before.
  void on_end(std::function<void(uint64_t)> ok, std::function<void(const failure&)> bad);
  /// True: what `w` waits for is there, and it is filled.
  bool ask(outlet_waiter& w);
  void pair_with(const inlet_core& in);
  /// The parameters of the request that the rows answer; valid as long as this lives.
  capnp::AnyPointer::Reader query() const;
  struct parts;
  parts& get() { return *parts_; }

  std::function<void()> on_credit;
  std::function<void(uint64_t)> on_closed;
  std::function<void(const failure&)> on_failed;
  outlet_waiter* waiter = nullptr; // filled and resumed when what it waits for is there

private:
  void enter(actor& self, std::shared_ptr<session_guard> session, weir::lane lane);
  std::unique_ptr<parts> parts_;
  size_t expected_bytes_ = 256;
};

/// The untyped half of an inlet. Owner: the sink.
class inlet_core {
public:
  uint64_t id = 0;
  uint64_t messages = 0;
  void* from = nullptr;  // the account
  void* batch = nullptr; // while a message of it is being handled
  size_t item = 0;
  std::shared_ptr<void> allowance;
  kept_message hold();
  kept_message lease();
  void abort(failure why) const;
};

} // namespace detail

/// The end of a stream, to be confirmed.
class closing_outlet {
public:
  explicit closing_outlet(detail::outlet_core& o) : outlet_(&o) {}
  /// `ok(uint64_t)`: the messages that the sink has consumed, which is all of them. `bad(const failure&)`:
  /// the stream was lost before.
  template <class Ok, class Bad>
  void then(Ok ok, Bad bad) {
    outlet_->on_end(std::move(ok), std::move(bad));
  }
  // ---- for weir
  detail::outlet_core& core() const { return *outlet_; }

private:
  detail::outlet_core* outlet_;
};

template <class T>
class inlet;

/// Where an actor streams messages of type T into: a session of its own, under credit. Owned by the actor it
/// is made for and used on it only. When it goes (or its actor ends) without `close`, the stream is aborted,
/// so that nobody takes a part for the whole. The outlet that a handler of `on_stream` is given streams back
/// to the caller. Move-only.
template <class T>
class outlet {
public:
  outlet(actor* self, const ref<T>& to, weir::lane lane = weir::lane::normal)
      : core_(std::make_shared<detail::outlet_core>(*self, to, lane)) {}
  explicit outlet(std::shared_ptr<detail::outlet_core> c) : core_(std::move(c)) {}
  outlet(outlet&&) noexcept = default;
  outlet& operator=(outlet&&) noexcept = default;

  /// Runs `fill(T::Builder)` and queues the message, when there is ration and room for it. False: nothing was
  /// done; `on_credit` is called when it is worth trying again. A message larger than what is left is taken
  /// all the same, one at a time.
  template <class Fill>
  bool offer(Fill fill) {
    if (!core_->may_build())
      return false;
    detail::message_out m{{0, detail::type_id<T>(), 0, 0, 0}, core_->expected_bytes()};
    fill(m.body().template initAs<T>());
    core_->push(m);
    return true;
  }
  /// The same with a copy of `message`.
  bool offer_copy(typename T::Reader message) {
    if (!core_->may_build())
      return false;
    detail::message_out m{{0, detail::type_id<T>(), 0, 0, 0}, core_->expected_bytes()};
    m.body().template setAs<T>(message);
    core_->push(m);
    return true;
  }
  /// Called on the actor whenever it may offer again after a false, and once when the stream is open.
  void on_credit(std::function<void()> f) { core_->on_credit = std::move(f); }
  /// Called on the actor when the stream is lost.
  void on_failure(std::function<void(const failure&)> f) { core_->on_failed = std::move(f); }
  /// No more is offered; what was is delivered first.
  closing_outlet close() {
    core_->close();
    return closing_outlet{*core_};
  }

  /// Says that what comes on `in` leaves here and nowhere else, and nothing else does (rule R8), as
  /// `weir::relay` does it. Who looks for actors that wait for each other in a circle (`stall-limit`) then
  /// knows that `in` waits for this outlet only, and for no other of the same actor. Changes nothing else.
  template <class In>
  void pair_with(const inlet<In>& in) {
    core_->pair_with(in.core());
  }

  /// Gives the stream up: what is under way is dropped, and the sink's `on_ended` gets `why` (code and text).
  /// What a forwarder does whose own input was lost, so that nobody takes a part for the whole.
  void abort(failure why) { core_->abort(std::move(why)); }

  // ---- for weir
  const std::shared_ptr<detail::outlet_core>& core() const { return core_; }

private:
  std::shared_ptr<detail::outlet_core> core_; // shared with who answers for the handler that was given it
};

/// One incoming stream, as a sink sees it.
template <class T>
class inlet {
public:
  explicit inlet(detail::inlet_core& c) : core_(&c) {}
  /// Names the stream in this process; never used twice while it is open.
  uint64_t id() const { return core_->id; }
  /// Messages handled so far, the present one included.
  uint64_t messages() const { return core_->messages; }
  /// Keeps the message that is being handled. Empty when the sink's `held` allowance is full.
  held<T> hold() { return held<T>{core_->hold()}; }
  /// Keeps the message that is being handled in its stream's charge: the producer gets its credit back when
  /// this dies, not before. Never empty; once per message. What a forwarder does with a message that cannot
  /// go on yet: its producer waits, and nobody else.
  held<T> lease() { return held<T>{core_->lease()}; }
  /// Gives the stream up: its producer's `on_failure` gets `why`, and so does our `on_ended`.
  void abort(failure why) { core_->abort(std::move(why)); }

  // ---- for weir
  const detail::inlet_core& core() const { return *core_; }

private:
  detail::inlet_core* core_;
};

class sink_base : public actor {
public:
  explicit sink_base(caf::actor_config& cfg);
  ~sink_base() override;

protected:
  bool handle_arrived(void* arrived) override;
  bool handle_stream_event(void* event) override;
  virtual uint64_t type() const = 0;
  virtual void opened(detail::inlet_core& from) = 0;
  virtual void message(detail::inlet_core& from, capnp::AnyPointer::Reader body) = 0;
  virtual void finished(detail::inlet_core& from) = 0;
  virtual void ended(detail::inlet_core& from, const failure& why) = 0;

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

/// An actor that streams of T are delivered to, each in order, under credit: a message's share of the ration
/// returns when `on_message` has returned (or when what `hold()` gave dies).
template <class T>
class sink : public sink_base {
public:
  using sink_base::sink_base;
  virtual void on_open(inlet<T> from) { static_cast<void>(from); }
  /// One that throws aborts the stream with `handler_failed`, the sink lives on.
  virtual void on_message(inlet<T> from, typename T::Reader message) = 0;
  /// The producer has closed the stream and every message of it was handled.
  virtual void on_finished(inlet<T> from) { static_cast<void>(from); }
  /// The stream is over; `why.code` is none when it was closed.
  virtual void on_ended(inlet<T> from, const failure& why) {
    static_cast<void>(from), static_cast<void>(why);
  }

protected:
  uint64_t type() const final { return detail::type_id<T>(); }
  void opened(detail::inlet_core& c) final { on_open(inlet<T>{c}); }
  void message(detail::inlet_core& c, capnp::AnyPointer::Reader body) final {
    on_message(inlet<T>{c}, body.getAs<T>());
  }
  void finished(detail::inlet_core& c) final { on_finished(inlet<T>{c}); }
  void ended(detail::inlet_core& c, const failure& why) final { on_ended(inlet<T>{c}, why); }
};

} // namespace weir
