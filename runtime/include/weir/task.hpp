#pragma once
// Handlers that wait: coroutines that run on their actor.

#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <weir/actor.hpp>
#include <weir/service.hpp>
#include <weir/stream.hpp>

namespace weir {

namespace detail {

/// What an actor knows of one of its coroutines. In its frame.
class task_frame {
public:
  /// `owner`: nullptr for the actor that runs. Throws std::logic_error when none does.
  task_frame(actor* owner, std::coroutine_handle<> h);
  ~task_frame();
  task_frame(const task_frame&) = delete;
  task_frame& operator=(const task_frame&) = delete;

  actor& owner() const { return *owner_; }
  std::coroutine_handle<> handle() const { return handle_; }

protected:
  /// The coroutine answers this request.
  void answers(std::shared_ptr<call_context> c) { request_ = std::move(c); }
  /// The coroutine answers a request with these rows.
  void streams(std::shared_ptr<outlet_core> o) { rows_ = std::move(o); }
  /// An exception has left the coroutine: whom it answers is told, else its actor.
  void failed();

private:
  actor* owner_;
  std::coroutine_handle<> handle_;
  std::shared_ptr<call_context> request_;
  std::shared_ptr<outlet_core> rows_;
  task_frame *next_ = nullptr, **at_ = nullptr; // in the actor's list
};

template <class T>
struct is_request : std::false_type {};
template <class M>
struct is_request<request<M>> : std::true_type {};
template <class T>
struct is_outlet : std::false_type {};
template <class T>
struct is_outlet<outlet<T>> : std::true_type {};

} // namespace detail

/// A coroutine of a `weir::actor`: a handler that is given a `weir::request` or an outlet of
/// rows, or any function of an actor
/// that is called and not waited for. It starts at once, runs on its actor only, between the actor's other
/// messages, and what it waits for never blocks anybody.
///
/// It belongs to the first of its arguments that is an actor (for a member function: that object), else to
/// the actor whose handler calls it. When that actor ends a coroutine that waits is destroyed, with all it
/// holds: an unanswered request fails at its caller. An exception that leaves it answers its request as one
/// that leaves a handler does (after the answer it tells nobody), and aborts the outlet that it was given;
/// without either it goes to `actor::on_task_failed`.
///
/// Arguments by value: references must outlive the coroutine. So must a lambda with captures: one that is
/// given to `on<>` is kept by its service, others are best written without captures.
class [[maybe_unused]] task {
public:
  class promise_type : public detail::task_frame {
  public:
    template <class... Args>
    explicit promise_type(Args&&... args)
        : task_frame(owner_in(args...), std::coroutine_handle<promise_type>::from_promise(*this)) {
      (note(args), ...);
    }
    task get_return_object() const { return {}; }
    std::suspend_never initial_suspend() const { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const {}
    void unhandled_exception() { failed(); }

  private:
    static actor* owner_in() { return nullptr; }
    template <class First, class... More>
    static actor* owner_in(First& first, More&... more) {
      if constexpr (std::is_convertible_v<First*, actor*>)
        return &first;
      else if constexpr (std::is_convertible_v<First, actor*>)
        return first;
      else
        return owner_in(more...);
    }
    template <class Arg>
    void note(Arg& arg) {
      if constexpr (detail::is_request<std::remove_cv_t<Arg>>::value)
        answers(arg.context());
      if constexpr (detail::is_outlet<std::remove_cv_t<Arg>>::value)
        streams(arg.core());
    }
  };
};

/// How a call ended: with its results, which it owns (their credit returns when it dies), or with a failure.
/// Move-only.
template <class Method>
class answer {
public:
  answer(answer&&) noexcept = default;
  answer& operator=(answer&&) noexcept = default;

  explicit operator bool() const { return static_cast<bool>(message_); }
  /// The results; valid as long as this lives. Precondition: it is true.
  const typename Method::result& get() const { return results_; }
  const typename Method::result& operator*() const { return results_; }
  const typename Method::result* operator->() const { return &results_; }
  /// Why there are none; code none: there are.
  const failure& error() const { return why_; }

private:
  template <class>
  friend class call_awaiter;
  answer() = default;

