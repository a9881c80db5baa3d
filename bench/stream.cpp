#include <algorithm>

#include "bench/messages.hpp"
#include "bench/modes.hpp"
#include "bench/raw.hpp"
#include "bench/weir_mode.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

namespace {

using program::Blob;
using program::read_method;
using program::Report;
using program::reset_method;

/// How one stream ended.
struct stream_end {
  std::uint64_t offered = 0, consumed = 0;
  failure why;
};

/// Streams a number of messages into an outlet of its own, and ends when they are consumed.
class producer final : public weir::actor {
public:
  /// `sent`: counted as it goes, may be null.
  producer(caf::actor_config& cfg, const ref<Blob>& to, std::uint64_t messages, std::uint64_t bytes,
           std::atomic<std::uint64_t>* sent, std::promise<stream_end>* ended)
      : actor(cfg),
        out_(std::make_unique<outlet<Blob>>(this, to)),
        messages_(messages),
        pattern_(bytes, std::byte{'x'}),
        sent_(sent),
        ended_(ended) {}

  caf::behavior make_behavior() override {
    out_->on_credit([this] { pump(); });
    out_->on_failure([this](const failure& why) { end(0, why); });
    return actor::make_behavior();
  }

private:
  void pump() {
    while (offered_ < messages_ && out_->offer([this](Blob::Builder to) {
      program::fill_blob(to, offered_, pattern_, pattern_.size());
    }))
      ++offered_;
    if (sent_ != nullptr)
      sent_->store(offered_, std::memory_order_relaxed);
    if (offered_ == messages_ && !std::exchange(closed_, true))
      out_->close().then([this](std::uint64_t consumed) { end(consumed, {}); },
                         [this](const failure& why) { end(0, why); });
  }

  void end(std::uint64_t consumed, const failure& why) {
    ended_->set_value({offered_, consumed, why});
    quit();
  }

  void on_exit() override {
    out_.reset();
    actor::on_exit();
  }

  std::unique_ptr<outlet<Blob>> out_;
  const std::uint64_t messages_;
  std::vector<std::byte> pattern_;
  std::atomic<std::uint64_t>* sent_;
  std::promise<stream_end>* ended_;
  std::uint64_t offered_ = 0;
  bool closed_ = false;
};

stream_end run_producer(client_node& node, const ref<Blob>& to, const stream_shape& shape,
                        std::uint64_t messages, std::atomic<std::uint64_t>* sent) {
  std::promise<stream_end> ended;
  node.spawn<producer>(to, messages, shape.bytes, sent, &ended);
  auto end = ended.get_future().get();
  if (end.why.code != errc::none)
    throw bench_error(
        fmt::format("the stream was lost after {} messages: {}", end.offered, to_string(end.why)));
  return end;
}

void client(client_node& node, const std::string& address, const stream_shape& shape, shared_state& state) {
  auto sink = node.node().lookup<Blob>("sink", address);
  auto report = node.node().lookup<Report>("report", address);
  run_producer(node, sink, shape, std::max<std::uint64_t>(1, shape.messages / 20), nullptr); // the warm-up
  ask<reset_method>(
      node, report, [](reset_method::args) {}, [](reset_method::result) {});
  ++state.ready;
  wait_for(state, phase::measure);
  state.started = clock::now().time_since_epoch().count();
  auto end = run_producer(node, sink, shape, shape.messages, &state.sent);
  state.ended = clock::now().time_since_epoch().count();
  program::tally::figures got;
  ask<read_method>(
      node, report, [](read_method::args) {},
      [&](read_method::result r) {
        got = {r.getMessages(), r.getBytes(), r.getWrong()};
      });
  if (got.wrong > 0)
    throw bench_error(
        fmt::format("{} messages came in another order, size or with another check sum", got.wrong));
  if (end.consumed != got.messages || got.bytes != got.messages * shape.bytes)
    throw bench_error(
        fmt::format("the end of the stream confirms {} messages, the receiver counted {} with {} bytes",
                    end.consumed, got.messages, got.bytes));
  state.received = got.messages;
  finish(state);
}

} // namespace

int stream_main(int argc, char** argv) {
  weir_mode<stream_shape, stream_result> mode{"stream",
                                              "typed messages one way, as fast as the other side takes them",
                                              run_stream, raw_stream, client};
  return run_weir_mode(mode, argc, argv, [](const options&, const stream_shape&) { return std::nullopt; });
}

} // namespace weir::bench
