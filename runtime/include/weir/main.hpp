#pragma once
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include <caf/actor_system.hpp>

#include <weir/caf.hpp>
#include <weir/config.hpp>
#include <weir/node.hpp>

namespace weir {

constexpr int exit_bad_options = 2;

/// While one lives, SIGINT and SIGTERM end `wait` instead of the process: what a server waits for. Make it
/// before you say that you are ready. One at a time in a process.
class stop_signal {
public:
  stop_signal();
  ~stop_signal();
  stop_signal(const stop_signal&) = delete;
  stop_signal& operator=(const stop_signal&) = delete;

  /// Returns when the process was asked to stop, with the number of the signal. On one thread outside CAF.
  int wait();
};

/// What `main` does: makes the configuration, loads it, starts CAF, calls `run(system, configuration)` and
/// waits for the actors. The exit status: what `run` returns (0 when it returns nothing), 0 after `--help`
/// and `--dump-config`, 2 with one line on stderr when the configuration is wrong or a node cannot start.
/// `Blocks`: the id blocks of your own CAF message types.
template <class... Blocks, class Result, class Config>
int run_main(Result (*run)(caf::actor_system&, const Config&), int argc, char** argv) {
  static_assert(std::is_base_of_v<config, Config>,
                "caf_main takes a const weir::config& or a class derived from it");
  static_assert(std::is_void_v<Result> || std::is_same_v<Result, int>,
                "caf_main returns nothing or the exit status");
  init_types<Blocks...>();
  Config cfg;
  auto next = cfg.load(argc, argv);
  if (!next) {
    std::fprintf(stderr, "%s: %s\n", argc > 0 ? argv[0] : "weir", next.error().text.c_str());
    return exit_bad_options;
  }
  if (*next == config::action::exit_ok)
    return EXIT_SUCCESS;
  caf::actor_system system{cfg};
  try {
    if constexpr (std::is_void_v<Result>) {
      run(system, cfg);
      return EXIT_SUCCESS;
    } else {
      return run(system, cfg);
    }
  } catch (const start_error& e) {
    std::fprintf(stderr, "%s: %s\n", argc > 0 ? argv[0] : "weir", e.what());
    return exit_bad_options;
  }
}

} // namespace weir

/// Defines `main` for a program that has `void` or `int caf_main(caf::actor_system&, const weir::config&)`.
#define WEIR_MAIN(...)                                                                                       \
  int main(int argc, char** argv) { return ::weir::run_main<__VA_ARGS__>(&caf_main, argc, argv); }
