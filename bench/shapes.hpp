/// The workloads and their results. weir, raw and the peers run the same shapes and give the same keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure.hpp"
#include "bench/options.hpp"
#include "bench/report.hpp"

namespace weir::bench {

/// Calls that are answered with as many bytes as they bring. Every process has one connection for all its
/// callers; with style threads raw and the peers have a blocking one for each.
struct rpc_shape {
  std::uint64_t processes = 1;
  std::uint64_t callers = 1; ///< in each process, each with one call open
  std::uint64_t bytes = 512;
  seconds length{3};
  std::string style = "actors";  ///< or threads
  std::string transport = "tcp"; ///< or unix
  double rate = 0; ///< calls per second of all processes, sent on schedule; 0: closed loop, a call follows an
                   ///< answer
};

/// `messages` messages one way from one process to another, until the receiver has confirmed all.
struct stream_shape {
  std::uint64_t bytes = 1024;
  std::uint64_t messages = 1'000'000;
  std::string transport = "tcp";
};

/// Messages as fast as they are accepted, to a service that takes 1 / `rate` seconds for each.
struct slow_shape {
  std::uint64_t bytes = 1000;
  double rate = 1000;
  seconds length{6};
  std::string by = "offer"; ///< or send, or call
  std::string transport = "tcp";
};

/// Binds the options `--processes --callers --bytes --seconds --style --transport --rate` and so on.
void add_options(options& line, rpc_shape& shape);
void add_options(options& line, stream_shape& shape);
void add_options(options& line, slow_shape& shape);

/// The roles that children of a run have, hidden from `--help`: `--as server|client --address A`.
struct role {
  std::string as;      ///< empty: the parent
  std::string address; ///< of the server, for a client
};
void add_options(options& line, role& to);

/// `--json -|FILE`.
void add_json_option(options& line, std::string& target);

/// The options that give the same shape to another process.
std::vector<std::string> arguments_of(const rpc_shape& shape);
std::vector<std::string> arguments_of(const stream_shape& shape);
std::vector<std::string> arguments_of(const slow_shape& shape);

/// Of one rpc run; `to_figures` gives the keys of the issue in their order.
struct rpc_result {
  double tps = 0; ///< calls per second that were answered while measuring
  double p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0, p9999_us = 0, max_us = 0;
  std::uint64_t errors = 0;
  std::optional<double>
      cpu_us_per_call;      ///< of all processes together; empty where the server is on another host
  double client_rss_mb = 0; ///< of the largest client process
  std::optional<double> server_rss_mb;
  std::optional<double> ratio_to_raw; ///< tps to that of `raw_rpc` beside it
};
figures to_figures(const rpc_result& result);
/// Its latencies from p50 to the largest, also those that `to_figures` leaves out.
figures latencies_of(const rpc_result& result);

/// Of one stream run.
struct stream_result {
  std::uint64_t sent = 0, received = 0; ///< `lost` is the difference
  double msgs_per_s = 0;
  double mb_per_s = 0;                                ///< payload, MB = 10^6 bytes
  std::optional<double> cpu_us_per_msg, cpu_s_per_gb; ///< of both processes, GB = 10^9 bytes of payload
  double sender_rss_mb = 0;
  std::optional<double> receiver_rss_mb;
  std::optional<double> ratio_to_raw; ///< msgs_per_s to that of `raw_stream` beside it
};
figures to_figures(const stream_result& result);

/// Of one slow run: offered = handled + undelivered + refused.
struct slow_result {
  std::uint64_t offered = 0, handled = 0, undelivered = 0, refused = 0;
  double sender_peak_rss_mb = 0;
  std::optional<double> receiver_peak_rss_mb;
};
figures to_figures(const slow_result& result);

} // namespace weir::bench
