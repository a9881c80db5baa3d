#pragma once
// Streams that a service sends back: `actor::open_stream` opens one at a method that is served by
// `on_stream`.

#include <functional>
#include <memory>

#include <weir/actor.hpp>

namespace weir {

namespace detail {

/// The untyped half of `rows`. Owner: the actor that has opened the stream.
class rows_core {
public:
  /// Opens the stream: `m` is its request, `type` that of its rows.
  static std::shared_ptr<rows_core> open(actor& self, const ref_base& to, const call_options& o,
                                         message_out& m, uint64_t type);
  struct parts;
  explicit rows_core(std::unique_ptr<parts> p);
  ~rows_core();
  rows_core(const rows_core&) = delete;
  rows_core& operator=(const rows_core&) = delete;

  kept_message lease();
  void cancel(failure why);
  /// Nobody listens any more.
  void abandon();
  bool over() const;
  uint64_t messages() const;
  parts& get() { return *parts_; }

  std::function<void(capnp::AnyPointer::Reader)> on_message;
  std::function<void(const failure&, uint64_t)> on_end;

private:
  std::unique_ptr<parts> parts_;
};

} // namespace detail

/// A stream that a service sends in answer to a request, on a session of its own: its rows come in order and
/// under credit, as much as the ration of this node allows; who does not get on with them stops the producer.
/// Owned by the actor that has opened it and used on it only; when it is destroyed before the end, the stream
/// is cancelled. Move-only.
///
///     rows_ = open_stream<scan>(shop, {.timeout = 1s}, [](scan::args q) { q.setFrom(1); });
///     rows_.on_message([this](scan::result row) { add(row); });
///     rows_.on_end([this](const weir::failure& why, uint64_t rows) { ... });
template <class Method>
class rows {
public:
  rows() = default;
  explicit rows(std::shared_ptr<detail::rows_core> c) : core_(std::move(c)) {}
  rows(rows&&) noexcept = default;
  rows& operator=(rows&& other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~rows() {
    if (core_)
      core_->abandon();
  }

  /// `f(Method::result)`, for each row; valid during the call. The row's credit returns when it has returned.
  template <class F>
  void on_message(F f) {
    core_->on_message = [f = std::move(f)](capnp::AnyPointer::Reader r) mutable {
      f(r.getAs<typename Method::results>());
    };
  }
  /// `f(const failure& why, uint64_t rows)`, once: no more comes. The code of `why` is none when the producer
  /// has closed the stream and all its `rows` were handled; else what came is a part.
  void on_end(std::function<void(const failure& why, uint64_t rows)> f) { core_->on_end = std::move(f); }
  /// Gives the stream up: no row comes any more, the producer's `on_failure` and our `on_end` get
  /// `cancelled`.
  void cancel() { core_->cancel({errc::cancelled, outcome::unknown, "cancelled by the caller"}); }
  /// Keeps the row that is being handled, in its stream's charge: its credit returns when this dies. Once per
  /// row.
  held<typename Method::results> lease() { return held<typename Method::results>{core_->lease()}; }
  /// Rows handled so far, the present one included.
  uint64_t messages() const { return core_->messages(); }
  bool over() const { return core_->over(); }
  explicit operator bool() const { return core_ != nullptr; }

private:
  std::shared_ptr<detail::rows_core> core_;
};

template <class Method, class Fill>
rows<Method> actor::open_stream(const ref<typename Method::interface>& to, const call_options& o, Fill fill) {
  const auto& id = Method::id();
  detail::message_out m{
      {id.interface, detail::type_id<typename Method::params>(), o.trace, id.method, o.reply_room_bytes},
      expected_bytes()};
  fill(m.body().template initAs<typename Method::params>());
  return rows<Method>{detail::rows_core::open(*this, to, o, m, detail::type_id<typename Method::results>())};
}

} // namespace weir
