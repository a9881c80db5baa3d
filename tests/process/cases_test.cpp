// Cases from public bug reports (the numbers are those of the list they come from) over real sockets.
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr uint64_t operator""_MiB(unsigned long long n) { return n << 20; }

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t scale = 5; // of the time that everything takes
#else
constexpr uint64_t scale = 1;
#endif

/// Two nodes over loopback. The server's options bind what the client may send.
class Cases : public ::testing::Test {
protected:
  node_options server_options = machine::listening(), client_options;

  machine& server() {
    if (!server_)
      server_ = std::make_unique<machine>(server_options);
    return *server_;
  }
  machine& client() {
    if (!client_)
      client_ = std::make_unique<machine>(client_options);
    return *client_;
  }
  template <class T>
  ref<T> remote(const std::string& name) {
    auto at = server().address();
    return client().node().template lookup<T>(name, at);
  }
  ref<Probe> served_probe() {
    EXPECT_TRUE(server().node().serve<Probe>("probe", server().node().spawn<probe>()));
    return remote<Probe>("probe");
  }
  std::shared_ptr<seen> serve_catcher(catcher::action then = {}) {
    auto s = std::make_shared<seen>();
    EXPECT_TRUE(server().node().serve<Piece>("catcher", server().node().spawn<catcher>(s, std::move(then))));
    return s;
  }
  void expect_base_line() {
    EXPECT_TRUE(client().is_at_base_line());
    EXPECT_TRUE(server().is_at_base_line());
  }

private:
  std::unique_ptr<machine> server_, client_;
};

/// Keeps `width` calls open until `all` of them have ended.
template <class Method>
class caller_loop : public std::enable_shared_from_this<caller_loop<Method>> {
public:
  using fill = std::function<void(typename Method::args)>;
  caller_loop(ref<Probe> to, uint64_t all, fill f) : to_(std::move(to)), all_(all), fill_(std::move(f)) {}

  /// Returns when all have ended: how often each outcome was.
  std::map<errc, uint64_t> run(machine& m, uint64_t width) {
    m.tell([self = this->shared_from_this(), width](hand& h) {
      for (uint64_t i = 0; i < width; ++i)
        self->next(h);
    });
    auto end = done_.get_future();
    EXPECT_EQ(end.wait_for(scale * 60s), std::future_status::ready)
        << ended_ << " of " << all_ << " calls have ended";
    return outcomes_;
  }

private:
  void next(hand& h) {
    if (started_ == all_)
      return;
    ++started_;
    auto self = this->shared_from_this();
    h.call<Method>(to_, fill_)
        .then([self, &h](typename Method::result) { self->over(h, errc::none); },
              [self, &h](const failure& why) { self->over(h, why.code); });
  }
  void over(hand& h, errc code) {
    ++outcomes_[code];
    if (++ended_ == all_) {
      to_ = {};
      done_.set_value();
    } else {
      next(h);
    }
  }

  ref<Probe> to_;
  uint64_t all_, started_ = 0, ended_ = 0;
  fill fill_;
  std::map<errc, uint64_t> outcomes_;
  std::promise<void> done_;
};

template <class Method>
std::map<errc, uint64_t> call_often(machine& m, const ref<Probe>& to, uint64_t all, uint64_t width,
                                    size_t bytes = 100) {
  return std::make_shared<caller_loop<Method>>(to, all, data_of(bytes))->run(m, width);
}

// ---- C3

TEST_F(Cases, C3_CreditComesBackFromHandlersThatThrowOrIgnore) {
  server_options.ration = 16_KiB; // 50,000 calls need it hundreds of times
  auto calc = served_probe();
  constexpr uint64_t n = 20'000;
  EXPECT_EQ(call_often<throws>(client(), calc, n, 200),
            (std::map<errc, uint64_t>{{errc::handler_failed, n}}));
  EXPECT_EQ(call_often<ignore>(client(), calc, n, 200),
            (std::map<errc, uint64_t>{{errc::handler_failed, n}}));
  EXPECT_EQ(call_often<echo>(client(), calc, 100, 1), (std::map<errc, uint64_t>{{errc::none, 100}}));
  calc = {};
  expect_base_line();
}

