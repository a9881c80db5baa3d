// Two muxes, joined by pipes, under a script. An input whose first byte is even drives the world of the
// simulation, with every choice of a run made by the input: both sides are honest, and everything that the
// simulation checks must hold. An odd one tells lies to one side (lied_to.hpp).
#include <thread>

#include <gtest/gtest.h>

#include "tests/fuzz/lied_to.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/simulation/world.hpp"

namespace weir::net {
namespace {

using sim::dice;

// ---- two honest sides

/// What is left to flow is no part of the script any more: byte by byte, with every check, it takes long.
void widen(sim::world& w) {
  for (auto& n : w.nodes) {
    n->with.read_bytes = 64 << 10;
    n->with.write_bytes = SIZE_MAX;
    n->with.iovecs = 64;
  }
  for (auto& p : w.ports)
    p->out.capacity = 256 << 10;
}

void run_honest(dice d) {
  auto p = sim::random_plan(d);
  sim::world w{std::move(p)};
  w.chance = d;
  w.connect();
  while (w.chance.follows())
    w.step();
  widen(w);
  w.finish();
}

/// Empty, or what broke.
std::string run(std::span<const uint8_t> input) {
  try {
    dice d{0};
    d.follow(input.subspan(1));
    if (input[0] % 2 == 0)
      run_honest(d);
    else
      fuzz::lied_to{d}.run();
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

} // namespace
} // namespace weir::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0)
    return 0;
  GTEST_FLAG_SET(throw_on_failure, true); // mux_pair's own expectations
  std::string fault;
  // Builders keep a slab per thread from one message to the next: an input must not see that of the one
  // before.
  std::thread{[&] { fault = weir::net::run({data, size}); }}.join();
  weir::fuzz::require(fault.empty(), fault);
  return 0;
}
