#include "bench/flow.hpp"

#include <thread>

#include <fmt/format.h>

namespace weir::bench {

using namespace std::chrono_literals;
using program::Blob;
using program::read_method;

static constexpr auto stop_limit = 60s; // for all that is under way to arrive
static constexpr auto glance = 2ms;     // between two looks at what has arrived

void flow_state::fail(const failure& why) {
  std::lock_guard guard(mutex_);
  if (!lost_)
    lost_ = to_string(why);
}

void flow_state::check() const {
  std::lock_guard guard(mutex_);
  if (lost_)
    throw bench_error(fmt::format("a stream was lost: {}", *lost_));
}

flow::flow(caf::actor_config& cfg, ref<Blob> to, settings with, flow_state& all)
    : actor(cfg), to_(std::move(to)), with_(with), all_(all), pattern_(with.bytes, std::byte{'x'}) {}

caf::behavior flow::make_behavior() {
  return {[this](begin_work) { begin(); }, [this](end_work) { end(); }};
}

void flow::begin() {
  running_ = true;
  if (!out_) {
    sequence_ = 0;
    out_ = std::make_unique<outlet<Blob>>(this, to_, with_.lane);
    out_->on_credit([this] { pump(); });
    out_->on_failure([this](const failure& why) { all_.fail(why); });
  }
  pump();
}

void flow::pump() {
  std::uint64_t taken = 0;
  while (running_ && out_->offer([this](Blob::Builder to) {
    program::fill_blob(to, sequence_, pattern_, pattern_.size());
  }))
    ++sequence_, ++taken;
  all_.offered += taken;
}

void flow::end() {
  running_ = false;
  if (with_.fresh && out_) {
    out_->abort({errc::cancelled, outcome::unknown, "the benchmark has seen enough of it"});
    out_.reset();
  }
  ++all_.stopped;
}

void flow::on_exit() {
  if (out_)
    out_->close();
  out_.reset();
  to_ = {};
  actor::on_exit();
  ++all_.gone;
}

flows::flows(client_node& node, const std::string& address)
    : node_(node), address_(address), report_(node.node().lookup<program::Report>("report", address)) {}

flows::~flows() {
  for (const auto& stream : streams_)
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(stream), caf::exit_reason::user_shutdown);
  while (state_.gone < streams_.size())
    std::this_thread::sleep_for(glance);
}

void flows::add(const std::string& sink, flow::settings with) {
  streams_.push_back(node_.spawn<flow>(node_.node().lookup<Blob>(sink, address_), with, std::ref(state_)));
}

void flows::start() {
  for (const auto& stream : streams_)
    put(stream, nullptr, begin_work{});
}

void flows::stop(bool drain) {
  const auto wanted = state_.stopped + streams_.size();
  for (const auto& stream : streams_)
    put(stream, nullptr, end_work{});
  auto done = [&] {
    return state_.stopped >= wanted && (!drain || ask_received(node_, report_).messages >= state_.offered);
  };
  for (auto until = clock::now() + stop_limit; !done(); std::this_thread::sleep_for(glance)) {
    check();
    if (clock::now() > until)
      throw bench_error(fmt::format("of {} messages {} have not arrived within {} s", state_.offered.load(),
                                    state_.offered - ask_received(node_, report_).messages,
                                    stop_limit.count()));
  }
}

received ask_received(client_node& node, const ref<program::Report>& report) {
  received got;
  std::uint64_t wrong = 0;
  ask<read_method>(
      node, report, [](read_method::args) {},
      [&](read_method::result r) {
        got = {clock::now(), r.getMessages(), r.getBytes()};
        wrong = r.getWrong();
      });
  if (wrong > 0)
    throw bench_error(
        fmt::format("{} messages came in another order, size or with another check sum", wrong));
  return got;
}

} // namespace weir::bench
