#pragma once
// Installed as <weir/caf.hpp>. The only file that knows CAF versions: 0.17 (Debian 12) and 1.x compile from
// one source tree.

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <caf/config.hpp>

// CAF_VERSION cannot be used: it is an octal literal in the releases 1.0.0 to 1.1.0.
#define WEIR_CAF_1X (CAF_MAJOR_VERSION >= 1)
#if !WEIR_CAF_1X && CAF_MINOR_VERSION != 17
#error "weir supports CAF 0.17.x and CAF 1.x"
#endif

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/init_global_meta_objects.hpp>
#include <caf/resumable.hpp>
#include <caf/sec.hpp>
#include <caf/type_id.hpp>
#if WEIR_CAF_1X
#include <caf/logger.hpp>
#include <caf/scheduler.hpp>
#else
#include <caf/allowed_unsafe_message_type.hpp>
#endif

namespace weir {

// ---- configuration

/// CAF's own option `key` ("scheduler.max-threads") as this version spells it.
inline std::string caf_key(std::string_view key) {
#if WEIR_CAF_1X
  return std::string{"caf."} + std::string{key};
#else
  return std::string{key};
#endif
}

/// `scheduler.policy`: "sharing" or "stealing".
inline void set_caf_policy(caf::actor_system_config& cfg, std::string_view policy) {
#if WEIR_CAF_1X
  cfg.set("caf.scheduler.policy", std::string{policy});
#else
  cfg.set("scheduler.policy", policy == "sharing" ? caf::atom("sharing") : caf::atom("stealing"));
#endif
}

/// Must run before the first actor_system_config is made. `Blocks`: the user's own id blocks.
template <class... Blocks>
void init_caf_types() {
#if WEIR_CAF_1X
  (caf::init_global_meta_objects<Blocks>(), ...);
  caf::core::init_global_meta_objects();
#endif
}

// ---- execution contexts and mailboxes

#if WEIR_CAF_1X
using caf_context = caf::scheduler;
using enqueue_result = bool;
#else
using caf_context = caf::execution_unit;
using enqueue_result = void;
#endif

template <class... Ts>
caf::mailbox_element_ptr make_element(caf::strong_actor_ptr sender, caf::message_id id, Ts&&... xs) {
#if WEIR_CAF_1X
  return caf::make_mailbox_element(std::move(sender), id, std::forward<Ts>(xs)...);
#else
  return caf::make_mailbox_element(std::move(sender), id, {}, std::forward<Ts>(xs)...);
#endif
}

/// What this thread sends with: on a loop's thread its guest context, else nothing.
inline caf_context*& sending_context() {
  thread_local caf_context* with = nullptr;
  return with;
}

/// Sends. A pinned actor knows its loop, any other goes to CAF's scheduler. Any thread.
template <class T>
void put(const caf::strong_actor_ptr& to, caf::strong_actor_ptr from, T&& x) {
  if (to)
    to->enqueue(make_element(std::move(from), caf::make_message_id(), std::forward<T>(x)), sending_context());
}

template <class T>
void put(const caf::actor& to, caf::strong_actor_ptr from, T&& x) {
  put(caf::actor_cast<caf::strong_actor_ptr>(to), std::move(from), std::forward<T>(x));
}

/// The same at a later time, by CAF's clock.
template <class T>
void put_at(caf::actor_system& sys, std::chrono::steady_clock::time_point when, caf::strong_actor_ptr to,
            T&& x) {
  sys.clock().schedule_message(when, std::move(to),
                               make_element(nullptr, caf::make_message_id(), std::forward<T>(x)));
}

inline void send_exit(const caf::strong_actor_ptr& to, caf::exit_reason reason) {
  if (to)
    to->enqueue(make_element(nullptr, caf::make_message_id(caf::message_priority::high),
                             caf::exit_msg{caf::actor_cast<caf::actor_addr>(to), caf::make_error(reason)}),
                nullptr);
}
/// Also true of nobody.
inline bool is_terminated(const caf::strong_actor_ptr& a) {
  if (!a)
    return true;
  return caf::actor_cast<caf::abstract_actor*>(a)->getf(caf::abstract_actor::is_terminated_flag);
}

/// What a message holds, as a handler of unmatched messages sees it.
#if WEIR_CAF_1X
using content = caf::message;
#else
using content = caf::type_erased_tuple;
#endif

/// The one value of type T that `c` holds; nullptr when it is anything else.
template <class T>
T* content_as(content& c) {
  if (c.size() != 1 || !c.match_elements<T>())
    return nullptr;
  return &c.get_mutable_as<T>(0);
}

/// The same of what was just enqueued.
inline content& content_of(caf::mailbox_element& x) { return x.content(); }

/// What an `enqueue` returns that has dealt with a message itself.
inline enqueue_result enqueued() {
#if WEIR_CAF_1X
  return true;
#endif
}

/// An execution context that hands every actor on to somebody else.
class context_base : public caf_context {
public:
#if WEIR_CAF_1X
  explicit context_base(caf::actor_system&) {}
  void schedule(caf::resumable* r, uint64_t) { ready(r); }
  void schedule(caf::resumable* r) { ready(r); }
  void delay(caf::resumable* r, uint64_t) { ready(r); }
  void delay(caf::resumable* r) { ready(r); }
  void start() override {}
  void stop() override {}
#else
  explicit context_base(caf::actor_system& sys) : caf::execution_unit(&sys) {}
  void exec_later(caf::resumable* r) final { ready(r); }
#endif

protected:
  /// Takes over one reference of `r`. Any thread.
  virtual void ready(caf::resumable* r) = 0;
};

/// Runs `r` for at most `n` messages. True: it wants to go on; else its reference is released.
inline bool run_resumable(caf::resumable* r, caf_context* ctx, size_t n) {
  if (r->resume(ctx, n) == caf::resumable::resume_later)
    return true;
#if WEIR_CAF_1X
  r->deref_resumable();
#else
  caf::intrusive_ptr_release(r);
#endif
  return false;
}
inline void drop_resumable(caf::resumable* r) {
#if WEIR_CAF_1X
  r->deref_resumable();
#else
  caf::intrusive_ptr_release(r);
#endif
}
inline void to_scheduler(caf::actor_system& sys, caf::resumable* r) {
#if WEIR_CAF_1X
  sys.scheduler().schedule(r);
#else
  sys.scheduler().enqueue(r);
#endif
}

/// Several that go to CAF's scheduler as one, so that a worker is woken once and finds all of them.
class bunch final : public caf::resumable, public caf::ref_counted {
public:
  explicit bunch(std::vector<caf::resumable*> all) : all_(std::move(all)) {}
  ~bunch() override {
    for (auto* r : all_)
      drop_resumable(r);
  }
  resume_result resume(caf_context* worker, size_t) override {
    for (auto* r : std::exchange(all_, {}))
#if WEIR_CAF_1X
      worker->delay(r);
#else
      worker->exec_later(r);
#endif
    return done;
  }
#if WEIR_CAF_1X
  void ref_resumable() const noexcept final { ref(); }
  void deref_resumable() const noexcept final { deref(); }
#else
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }
#endif

private:
  std::vector<caf::resumable*> all_;
};

