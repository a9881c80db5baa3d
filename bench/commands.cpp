#include "runtime/program/commands.hpp"

#include <array>
#include <exception>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "bench/modes.hpp"
#include "bench/processes.hpp"

namespace weir::program {

namespace {

struct mode {
  std::string_view name, summary;
  int (*run)(int, char**);
};

constexpr std::array modes{
    mode{"rpc", "calls from many callers to one service, and how long they take", bench::rpc_main},
    mode{"stream", "typed messages one way, as fast as the other side takes them", bench::stream_main},
    mode{"slow", "a service that cannot keep up: memory stays bounded and nothing is lost", bench::slow_main},
    mode{"mix", "small calls beside streams of large messages on the same link", bench::mix_main},
    mode{"stall", "one stalled session among many on a link: how fast the others are", bench::stall_main},
    mode{"idle", "what sessions and links that do nothing cost in memory", bench::idle_main},
    mode{"latency", "how long calls take that are sent on schedule, beside ZeroMQ", bench::latency_main},
    mode{"raw", "the limit of this machine: the same shapes over hand-written sockets", bench::raw_main},
    mode{"compare", "weir, raw and other systems, interleaved, with medians and ratios", bench::compare_main},
};

void print_help() {
  fmt::print("weir bench: measure weir on this machine\n\nusage: weir bench MODE [options]\n");
  for (const auto& m : modes)
    fmt::print("  {:<8} {}\n", m.name, m.summary);
  fmt::print("'weir bench MODE --help' lists the options of a mode.\n");
}

int run(const mode& m, int argc, char** argv) {
  try {
    return m.run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weir bench {}: {}\n", m.name, error.what());
    return 1;
  }
}

} // namespace

int bench_main(int argc, char** argv) {
  std::string_view wanted = argc > 1 ? argv[1] : "";
  if (wanted == "--help") {
    print_help();
    return 0;
  }
  for (const auto& m : modes)
    if (m.name == wanted)
      return run(m, argc - 1, argv + 1);
  std::string names;
  for (const auto& m : modes)
    names += fmt::format("{}{}", names.empty() ? "" : &m == &modes.back() ? " and " : ", ", m.name);
  fmt::print(stderr, "weir bench: {}: the modes are {}; see 'weir bench --help'\n",
             wanted.empty() ? "no mode" : wanted, names);
  return 2;
}

} // namespace weir::program
