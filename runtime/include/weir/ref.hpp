#pragma once
#include <memory>
#include <mutex>
#include <string>

#include <caf/actor.hpp>
#include <capnp/schema.h>

#include <weir/caf.hpp>

namespace weir::actors {
class session;
}

namespace weir {

namespace detail {

/// Closes the session when the last `ref` to it has gone.
class session_guard {
public:
  session_guard(caf::actor handle, actors::session* raw) : handle_(std::move(handle)), raw_(raw) {}
  ~session_guard();
  session_guard(const session_guard&) = delete;
  session_guard& operator=(const session_guard&) = delete;
  const caf::actor& handle() const { return handle_; }
  actors::session* raw() const { return raw_; }

private:
  caf::actor handle_;
  actors::session* raw_;
};

std::shared_ptr<session_guard> guard_of(caf::actor session);

/// The session that all copies of a ref use; the next one to the same service when it is over. Any thread.
class session_source {
public:
  explicit session_source(std::shared_ptr<session_guard> first) : current_(std::move(first)) {}
  std::shared_ptr<session_guard> now();

private:
  std::mutex mutex_;
  std::shared_ptr<session_guard> current_;
};

class ref_base {
public:
  ref_base() = default;
  explicit ref_base(std::shared_ptr<session_guard> s)
      : source_(std::make_shared<session_source>(std::move(s))) {}
  /// The session of this moment as an actor: `monitor`, `watch` and `link` work on it; it ends with the
  /// conversation. The next use of the ref opens another.
  caf::actor handle() const { return source_->now()->handle(); }
  explicit operator bool() const { return source_ != nullptr; }
  /// The session to use now; keep it for as long as it is used.
  std::shared_ptr<session_guard> guard() const { return source_->now(); }

private:
  std::shared_ptr<session_source> source_;
};

} // namespace detail

/// A service, here or elsewhere, with its type: an interface (to call) or a struct (to stream to). A value;
/// copies share one session, which is closed when the last of them goes. When it is lost (the link, the
/// service), what was under way fails, and the next call opens another: a ref is never dead. Any thread.
template <class T>
class ref : public detail::ref_base {
public:
  using detail::ref_base::ref_base;
};

} // namespace weir
