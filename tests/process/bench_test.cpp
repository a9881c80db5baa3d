// The modes of `weir bench` that measure several things in one run: what they say, and that it is measured.
#include <sys/resource.h>

#include <boost/json.hpp>
#include <gmock/gmock.h>

#include "runtime/program/services.capnp.h"
#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using testing::HasSubstr;

process::ending bench(std::vector<std::string> words, const process::resource_limits& limits = {}) {
  words.insert(words.begin(), {WEIR_PROGRAM, "bench"});
  return process{std::move(words), {}, limits}.end(2 * process::patience);
}

/// The last line of what it prints with `--json -`.
json::object result_of(std::vector<std::string> words, const process::resource_limits& limits = {}) {
  words.insert(words.end(), {"--json", "-"});
  auto ending = bench(std::move(words), limits);
  EXPECT_EQ(ending.status, 0) << ending.out << ending.err;
  while (ending.out.ends_with('\n'))
    ending.out.pop_back();
  json::error_code error;
  auto value = json::parse(ending.out.substr(ending.out.rfind('\n') + 1), error);
  EXPECT_TRUE(!error && value.is_object()) << ending.out;
  return value.is_object() ? value.get_object() : json::object{};
}

double number(const json::object& in, std::string_view key) {
  const auto* found = in.if_contains(json::string_view{key.data(), key.size()});
  EXPECT_TRUE(found != nullptr && found->is_number()) << key;
  return found != nullptr && found->is_number() ? found->to_number<double>() : -1;
}

std::vector<std::string> first_keys(const json::object& of, size_t n) {
  std::vector<std::string> keys;
  for (auto& member : of)
    if (keys.size() < n)
      keys.emplace_back(member.key());
  return keys;
}

TEST(Bench, MixComparesCallsBesideStreamsWithCallsAlone) {
  auto r = result_of({"mix", "--seconds", "0.1", "--rounds", "1", "--placement", "loop", "--bulk", "2"});
  EXPECT_THAT(first_keys(r, 6), testing::ElementsAre("idle_p50_us", "idle_p99_us", "p50_us", "p99_us",
                                                     "bulk_mb_per_s", "bulk_alone_mb_per_s"));
  for (const auto& key : first_keys(r, 6))
    EXPECT_GT(number(r, key), 0) << key;
  EXPECT_LE(number(r, "idle_p50_us"), number(r, "idle_p99_us"));
  EXPECT_NEAR(number(r, "p99_ratio"), number(r, "p99_us") / number(r, "idle_p99_us"), 0.01);
  EXPECT_NEAR(number(r, "bulk_ratio"), number(r, "bulk_mb_per_s") / number(r, "bulk_alone_mb_per_s"), 0.01);
  EXPECT_EQ(number(r, "errors"), 0);
}

TEST(Bench, StallHasOneStreamThatStopsWhenItsRationIsUsedUp) {
  auto r = result_of({"stall", "--sessions", "5", "--seconds", "0.1", "--rounds", "2", "--placement", "loop",
                      "--ration", "64KiB", "--send-buffer", "64KiB", "--bytes", "1000"});
  EXPECT_GT(number(r, "mb_per_s"), 0);
  EXPECT_GT(number(r, "alone_mb_per_s"), 0);
  EXPECT_GT(number(r, "ratio"), 0);
  EXPECT_GE(number(r, "stalled_bytes"), 32 << 10);
  EXPECT_LE(number(r, "stalled_bytes"), 3 * (64 << 10)); // a ration, a send buffer, and what is begun
}

TEST(Bench, LatencySendsAShareOfWhatItHasMeasured) {
  auto r = result_of(
      {"latency", "--load", "0.2", "--callers", "4", "--seconds", "0.2", "--rounds", "1", "--peer", "none"});
  EXPECT_NEAR(number(r, "rate"), 0.2 * number(r, "max_tps"), 1);
  EXPECT_GT(number(r, "tps"), 0);
  double before = 0;
  for (const auto* key : {"p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us"}) {
    EXPECT_GE(number(r, key), before) << key;
    before = number(r, key);
  }
  EXPECT_GT(before, 0);
  EXPECT_EQ(number(r, "errors"), 0);
}

/// What `weir bench rpc` calls; one of its calls takes long.
class hiccup : public weir::service<program::Echo> {
public:
  static constexpr int
      at = 450; // calls: in the measuring of a run with 1000 per second and 300 ms of warm-up
  static constexpr auto length = 300ms;
  using service::service;
  using echo = weir::method<&program::Echo::Client::echoRequest>;
  using pass = weir::method<&program::Echo::Client::passRequest>;
  handlers make_handlers() override {
    return {on<echo>([this](echo::in in, echo::out out) {
              if (++calls_ == at)
                std::this_thread::sleep_for(length);
              out.setSequence(in.getSequence());
              out.setCheck(in.getCheck());
              out.setData(in.getData());
            }),
            on<pass>([](pass::in, pass::out) {})};
  }

private:
  int calls_ = 0;
};

