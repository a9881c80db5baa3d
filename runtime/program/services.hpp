#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <weir/node.hpp>

#include "runtime/program/services.capnp.h"

namespace weir::program {

using echo_method = weir::method<&Echo::Client::echoRequest>;
using pass_method = weir::method<&Echo::Client::passRequest>;
using read_method = weir::method<&Report::Client::readRequest>;
using reset_method = weir::method<&Report::Client::resetRequest>;
using start_method = weir::method<&Source::Client::startRequest>;

/// A check sum of the sequence number, the size, and up to 64 bytes at each end of the data: wrong order,
/// wrong length and the usual ways to mix buffers up show, and it costs the same for every size.
uint64_t check_of(uint64_t sequence, capnp::Data::Reader data);

/// Fills in a blob: `bytes` of `pattern` (at least as many), copied as a user's data would be.
void fill_blob(Blob::Builder to, uint64_t sequence, std::span<const std::byte> pattern, size_t bytes);

/// What one service has taken since it was made, and how slow it is to be. `count` and `take_time` are for
/// that service, the rest is for any thread.
class tally {
public:
  struct figures {
    uint64_t messages = 0;
    uint64_t bytes = 0;
    uint64_t wrong = 0; ///< out of order, or another check sum
  };

  void count(uint64_t bytes, bool right);
  /// Makes the caller take its time for one message: as a rate it is exact also where the system's sleeps are
  /// longer.
  void take_time();

  figures seen() const;
  void be_slow(std::chrono::nanoseconds per_message) {
    delay_ns_.store(per_message.count(), std::memory_order_relaxed);
  }

private:
  std::atomic<uint64_t> messages_{0}, bytes_{0}, wrong_{0};
  std::atomic<int64_t> delay_ns_{0};
  std::chrono::steady_clock::time_point free_at_; // when the message before is done
};

class echo_service : public weir::service<Echo> {
public:
  echo_service(caf::actor_config& cfg, std::shared_ptr<tally> passed)
      : service(cfg), passed_(std::move(passed)) {}
  handlers make_handlers() override;

private:
  std::shared_ptr<tally> passed_;
};

class sink_service : public weir::sink<Blob> {
public:
  sink_service(caf::actor_config& cfg, std::shared_ptr<tally> t) : sink(cfg), tally_(std::move(t)) {}
  void on_message(inlet<Blob> from, Blob::Reader message) override;

private:
  std::shared_ptr<tally> tally_;
};

class report_service : public weir::service<Report> {
public:
  report_service(caf::actor_config& cfg, std::vector<std::shared_ptr<tally>> of)
      : service(cfg), of_(std::move(of)) {}
  handlers make_handlers() override;

private:
  tally::figures sum() const;

  std::vector<std::shared_ptr<tally>> of_;
  tally::figures before_; // at the last reset
};

class source_service : public weir::service<Source> {
public:
  source_service(caf::actor_config& cfg, weir::node& n) : service(cfg), node_(n) {}
  handlers make_handlers() override;

private:
  struct stream {
    stream(source_service& self, const ref<Blob>& to, weir::request<start_method> rq);
    weir::request<start_method> asked;
    outlet<Blob> out;
    uint64_t left, next = 0;
    std::vector<std::byte> pattern;
    bool closed = false;
  };
  void begin(weir::request<start_method> rq);
  void pump(stream& s);

  weir::node& node_;
  std::map<uint64_t, std::unique_ptr<stream>> streams_;
  uint64_t last_ = 0;
};

/// Where the services run. `source` is always on a loop: it uses the node.
enum class placement : uint8_t { loop, scheduler };

/// Serves `echo`, `sink`, `report` and `source`. Errors: no_budget.
result<void> serve_all(node& n, placement where);

} // namespace weir::program
