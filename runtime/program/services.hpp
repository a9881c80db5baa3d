#pragma once
#include <weir/node.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/program/services.capnp.h"

namespace weir::program {

using echo_method = weir::method<&Echo::Client::echoRequest>;
using pass_method = weir::method<&Echo::Client::passRequest>;
using read_method = weir::method<&Report::Client::readRequest>;
using reset_method = weir::method<&Report::Client::resetRequest>;
using start_method = weir::method<&Source::Client::startRequest>;

/// A check sum of the sequence number, the size, and up to 64 bytes at each end of the data: wrong order, wrong length and the usual ways
/// to mix buffers up show, and it costs the same for every size.
uint64_t check_of(uint64_t sequence, capnp::Data::Reader data);

/// Fills in a blob: `bytes` of `pattern` (at least as many), copied as a user's data would be.
void fill_blob(Blob::Builder to, uint64_t sequence, std::span<const std::byte> pattern, size_t bytes);

/// What the sink has seen; shared by the services of one process that report it. One thread.
struct tally {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  uint64_t wrong = 0; ///< out of order, or another check sum
  std::chrono::microseconds delay{0};
};

class echo_service : public weir::service<Echo> {
public:
  echo_service(caf::actor_config& cfg, std::shared_ptr<tally> t) : service(cfg), tally_(std::move(t)) {}
  handlers make_handlers() override;

private:
  std::shared_ptr<tally> tally_;
};

class sink_service : public weir::sink<Blob> {
public:
  sink_service(caf::actor_config& cfg, std::shared_ptr<tally> t) : sink(cfg), tally_(std::move(t)) {}
  void on_message(inlet<Blob> from, Blob::Reader message) override;

private:
  std::shared_ptr<tally> tally_;
};

/// Must live on the same loop as the sink: they share the tally.
class report_service : public weir::service<Report> {
public:
  report_service(caf::actor_config& cfg, std::shared_ptr<tally> t) : service(cfg), tally_(std::move(t)) {}
  handlers make_handlers() override;

private:
  std::shared_ptr<tally> tally_;
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

/// Serves `echo`, `sink`, `report` and `source` on one loop (or on CAF's scheduler, without `source`).
result<void> serve_all(node& n);

} // namespace weir::program
