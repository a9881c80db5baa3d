#include <algorithm>
#include <thread>

#include "bench/messages.hpp"
#include "bench/modes.hpp"
#include "bench/weir_mode.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

namespace {

using namespace std::chrono_literals;
using program::Blob;
using program::Echo;
using program::pass_method;
using program::read_method;
using program::Report;
using program::reset_method;

constexpr int offers_per_turn = 64; // then what else the producer got has its turn
constexpr int others_per_turn = 16;
constexpr auto look_again_after = 50ms;
constexpr double queued_messages_max = 32768; // a ration and a send buffer, with room for larger ones
constexpr auto patience = 30s;                // beyond what the service needs for them

/// What has become of the messages so far. Written by the producer, read by the main thread.
struct fates {
  std::atomic<std::uint64_t> offered{0}, undelivered{0}, refused{0}, answered{0}, unknown{0};
  std::atomic<std::uint64_t> consumed{0};
  std::atomic<bool> stopped{false}; ///< no more is offered
  std::atomic<bool> ended{false};   ///< all that its own side can know is known
  failure lost;                     ///< valid when ended
};

using fates_ptr = std::shared_ptr<fates>;

/// Sends as fast as it can until the time is over.
class producer : public weir::actor {
public:
  producer(caf::actor_config& cfg, const slow_shape& shape, shared_state& state, fates_ptr f)
      : actor(cfg), state_(state), fates_(std::move(f)), pattern_(shape.bytes, std::byte{'x'}) {}

  caf::behavior make_behavior() override {
    return {[this](begin_work) { turn(); }, [this](more_work) { turn(); }};
  }

protected:
  /// A bounded number of messages. False: it is called again when there is a reason.
  virtual bool send_some() = 0;
  virtual void time_is_over() = 0;

  void turn() {
    if (fates_->stopped)
      return;
    if (state_.now >= phase::over) {
      fates_->stopped = true;
      time_is_over();
    } else if (send_some()) {
      put(caf::actor_cast<caf::actor>(this), nullptr, more_work{});
    }
  }

  void fill(Blob::Builder to) { program::fill_blob(to, sequence_++, pattern_, pattern_.size()); }

  shared_state& state_;
  const fates_ptr fates_;

private:
  std::vector<std::byte> pattern_;
  std::uint64_t sequence_ = 0;
};

/// Into an outlet. An offer that is turned down is `refused`; then it waits for credit.
class offering final : public producer {
public:
  offering(caf::actor_config& cfg, const slow_shape& shape, shared_state& state, fates_ptr f,
           const ref<Blob>& to)
      : producer(cfg, shape, state, std::move(f)), out_(std::make_unique<outlet<Blob>>(this, to)) {
    out_->on_credit([this] { turn(); });
    out_->on_failure([this](const failure& why) { end(why); });
  }

private:
  bool send_some() override {
    for (int i = 0; i < offers_per_turn; ++i) {
      ++fates_->offered;
      if (!out_->offer([this](Blob::Builder to) { fill(to); })) {
        ++fates_->refused;
        return false;
      }
    }
    return true;
  }

  void time_is_over() override {
    out_->close().then(
        [this](std::uint64_t consumed) {
          fates_->consumed = consumed;
          end({});
        },
        [this](const failure& why) { end(why); });
  }

  void end(const failure& why) {
    fates_->lost = why;
    fates_->ended = true;
  }

  void on_exit() override {
    out_.reset();
    producer::on_exit();
  }

  std::unique_ptr<outlet<Blob>> out_;
};

/// One way. What was not queued is told by weir, one note at a time.
class telling final : public producer {
public:
  telling(caf::actor_config& cfg, const slow_shape& shape, shared_state& state, fates_ptr f, ref<Echo> to)
      : producer(cfg, shape, state, std::move(f)), to_(std::move(to)) {}

private:
  bool send_some() override {
    for (int i = 0; i < others_per_turn; ++i) {
      ++fates_->offered;
      tell<pass_method>(to_, [this](pass_method::args to) { fill(to); });
    }
    return true;
  }

  void on_undelivered(const undelivered& u) override { fates_->undelivered += u.count; }
  void time_is_over() override { fates_->ended = true; }

