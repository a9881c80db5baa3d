// Cases about many peers, many callers and peers that are not there, from public bug reports.
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include <weir/client.hpp>

#include "tests/process/hand_made_peer.hpp"
#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t scale = 5; // of the time that everything takes
#else
constexpr uint64_t scale = 1;
#endif

size_t descriptors() {
  using files = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(files{"/proc/self/fd"}, files{}));
}

// ---- M5

/// hoprnet 8370: a node that calls fifteen others, and maybe one that does not answer.
class Fellows : public ::testing::Test {
protected:
  static constexpr size_t live = 15, calls_each = 200;

  Fellows() {
    auto o = machine::listening();
    o.listen.assign(live, "tcp://127.0.0.1:0"); // each is a link of its own
    server_ = std::make_unique<machine>(o);
    EXPECT_TRUE(server_->node().serve<Probe>("probe", server_->node().spawn<probe>()));
  }
  ref<Probe> at(const std::string& uri) { return client_->node().lookup<Probe>("probe", uri); }
  /// As it was in the beginning: without links.
  void start_anew() {
    client_.reset();
    client_ = std::make_unique<machine>(options_);
  }
  /// Calls all live ones, in turn, as fast as the sender may; how many of the calls were answered.
  size_t call_the_live_ones() {
    std::vector<ref<Probe>> to;
    for (auto& uri : server_->node().addresses())
      to.push_back(at(uri));
    std::vector<std::future<failure>> ends;
    for (size_t i = 0; i < calls_each; ++i)
      for (auto& t : to)
        ends.push_back(client_->start<echo>(t, {.timeout = 1h}, data_of(1000), [](auto) {}));
    size_t answered = 0;
    auto until = std::chrono::steady_clock::now() + scale * 5s; // for all of them together
    for (auto& e : ends)
      if (e.wait_until(until) == std::future_status::ready)
        answered += e.get() == failure{};
    return answered;
  }
  void call_a_dead_one(const std::string& uri, size_t calls, size_t bytes) {
    dead_.push_back(at(uri));
    for (size_t i = 0; i < calls; ++i)
      pending_.push_back(client_->start<echo>(dead_.back(), {.timeout = 1h}, data_of(bytes), [](auto) {}));
  }
  size_t pending() {
    return static_cast<size_t>(std::count_if(pending_.begin(), pending_.end(), [](auto& e) {
      return e.wait_for(0s) != std::future_status::ready;
    }));
  }

  node_options options_ = [] {
    node_options o;
    o.send_buffer = 64 << 20;
    o.hello_timeout = o.connect_timeout = o.dead_after = 10min;
    return o;
  }();
  std::unique_ptr<machine> client_ = std::make_unique<machine>(options_);

private:
  std::unique_ptr<machine> server_;
  std::vector<ref<Probe>> dead_;
  std::vector<std::future<failure>> pending_;
};

TEST_F(Fellows, M5_APeerThatAcceptsAndNeverAnswersKeepsNobodyWaiting) {
  auto without = call_the_live_ones();
  ASSERT_EQ(without, live * calls_each);
  start_anew();
  hand_made_door silent; // its connections are accepted, and nobody says hello
  call_a_dead_one(silent.uri(), 100, 1000);
  EXPECT_EQ(call_the_live_ones(), without);
  EXPECT_EQ(pending(), 100u);
}

