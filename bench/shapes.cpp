#include "bench/shapes.hpp"

#include <fmt/format.h>

namespace weir::bench {

static constexpr std::uint64_t message_bytes_max = std::uint64_t{1} << 30;

static void add_transport(options& line, std::string& transport) {
  line.choice("transport", transport, {"tcp", "unix"}, "how the processes talk");
}

void add_options(options& line, rpc_shape& shape) {
  line.count("processes", shape.processes, 1, 1000, "client processes")
      .count("callers", shape.callers, 1, 100'000, "callers in each client process")
      .bytes("bytes", shape.bytes, 0, message_bytes_max, "payload of a call and of its answer")
      .duration("seconds", shape.length, seconds(0.05), seconds(86400), "time to measure, after a warm-up")
      .choice("style", shape.style, {"actors", "threads"},
              "callers: actors, or blocking threads; weir has one link for all");
  add_transport(line, shape.transport);
  line.number("rate", shape.rate, 0, 1e9,
              "calls per second of all, timed from the scheduled send; 0: closed loop");
}

void add_options(options& line, stream_shape& shape) {
  line.bytes("bytes", shape.bytes, 1, message_bytes_max, "payload of a message")
      .count("messages", shape.messages, 1, 1'000'000'000'000, "messages to send");
  add_transport(line, shape.transport);
}

void add_options(options& line, slow_shape& shape) {
  line.bytes("bytes", shape.bytes, 0, message_bytes_max, "payload of a message")
      .number("rate", shape.rate, 0.1, 1e6, "messages per second that the service can take")
      .duration("seconds", shape.length, seconds(0.05), seconds(86400), "time to offer messages")
      .choice("by", shape.by, {"offer", "send", "call"}, "how the messages are sent");
  add_transport(line, shape.transport);
}

void add_options(options& line, role& to) {
  line.choice("as", to.as, {"server", "client"}, "").text("address", to.address, "ADDRESS", "");
}

void add_json_option(options& line, std::string& target) {
  line.text("json", target, "-|FILE",
            "also give the result as one JSON object: - is the last line of stdout");
}

std::vector<std::string> arguments_of(const rpc_shape& shape) {
  return {"--processes", fmt::to_string(shape.processes),
          "--callers",   fmt::to_string(shape.callers),
          "--bytes",     fmt::to_string(shape.bytes),
          "--seconds",   fmt::to_string(shape.length.count()),
          "--style",     shape.style,
          "--transport", shape.transport,
          "--rate",      fmt::to_string(shape.rate)};
}

std::vector<std::string> arguments_of(const stream_shape& shape) {
  return {"--bytes",     fmt::to_string(shape.bytes),
          "--messages",  fmt::to_string(shape.messages),
          "--transport", shape.transport};
}

std::vector<std::string> arguments_of(const slow_shape& shape) {
  return {"--bytes",     fmt::to_string(shape.bytes),
          "--rate",      fmt::to_string(shape.rate),
          "--seconds",   fmt::to_string(shape.length.count()),
          "--by",        shape.by,
          "--transport", shape.transport};
}

static std::int64_t count(std::uint64_t n) { return static_cast<std::int64_t>(n); }

figures to_figures(const rpc_result& result) {
  figures to;
  to.add_rounded("tps", result.tps, 0);
  to.add_rounded("p50_us", result.p50_us, 1);
  to.add_rounded("p99_us", result.p99_us, 1);
  to.add_rounded("p999_us", result.p999_us, 1);
  to.add_rounded("max_us", result.max_us, 1);
  to.add_count("errors", count(result.errors));
  to.add_rounded("cpu_us_per_call", result.cpu_us_per_call, 2);
  to.add_rounded("client_rss_mb", result.client_rss_mb, 1);
  to.add_rounded("server_rss_mb", result.server_rss_mb, 1);
  to.add_rounded("ratio_to_raw", result.ratio_to_raw, 3);
  return to;
}

figures latencies_of(const rpc_result& result) {
  figures to;
  to.add_rounded("p50_us", result.p50_us, 1);
  to.add_rounded("p90_us", result.p90_us, 1);
  to.add_rounded("p99_us", result.p99_us, 1);
  to.add_rounded("p999_us", result.p999_us, 1);
  to.add_rounded("p9999_us", result.p9999_us, 1);
  to.add_rounded("max_us", result.max_us, 1);
  return to;
}

figures to_figures(const stream_result& result) {
  figures to;
  to.add_count("sent", count(result.sent));
  to.add_count("received", count(result.received));
  to.add_count("lost", count(result.sent) - count(result.received));
  to.add_rounded("msgs_per_s", result.msgs_per_s, 0);
  to.add_rounded("mb_per_s", result.mb_per_s, 1);
  to.add_rounded("cpu_us_per_msg", result.cpu_us_per_msg, 3);
  to.add_rounded("cpu_s_per_gb", result.cpu_s_per_gb, 3);
  to.add_rounded("sender_rss_mb", result.sender_rss_mb, 1);
  to.add_rounded("receiver_rss_mb", result.receiver_rss_mb, 1);
  to.add_rounded("ratio_to_raw", result.ratio_to_raw, 3);
  return to;
}

figures to_figures(const slow_result& result) {
  figures to;
  to.add_count("offered", count(result.offered));
  to.add_count("handled", count(result.handled));
  to.add_count("undelivered", count(result.undelivered));
  to.add_count("refused", count(result.refused));
  to.add_rounded("sender_peak_rss_mb", result.sender_peak_rss_mb, 1);
  to.add_rounded("receiver_peak_rss_mb", result.receiver_peak_rss_mb, 1);
  return to;
}

} // namespace weir::bench