  ref<Echo> to_;
};

/// Calls, without waiting for an answer before the next one.
class calling final : public producer {
public:
  calling(caf::actor_config& cfg, const slow_shape& shape, shared_state& state, fates_ptr f, ref<Echo> to)
      : producer(cfg, shape, state, std::move(f)), to_(std::move(to)) {
    options_.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
        seconds(queued_messages_max / shape.rate) + patience);
  }

private:
  bool send_some() override {
    for (int i = 0; i < others_per_turn; ++i) {
      ++fates_->offered;
      ++open_;
      call<pass_method>(to_, options_, [this](pass_method::args to) { fill(to); })
          .then([this](pass_method::result) { ended(fates_->answered); },
                [this](const failure& why) {
                  ended(why.what == outcome::not_executed ? fates_->refused : fates_->unknown);
                });
    }
    return true;
  }

  void ended(std::atomic<std::uint64_t>& with) {
    ++with;
    if (--open_ == 0 && fates_->stopped)
      fates_->ended = true;
  }

  void time_is_over() override { fates_->ended = open_ == 0; }

  ref<Echo> to_;
  call_options options_;
  std::uint64_t open_ = 0;
};

caf::actor start_producer(client_node& node, const std::string& address, const slow_shape& shape,
                          shared_state& state, fates_ptr f) {
  if (shape.by == "offer")
    return node.spawn<offering>(shape, state, f, node.node().lookup<Blob>("sink", address));
  auto echo = node.node().lookup<Echo>("echo", address);
  return shape.by == "send" ? node.spawn<telling>(shape, state, f, echo)
                            : node.spawn<calling>(shape, state, f, echo);
}

std::uint64_t handled(client_node& node, const ref<Report>& report) {
  std::uint64_t messages = 0, wrong = 0;
  ask<read_method>(
      node, report, [](read_method::args) {},
      [&](read_method::result r) { messages = r.getMessages(), wrong = r.getWrong(); });
  if (wrong > 0)
    throw bench_error(
        fmt::format("{} messages came in another order, size or with another check sum", wrong));
  return messages;
}

void client(client_node& node, const std::string& address, const slow_shape& shape, shared_state& state) {
  auto report = node.node().lookup<Report>("report", address);
  ask<reset_method>(
      node, report,
      [&](reset_method::args to) { to.setDelayNanos(static_cast<std::uint64_t>(1e9 / shape.rate)); },
      [](reset_method::result) {});
  auto f = std::make_shared<fates>();
  auto actor = start_producer(node, address, shape, state, f);
  ++state.ready;
  wait_for(state, phase::measure);
  put(actor, nullptr, begin_work{});
  wait_for(state, phase::over);
  put(actor, nullptr, more_work{}); // it may be waiting for credit
  auto until = clock::now() + seconds(queued_messages_max / shape.rate) + patience;
  std::uint64_t done = 0;
  auto known = [&] {
    return f->ended &&
           (done = handled(node, report)) + f->undelivered + f->refused + f->unknown == f->offered;
  };
  while (!known()) {
    if (f->ended && f->lost.code != errc::none)
      throw bench_error(fmt::format("the stream was lost: {}", to_string(f->lost)));
    if (clock::now() > until)
      throw bench_error(fmt::format(
          "the fate of a message is unknown: of {} offered {} were handled, {} undelivered, {} refused",
          f->offered.load(), done, f->undelivered.load(), f->refused.load()));
    std::this_thread::sleep_for(look_again_after);
  }
  if (f->unknown > 0)
    throw bench_error(
        fmt::format("{} calls ended without saying whether they were executed", f->unknown.load()));
  if ((shape.by == "offer" && f->consumed != done) || (shape.by == "call" && f->answered != done))
    throw bench_error(
        fmt::format("the service handled {} messages, {} were confirmed", done, f->consumed + f->answered));
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(actor), caf::exit_reason::user_shutdown);
  state.offered = f->offered.load();
  state.handled = done;
  state.undelivered = f->undelivered.load();
  state.refused = f->refused.load();
  finish(state);
}

} // namespace

int slow_main(int argc, char** argv) {
  weir_mode<slow_shape, slow_result> mode{
      "slow", "a service that cannot keep up: memory stays bounded and nothing is lost", run_slow, nullptr,
      client};
  return run_weir_mode(mode, argc, argv, [](const options&, const slow_shape&) { return std::nullopt; });
}

} // namespace weir::bench
