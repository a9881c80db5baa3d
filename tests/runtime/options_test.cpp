#include <algorithm>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "runtime/machine.hpp"
#include "runtime/node_option_table.hpp"

namespace weir::settings {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;

machine machine_of(uint64_t memory_bytes, uint32_t cores = 2) {
  return {memory_bytes, cores, "host", "program"};
}

node_options resolved(node_options o, const machine& m = machine_of(16 * gib)) {
  auto wrong = resolve_and_check(o, m);
  EXPECT_FALSE(wrong) << wrong->option << ": " << wrong->text;
  return o;
}

void expect_error(node_options o, std::string_view option, std::string_view words,
                  const machine& m = machine_of(16 * gib)) {
  auto wrong = resolve_and_check(o, m);
  ASSERT_TRUE(wrong) << option;
  EXPECT_EQ(wrong->option, option);
  EXPECT_EQ(wrong->text, words);
}

TEST(NodeOptions, SuitALargeMachine) {
  auto o = resolved({});
  EXPECT_EQ(o.name, "program@host");
  EXPECT_EQ(o.io_threads, 1u);
  EXPECT_EQ(o.budget_bytes, gib);
  EXPECT_EQ(o.outbound_bytes, 614 * mib);
  EXPECT_EQ(o.reserve_bytes, 64 * mib);
  EXPECT_EQ(o.message_max, 16 * mib);
  EXPECT_EQ(o.held_bytes, 16 * mib);
  EXPECT_EQ(o.ration_messages, 0u) << "they follow the bytes";
}

TEST(NodeOptions, SuitASmallMachine) {
  auto o = resolved({}, machine_of(256 * mib, 1));
  EXPECT_EQ(o.io_threads, 1u);
  EXPECT_EQ(o.budget_bytes, 64 * mib);
  EXPECT_EQ(o.outbound_bytes, 38 * mib);
  EXPECT_EQ(o.reserve_bytes, 8 * mib);
  EXPECT_EQ(o.message_max, 4 * mib);
  EXPECT_EQ(o.held_bytes, 2 * mib);
}

TEST(NodeOptions, ShareTheBudgetAmongLoops) {
  auto o = resolved({}, machine_of(64 * gib, 64));
  EXPECT_EQ(o.io_threads, 32u);
  EXPECT_EQ(o.reserve_bytes, 4 * mib); // of each loop's 32 MiB
  EXPECT_EQ(o.message_max, 2 * mib);
}

TEST(NodeOptions, AreTheSameWhenResolvedAgain) {
  auto once = resolved({});
  EXPECT_EQ(resolved(once), once);
}

TEST(NodeOptions, TheReserveGrowsWithTheMessage) {
  EXPECT_EQ(resolved({.message_max = 100 * mib}).reserve_bytes, 200 * mib);
}

TEST(NodeOptions, MessagesFollowTheRation) {
  EXPECT_EQ(resolved({.ration = 64 * kib}).ration_messages, 512u);
  EXPECT_EQ(resolved({.ration = infinite}).ration_messages, mib);
  EXPECT_EQ(resolved({.ration = automatic}).ration_messages, 0u) << "as it changes";
  EXPECT_EQ(resolved({.ration = 64 * kib, .ration_messages = 7}).ration_messages, 7u);
}

TEST(NodeOptions, RefuseNumbersOutOfRange) {
  expect_error({.io_threads = 257}, "io-threads", "257 is out of range (1 to 256, or 0)");
  expect_error({.spin = 1001us}, "spin", "1001us is out of range (0 to 1ms)");
  expect_error({.spin = -1us}, "spin", "a negative time");
  expect_error({.budget_bytes = 1}, "budget-bytes", "1 is out of range (1MiB to 1TiB, or 0)");
  expect_error({.ration = 16 * kib - 1}, "ration", "16383 is out of range (16KiB to 1GiB, auto or inf)");
  expect_error({.ration = 0}, "ration", "0 is out of range (16KiB to 1GiB, auto or inf)");
  expect_error({.grant_at = 1}, "grant-at", "1 is out of range (2 to 64)");
  expect_error({.fragment = 2048}, "fragment", "2KiB is out of range (4KiB to 1MiB)");
  expect_error({.send_buffer = infinite}, "send-buffer", "inf is out of range (4KiB to 1GiB)");
  expect_error({.call_timeout = 25h}, "call-timeout", "25h is out of range (1ms to 24h)");
}

TEST(NodeOptions, RefuseBadNames) {
  expect_error({.cluster = ""}, "cluster", "a text of 0 bytes is out of range (1 to 255 bytes)");
  expect_error({.name = std::string(256, 'x')}, "name",
               "a text of 256 bytes is out of range (0 to 255 bytes)");
}

TEST(NodeOptions, RefuseBadUris) {
  expect_error({.listen = {"tcp://a:1", "tcp://b"}}, "listen", "'tcp://b': the port is missing");
  expect_error({.connect = {"tcp://a:0"}}, "connect",
               "'tcp://a:0': one port to dial is needed, neither 0 nor a range");
  expect_error({.connect = {"tcp://a:1-2"}}, "connect",
               "'tcp://a:1-2': one port to dial is needed, neither 0 nor a range");
  resolved({.listen = {"tcp://a:0", "tcp://a:1-2"}, .connect = {"unix:///a"}});
}

TEST(NodeOptions, RefuseMemoryThatDoesNotFitTogether) {
  auto half = "half of budget-bytes (64MiB) / io-threads (1)";
  expect_error({.budget_bytes = 64 * mib, .ration = 33 * mib}, "ration",
               std::string("33MiB is too large: at most 32MiB, ") + half);
  expect_error({.budget_bytes = 64 * mib, .group_ration = 33 * mib}, "group-ration",
               std::string("33MiB is too large: at most 32MiB, ") + half);
  expect_error({.budget_bytes = 64 * mib, .reserve_bytes = 33 * mib}, "reserve-bytes",
               std::string("33MiB is too large: at most 32MiB, ") + half);
  expect_error({.budget_bytes = 64 * mib, .held_bytes = 33 * mib}, "held-bytes",
               std::string("33MiB is too large: at most 32MiB, ") + half);
  expect_error({.reserve_bytes = 64 * mib, .message_max = 33 * mib}, "message-max",
               "33MiB is too large: at most 32MiB, half of reserve-bytes (64MiB)");
  expect_error({.message_max = 300 * mib}, "message-max",
               "300MiB is too large: at most 256MiB, half of reserve-bytes (512MiB)");
  expect_error({.outbound_bytes = 8 * mib, .message_max = 16 * mib}, "message-max",
               "16MiB is too large: at most 8MiB, outbound-bytes (8MiB) / io-threads (1)");
  expect_error({.message_max = 8 * kib, .reply_room = 9 * kib}, "reply-room",
               "9KiB is too large: at most 8KiB, message-max");
  expect_error({.send_buffer = gib}, "send-buffer",
               "1GiB is too large: at most 614MiB, outbound-bytes (614MiB) / io-threads (1)");
  resolved({.budget_bytes = 64 * mib, .ration = infinite});
}

TEST(NodeOptions, RefuseTimesThatDoNotFitTogether) {
  expect_error({.ping_interval = 1s, .dead_after = 2s}, "dead-after",
               "2s is too short: more than 2 x ping-interval (1s) is needed");
  expect_error({.reconnect_base = 2s, .reconnect_cap = 1s}, "reconnect-cap",
               "1s is too short: at least reconnect-base (2s) is needed");
}

TEST(NodeOptions, RefuseAMachineThatIsTooSmall) {
  expect_error({}, "budget-bytes", "512KiB is out of range (1MiB to 1TiB, or 0)", machine_of(2 * mib));
}

TEST(NodeOptions, ValidateNamesTheOptionFirst) {
  node_options o{.grant_at = 1};
  auto done = validate(o);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, errc::bad_option);
  EXPECT_EQ(done.error().text, "grant-at: 1 is out of range (2 to 64)");
}