TEST(Bench, CallsThatWereDueWhileTheServiceHungCountWithTheirWaitingTime) {
  auto m = std::make_unique<machine>(machine::listening());
  ASSERT_TRUE(m->node().serve<program::Echo>("echo", m->system().spawn<hiccup>()));
  auto r = result_of(
      {"rpc", "--connect", m->address(), "--rate", "1000", "--seconds", "1", "--placement", "loop"});
  // 300 of 1000 calls waited for up to 300 ms. Had those that were due not been sent, one would have.
  EXPECT_GE(number(r, "p99_us"), 200'000);
  EXPECT_GE(number(r, "tps"), 900);
  EXPECT_EQ(number(r, "errors"), 0);
}

TEST(Bench, RawModelsGiveEachConnectionOneCall) {
  auto r = result_of({"raw", "--model", "both", "--connections", "1,3", "--loops", "2", "--seconds", "0.1",
                      "--rounds", "1"});
  for (const auto* system : {"threads", "epoll", "weir_2_loops", "weir_one_link"}) {
    ASSERT_TRUE(r.contains(system)) << system;
    const auto& three = r.at(system).as_object().at("3").as_object();
    EXPECT_GT(number(three, "calls_per_s"), 0) << system;
    EXPECT_GT(number(three, "cpu_us_per_call"), 0) << system;
    EXPECT_EQ(number(three, "links"), system == std::string{"weir_one_link"} ? 1 : 3);
  }
  EXPECT_EQ(r.at("skipped").as_string(), "");
}

TEST(Bench, RawModelsSayWhatTheSystemDoesNotAllow) {
  auto r = result_of({"raw", "--model", "epoll", "--connections", "1,100", "--loops", "1", "--seconds",
                      "0.05", "--rounds", "1"},
                     {{RLIMIT_NOFILE, 100}});
  EXPECT_FALSE(r.at("epoll").as_object().contains("100"));
  EXPECT_TRUE(r.at("epoll").as_object().contains("1"));
  EXPECT_TRUE(r.at("weir_one_link").as_object().contains("100"));
  EXPECT_THAT(std::string{r.at("skipped").as_string()},
              HasSubstr("epoll at 100 connections: it needs 164 descriptors, and the system allows a process "
                        "100"));
}

TEST(Bench, IdleSaysWhatEachSessionAndLinkCostsOnBothSides) {
  auto r = result_of({"idle", "--sessions", "200", "--links", "40", "--fragments", "default,4k"});
  EXPECT_EQ(r.at("fragments").as_object().size(), 2u);
  for (const std::string what : {"idle_session", "active_session", "idle_link"}) {
    auto server = number(r, what + "_server_bytes"), client = number(r, what + "_client_bytes");
    EXPECT_EQ(number(r, what + "_bytes"), std::max(server, client));
    EXPECT_GT(server, 500) << what; // less than the objects that are known to be there
    EXPECT_GT(client, 500) << what;
  }
}

TEST(Bench, WrongOptionsAreNamedWithTheirLimits) {
  struct wrong {
    std::vector<std::string> words;
    std::string says;
  };
  for (const auto& [words, says] : std::vector<wrong>{
           {{"mix", "--callers", "0"}, "weir bench mix: --callers: 0 is out of range (1 to 1000)"},
           {{"mix", "--bulk-bytes", "2g"}, "weir bench mix: --bulk-bytes: 2g is out of range (1 to 1g)"},
           {{"stall", "--sessions", "1"}, "weir bench stall: --sessions: 1 is out of range (2 to 1000)"},
           {{"latency", "--load", "1.5"}, "weir bench latency: --load: 1.5 is out of range (0.01 to 1)"},
           {{"latency", "--peer", "grpc"}, "weir bench latency: --peer: 'grpc' is not one of zmq, none"},
           {{"idle", "--links", "0"}, "weir bench idle: --links: 0 is out of range (1 to 1000)"},
           {{"idle", "--fragments", ","}, "weir bench idle: --fragments: needs at least one size"},
           {{"idle", "--fragments", "4k,7"}, "weir bench idle: --fragments: "},
           {{"raw", "--model", "select"},
            "weir bench raw --model: --model: 'select' is not one of threads, epoll"},
           {{"raw", "--connections", "1,1001"},
            "weir bench raw --model: --connections: '1,1001' is not a list of numbers from 1 to 1000"},
           {{"raw", "--loops", "0"},
            "weir bench raw --model: --loops: '0' is not a list of numbers from 1 to 256"},
           {{"mixed"},
            "weir bench: mixed: the modes are rpc, stream, slow, mix, stall, idle, latency, raw and "
            "compare"}}) {
    auto ending = bench(words);
    EXPECT_EQ(ending.status, 2) << words.front();
    EXPECT_THAT(ending.err, HasSubstr(says));
    EXPECT_EQ(ending.out, "");
  }
}

} // namespace
} // namespace weir::test
