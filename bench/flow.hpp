/// Streams without an end that a client starts and stops, and what their receiver has counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/messages.hpp"
#include "bench/nodes.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

/// What the streams of one process share. Any thread. It outlives them.
struct flow_state {
  std::atomic<std::uint64_t> offered{
      0}; ///< messages that weir has taken, of all streams since they were made
  std::atomic<std::uint64_t> stopped{0}; ///< how often a stream has stopped offering
  std::atomic<std::uint64_t> gone{0};    ///< streams whose actor has ended

  void fail(const failure& why);
  void check() const; ///< bench_error when a stream was lost

private:
  mutable std::mutex mutex_;
  std::optional<std::string> lost_;
};

/// One stream of `bytes` long messages, each as soon as there is credit for it: from `begin_work` to
/// `end_work`. With `fresh` each begin opens a stream of its own, which is given up at the end.
class flow final : public weir::actor {
public:
  struct settings {
    std::uint64_t bytes = 0;
    weir::lane lane = weir::lane::normal;
    bool fresh = false;
  };
  flow(caf::actor_config& cfg, ref<program::Blob> to, settings with, flow_state& all);

  caf::behavior make_behavior() override;

private:
  void begin();
  void pump();
  void end();
  void on_exit() override;

  ref<program::Blob> to_;
  const settings with_;
  flow_state& all_;
  std::vector<std::byte> pattern_;
  std::unique_ptr<outlet<program::Blob>> out_;
  std::uint64_t sequence_ = 0;
  bool running_ = false;
};

/// Several of them and the receiver's books, for the main thread of a client. They have ended when it goes.
class flows {
public:
  flows(client_node& node, const std::string& address);
  ~flows();
  flows(const flows&) = delete;
  flows& operator=(const flows&) = delete;

  /// One more, on a session of its own.
  void add(const std::string& sink, flow::settings with);
  void start();
  /// Returns when all have stopped and, with `drain`, the receiver has what was offered. bench_error when
  /// that takes longer than a minute.
  void stop(bool drain = true);

  std::uint64_t offered() const { return state_.offered; }
  /// bench_error when a stream was lost.
  void check() const { state_.check(); }

private:
  client_node& node_;
  const std::string address_;
  ref<program::Report> report_;
  flow_state state_;
  std::vector<caf::actor> streams_;
};

/// Of the sinks at one server so far.
struct received {
  clock::time_point when;
  std::uint64_t messages = 0, bytes = 0;
};

/// bench_error when there is no answer, or messages came in another order, size or with another check sum.
received ask_received(client_node& node, const ref<program::Report>& report);

} // namespace weir::bench