// ---- actors

/// Where the actors that this thread makes now will live; see `pinnable`.
class pin_scope {
public:
  explicit pin_scope(caf_context* where) : before_(std::exchange(current(), where)) {}
  ~pin_scope() { current() = before_; }
  pin_scope(const pin_scope&) = delete;
  pin_scope& operator=(const pin_scope&) = delete;

private:
  friend class pinnable;
  static caf_context*& current() {
    thread_local caf_context* where = nullptr;
    return where;
  }
  caf_context* before_;
};

/// An event-based actor that lives on a loop for its whole life when it was made inside a `pin_scope`, else
/// on CAF's scheduler. It hands its loop to CAF wherever CAF would take the caller's context, so it is
/// started, enqueued and resumed on that loop only.
class pinnable : public caf::event_based_actor {
public:
  explicit pinnable(caf::actor_config& cfg)
      : caf::event_based_actor(cfg), loop_(std::exchange(pin_scope::current(), nullptr)) {}

  enqueue_result enqueue(caf::mailbox_element_ptr x, caf_context* ctx) override {
    return caf::event_based_actor::enqueue(std::move(x), loop_ ? loop_ : ctx);
  }
  void launch(caf_context* ctx, bool lazy, bool hide) override {
    caf::event_based_actor::launch(loop_ ? loop_ : ctx, lazy, hide);
  }
  /// The loop's context, or nullptr on CAF's scheduler.
  caf_context* pinned_to() const { return loop_; }

  /// Calls `f(reason)` on this actor when `who` has ended. Once per call.
  template <class F>
  void watch(const caf::actor& who, F f) {
#if WEIR_CAF_1X
    static_cast<void>(this->monitor(who, [f = std::move(f)](const caf::error& e) mutable { f(e); }));
#else
    if (watched_.empty())
      this->set_down_handler([this](caf::down_msg& m) {
        auto [first, last] = watched_.equal_range(m.source);
        std::vector<std::function<void(const caf::error&)>> due;
        for (auto i = first; i != last; ++i)
          due.push_back(std::move(i->second));
        watched_.erase(first, last);
        for (auto& call : due)
          call(m.reason);
      });
    bool known = watched_.count(who.address()) > 0;
    watched_.emplace(who.address(), std::move(f));
    if (!known)
      this->monitor(who);
#endif
  }

protected:
  /// `f(content&)` gets what the behaviour does not match, whatever the behaviour is.
  template <class F>
  void handle_unmatched(F f) {
    CAF_PUSH_DEPRECATED_WARNING
#if WEIR_CAF_1X
    this->set_default_handler([f = std::move(f)](caf::message& m) mutable -> caf::skippable_result {
      f(m);
      return caf::message{};
    });
#else
    this->set_default_handler(
        [f = std::move(f)](caf::scheduled_actor*, caf::message_view& v) mutable -> caf::result<caf::message> {
          f(v.content());
          return caf::message{};
        });
#endif
    CAF_POP_WARNINGS
  }
  void ignore_unexpected() {
    CAF_PUSH_DEPRECATED_WARNING
    this->set_default_handler(caf::drop);
    CAF_POP_WARNINGS
  }

private:
  caf_context* loop_;
#if !WEIR_CAF_1X
  std::multimap<caf::actor_addr, std::function<void(const caf::error&)>> watched_;
#endif
};

} // namespace weir

/// A type that actors of one process send each other and that never leaves it. At global scope, once per
/// type. On CAF 1.x it also needs an id: see WEIR's own block in actors/messages.hpp.
#define WEIR_LOCAL_MESSAGE(T) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(T)
