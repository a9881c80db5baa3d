// A node that is told to stop with very much under way (programs/crowded_node.cpp).
#include <map>
#include <sstream>

#include <sys/resource.h>

#include <fmt/format.h>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t messages = 100'000, sessions = 1000;
constexpr uint64_t stack_bytes = 1 << 20; // its frames are larger
constexpr uint64_t ending_ms = 5000;
#else
constexpr uint64_t messages = 1'000'000, sessions = 1000;
constexpr uint64_t stack_bytes = 256 << 10;
constexpr uint64_t ending_ms = 1000;
#endif
constexpr auto drain_timeout = 1s;

/// What the crowd says last: "NAME NUMBER NAME NUMBER ...".
std::map<std::string, uint64_t> figures_in(const std::string& text) {
  std::map<std::string, uint64_t> all;
  std::istringstream in{text};
  std::string name;
  for (uint64_t n = 0; in >> name >> n;)
    all[name] = n;
  return all;
}

/// The peer that stops. Credit for one message on each session, so what follows the first one is parked.
process peer_of_crowd() {
  return process{{WEIR_PROGRAM, "node", "--listen=tcp://127.0.0.1:0", "--listen=tcp://127.0.0.1:0",
                  "--ration=16KiB", "--ration-messages=1", "--budget-bytes=256MiB"}};
}

process start_crowd(const std::string& open, const std::string& silent) {
  std::vector<std::string> words{WEIR_PROGRAMS_DIR "/crowded_node",
                                 "--crowd.peer=" + open,
                                 "--crowd.silent=" + silent,
                                 fmt::format("--crowd.messages={}", messages),
                                 fmt::format("--crowd.sessions={}", sessions),
                                 "--listen=tcp://127.0.0.1:0",
                                 fmt::format("--drain-timeout={}s", drain_timeout.count()),
                                 "--budget-bytes=4GiB",
                                 "--outbound-bytes=2GiB",
                                 "--reply-room=256",
                                 "--ration-messages=16",
                                 "--call-timeout=1h",
                                 "--connect-timeout=1min",
                                 "--hello-timeout=1min",
                                 "--dead-after=1min",
                                 "--caf.scheduler.max-threads=2"};
  return process{std::move(words), {}, {{RLIMIT_STACK, stack_bytes}}};
}

// L5 (keycloak-benchmark 675): close a node while a peer does not read.
TEST(Crowd, AMillionParkedMessagesEndWithTheirNodeInTimeOnASmallStack) {
  auto peer = peer_of_crowd();
  auto open = peer.ready(), silent = peer.ready();
  auto crowd = start_crowd(open, silent);
  machine client;
  auto to = client.node().lookup<Probe>("crowd", crowd.ready());
  EXPECT_EQ(client.call<echo>(to, data_of(0)), failure{}); // its sessions are open
  peer.pause();
  std::vector<std::future<failure>> kept;
  for (int i = 0; i < 100; ++i)
    kept.push_back(client.start<keep>(to, {.timeout = 1h}, data_of(8), [](auto) {}));
  uint64_t parked = 0;
  EXPECT_EQ(client.call<nest>(to, {}, data_of(0), [&](nest::result r) { parked = r.getDepth(); }), failure{});
  EXPECT_GE(parked, messages * 99 / 100);

  auto start = std::chrono::steady_clock::now();
  auto end = crowd.stop();
  EXPECT_GE(std::chrono::steady_clock::now() - start, drain_timeout); // for those that might have ended
  SCOPED_TRACE(end.out + end.err);
  EXPECT_EQ(end.status, 0);
  auto n = figures_in(end.out);
  EXPECT_EQ(n["calls"] + n["tells"], parked);
  EXPECT_EQ(n["answered"], n["calls"]);
  EXPECT_EQ(n["well"], 0u);
  EXPECT_LE(n["unknown"], sessions + 20 * 16); // the first one of each session, and what `stuck` has got
  EXPECT_EQ(n["lost"], n["tells"]);
  EXPECT_EQ(n["refused"], 0u);
  EXPECT_LT(n["used_ms"], ending_ms) << "of processor time, whatever else the machine has to do";
  for (auto& k : kept) {
    if (k.wait_for(process::patience) == std::future_status::ready)
      EXPECT_NE(k.get().code, errc::none);
    else
      ADD_FAILURE() << "a call to the crowd that never ends";
  }
}

} // namespace
} // namespace weir::test
