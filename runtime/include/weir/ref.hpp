#pragma once
#include <memory>
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

class ref_base {
public:
  ref_base() = default;
  explicit ref_base(std::shared_ptr<session_guard> s) : session_(std::move(s)) {}
  /// The session as an actor: `monitor`, `watch` and `link` work on it; it ends with the conversation.
  const caf::actor& handle() const { return session_->handle(); }
  explicit operator bool() const { return session_ != nullptr; }
  const std::shared_ptr<session_guard>& guard() const { return session_; }

private:
  std::shared_ptr<session_guard> session_;
};

} // namespace detail

/// A service, here or elsewhere, with its type: an interface (to call) or a struct (to stream to). A value;
/// copies share one session, which is closed when the last of them goes. Any thread.
template <class T>
class ref : public detail::ref_base {
public:
  using detail::ref_base::ref_base;
};

} // namespace weir
