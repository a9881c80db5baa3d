/// The processes of one run as its parent sees them, for those who write a run of their own (harness.hpp has
/// the usual ones).
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "bench/harness.hpp"
#include "bench/report.hpp"

namespace weir::bench {

/// The processes of one run. Destroying it ends them all. Used on the main thread; throws bench_error.
class running {
public:
  static constexpr std::chrono::seconds ready_limit{
      20}; ///< for a server to listen, and for clients to connect

  running(const process_plan& plan, std::uint64_t client_count) : plan_(plan), progress_(plan.label) {
    progress_.update(-1, "starting");
    auto program = own_program();
    child_process::settings with{&page_, false};
    auto address = plan.address.value_or("");
    if (!plan.server.empty()) {
      server_.emplace(program, plan.server, with);
      address = server_->wait_ready(ready_limit);
    }
    auto arguments = plan.client;
    arguments.insert(arguments.end(), {"--address", address});
    for (std::uint64_t i = 0; i < client_count; ++i)
      clients_.emplace_back(program, arguments, with);
    wait_until("connecting", ready_limit, [&] { return state().ready >= client_count; });
  }

  shared_state& state() { return page_.state(); }

  /// Lets everything run for a while, with progress; fails as soon as a process has ended.
  void run_for(seconds time, std::string_view what) {
    for (auto from = clock::now(), now = from; now - from < time; now = clock::now()) {
      check();
      progress_.update(seconds(now - from) / time, what);
      std::this_thread::sleep_for(std::min<seconds>(glance * 2, time - seconds(now - from)));
    }
  }

  /// Until `done()`; an empty limit is none.
  template <class Done, class Share>
  void wait_until(std::string_view what, std::optional<seconds> limit, Done done, Share share) {
    for (auto from = clock::now(); !done();) {
      check();
      if (limit && clock::now() - from > *limit)
        throw bench_error(fmt::format("{}: {} took more than {} s; is the machine overloaded?", plan_.label,
                                      what, limit->count()));
      progress_.update(share(), what);
      std::this_thread::sleep_for(glance);
    }
  }
  template <class Done>
  void wait_until(std::string_view what, std::optional<seconds> limit, Done done) {
    wait_until(what, limit, done, [] { return -1.0; });
  }

  /// Has the client do a step (`next_step`), which may take so long.
  void do_step(std::uint32_t step, std::string_view what, seconds limit) {
    state().wanted = step;
    wait_until(what, limit, [&] { return state().reached >= step; });
  }

  /// All clients have stopped and published.
  void wait_finished(std::optional<seconds> limit) {
    wait_until("settling", limit, [&] { return state().finished >= clients_.size(); });
  }

  void leave() {
    state().now = phase::leave;
    for (auto& client : clients_)
      if (auto status = client.wait(client_end_limit); status != 0)
        throw bench_error(fmt::format("{}: a client process ended with status {}", plan_.label, status));
    if (server_)
      server_->stop();
  }

  bool server_is_ours() const { return server_.has_value(); }

  /// Processor time of all our processes so far.
  seconds cpu() const {
    auto sum = server_ ? cpu_time(server_->pid()).value_or(seconds(0)) : seconds(0);
    for (const auto& client : clients_)
      sum += cpu_time(client.pid()).value_or(seconds(0));
    return sum;
  }

  std::optional<memory> server_memory() const { return server_ ? memory_of(server_->pid()) : std::nullopt; }

  /// Of the largest client.
  memory client_memory() const {
    memory largest;
    for (const auto& client : clients_) {
      auto used = memory_of(client.pid()).value_or(memory{});
      largest.resident_bytes = std::max(largest.resident_bytes, used.resident_bytes);
      largest.peak_bytes = std::max(largest.peak_bytes, used.peak_bytes);
    }
    return largest;
  }

private:
  static constexpr std::chrono::seconds client_end_limit{10}; // for clients to end when they may
  static constexpr std::chrono::milliseconds glance{
      10}; // between two looks: seldom, a look takes a core from the run

  void check() {
    if (auto ended = server_ ? server_->status() : std::nullopt)
      throw bench_error(fmt::format("{}: the server process ended with status {}", plan_.label, *ended));
    for (auto& client : clients_)
      if (auto ended = client.status())
        throw bench_error(fmt::format("{}: a client process ended with status {}", plan_.label, *ended));
  }

  const process_plan& plan_;
  progress progress_;
  shared_page page_;
  std::optional<child_process> server_;
  std::deque<child_process> clients_;
};

} // namespace weir::bench
