// Runs by the seed. SIM_SEED=n replays one (with SIM_TRACE=1 in words), SIM_SEEDS=n runs that many in all
// (from SIM_FIRST on), SIM_JOBS=n shares them among processes. SIM_CREDIT=FILE
// writes what happens to credit, for tests/model/replay.sh.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "world.hpp"

namespace weir::net::sim {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  auto* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

volatile uint64_t seed_now = 0;

std::string replay(uint64_t seed) {
  return "replay with: SIM_SEED=" + std::to_string(seed) +
         " SIM_TRACE=1 build/tests/simulation --gtest_filter='Seeds.A'";
}

extern "C" void on_crash(int signal) {
  char text[160];
  auto n = std::snprintf(
      text, sizeof text,
      "\nseed %llu crashed: SIM_SEED=%llu build/tests/simulation --gtest_filter='Seeds.A'\n",
      static_cast<unsigned long long>(seed_now), static_cast<unsigned long long>(seed_now));
  (void)!write(STDERR_FILENO, text, static_cast<size_t>(n));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// False: it broke, and said so.
bool holds(uint64_t seed) {
  seed_now = seed;
  auto fault = run_seed(seed, from_environment("SIM_TRACE", 0) != 0);
  if (fault.empty())
    return true;
  std::fprintf(stderr, "seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed), fault.c_str(),
               replay(seed).c_str());
  return false;
}

uint64_t failures_among(uint64_t first, uint64_t n) {
  uint64_t failures = 0;
  for (auto seed = first; seed < first + n && failures < 10; ++seed)
    failures += !holds(seed);
  return failures;
}

bool all_hold(uint64_t first, uint64_t n, uint64_t jobs) {
  if (jobs <= 1)
    return failures_among(first, n) == 0;
  for (uint64_t i = 0; i < jobs; ++i) {
    auto from = first + n * i / jobs, to = first + n * (i + 1) / jobs;
    if (fork() == 0)
      _exit(failures_among(from, to - from) == 0 ? 0 : 1);
  }
  auto good = true;
  for (int status = 0; wait(&status) > 0;)
    good = good && status == 0;
  return good;
}

/// Part `part` of eight of the seeds of this run.
void expect_part_holds(uint64_t part) {
  std::signal(SIGABRT, on_crash);
  std::signal(SIGSEGV, on_crash);
  if (auto seed = from_environment("SIM_SEED", 0); seed != 0) {
    EXPECT_TRUE(part != 0 || holds(seed)) << replay(seed);
    return;
  }
  auto each = from_environment("SIM_SEEDS", 1600) / 8;
  auto first = from_environment("SIM_FIRST", 1);
  EXPECT_TRUE(all_hold(first + part * each, each, from_environment("SIM_JOBS", 1)));
}

TEST(Seeds, A) { expect_part_holds(0); }
TEST(Seeds, B) { expect_part_holds(1); }
TEST(Seeds, C) { expect_part_holds(2); }
TEST(Seeds, D) { expect_part_holds(3); }
TEST(Seeds, E) { expect_part_holds(4); }
TEST(Seeds, F) { expect_part_holds(5); }
TEST(Seeds, G) { expect_part_holds(6); }
TEST(Seeds, H) { expect_part_holds(7); }

} // namespace
} // namespace weir::net::sim