TEST_F(Fellows, M5_APeerThatStopsWithFullSocketsKeepsNobodyWaiting) {
  auto without = call_the_live_ones();
  ASSERT_EQ(without, live * calls_each);
  start_anew();
  hand_made_door door;
  call_a_dead_one(door.uri(), 100, 400'000); // far more than sockets hold
  auto peer = door.accept();
  peer.greet();
  ASSERT_TRUE(peer.hear([&](net::say::control& c) {
    net::say::control answer;
    for (auto& open : c.opens)
      answer.openeds.push_back({open.session, {uint64_t{1} << 40, 1 << 20}, 4 << 20});
    return !answer.empty() && peer.say(answer);
  }));                                                   // and from here on it reads nothing
  EXPECT_GT(client_->node().stats().outbound, 1u << 20); // and will be: they cannot leave
  EXPECT_EQ(call_the_live_ones(), without);
  EXPECT_EQ(pending(), 100u);
  EXPECT_GT(client_->node().stats().outbound, 1u << 20);
}

// ---- L3

// grpc 5582, ejbd
TEST(Callers, L3_ManyThreadsShareOneSocketPerPeer) {
  constexpr size_t threads = 20, calls = 1000;
  machine one{machine::listening()}, two{machine::listening()};
  node_options o;
  o.io_threads = 1;
  machine caller{o};
  for (auto* m : {&one, &two})
    ASSERT_TRUE(m->node().serve<Probe>("probe", m->node().spawn<probe>()));
  weir::client client{caller.node()};
  auto lookup = [&](machine& m) { return caller.node().lookup<Probe>("probe", m.address()); };
  for (auto* m : {&one, &two})
    ASSERT_TRUE(client.call<echo>(lookup(*m), data_of(1)));
  auto before = descriptors();
  std::atomic<uint64_t> answered{0};
  std::vector<std::jthread> all;
  for (size_t t = 0; t < threads; ++t)
    all.emplace_back([&] {
      for (size_t i = 0; i < calls / 100; ++i)
        for (auto* m : {&one, &two}) { // looks it up anew each time
          auto to = lookup(*m);
          for (size_t k = 0; k < 50; ++k)
            answered += static_cast<bool>(client.call<echo>(to, data_of(100)));
        }
    });
  all.clear();
  EXPECT_EQ(answered, threads * calls);
  EXPECT_EQ(descriptors(), before);
  for (auto* m : {&one, &two})
    EXPECT_EQ(m->node().stats().links_accepted, 1u);
  EXPECT_EQ(caller.node().stats().links_dialled, 2u);
  EXPECT_TRUE(caller.is_at_base_line());
}

// ---- L8

// ejbd
TEST(Callers, L8_TenThousandFailedConnectsLeaveNothingBehind) {
  constexpr uint64_t all = 10'000 / scale, width = 200;
  node_options o;
  o.idle_timeout = 50ms; // an address that nobody uses is forgotten after that
  machine m{o};
  machine live{machine::listening()};
  ASSERT_TRUE(live.node().serve<Probe>("probe", live.node().spawn<probe>()));
  auto there = m.node().lookup<Probe>("probe", live.address());
  ASSERT_EQ(m.call<echo>(there, data_of(1)), failure{});
  auto files = descriptors();
  auto actors = m.system().registry().running();
  for (uint64_t n = 0; n < all; n += width) {
    std::vector<std::future<failure>> ends;
    for (uint64_t i = n; i < n + width; ++i) { // each address is another one, and nobody listens there
      auto to = m.node().lookup<Probe>("probe", fmt::format("tcp://127.1.{}.{}:1", i / 250, 1 + i % 250));
      ends.push_back(m.start<echo>(to, {}, data_of(100), [](auto) {}));
    }
    for (auto& e : ends) {
      ASSERT_EQ(e.wait_for(process::patience), std::future_status::ready);
      auto why = e.get();
      EXPECT_EQ(why.code, errc::connect_failed) << to_string(why);
      EXPECT_EQ(why.what, outcome::not_executed);
    }
  }
  EXPECT_TRUE(eventually([&] { return descriptors() == files; })) << descriptors() << ", not " << files;
  // The endpoints of those addresses, and the sessions that wanted to go there.
  EXPECT_TRUE(eventually([&] { return m.system().registry().running() <= actors; }))
      << m.system().registry().running() << ", not " << actors;
  EXPECT_GE(m.node().stats().times(errc::connect_failed), all);
  EXPECT_EQ(m.call<echo>(there, data_of(1)), failure{});
  there = {};
  EXPECT_TRUE(m.is_at_base_line());
}

} // namespace
} // namespace weir::test