TEST_F(Cases, C3_CreditComesBackFromServicesThatAreKilled) {
  for (int i = 0; i < 100; ++i) {
    auto victim = server().node().spawn<probe>();
    auto name = fmt::format("victim {}", i);
    ASSERT_TRUE(server().node().serve<Probe>(name, victim));
    auto to = remote<Probe>(name);
    std::vector<std::future<failure>> ends;
    for (int k = 0; k < 100; ++k)
      ends.push_back(client().start<keep>(to, {}, data_of(500), [](keep::result) {}));
    EXPECT_EQ(client().call<echo>(to, data_of(1)).code, errc::none); // they have arrived
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(victim), caf::exit_reason::kill);
    for (auto& e : ends) {
      ASSERT_EQ(e.wait_for(process::patience), std::future_status::ready);
      auto why = e.get();
      EXPECT_TRUE(why.code == errc::service_down || why.code == errc::handler_failed) << to_string(why);
    }
  }
  EXPECT_TRUE(client().is_at_base_line());
  // What a service may hold stays set aside for its name, also when it has gone.
  EXPECT_TRUE(server().is_at_base_line());
}

// ---- C4

TEST_F(Cases, C4_EverySizeIsDeliveredOrRefusedAtOnce) {
  server_options.ration = 16_KiB; // the smallest there is
  server_options.message_max = 4_MiB;
  client_options.message_max = 4_MiB;
  auto calc = served_probe();
  auto start = std::chrono::steady_clock::now();
  struct attempt {
    size_t bytes;
    std::future<failure> end;
  };
  std::vector<attempt> all;
  std::vector<ref<Probe>> sessions;
  for (size_t bytes :
       {size_t{1}, size_t{16_KiB - 1}, size_t{16_KiB}, size_t{16_KiB + 1}, size_t{1_MiB}, size_t{64_MiB}}) {
    sessions.push_back(remote<Probe>("probe"));
    all.push_back({bytes, client().start<reply>(sessions.back(), {}, data_of(bytes), [](reply::result) {})});
  }
  for (auto& a : all) {
    ASSERT_EQ(a.end.wait_for(process::patience), std::future_status::ready) << a.bytes;
    auto why = a.end.get();
    EXPECT_EQ(why.code, a.bytes == 64_MiB ? errc::message_too_large : errc::none)
        << a.bytes << ": " << to_string(why);
    if (a.bytes == 64_MiB) {
      EXPECT_EQ(why.what, outcome::not_executed);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, scale * 5s); // no time-out was needed
  sessions.clear();
  calc = {};
  expect_base_line();
}

// ---- C5

/// Two nodes whose services call each other to and fro.
void nest_deeply(uint64_t ration, uint32_t depth) {
  auto o = machine::listening();
  o.ration = ration;
  o.budget_bytes = 64_MiB;
  machine here{o}, there{o};
  auto to_there = std::make_shared<ref<Probe>>(), to_here = std::make_shared<ref<Probe>>();
  ASSERT_TRUE(here.node().serve<Probe>("probe", here.node().spawn<probe>(to_there)));
  ASSERT_TRUE(there.node().serve<Probe>("probe", there.node().spawn<probe>(to_here)));
  *to_there = here.node().lookup<Probe>("probe", there.address());
  *to_here = there.node().lookup<Probe>("probe", here.address());
  constexpr int chains = 20;
  std::vector<std::future<failure>> ends;
  std::atomic<int> right{0};
  for (int i = 0; i < chains; ++i)
    ends.push_back(here.start<nest>(
        *to_there, {},
        [depth](nest::args a) {
          a.setDepth(depth);
          a.initData(3000); // 20 of them are more than the small ration
        },
        [&](nest::result r) { right += r.getDepth() == depth; }));
  for (auto& e : ends) {
    ASSERT_EQ(e.wait_for(process::patience), std::future_status::ready);
    EXPECT_EQ(e.get(), failure{});
  }
  EXPECT_EQ(right, chains);
  for (auto* m : {&here, &there})
    EXPECT_LE(m->node().stats().liability, 64_MiB);
}

TEST_F(Cases, C5_NestedCallsReturnWhileTheInputIsFull) {
  for (uint64_t ration : {16_KiB, uint64_t{infinite}})
    for (uint32_t depth : {8u, 64u})
      nest_deeply(ration, depth);
}

// ---- C9, C10

TEST_F(Cases, C9_BatchesAreSplitToTheCredit) {
  server_options.ration_messages = 100;
  std::mutex mutex;
  std::vector<weir::held<Piece>> kept;
  size_t most = 0;
  auto s = serve_catcher([&](weir::inlet<Piece>& from, Piece::Reader) {
    std::lock_guard guard{mutex};
    kept.push_back(from.lease());
    most = std::max(most, kept.size());
  });
  auto r = pour(client(), remote<Piece>("catcher"), 20'000, 10);
  std::mt19937 random{9};
  auto end = r->end.get_future();
  while (end.wait_for(0s) != std::future_status::ready) { // lets go of some of them now and then
    std::vector<weir::held<Piece>> gone;
    std::lock_guard guard{mutex};
    for (size_t n = random() % 120; n > 0 && !kept.empty(); --n) {
      gone.push_back(std::move(kept.back()));
      kept.pop_back();
    }
  }
  EXPECT_EQ(end.get(), failure{});
  EXPECT_EQ(r->consumed, 20'000u);
  EXPECT_EQ(s->messages, 20'000u);
  EXPECT_EQ(s->wrong, 0u);
  EXPECT_LE(most, 100u);
  EXPECT_GT(most, 0u);
  expect_base_line();
}

TEST_F(Cases, C10_CreditComesBackExactlyOnceInWhateverOrder) {
  server_options.ration = 64_KiB;
  server_options.held_messages = 50;
  std::mutex mutex;
  std::mt19937 random{10};
  std::vector<weir::held<Piece>> kept;
  auto let_go = [&] { // of any one, in any way
    auto i = random() % kept.size();
    auto moved = std::move(kept[i]);
    kept[i] = random() % 2 ? std::move(kept.back()) : std::exchange(kept.back(), {});
    kept.pop_back();
    auto again = std::move(moved);
  };
  auto s = serve_catcher([&](weir::inlet<Piece>& from, Piece::Reader) {
    std::lock_guard guard{mutex};
    switch (random() % 4) {
    case 0:
      kept.push_back(from.lease());
      break;
    case 1:
      if (auto held = from.hold())
        kept.push_back(std::move(held));
      break;
    case 2: {
      auto lease = from.lease();
      auto moved = std::move(lease);
      break;
    }
    default:
      break;
    }
    while (kept.size() > 40)
      let_go();
  });
  auto r = pour(client(), remote<Piece>("catcher"), 50'000, 200);
  auto end = r->end.get_future();
  ASSERT_TRUE(eventually([&] { return s->messages == 50'000; }, scale * 30s));
  {
    std::lock_guard guard{mutex};
    while (!kept.empty())
      let_go();
  }
  ASSERT_EQ(end.wait_for(process::patience), std::future_status::ready);
  EXPECT_EQ(end.get(), failure{});
  EXPECT_EQ(r->consumed, 50'000u);
  expect_base_line();
}

// ---- C11 to C14

TEST_F(Cases, C11_UploadsOfAMebibyteCompleteWithEveryRation) {
  for (uint64_t ration : {124_KiB, 126_KiB, 127_KiB, 128_KiB, 256_KiB, 16_MiB}) {
    auto o = machine::listening();
    o.ration = ration;
    o.budget_bytes = 128_MiB;
    machine host{o}, guest;
    auto s = std::make_shared<seen>();
    ASSERT_TRUE(host.node().serve<Piece>("catcher", host.node().spawn<catcher>(s)));
    expect_poured(pour(guest, guest.node().lookup<Piece>("catcher", host.address()), 20, 1_MiB), 20);
    EXPECT_EQ(s->bytes, 20_MiB) << ration;
    EXPECT_EQ(s->wrong, 0u);
    EXPECT_TRUE(host.is_at_base_line()) << ration;
  }
}

TEST_F(Cases, C12_AReplyArrivesThoughTheRequestIsIgnored) {
  server_options.ration = client_options.ration = 32_KiB;
  auto calc = served_probe();
  size_t got = 0;
  auto why = client().call<reply>(
      calc, {},
      [](reply::args a) {
        a.initData(1_MiB);
        a.setSize(100_KiB);
      },
      [&](reply::result r) { got = r.getData().size(); });
  EXPECT_EQ(why, failure{});
  EXPECT_EQ(got, 100_KiB);
  EXPECT_EQ(client().call<echo>(calc, data_of(10)), failure{}); // the writer is released
  calc = {};
  expect_base_line();
}

TEST_F(Cases, C13_AnEchoOfAMebibyteCompletes) {
  server_options.ration = client_options.ration = 32_KiB;
  auto calc = served_probe();
  size_t got = 0;
  EXPECT_EQ(client().call<echo>(calc, {}, data_of(1_MiB), [&](echo::result r) { got = r.getData().size(); }),
            failure{});
  EXPECT_EQ(got, 1_MiB);
  // The same as many calls that are all sent before the first answer is read.
  EXPECT_EQ(call_often<echo>(client(), calc, 256, 256, 4_KiB - 200),
            (std::map<errc, uint64_t>{{errc::none, 256}}));
  calc = {};
  expect_base_line();
}

TEST_F(Cases, C14_ASenderStopsAtTheRationOfASessionThatNobodyReads) {
  server_options.ration = 256_KiB;
  auto calc = served_probe();
  std::mutex mutex;
  std::vector<weir::held<Piece>> kept;
  auto s = serve_catcher([&](weir::inlet<Piece>& from, Piece::Reader) {
    std::lock_guard guard{mutex};
    kept.push_back(from.lease());
  });
  ASSERT_EQ(client().call<echo>(calc, data_of(10)), failure{});
  auto before = memory_bytes(getpid(), "VmRSS");
  auto r = pour(client(), remote<Piece>("catcher"), 64 * 1024, 1_KiB); // 64 MiB
  ASSERT_TRUE(eventually([&] { return s->bytes > 200_KiB; }));
  EXPECT_EQ(call_often<echo>(client(), calc, 5'000, 10), (std::map<errc, uint64_t>{{errc::none, 5'000}}));
  EXPECT_LE(s->bytes, 256_KiB);
  EXPECT_LE(r->sent * 1_KiB, 256_KiB + 1_KiB);
  EXPECT_EQ(client().node().stats().links, 1u); // both are on one
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(memory_bytes(getpid(), "VmRSS"), before + 16_MiB);
#else
  static_cast<void>(before);
#endif
  std::atomic<bool> over{false};
  std::thread reader{[&] {
    while (!over) {
      std::vector<weir::held<Piece>> gone;
      std::lock_guard guard{mutex};
      gone.swap(kept);
    }
  }};
  expect_poured(r, 64 * 1024, scale * 30s);
  over = true;
  reader.join();
  kept.clear();
  calc = {};
  expect_base_line();
}

// ---- M1, M6

TEST_F(Cases, M1_AProducerTenTimesFasterThanTheServiceCostsNoMemory) {
  const auto pause = 20us; // 1 KiB each: 50 MB/s; the producer could do 500 and more
  server_options.ration = 256_KiB;
  auto slow = [pause](weir::inlet<Piece>&, Piece::Reader) { std::this_thread::sleep_for(pause); };
  auto s = std::make_shared<seen>();
  ASSERT_TRUE(server().node().serve<Piece>("catcher", server().system().spawn<catcher>(s, slow)));
  auto before = memory_bytes(getpid(), "VmRSS");
  auto start = std::chrono::steady_clock::now();
  constexpr uint64_t n = 24'000; // about 5 s on a busy machine: a sleep takes longer than it is told
  constexpr int producers = 20;
  std::vector<std::shared_ptr<pourer::result>> all;
  for (int i = 0; i < producers; ++i)
    all.push_back(pour(client(), remote<Piece>("catcher"), n / producers, 1_KiB));
  uint64_t peak = 0;
  ASSERT_TRUE(eventually(
      [&] {
        peak = std::max(peak, memory_bytes(getpid(), "VmRSS"));
        return s->finished == producers;
      },
      scale * 60s));
  for (auto& r : all)
    expect_poured(r, n / producers);
  EXPECT_GT(std::chrono::steady_clock::now() - start, 1s);
  EXPECT_EQ(s->messages, n);
  EXPECT_EQ(s->wrong, 0u);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(peak, before + producers * 256_KiB + 12_MiB); // of 24 MB; both nodes are in this process
#else
  static_cast<void>(before);
#endif
  expect_base_line();
}

TEST_F(Cases, M6_SmallMessagesThatAreKeptPinNoLargeMemory) {
  constexpr uint64_t all = 3'000'000 / scale, one_in = 1000, bytes = 100;
  server_options.held_messages = 10'000;
  server_options.budget_bytes = 512_MiB;
  std::vector<weir::held<Piece>> kept;
  kept.reserve(all / one_in);
  uint64_t before = 0;
  auto s = serve_catcher([&](weir::inlet<Piece>& from, Piece::Reader) {
    if (from.messages() == all / 100)
      before = memory_bytes(getpid(), "VmRSS"); // everybody is warm
    if (from.messages() % one_in == 0)
      kept.push_back(from.hold());
  });
  auto r = pour(client(), remote<Piece>("catcher"), all, bytes);
  expect_poured(r, all, scale * 60s);
  ASSERT_EQ(kept.size(), all / one_in);
  for (auto& k : kept)
    ASSERT_TRUE(k);
#if !defined(__SANITIZE_ADDRESS__)
  auto accounted = kept.size() * (128 + 32 + bytes);
  EXPECT_LT(memory_bytes(getpid(), "VmRSS") - before, 2 * accounted + 2_MiB) << kept.size() << " kept";
#endif
  kept.clear();
  expect_base_line();
}

// ---- more often than a counter counts

TEST_F(Cases, ASessionCarriesMoreCallsThanAnIdHasGenerations) {
  constexpr uint64_t n = 70'000;
  auto there = served_probe();
  auto here = server().node().lookup<Probe>("probe");
  EXPECT_EQ(call_often<echo>(client(), there, n, 1), (std::map<errc, uint64_t>{{errc::none, n}}));
  EXPECT_EQ(call_often<echo>(server(), here, n, 1), (std::map<errc, uint64_t>{{errc::none, n}}));
  here = there = {};
  expect_base_line();
}

// ---- L7

TEST_F(Cases, L7_ARequestThatCannotBeBuiltLeavesTheLinkInStep) {
  auto calc = served_probe();
  for (int i = 0; i < 100; ++i) {
    auto threw = std::make_shared<std::promise<bool>>();
    client().tell([=](hand& h) {
      try {
        h.call<echo>(calc, [i](echo::args a) {
          auto data = a.initData(i % 2 == 0 ? 1000 : 200'000); // in its first segment, or in another
          std::memset(data.begin(), 0xff, data.size());
          throw std::runtime_error{"half-way"};
        });
        threw->set_value(false);
      } catch (const std::runtime_error&) {
        threw->set_value(true);
      }
    });
    EXPECT_TRUE(threw->get_future().get());
    EXPECT_EQ(client().call<throws>(calc, data_of(10)).code, errc::handler_failed);
    size_t got = 0;
    EXPECT_EQ(client().call<echo>(calc, {}, data_of(i), [&](echo::result r) { got = r.getData().size(); }),
              failure{});
    EXPECT_EQ(got, static_cast<size_t>(i));
  }
  EXPECT_EQ(client().node().stats().links, 1u);
  calc = {};
  expect_base_line();
}

} // namespace
} // namespace weir::test
