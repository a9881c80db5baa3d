// Cases about memory and slow services from public bug reports, with the memory of whole processes.
#include <map>

#include <sys/resource.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/process/hand_made_peer.hpp"
#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr uint64_t operator""_MiB(unsigned long long n) { return n << 20; }

#if defined(__SANITIZE_ADDRESS__)
constexpr bool counts_memory = false; // its own is far more
#else
constexpr bool counts_memory = true;
#endif

// ---- M2

// rsocket-java 514
TEST(HandMade, M2_APeerThatGrantsAllThereIsAndNeverReadsGetsNoMoreThanTheSenderMayHold) {
  node_options o;
  o.outbound_bytes = 8_MiB;
  o.message_max = 1_MiB;
  machine sender{o};
  hand_made_door door;
  auto before = memory_bytes(getpid(), "VmRSS");
  std::vector<std::shared_ptr<pourer::result>> streams;
  for (int i = 0; i < 32; ++i) // each may keep 1 MiB (send-buffer)
    streams.push_back(pour(sender, sender.node().lookup<Piece>("sink", door.uri()), 1'000'000, 1000));
  auto peer = door.accept();
  peer.greet();
  size_t opened = 0;
  ASSERT_TRUE(peer.hear([&](net::say::control& c) {
    net::say::control answer;
    for (auto& open : c.opens)
      answer.openeds.push_back({open.session, {net::offset_max, net::offset_max}, 1_MiB});
    opened += c.opens.size();
    EXPECT_TRUE(answer.empty() || peer.say(answer));
    return opened == streams.size();
  }));
  auto held = [&] { return sender.node().stats().outbound; };
  ASSERT_TRUE(
      eventually([&] { return held() >= o.outbound_bytes; })); // the others have room in their sessions
  uint64_t sent = 0;
  auto stands_still = [&] {
    uint64_t now = 0;
    for (auto& s : streams)
      now += s->sent;
    return std::exchange(sent, now) == now;
  };
  EXPECT_TRUE(eventually(stands_still));
  EXPECT_LE(held(), o.outbound_bytes + 1_MiB);
  EXPECT_LE(sent * 1000, o.outbound_bytes + 16_MiB); // what is in the sockets
  if (counts_memory) {
    EXPECT_LE(memory_bytes(getpid(), "VmRSS"), before + o.outbound_bytes + 32_MiB);
  }
  { auto gone = std::move(peer); }
  for (auto& s : streams) {
    auto end = s->end.get_future();
    ASSERT_EQ(end.wait_for(process::patience), std::future_status::ready);
    EXPECT_EQ(end.get().code, errc::link_lost);
  }
  EXPECT_TRUE(sender.is_at_base_line());
}

TEST(HandMade, M2_AGrantBeyondEverySessionIsNotBelieved) {
  machine sender;
  hand_made_door door;
  auto stream = pour(sender, sender.node().lookup<Piece>("sink", door.uri()), 1'000'000, 1000);
  auto peer = door.accept();
  peer.greet();
  ASSERT_TRUE(peer.hear([&](net::say::control& c) {
    net::say::control answer;
    for (auto& open : c.opens)
      answer.openeds.push_back({open.session, {~uint64_t{0} >> 1, ~uint64_t{0} >> 1}, 1_MiB});
    return !answer.empty() && peer.say(answer);
  }));
  auto end = stream->end.get_future();
  ASSERT_EQ(end.wait_for(process::patience), std::future_status::ready);
  EXPECT_EQ(end.get().code, errc::grant_overflow);
  EXPECT_EQ(stream->sent, 0u);
}

// rsocket-java 864
TEST(HandMade, M2_FragmentsWithoutEndAreAbortedAndCostNothing) {
  auto o = machine::listening();
  o.ration = 1_MiB;
  machine server{o}, client;
  auto s = std::make_shared<seen>();
  ASSERT_TRUE(server.node().serve<Piece>("sink", server.node().spawn<catcher>(s)));
  ASSERT_TRUE(server.node().serve<Probe>("probe", server.node().spawn<probe>()));
  auto good = client.node().lookup<Probe>("probe", server.address());
  ASSERT_EQ(client.call<echo>(good, data_of(10)), failure{});
  auto before = memory_bytes(getpid(), "VmRSS");

  auto peer = hand_made_peer::to(server.address());
  peer.greet();
  net::say::control c;
  for (uint32_t session : {1u, 3u})
    c.opens.push_back({session, "sink", detail::type_id<Piece>(), true, 0, {0, 0}});
  ASSERT_TRUE(peer.say(c));
  size_t opened = 0;
  ASSERT_TRUE(peer.hear([&](net::say::control& answer) { return (opened += answer.openeds.size()) == 2; }));
  auto fragment = [](uint32_t session, std::vector<uint64_t> words) {
    net::frame_header h{static_cast<uint32_t>(words.size() * 8), session, net::frame_kind::fragment,
                        static_cast<uint8_t>(net::lane::normal), 0,       0};
    std::string bytes(reinterpret_cast<char*>(&h), sizeof h);
    return bytes + std::string(reinterpret_cast<char*>(words.data()), h.length);
  };
  auto bytes = fragment(1, {uint64_t{1} << 40, 0}); // its length is above message-max
  bytes += fragment(3, {512_KiB, 0});               // this one's is not
  ASSERT_TRUE(peer.write(bytes.data(), bytes.size()));
  auto more = fragment(3, {0});
  std::string thousand;
  for (int i = 0; i < 1000; ++i)
    thousand += more;
  for (int i = 0; i < 1000; ++i) // 10^6 of them, of which 65,535 fit
    ASSERT_TRUE(peer.write(thousand.data(), thousand.size()));
  std::map<uint32_t, errc> aborted;
  ASSERT_TRUE(peer.hear([&](net::say::control& said) {
    for (auto& a : said.aborts)
      aborted[a.session] = a.reason;
    return aborted.size() == 2;
  }));
  EXPECT_EQ(aborted[1], errc::message_too_large);
  EXPECT_EQ(aborted[3], errc::malformed_message);
  EXPECT_EQ(client.call<echo>(good, data_of(10)), failure{});
  EXPECT_EQ(s->messages, 0u);
  if (counts_memory) {
    EXPECT_LE(memory_bytes(getpid(), "VmRSS"), before + 16_MiB);
  }
  good = {};
  EXPECT_EQ(server.node().stats().links, 2u); // it is the sessions that were at fault
  { auto gone = std::move(peer); }
  EXPECT_TRUE(server.is_at_base_line());
}

// ---- M4

// nats-server 5673
TEST(Limited, M4_TheThroughputBenchmarkRunsInsideOf256MiB) {
  if (!counts_memory)
    GTEST_SKIP() << "AddressSanitizer needs more address space than this";
  for (auto [bytes, messages] : {std::pair{"64", "100000"}, std::pair{"64k", "6000"}}) {
    process bench{{WEIR_PROGRAM, "bench", "stream", "--bytes", bytes, "--messages", messages, "--placement",
                   "loop", "--raw", "no", "--json", "-"},
                  {},
                  {{RLIMIT_AS, 256_MiB}}};
    auto end = bench.end(2 * process::patience);
    EXPECT_EQ(end.status, 0) << end.out << end.err;
    EXPECT_THAT(end.out, HasSubstr(fmt::format("\"sent\":{0},\"received\":{0},\"lost\":0,", messages)));
  }
}

} // namespace
} // namespace weir::test
