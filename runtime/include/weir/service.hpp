#pragma once
#include <functional>
#include <future>
#include <initializer_list>
#include <vector>

#include <weir/actor.hpp>
#include <weir/stream.hpp>

namespace weir {

class task;

namespace detail {

class service_core;

/// The type of the only parameter of a lambda or another object with one plain operator(); void when it
/// cannot be told.
template <class F>
struct parameter {
  using type = void;
};
template <class R, class C, class A>
struct parameter<R (C::*)(A)> {
  using type = A;
};
template <class R, class C, class A>
struct parameter<R (C::*)(A) const> {
  using type = A;
};
template <class F>
constexpr bool takes_reference() {
  if constexpr (requires { &F::operator(); })
    return std::is_reference_v<typename parameter<decltype(&F::operator())>::type>;
  else
    return false;
}

/// One request while its handler runs, or for as long as a `request` keeps it.
class call_context {
public:
  struct parts;
  explicit call_context(std::unique_ptr<parts> p);
  call_context(call_context&&) noexcept;
  call_context& operator=(call_context&&) noexcept;
  ~call_context();

  capnp::AnyPointer::Reader params() const;
  void reply(uint64_t result_type, const std::function<void(capnp::AnyPointer::Builder)>& fill);
  void fail(failure why);
  bool answered() const;
  bool cancelled() const;
  std::chrono::milliseconds time_left() const;

private:
  std::unique_ptr<parts> parts_;
};

/// What the service offers a handler for the request at hand.
class current_call {
public:
  virtual capnp::AnyPointer::Reader params() = 0;
  /// Where the results are built; once.
  virtual capnp::AnyPointer::Builder results(uint64_t type) = 0;
  /// Moves the request out of its session's charge; empty when the service's allowance is full.
  virtual std::unique_ptr<call_context> keep() = 0;
  /// Where rows go that answer the request, which it keeps in the charge of its own session; empty when the
  /// caller has not asked for rows.
  virtual std::shared_ptr<outlet_core> rows() = 0;

protected:
  ~current_call() = default;
};

/// Aborts with what the exception that is being handled says.
void abort_by_exception(outlet_core& rows);

struct handler {
  method_id method;
  uint64_t params_type = 0;
  std::function<void(current_call&)> run;
};

} // namespace detail

/// A request that is answered later: it owns its message, which is charged to the service's `held` allowance,
/// not to its session. Answer it once, on the service; one that dies unanswered fails at its caller.
/// Move-only.
template <class Method>
class request {
public:
  explicit request(detail::call_context c) : context_(std::make_shared<detail::call_context>(std::move(c))) {}

  /// Valid as long as this lives.
  typename Method::in params() const { return context_->params().template getAs<typename Method::params>(); }
  /// `fill(Method::out)` builds the results.
  template <class Fill>
  void reply(Fill fill) {
    context_->reply(detail::type_id<typename Method::results>(),
                    [&](capnp::AnyPointer::Builder b) { fill(b.initAs<typename Method::results>()); });
  }
  void fail(failure why) { context_->fail(std::move(why)); }
  bool answered() const { return context_->answered(); }
  /// The caller has given it up (cancel, deadline): work on it is in vain, an answer is dropped.
  bool cancelled() const { return context_->cancelled(); }
  /// Until the caller's deadline.
  std::chrono::milliseconds time_left() const { return context_->time_left(); }

