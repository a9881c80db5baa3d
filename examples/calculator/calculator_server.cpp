// A service in one process, its caller (calculator_client.cpp) in another:
//
//     calculator_server --listen tcp://127.0.0.1:7000
//     calculator_client --connect tcp://127.0.0.1:7000

#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>

#include "calculator.hpp"

void caf_main(caf::actor_system& sys, const weir::config& cfg) {
  weir::stop_signal stop;
  weir::node node{sys, cfg};
  node.serve<Calculator>("calculator", node.spawn<calculator>());
  for (auto& at : node.addresses())
    fmt::print("READY {}\n", at);
  std::fflush(stdout);
  stop.wait();
}

WEIR_MAIN()
