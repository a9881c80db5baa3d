#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <weir/config.hpp>
#include <weir/main.hpp>
#include <weir/node.hpp>

#include "runtime/program/commands.hpp"
#include "runtime/program/services.hpp"

namespace weir::program {

namespace {

struct node_config : weir::config {
  std::string placement = "loop";

  node_config() {
    about("weir node: a node that serves echo, sink, report and source, until SIGTERM or SIGINT");
    add_option("node.placement", "where the services run: loop or scheduler", placement);
    defaults().listen = {"tcp://127.0.0.1:7070"};
  }
};

int refuse(std::string_view words) {
  fmt::print(stderr, "weir node: {}\n", words);
  return exit_bad_options;
}

std::string advice_for(errc code) {
  switch (code) {
  case errc::address_in_use:
    return "; stop who has it, or choose another with --listen (port 0 is any free one)";
  case errc::bad_uri:
    return "; see --listen and --connect in 'weir node --help'";
  default:
    return {};
  }
}

int serve_until_stopped(node_config& cfg, placement where) {
  stop_signal stop;
  caf::actor_system system{cfg};
  node n{system, cfg};
  if (auto served = serve_all(n, where); !served)
    return refuse(served.error().text);
  for (const auto& address : n.addresses())
    fmt::print("READY {}\n", address);
  std::fflush(stdout);
  stop.wait();
  n.stop();
  return 0;
}

} // namespace

int node_main(int argc, char** argv) {
  init_types<>();
  node_config cfg;
  std::vector<const char*> words(argv, argv + argc);
  words.at(0) = "weir node"; // as `--help` shows it
  auto next = cfg.load(argc, words.data());
  if (!next)
    return refuse(next.error().text);
  if (*next == config::action::exit_ok)
    return 0;
  if (!cfg.arguments().empty())
    return refuse(fmt::format("{}: not an option; see 'weir node --help'", cfg.arguments().front()));
  if (cfg.placement != "loop" && cfg.placement != "scheduler")
    return refuse(fmt::format("node.placement: '{}' is neither loop nor scheduler", cfg.placement));
  try {
    return serve_until_stopped(cfg, cfg.placement == "loop" ? placement::loop : placement::scheduler);
  } catch (const start_error& error) {
    return refuse(error.what() + advice_for(error.why.code));
  }
}

} // namespace weir::program