  // ---- for weir
  const std::shared_ptr<detail::call_context>& context() const { return context_; }

private:
  std::shared_ptr<detail::call_context> context_; // shared so that lambdas that hold one are copyable
};

/// What a service answers to: made of `on<Method>(...)`.
class handlers {
public:
  handlers(std::initializer_list<detail::handler> list) : list_(list) {}
  const std::vector<detail::handler>& list() const { return list_; }

private:
  std::vector<detail::handler> list_;
};

/// What all services have in common; derive from `service<Interface>`.
class service_base : public actor {
public:
  explicit service_base(caf::actor_config& cfg);
  ~service_base() override;
  caf::behavior make_behavior() override;
  /// Ready when the service has started: nothing, or why it cannot serve (a method without a handler,
  /// make_handlers threw, it ended before).
  std::shared_future<failure> started() const { return started_; }
  virtual uint64_t interface() const = 0;

protected:
  /// One handler for every method of the interface. Called once, on the service. When it throws the service
  /// cannot be served, and ends.
  virtual handlers make_handlers() = 0;
  virtual std::vector<std::string> method_names() const = 0;
  bool handle_arrived(void* arrived) override;
  void on_exit() override;

private:
  friend class detail::service_core;
  void say_started(failure why);

  bool start_said_ = false;
  std::promise<failure> start_;
  std::shared_future<failure> started_{start_.get_future().share()};
  std::unique_ptr<detail::service_core> service_;
};

/// A user's service: an event-based actor that answers the calls of `Interface`. A handler that throws
/// answers that call with an error and lives on.
///
///     class calculator : public weir::service<Calculator> {
///     public:
///       using service::service;
///       weir::handlers make_handlers() override {
///         return {on<add>([](add::in in, add::out out) { out.setSum(in.getA() + in.getB()); })};
///       }
///     };
template <class Interface>
class service : public service_base {
public:
  using service_base::service_base;
  uint64_t interface() const final { return detail::type_id<Interface>(); }

protected:
  /// `f(Method::in, Method::out)` answers at once; `f(weir::request<Method>)` answers later, and may be a
  /// coroutine: a lambda that returns `weir::task` (task.hpp). `f` is kept for as long as this service lives,
  /// so what it captures may be used in the whole of the coroutine.
  template <class Method, class F>
  static detail::handler on(F f) {
    static_assert(std::is_same_v<typename Method::interface, Interface>, "a method of another interface");
    detail::handler h{Method::id(), detail::type_id<typename Method::params>(), {}};
    if constexpr (std::is_invocable_v<F, weir::request<Method>>) {
      static_assert(!std::is_same_v<std::invoke_result_t<F, weir::request<Method>>, task> ||
                        !detail::takes_reference<F>(),
                    "a coroutine takes its weir::request by value");
      h.run = [f = std::move(f)](detail::current_call& c) mutable {
        if (auto kept = c.keep())
          f(weir::request<Method>{std::move(*kept)});
      };
    } else {
      h.run = [f = std::move(f)](detail::current_call& c) mutable {
        auto in = c.params().template getAs<typename Method::params>();
        f(in,
          c.results(detail::type_id<typename Method::results>()).template initAs<typename Method::results>());
      };
    }
    return h;
  }
  /// `f(Method::in query, weir::outlet<Method::results> rows)` answers with a stream: callers use
  /// `actor::open_stream`. `query` is valid as long as `rows` lives. What `f` throws ends the stream with an
  /// error, whenever it does so if `f` is a coroutine (task.hpp).
  template <class Method, class F>
  static detail::handler on_stream(F f) {
    static_assert(std::is_same_v<typename Method::interface, Interface>, "a method of another interface");
    static_assert(std::is_invocable_v<F, typename Method::in, outlet<typename Method::results>>,
                  "the handler takes (Method::in query, weir::outlet<Method::results> rows)");
    detail::handler h{Method::id(), detail::type_id<typename Method::params>(), {}};
    h.run = [f = std::move(f)](detail::current_call& c) mutable {
      auto rows = c.rows();
      if (!rows)
        return;
      try {
        f(rows->query().getAs<typename Method::params>(), outlet<typename Method::results>{rows});
      } catch (...) {
        detail::abort_by_exception(*rows);
        throw;
      }
      c.results(0); // the answer that says: the stream has begun
    };
    return h;
  }
  std::vector<std::string> method_names() const final {
    std::vector<std::string> names;
    for (auto m : capnp::Schema::from<Interface>().getMethods())
      names.emplace_back(m.getProto().getName().cStr());
    return names;
  }
};

} // namespace weir
