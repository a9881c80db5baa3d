#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "runtime/program/commands.hpp"

#ifndef WEIR_VERSION
#define WEIR_VERSION "of the source tree"
#endif

namespace weir::program {

namespace {

int help_main(int argc, char** argv);

int version_main(int, char**) {
  fmt::print("weir {}\n", WEIR_VERSION);
  return 0;
}

struct command {
  std::string_view name, summary;
  int (*run)(int, char**);
};

constexpr std::array commands{
    command{"node", "a node that serves echo, sink, report and source", node_main},
    command{"probe", "what a running node does, owes and waits for", probe_main},
    command{"why", "what a service waits for, down to the root", why_main},
    command{"bench", "measure weir on this machine or between two", bench_main},
    command{"help", "this text, or that of a command", help_main},
    command{"version", "which weir this is", version_main},
};

const command* find(std::string_view name) {
  if (name == "--help" || name == "-h")
    name = "help";
  if (name == "--version")
    name = "version";
  for (const auto& c : commands)
    if (c.name == name)
      return &c;
  return nullptr;
}

int unknown_command(std::string_view name) {
  fmt::print(stderr,
             "weir: {}: the commands are node, probe, why, bench, help and version; see 'weir help'\n",
             name.empty() ? "no command" : name);
  return 2;
}

int help_main(int argc, char** argv) {
  if (argc > 1) {
    const auto* about = find(argv[1]);
    if (about == nullptr)
      return unknown_command(argv[1]);
    if (about->run != help_main && about->run != version_main) {
      char option[] = "--help";
      char* words[] = {argv[1], option, nullptr};
      return about->run(2, words);
    }
  }
  fmt::print("weir: actor services across processes and machines, with credit\n\n"
             "usage: weir COMMAND [options]\n");
  for (const auto& c : commands)
    fmt::print("  {:<8} {}\n", c.name, c.summary);
  fmt::print("'weir COMMAND --help' lists the options of a command.\n");
  return 0;
}

} // namespace

} // namespace weir::program

int main(int argc, char** argv) {
  using namespace weir::program;
  std::string_view name = argc > 1 ? argv[1] : "";
  const auto* chosen = find(name);
  if (chosen == nullptr)
    return unknown_command(name);
  try {
    return chosen->run(argc - 1, argv + 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weir {}: {}\n", chosen->name, error.what());
    return 1;
  }
}
