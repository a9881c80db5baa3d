#include <mutex>

#include <fmt/format.h>

#include "runtime/actor_core.hpp"
#include "runtime/client_desk.hpp"
#include "runtime/message_parts.hpp"
#include "runtime/stream_run.hpp"

namespace weir::detail {

namespace {
constexpr uint32_t producer_bit = 1;
const failure shut_down{errc::shutting_down, outcome::not_executed, "the node was stopped"};

failure too_late(outcome what, std::string_view why, std::chrono::milliseconds timeout) {
  return {errc::deadline_exceeded, what, fmt::format("{} within {} ms", why, timeout.count())};
}
} // namespace

/// What producer and loop share. What is pushed waits in `run_` until the loop comes for it, so a loop that
/// is busy finds long runs and is told once.
class blocking_outlet_core::line final : public stream_line,
                                         public actors::handed_over,
                                         public std::enable_shared_from_this<line> {
public:
  line(desk& at, std::shared_ptr<session_guard> s, net::lane in_lane)
      : at_(at),
        desk_(at.self_ptr()),
        session_(std::move(s)),
        gate_(session_->raw()->entrance()),
        run_(gate_, in_lane) {}

  // ---- the producer
  net::time_point now() const { return at_.home().waiting_clock(); }
  void begin() {
    self_ = shared_from_this();
    call_loop();
  }
  /// Until there is ration and room for a message of about `bytes`, the stream is over or `until` has passed.
  result<void> wait_for_room(net::time_point until, std::chrono::milliseconds timeout, uint64_t bytes) {
    for (bool in_time = true;;) {
      auto seen = bell_.look();
      if (over_.load(std::memory_order_acquire))
        return ended();
      if (said_ != word::more)
        return closed_here();
      if (has_room())
        return {};
      if (auto what = gate_->wait(std::chrono::steady_clock::now(), bytes))
        put(session_->handle(), nullptr, what);
      if (has_room()) // it may have come in between
        return {};
      if (!in_time)
        return too_late(outcome::not_executed, "no credit", timeout);
      in_time = at_.sleep(bell_, seen, producer_bit, until);
    }
  }
  void push(net::outgoing next) {
    {
      std::lock_guard guard{mutex_};
      run_.stamp(next);
      if (!run_.add(next)) {
        full_.push_back(run_.take());
        run_.add(next);
      }
      if (self_)
        return;
      self_ = shared_from_this();
    }
    call_loop();
  }
  result<uint64_t> close(net::time_point until, std::chrono::milliseconds timeout) {
    say(word::close, {});
    for (bool in_time = true;;) {
      auto seen = bell_.look();
      if (over_.load(std::memory_order_acquire))
        return why_.code == errc::none ? result<uint64_t>{consumed_} : result<uint64_t>{why_};
      if (said_ == word::abort)
        return closed_here();
      if (!in_time)
        return too_late(outcome::unknown, "the end was not confirmed", timeout);
      in_time = at_.sleep(bell_, seen, producer_bit, until);
    }
  }
  void abort(failure why) { say(word::abort, std::move(why)); }
  /// As `close`, of a stream that nobody has ended.
  void leave() { say(word::close, {}); }

  // ---- the loop
  void run() override {
    std::shared_ptr<line> me;
    std::vector<actors::ask> all;
    word said;
    {
      std::lock_guard guard{mutex_};
      me = std::move(self_);
      all.swap(full_);
      if (run_)
        all.push_back(run_.take());
      said = std::exchange(due_, word::more);
    }
    auto& s = *session_->raw();
    if (!std::exchange(begun_, true))
      introduce(s, me);
    for (auto& a : all)
      at_.tell(s, std::move(a));
    if (said == word::close) // by mail: it may have to be started yet
      put(session_->handle(), nullptr, actors::close_session{});
    else if (said == word::abort)
      put(session_->handle(), nullptr, actors::abort_session{abort_why_});
  }
  void on_event(const actors::outlet_event& e) override {
    if (e.what != actors::outlet_event::type::credit && !over_.load(std::memory_order_relaxed)) {
      why_ = e.why;
      consumed_ = e.consumed;
      over_.store(true, std::memory_order_release);
    }
    bell_.ring(producer_bit);
  }

private:
  enum class word : uint8_t { more, close, abort };

  bool has_room() {
    std::lock_guard guard{mutex_};
    return run_.may_send();
  }
  result<void> ended() const {
    return why_.code == errc::none
               ? failure{errc::session_closed, outcome::not_executed, "the stream is closed"}
               : why_;
  }
  static failure closed_here() {
    return {errc::session_closed, outcome::not_executed, "the stream was closed or given up here"};
  }
  void say(word w, failure why) {
    {
      std::lock_guard guard{mutex_};
      if (said_ != word::more)
        return;
      said_ = due_ = w;
      abort_why_ = std::move(why);
      if (w == word::abort) {
        run_.drop();
        for (auto& a : full_)
          gate_->release(a.message.cost(), a.message.count);
        full_.clear();
      }
      if (self_)
        return;
      self_ = shared_from_this();
    }
    call_loop();
  }
  /// It comes once for all that is there by then.
  void call_loop() {
    if (at_.home().hand_over(*this))
      return;
    on_event({actors::outlet_event::type::failed, 0, 0, shut_down});
    std::lock_guard guard{mutex_};
    self_.reset(); // the outlet has another one
  }
  void introduce(actors::session& s, std::shared_ptr<line> me) {
    auto id = at_.add_line(std::move(me));
    s.set_producer(at_.self_ptr(), id);
  }

  desk& at_;
  const caf::strong_actor_ptr desk_;
  const std::shared_ptr<session_guard> session_;
  const std::shared_ptr<actors::gate> gate_;
  word said_ = word::more; // by the producer
  bool begun_ = false;     // by the loop
  std::mutex mutex_;       // what follows; held for an append, never while somebody is woken
  stream_run run_;
  std::vector<actors::ask> full_; // charged to the gate, so within send-buffer
  word due_ = word::more;
  failure abort_why_;
  std::shared_ptr<line> self_; // while the loop was told and has not come
  // from the loop to the producer
  failure why_;
  uint64_t consumed_ = 0;
  std::atomic<bool> over_{false};
  bell bell_;
};

blocking_outlet_core::blocking_outlet_core(client_core& c, const ref_base& to, weir::lane lane)
    : standard_timeout_(c.call_timeout()) {
  refused_ = c.refusal(to);
  if (refused_.code != errc::none)
    return;
  auto session = claim_session(to);
  auto* at = c.desk_of(*session->raw());
  if (!at) {
    refused_ = {errc::not_supported, outcome::not_executed, "the ref is of another node"};
    return;
  }
  line_ = std::make_shared<line>(*at, std::move(session), static_cast<net::lane>(lane));
  line_->begin();
}

blocking_outlet_core::~blocking_outlet_core() {
  if (line_)
    line_->leave();
}

result<void> blocking_outlet_core::wait_for_room(std::chrono::milliseconds timeout) {
  if (!line_)
    return refused_;
  if (timeout.count() <= 0)
    timeout = standard_timeout_;
  return line_->wait_for_room(line_->now() + timeout, timeout, expected_bytes_);
}

result<void> blocking_outlet_core::push(message_out& m) {
  line_->push(finish_message(m, expected_bytes_));
  return {};
}

result<uint64_t> blocking_outlet_core::close(std::chrono::milliseconds timeout) {
  if (!line_)
    return refused_;
  if (timeout.count() <= 0)
    timeout = standard_timeout_;
  return line_->close(line_->now() + timeout, timeout);
}

void blocking_outlet_core::abort(failure why) {
  if (line_)
    line_->abort(std::move(why));
}

} // namespace weir::detail
