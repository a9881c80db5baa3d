#include <array>
#include <thread>

#include "bench/flow.hpp"
#include "bench/messages.hpp"
#include "bench/modes.hpp"
#include "bench/running.hpp"
#include "bench/weir_mode.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

namespace {

using namespace std::chrono_literals;
using program::Echo;
using program::echo_method;

constexpr auto settle = 200ms; // from the start of a part until it is measured
constexpr auto step_limit = 120s;

/// Small calls beside streams of large messages, on one link.
struct mix_shape {
  std::uint64_t callers = 4, bulk = 1;
  std::uint64_t bytes = 512, bulk_bytes = 1 << 20;
  seconds length{1}; ///< of each part
  std::uint64_t rounds = 3;
  std::string transport = "tcp";
};

struct mix_result {
  double idle_p50_us = 0, idle_p99_us = 0; ///< of calls alone
  double p50_us = 0, p99_us = 0;           ///< of calls beside the streams
  double bulk_mb_per_s = 0, bulk_alone_mb_per_s = 0;
  double calls_per_s = 0; ///< beside the streams
  std::uint64_t errors = 0;
};

void add_options(options& line, mix_shape& shape) {
  line.count("callers", shape.callers, 1, 1000, "callers, each with one call open, in lane normal")
      .count("bulk", shape.bulk, 1, 1000, "streams, each on a session of its own, in lane bulk")
      .bytes("bytes", shape.bytes, 0, 1 << 20, "payload of a call and of its answer")
      .bytes("bulk-bytes", shape.bulk_bytes, 1, 1 << 30, "payload of a message of a stream")
      .duration("seconds", shape.length, seconds(0.05), seconds(3600),
                "time to measure in each part: callers alone, streams alone, both")
      .count("rounds", shape.rounds, 1, 1000, "how often the three parts follow each other")
      .choice("transport", shape.transport, {"tcp", "unix"}, "how the processes talk");
}

std::vector<std::string> arguments_of(const mix_shape& shape) {
  return {"--callers",    fmt::to_string(shape.callers),
          "--bulk",       fmt::to_string(shape.bulk),
          "--bytes",      fmt::to_string(shape.bytes),
          "--bulk-bytes", fmt::to_string(shape.bulk_bytes),
          "--seconds",    fmt::to_string(shape.length.count()),
          "--rounds",     fmt::to_string(shape.rounds),
          "--transport",  shape.transport};
}

figures to_figures(const mix_result& r) {
  figures to;
  to.add_rounded("idle_p50_us", r.idle_p50_us, 1);
  to.add_rounded("idle_p99_us", r.idle_p99_us, 1);
  to.add_rounded("p50_us", r.p50_us, 1);
  to.add_rounded("p99_us", r.p99_us, 1);
  to.add_rounded("bulk_mb_per_s", r.bulk_mb_per_s, 1);
  to.add_rounded("bulk_alone_mb_per_s", r.bulk_alone_mb_per_s, 1);
  to.add_rounded("p99_ratio", r.p99_us / r.idle_p99_us, 2);
  to.add_rounded("bulk_ratio", r.bulk_mb_per_s / r.bulk_alone_mb_per_s, 3);
  to.add_rounded("calls_per_s", r.calls_per_s, 0);
  to.add_count("errors", static_cast<std::int64_t>(r.errors));
  return to;
}

/// The parts of a round. A step of the run is `3 * round + part`, both from 1 and 0 on.
enum class part : std::uint8_t { calls, streams, both };
constexpr std::array part_names{"callers alone", "streams alone", "both"};
constexpr std::uint32_t part_count = part_names.size();

// Order of `shared_state::values`.
enum value : std::uint8_t { bulk_alone_bytes, bulk_alone_seconds, bulk_bytes, bulk_seconds };

/// What the callers share.
struct caller_run {
  shared_state& state;
  std::vector<std::byte> pattern;
  std::atomic<std::uint32_t> measured{0}; ///< the step that is being measured; 0: none
  std::atomic<std::uint64_t> paused{0}, gone{0};
};

/// One call behind the other, from `begin_work` to `end_work`.
class caller final : public weir::actor {
public:
  caller(caf::actor_config& cfg, caller_run& run, std::uint64_t index, ref<Echo> echo)
      : actor(cfg), run_(run), index_(index), echo_(std::move(echo)) {}

  caf::behavior make_behavior() override {
    return {[this](begin_work) {
              active_ = true;
              begin();
            },
            [this](end_work) {
              active_ = false;
              if (!open_)
                ++run_.paused;
            }};
  }

private:
  void begin() {
    open_ = true;
    step_ = run_.measured.load(std::memory_order_relaxed);
    from_ = clock::now();
    sequence_ = index_ << 40 | ++calls_;
    call<echo_method>(echo_,
                      [this](echo_method::args to) {
                        program::fill_blob(to, sequence_, run_.pattern, run_.pattern.size());
                      })
        .then([this](echo_method::result answer) { answered(answer); },
              [this](const failure&) {
                ++run_.state.errors;
                open_ = false;
                if (!active_)
                  ++run_.paused; // else it is over for this caller: the run fails by `errors`
              });
  }

  void answered(program::Blob::Reader answer) {
    auto right = answer.getSequence() == sequence_ && answer.getData().size() == run_.pattern.size() &&
                 answer.getCheck() == program::check_of(sequence_, answer.getData());
    if (!right)
      ++run_.state.errors;
    else if (step_ != 0 && step_ == run_.measured.load(std::memory_order_relaxed))
      (part(step_ % part_count) == part::both ? beside_ : alone_).record(clock::now() - from_);
    open_ = false;
    if (active_)
      begin();
    else
      ++run_.paused;
  }