  detail::kept_message message_;
  typename Method::result results_;
  failure why_;
};

/// What `co_await` of a call waits with.
template <class Method>
class call_awaiter final : public detail::reply_waiter {
public:
  explicit call_awaiter(pending_call<Method>& c) : self_(&c.self()), token_(c.release()) {}
  call_awaiter(const call_awaiter&) = delete;
  call_awaiter& operator=(const call_awaiter&) = delete;
  ~call_awaiter() {
    if (!done_)
      self_->wait_for(token_, nullptr);
  }

  bool await_ready() { return self_->take_reply(token_, *this); }
  void await_suspend(std::coroutine_handle<task::promise_type> h) {
    who_ = h;
    self_->wait_for(token_, this);
  }
  answer<Method> await_resume() { return std::move(answer_); }

  void take(detail::kept_message m) override {
    done_ = true;
    answer_.results_ = m.body().template getAs<typename Method::results>();
    answer_.message_ = std::move(m);
  }
  void take(failure why) override {
    done_ = true;
    answer_.why_ = std::move(why);
  }
  void resume() override { who_.resume(); }

private:
  actor* self_;
  uint64_t token_;
  std::coroutine_handle<> who_;
  answer<Method> answer_;
  bool done_ = false;
};

/// `auto r = co_await call<add>(calc, fill);` gives an `answer<add>`. Several calls can be under way at once:
/// keep each `pending_call`, then wait for one after the other.
template <class Method>
call_awaiter<Method> operator co_await(pending_call<Method>&& c) {
  return call_awaiter<Method>{c};
}
template <class Method>
call_awaiter<Method> operator co_await(pending_call<Method>& c) {
  return call_awaiter<Method>{c};
}

/// What `co_await sleep_for(...)` waits with.
class sleep_awaiter {
public:
  explicit sleep_awaiter(std::chrono::nanoseconds d) : duration_(d) {}
  sleep_awaiter(const sleep_awaiter&) = delete;
  sleep_awaiter& operator=(const sleep_awaiter&) = delete;
  ~sleep_awaiter();

  bool await_ready() const { return duration_.count() <= 0; }
  void await_suspend(std::coroutine_handle<task::promise_type> h);
  void await_resume() const {}

private:
  std::chrono::nanoseconds duration_;
  actor* self_ = nullptr;
  uint64_t id_ = 0;
};

/// `co_await weir::sleep_for(10ms);` by the clock of the actor's loop, or CAF's for an actor of CAF's
/// scheduler.
template <class Rep, class Period>
sleep_awaiter sleep_for(std::chrono::duration<Rep, Period> d) {
  return sleep_awaiter{std::chrono::duration_cast<std::chrono::nanoseconds>(d)};
}

/// What `co_await` of an outlet's credit or end waits with.
class outlet_awaiter : public detail::outlet_waiter {
public:
  outlet_awaiter(detail::outlet_core& o, wish w) : outlet_waiter(w) { on = &o; }
  outlet_awaiter(const outlet_awaiter&) = delete;
  outlet_awaiter& operator=(const outlet_awaiter&) = delete;
  ~outlet_awaiter() {
    if (on && on->waiter == this)
      on->waiter = nullptr;
  }

  bool await_ready() { return on->ask(*this); }
  void await_suspend(std::coroutine_handle<task::promise_type> h) {
    who_ = h;
    on->waiter = this;
  }
  void resume() override { who_.resume(); }

private:
  std::coroutine_handle<> who_;
};

class credit_awaiter final : public outlet_awaiter {
public:
  explicit credit_awaiter(detail::outlet_core& o) : outlet_awaiter(o, wish::credit) {}
  bool await_resume() const { return why.code == errc::none; }
};

class end_awaiter final : public outlet_awaiter {
public:
  explicit end_awaiter(detail::outlet_core& o) : outlet_awaiter(o, wish::end) {}
  result<uint64_t> await_resume() {
    if (why.code != errc::none)
      return std::move(why);
    return consumed;
  }
};

/// `while (!out.offer(fill)) if (!co_await credit(out)) co_return;`: waits until it is worth offering again.
/// False: the stream is over. The outlet must outlive the wait.
template <class T>
credit_awaiter credit(outlet<T>& out) {
  return credit_awaiter{*out.core()};
}

/// `auto consumed = co_await out.close();`: the messages that the sink has consumed, or why the stream was
/// lost. The outlet must outlive the wait.
inline end_awaiter operator co_await(closing_outlet c) { return end_awaiter{c.core()}; }

} // namespace weir
