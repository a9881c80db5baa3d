#include "bench/raw.hpp"

#include <string_view>

#include <fmt/format.h>

#include "bench/harness.hpp"
#include "bench/modes.hpp"
#include "bench/raw_client.hpp"
#include "bench/raw_models.hpp"
#include "bench/raw_socket.hpp"

namespace weir::bench {

namespace {

template <class Shape>
process_plan plan_of(std::string mode, const Shape& shape) {
  process_plan plan;
  plan.label = "raw " + mode;
  plan.server = {"bench", "raw", mode, "--as", "server", "--transport", shape.transport};
  plan.client = {"bench", "raw", mode, "--as", "client"};
  auto shaped = arguments_of(shape);
  plan.client.insert(plan.client.end(), shaped.begin(), shaped.end());
  return plan;
}

rpc_result measure(const rpc_shape& shape) { return raw_rpc(shape); }
stream_result measure(const stream_shape& shape) { return raw_stream(shape); }

template <class Shape>
int run_mode(const char* mode, const char* summary, int argc, char** argv) {
  Shape shape;
  role part;
  std::string json;
  options line(fmt::format("weir bench raw {}", mode), summary);
  add_options(line, shape);
  add_json_option(line, json);
  add_options(line, part);
  if (auto status = line.parse(argc, argv))
    return *status;
  if (!part.as.empty())
    allow_many_sockets();
  if (part.as == "server") {
    auto listener = listen_on(shape.transport);
    say_ready(listener.address);
    serve_raw(listener);
  }
  if (part.as == "client") {
    shared_page page(shared_page::inherited{});
    run_raw_client(part.address, shape, page.state());
    return 0;
  }
  json_output output(json);
  auto result = measure(shape);
  result.ratio_to_raw = 1;
  print_table(fmt::format("weir bench raw {}", mode), {{"raw " + shape.transport, to_figures(result)}});
  output.write(to_figures(result));
  return 0;
}

constexpr std::string_view help = R"(weir bench raw: the limit of this machine, by hand-written sockets

usage: weir bench raw MODE [options]
  rpc     calls that are answered
  stream  messages one way, in batches, without copying
  --model threads|epoll|both
          a thread for each connection against epoll on 1 to 1000 connections, beside weir
'weir bench raw MODE --help' lists the options, 'weir bench raw --model both --help' those of the last.
)";

} // namespace

rpc_result raw_rpc(const rpc_shape& shape) { return run_rpc(plan_of("rpc", shape), shape); }

stream_result raw_stream(const stream_shape& shape) { return run_stream(plan_of("stream", shape), shape); }

int raw_main(int argc, char** argv) {
  std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "rpc")
    return run_mode<rpc_shape>("rpc", "calls over hand-written sockets", argc - 1, argv + 1);
  if (mode == "stream")
    return run_mode<stream_shape>("stream", "messages one way over hand-written sockets", argc - 1, argv + 1);
  if (mode == "--help") {
    fmt::print("{}", help);
    return 0;
  }
  if (mode.starts_with("--"))
    return raw_models_main(argc, argv);
  fmt::print(stderr,
             "weir bench raw: {}: the modes are rpc, stream and --model; see 'weir bench raw --help'\n",
             mode.empty() ? "no mode" : mode);
  return 2;
}

} // namespace weir::bench
