#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include <capnp/any.h>

#include <weir/errc.hpp>

namespace weir::detail {

/// The scalars that travel in front of a body.
struct heading {
  uint64_t interface = 0;
  uint64_t type = 0;
  uint64_t trace = 0;
  uint16_t method = 0;
  uint32_t reply_room_bytes = 0;
};

/// A message being built in the memory it will be sent from. On the stack of one function; one at a time per
/// thread.
class message_out {
public:
  /// `expected_bytes`: a guess that keeps the message in one piece.
  message_out(const heading& h, size_t expected_bytes);
  ~message_out();
  message_out(const message_out&) = delete;
  message_out& operator=(const message_out&) = delete;

  capnp::AnyPointer::Builder body();

  struct parts;
  parts& get() { return *reinterpret_cast<parts*>(space_); }

private:
  alignas(16) std::byte space_[512];
};

/// Reads a received message in place. On the stack of one function, no longer than the message lives.
class message_in {
public:
  /// `words`: a message that was checked when it arrived.
  message_in(const uint64_t* words, uint32_t count);
  ~message_in();
  message_in(const message_in&) = delete;
  message_in& operator=(const message_in&) = delete;

  /// Throws kj::Exception when the message is not what it should be.
  const heading& head() const { return head_; }
  capnp::AnyPointer::Reader body();

private:
  heading head_;
  struct parts;
  alignas(16) std::byte space_[384];
};

/// Owns a received message; its credit returns when this dies.
class kept_message {
public:
  struct parts;
  kept_message();
  explicit kept_message(std::unique_ptr<parts> p);
  kept_message(kept_message&&) noexcept;
  kept_message& operator=(kept_message&&) noexcept;
  ~kept_message();
  explicit operator bool() const { return parts_ != nullptr; }
  capnp::AnyPointer::Reader body() const;

private:
  std::unique_ptr<parts> parts_;
};

} // namespace weir::detail

namespace weir {

/// A message that is kept. By `hold()`: it was moved out of its session's charge into its service's `held`
/// allowance and may be kept for as long as the service likes without starving the session. By `lease()`: it
/// stays in its session's charge, and the producer waits for it once the ration is used up. Move-only; what
/// it is charged to is freed when it dies. Any one thread at a time.
template <class T>
class held {
public:
  held() = default;
  explicit held(detail::kept_message m) : message_(std::move(m)) {}
  explicit operator bool() const { return static_cast<bool>(message_); }
  /// Valid as long as this lives.
  typename T::Reader get() const { return message_.body().getAs<T>(); }

private:
  detail::kept_message message_;
};

} // namespace weir