  void on_exit() override {
    echo_ = {};
    actor::on_exit();
    alone_.add_to(run_.state.idle_latency);
    beside_.add_to(run_.state.latency);
    ++run_.gone;
  }

  caller_run& run_;
  const std::uint64_t index_;
  ref<Echo> echo_;
  bool active_ = false, open_ = false;
  std::uint32_t step_ = 0;
  std::uint64_t calls_ = 0, sequence_ = 0;
  clock::time_point from_;
  histogram alone_, beside_;
};

/// The client of a run: callers and streams, and the parts of a round.
class mix_client {
public:
  mix_client(client_node& node, const std::string& address, const mix_shape& shape, shared_state& state)
      : shape_(shape),
        node_(node),
        report_(node.node().lookup<program::Report>("report", address)),
        run_{state, std::vector<std::byte>(shape.bytes, std::byte{'x'})},
        streams_(node, address) {
    auto echo = node.node().lookup<Echo>("echo", address);
    for (std::uint64_t i = 0; i < shape.callers; ++i)
      callers_.push_back(node.spawn<caller>(std::ref(run_), i, echo));
    for (std::uint64_t i = 0; i < shape.bulk; ++i)
      streams_.add("sink", {.bytes = shape.bulk_bytes, .lane = weir::lane::bulk});
  }

  ~mix_client() {
    for (const auto& one : callers_)
      send_exit(caf::actor_cast<caf::strong_actor_ptr>(one), caf::exit_reason::user_shutdown);
    wait_until_all(run_.gone);
  }
  mix_client(const mix_client&) = delete;
  mix_client& operator=(const mix_client&) = delete;

  void do_part(std::uint32_t step) {
    auto which = part(step % part_count);
    if (which != part::streams)
      for (const auto& one : callers_)
        put(one, nullptr, begin_work{});
    if (which != part::calls)
      streams_.start();
    std::this_thread::sleep_for(settle);
    auto before = ask_received(node_, report_);
    run_.measured = step;
    std::this_thread::sleep_for(shape_.length);
    run_.measured = 0;
    auto after = ask_received(node_, report_);
    if (which != part::calls)
      add(which == part::both ? bulk_bytes : bulk_alone_bytes, before, after);
    stop(which);
  }

private:
  void add(value first, const received& before, const received& after) {
    auto& values = run_.state.values;
    values.at(first) += static_cast<double>(after.bytes - before.bytes);
    values.at(first + 1) += seconds(after.when - before.when).count();
  }

  void stop(part which) {
    if (which != part::streams) {
      run_.paused = 0;
      for (const auto& one : callers_)
        put(one, nullptr, end_work{});
      wait_until_all(run_.paused);
    }
    if (which != part::calls)
      streams_.stop();
    streams_.check();
    if (run_.state.errors > 0)
      throw bench_error(fmt::format("{} calls failed or had a wrong answer", run_.state.errors.load()));
  }

  void wait_until_all(const std::atomic<std::uint64_t>& count) const {
    while (count < callers_.size())
      std::this_thread::sleep_for(1ms);
  }

  const mix_shape& shape_;
  client_node& node_;
  ref<program::Report> report_;
  caller_run run_;
  flows streams_;
  std::vector<caf::actor> callers_;
};

void client(client_node& node, const std::string& address, const mix_shape& shape, shared_state& state) {
  {
    mix_client mix(node, address, shape, state);
    ++state.ready;
    for (auto step = next_step(state, 0); step != 0; step = next_step(state, step)) {
      mix.do_part(step);
      state.reached = step;
    }
  }
  finish(state);
}

mix_result run_mix(const process_plan& plan, const mix_shape& shape) {
  running run(plan, 1);
  auto& state = run.state();
  state.now = phase::measure;
  for (std::uint32_t round = 1; round <= shape.rounds; ++round)
    for (std::uint32_t p = 0; p < part_count; ++p)
      run.do_step(part_count * round + p,
                  fmt::format("round {} of {}, {}", round, shape.rounds, part_names.at(p)),
                  shape.length + step_limit);
  state.now = phase::over;
  run.wait_finished(step_limit);
  run.leave();
  auto rate = [&](value bytes) { return state.values.at(bytes) / 1e6 / state.values.at(bytes + 1); };
  mix_result r;
  r.idle_p50_us = us(state.idle_latency.quantile(0.5));
  r.idle_p99_us = us(state.idle_latency.quantile(0.99));
  r.p50_us = us(state.latency.quantile(0.5));
  r.p99_us = us(state.latency.quantile(0.99));
  r.bulk_mb_per_s = rate(bulk_bytes);
  r.bulk_alone_mb_per_s = rate(bulk_alone_bytes);
  r.calls_per_s = static_cast<double>(state.latency.count()) /
                  (shape.length.count() * static_cast<double>(shape.rounds));
  r.errors = state.errors;
  return r;
}

} // namespace

int mix_main(int argc, char** argv) {
  weir_mode<mix_shape, mix_result> mode{
      "mix", "small calls beside streams of large messages on the same link", run_mix, nullptr, client};
  return run_weir_mode(mode, argc, argv, [](const options&, const mix_shape&) { return std::nullopt; });
}

} // namespace weir::bench