// Whatever the machine, the defaults must start.
RC_GTEST_PROP(NodeOptions, DefaultsFitOnEveryMachine, ()) {
  auto memory = *rc::gen::inRange<uint64_t>(64 * mib, 1024 * gib);
  auto cores = *rc::gen::inRange<uint32_t>(1, 1000);
  auto most = static_cast<uint32_t>(memory / (64 * mib)) * 2; // a loop needs a share of 16 MiB
  node_options o;
  auto wrong = resolve_and_check(o, machine_of(memory, std::min(cores, most)));
  RC_ASSERT(!wrong);
  RC_ASSERT(o.reserve_bytes >= 2 * o.message_max);
}

TEST(NodeOptionTable, CoversEveryField) {
  // A new field makes the struct larger or breaks the count; then it needs a row.
  EXPECT_EQ(node_option_table().size(), 40u);
}

class MemoryLimit : public testing::Test {
protected:
  void write(const std::string& path, std::string_view text) {
    auto full = root_ + path;
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }

  void SetUp() override {
    std::filesystem::remove_all(root_);
    write("/proc/meminfo", "MemFree: 1 kB\nMemTotal:       8388608 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void expect_limit(uint64_t bytes) { EXPECT_EQ(memory_limit_bytes(root_), bytes); }

  std::string root_ = testing::TempDir() + "weir-memory-" + std::to_string(getpid());
};

TEST_F(MemoryLimit, IsTheMachinesMemoryWithoutCgroups) { expect_limit(8 * gib); }

TEST_F(MemoryLimit, IsTheLowestOnTheWayUpInVersion2) {
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  write("/sys/fs/cgroup/a/b/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/a/memory.max", "2147483648\n");
  expect_limit(gib);
}

TEST_F(MemoryLimit, IsReadFromTheMemoryControllerInVersion1) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n");
  write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "536870912\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  expect_limit(512 * mib);
}

TEST_F(MemoryLimit, SeesTheRootOfItsContainer) {
  write("/proc/self/cgroup", "4:memory:/docker/abc\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
  expect_limit(256 * mib);
}

TEST_F(MemoryLimit, IgnoresWhatItCannotRead) {
  write("/proc/self/cgroup", "nonsense\n0::/a\n");
  write("/sys/fs/cgroup/a/memory.max", "a lot\n");
  expect_limit(8 * gib);
  EXPECT_EQ(memory_limit_bytes("/nowhere"), gib);
}

} // namespace
} // namespace weir::settings
