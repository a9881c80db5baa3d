// weir::testing itself: its time, its connections, its seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/client.hpp>
#include <weir/testing.hpp>

#include "tests/support/shop.hpp"

namespace weir::test {

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using weir::testing::dialling;
using weir::testing::faults;
using weir::testing::network;

/// Puts items into an outlet as credit comes, and keeps what it needs for it.
class porter : public weir::actor {
public:
  porter(caf::actor_config& cfg, ref<Item> to, uint64_t from, uint64_t until)
      : actor(cfg), out_(this, to), next_(from), until_(until) {}
  caf::behavior make_behavior() override {
    out_.on_credit([this] { pump(); });
    pump();
    return actor::make_behavior();
  }

private:
  void pump() {
    while (next_ < until_ && out_.offer([&](Item::Builder b) { b.setNumber(next_); }))
      ++next_;
    if (next_ == until_ && !std::exchange(closed_, true))
      out_.close().then([](uint64_t) {}, [](const failure&) {});
  }
  weir::outlet<Item> out_;
  uint64_t next_, until_;
  bool closed_ = false;
};

/// Does not end when it is told to.
class stayer : public weir::actor {
public:
  using actor::actor;
  caf::behavior make_behavior() override {
    CAF_PUSH_DEPRECATED_WARNING
    set_exit_handler([](caf::exit_msg&) {});
    CAF_POP_WARNINGS
    return actor::make_behavior();
  }
};

class Network : public ::testing::Test {
protected:
  static constexpr auto shop_at = "tcp://server:7000";

  Network() : config_(make_config()), system(*config_) {}

  /// A server that has a shop and a shelf, and so many clients.
  void open(network& net, const std::vector<std::string>& clients = {"client"}) {
    auto& server = net.add_node("server");
    ASSERT_TRUE(server.serve<Shop>("shop", server.spawn<shop>(&state)));
    ASSERT_TRUE(server.serve<Item>("shelf", server.spawn<shelf>(&goods)));
    for (auto& c : clients)
      net.add_node(c);
  }
  static weir::reply<add> call_add(weir::client& c, const ref<Shop>& to, int64_t a, int64_t b,
                                   call_options o = {}) {
    return c.call<add>(to, o, [&](add::args x) {
      x.setA(a);
      x.setB(b);
    });
  }
  static void tell(network& net, const caf::actor& who, std::function<void(customer&)> f) {
    put(who, nullptr, job{std::move(f)});
    net.run();
  }
  /// Calls, streams and whatever `f` lets happen: what the network saw of it.
  std::vector<std::string> history(uint64_t seed, const faults& f) {
    state = {};
    goods = {};
    std::vector<std::string> lines;
    ended = 0;
    network net{system, {.seed = seed, .trace = [&](auto& line) { lines.push_back(line); }}};
    open(net, {"one", "two"});
    net.set_faults(f);
    for (auto* name : {"one", "two"}) {
      auto& node = net[name];
      node.spawn<porter>(node.lookup<Item>("shelf", shop_at), 0, 300);
      auto who = node.spawn<customer>();
      auto to = node.lookup<Shop>("shop", shop_at);
      for (int64_t i = 0; i < 20; ++i)
        net.after(i * 7ms, [this, who, to, i] {
          put(who, nullptr, job{[this, to, i](customer& c) {
                c.call<add>(to, {.timeout = 2s, .idempotent = i % 2 == 0}, [&](add::args x) {
                   x.setA(i);
                 }).then([this](add::result) { ++ended; }, [this](const failure&) { ++ended; });
              }});
        });
    }
    net.advance(5s);
    left = net.leftovers();
    return lines;
  }
  static std::unique_ptr<caf::actor_system_config> make_config() {
    init_types<caf::id_block::weir_test>();
    auto c = std::make_unique<caf::actor_system_config>();
    c->set(caf_key("scheduler.max-threads"), 1);
    return c;
  }

  shop_state state;
  shelf_state goods;
  uint64_t ended = 0;
  std::string left;
  std::unique_ptr<caf::actor_system_config> config_;
  caf::actor_system system;
};

constexpr faults everything{.delay_max = 5ms,
                            .cut_one_in = 100,
                            .stall_one_in = 30,
                            .stall_max = 300ms,
                            .pieces = true,
                            .turns = true};

TEST_F(Network, ACallTakesARoundTripOfVirtualTime) {
  network net{system};
  open(net);
  weir::client caller{net["client"]};
  auto to = net["client"].lookup<Shop>("shop", shop_at);
  net.between("client", "server").delay(20ms);
  ASSERT_TRUE(call_add(caller, to, 1, 1)); // dials, says hello, opens
  auto before = net.now();
  auto r = call_add(caller, to, 20, 22);
  ASSERT_TRUE(r) << to_string(r.error());
  EXPECT_EQ(r->getSum(), 42);
  EXPECT_EQ(net.now() - before, 40ms);
  net.from("server", "client").delay(5ms);
  before = net.now();
  ASSERT_TRUE(call_add(caller, to, 1, 1));
  EXPECT_EQ(net.now() - before, 25ms);
}

TEST_F(Network, AnHourPassesAtOnceAndEachThingHappensAtItsTime) {
  network net{system};
  std::vector<weir::testing::duration> times;
  for (auto t : {50min, 10min, 30min})
    net.after(t, [&] { times.push_back(net.now()); });
  net.advance(29min);
  EXPECT_EQ(times.size(), 1u);
  net.advance(31min);
  EXPECT_EQ(times, (std::vector<weir::testing::duration>{10min, 30min, 50min}));
  EXPECT_EQ(net.now(), 1h);
  EXPECT_TRUE(net.run_until([&] { return net.now() >= 1h; }, 0s));
  EXPECT_FALSE(net.run_until([] { return false; }, 1s));
  EXPECT_EQ(net.now(), 1h + 1s);
}

TEST_F(Network, AStalledPathLetsACallExpireAtItsDeadlineAndResumes) {
  network net{system};
  open(net);
  weir::client caller{net["client"]};
  auto to = net["client"].lookup<Shop>("shop", shop_at);
  ASSERT_TRUE(call_add(caller, to, 1, 1));
  net.from("server", "client").stall();
  auto before = net.now();
  auto r = call_add(caller, to, 1, 1, {.timeout = 1s});
  EXPECT_EQ(r.error().code, errc::deadline_exceeded) << to_string(r.error());
  EXPECT_EQ(r.error().what, outcome::unknown);
  EXPECT_GE(net.now() - before, 1s);
  EXPECT_LE(net.now() - before, 1s + 10ms);
  EXPECT_EQ(state.runs, 2u); // it ran: only its answer did not come
  net.from("server", "client").resume();
  EXPECT_TRUE(call_add(caller, to, 1, 1));
  net.from("client", "server").stall();
  EXPECT_EQ(call_add(caller, to, 1, 1, {.timeout = 1s}).error().code, errc::deadline_exceeded);
  EXPECT_EQ(state.runs, 3u);
}

TEST_F(Network, ACutLosesTheCallUnderWayAndTheNextOneDialsAgain) {
  network net{system};
  open(net);
  auto& client = net["client"];
  weir::client caller{client};
  auto both = net.between("client", "server").delay(20ms);
  auto to = client.lookup<Shop>("shop", shop_at);
  ASSERT_TRUE(call_add(caller, to, 1, 1));
  EXPECT_EQ(both.connections(), 1u);
  net.after(30ms, [&] { both.cut(); }); // the answer is on its way
  auto before = net.now();
  auto r = call_add(caller, to, 1, 1);
  EXPECT_EQ(r.error().code, errc::link_lost) << to_string(r.error());
  EXPECT_EQ(r.error().what, outcome::unknown);
  EXPECT_EQ(net.now() - before, 30ms);
  EXPECT_EQ(both.connections(), 0u);
  EXPECT_EQ(state.runs, 2u);
  auto again = client.lookup<Shop>("shop", shop_at);
  EXPECT_TRUE(call_add(caller, again, 1, 1));
  EXPECT_EQ(both.dialled(), 2u);
}

TEST_F(Network, APartitionIsFoundOutAndHeals) {
  network net{system};
  open(net);
  auto& client = net["client"];
  ASSERT_TRUE(client.connect(shop_at));
  net.run();
  auto both = net.between("client", "server");
  EXPECT_EQ(both.connections(), 1u);
  both.stall().dials(dialling::silent);
  net.advance(client.options().dead_after + 2s);
  EXPECT_EQ(client.stats().links, 0u);
  EXPECT_EQ(net["server"].stats().links, 0u);
  both.resume().dials(dialling::connects);
  net.advance(client.options().connect_timeout + client.options().reconnect_cap);
  EXPECT_EQ(client.stats().links, 1u);
  weir::client caller{client};
  EXPECT_TRUE(call_add(caller, client.lookup<Shop>("shop"), 1, 1));
}

TEST_F(Network, APeerThatDoesNotHaveTheServiceIsNoReasonNotToAskTheNext) {
  network net{system};
  net.add_node("empty");
  open(net);
  auto& client = net["client"];
  ASSERT_TRUE(client.connect("tcp://empty:7000"));
  ASSERT_TRUE(client.connect(shop_at));
  weir::client caller{client};
  {
    auto r = call_add(caller, client.lookup<Shop>("shop"), 20, 22);
    ASSERT_TRUE(r) << to_string(r.error());
    EXPECT_EQ(r->getSum(), 42);
  }
  auto nowhere = call_add(caller, client.lookup<Shop>("nowhere"), 1, 1).error();
  EXPECT_EQ(nowhere.code, errc::no_such_service) << to_string(nowhere);
  EXPECT_EQ(nowhere.what, outcome::not_executed);
  auto another = client.lookup<Item>("shop"); // "empty" does not have it, "server" as something else
  weir::blocking_outlet<Item> out{caller, another};
  EXPECT_EQ(out.push([](Item::Builder) {}).error().code, errc::wrong_interface);
  net.advance(1s);
  EXPECT_EQ(net.leftovers(), "");
}

TEST_F(Network, DialsAreRefusedOrSilentAsThePathSays) {
  network net{system};
  open(net);
  auto& client = net["client"];
  weir::client caller{client};
  auto ask = [&](const char* at) {
    return call_add(caller, client.lookup<Shop>("shop", at), 1, 1, {.timeout = 20s}).error();
  };
  net.between("client", "server").delay(10ms).dials(dialling::refused);
  auto before = net.now();
  EXPECT_EQ(ask(shop_at).code, errc::connect_failed);
  EXPECT_EQ(net.now() - before, 20ms);
  net.between("client", "server").dials(dialling::silent);
  before = net.now();
  net.advance(1s); // the time until it dials again
  EXPECT_EQ(ask(shop_at).code, errc::connect_timeout);
  EXPECT_GE(net.now() - before, client.options().connect_timeout);
  EXPECT_EQ(ask("tcp://server:7001").code, errc::connect_timeout);
  net.between("client", "server").dials(dialling::connects);
  EXPECT_EQ(ask("tcp://server:7002").code, errc::connect_failed); // nobody listens there
  EXPECT_EQ(ask("tcp://nobody:7000").code, errc::connect_failed);
}

TEST_F(Network, NodesListenAsTheyDoOnRealMachines) {
  network net{system};
  auto& a = net.add_node("a", {.listen = {"tcp://0.0.0.0:7000", "unix:///run/a.sock"}});
  auto& b = net.add_node("b");
  EXPECT_THAT(a.addresses(), ::testing::ElementsAre("tcp://a:7000", "unix:///run/a.sock"));
  EXPECT_THAT(b.addresses(), ::testing::ElementsAre("tcp://b:7000"));
  auto any = a.listen("tcp://localhost:0"), other = a.listen("tcp://[::]:0");
  ASSERT_TRUE(any && other);
  EXPECT_NE(*any, *other);
  EXPECT_EQ(*a.listen("tcp://a:7000-7002"), "tcp://a:7001");
  EXPECT_EQ(*b.listen("tcp://calculator.example:80"), "tcp://calculator.example:80");
  EXPECT_EQ(a.listen("tcp://calculator.example:80").error().code, errc::address_in_use);
  EXPECT_EQ(a.listen("tcp://a:7000").error().code, errc::address_in_use);
  EXPECT_EQ(a.listen("tcp://b:7001").error().code, errc::io_error);
  EXPECT_EQ(a.listen("tcp://b").error().code, errc::bad_uri);
  ASSERT_TRUE(a.serve<Shop>("shop", a.spawn<shop>(&state)));
  weir::client caller{b};
  for (auto at : {*any, std::string{"tcp://a:7001"}, std::string{"unix:///run/a.sock"}})
    EXPECT_TRUE(call_add(caller, b.lookup<Shop>("shop", at), 1, 1)) << at;
}

TEST_F(Network, WrongNamesAreSaid) {
  network net{system};
  net.add_node("a");
  EXPECT_THROW(net.add_node("a"), std::invalid_argument);
  EXPECT_THROW(net.add_node("no host"), std::invalid_argument);
  EXPECT_THROW(net.add_node("b", {.listen = {"tcp://a:7001"}}), start_error);
  EXPECT_THROW(net["b"], std::out_of_range);
  EXPECT_THROW(net.remove_node("b"), std::out_of_range);
  EXPECT_THROW(net.between("a", "c"), std::out_of_range);
  EXPECT_EQ(net.now(), 0s);
}

TEST_F(Network, ANodeThatIsTakenAwayAndComesBackIsFoundAgain) {
  network net{system};
  open(net);
  auto& client = net["client"];
  ASSERT_TRUE(client.connect(shop_at));
  weir::client caller{client};
  ASSERT_TRUE(call_add(caller, client.lookup<Shop>("shop"), 1, 1));
  net.remove_node("server");
  EXPECT_EQ(client.stats().links, 0u);
  EXPECT_FALSE(call_add(caller, client.lookup<Shop>("shop"), 1, 1, {.timeout = 1s}));
  auto& server = net.add_node("server");
  ASSERT_TRUE(server.serve<Shop>("shop", server.spawn<shop>(&state)));
  net.advance(client.options().reconnect_cap);
  EXPECT_TRUE(call_add(caller, client.lookup<Shop>("shop"), 1, 1));
}

TEST_F(Network, BlockingStreamsMoveTheTime) {
  network net{system};
  open(net);
  auto& client = net["client"];
  net.between("client", "server").delay(1ms).capacity(1000);
  weir::client caller{client};
  weir::blocking_outlet<Item> out{caller, client.lookup<Item>("shelf", shop_at)};
  for (uint64_t i = 0; i < 500; ++i)
    ASSERT_TRUE(out.push([&](Item::Builder b) { b.setNumber(i); }));
  auto consumed = out.close();
  ASSERT_TRUE(consumed) << to_string(consumed.error());
  EXPECT_EQ(*consumed, 500u);
  EXPECT_GT(net.now(), 20ms); // 1000 bytes at a time
  net.between("client", "server").stall();
  weir::blocking_outlet<Item> stalled{caller, client.lookup<Item>("shelf", shop_at)};
  auto before = net.now();
  result<void> r;
  while ((r = stalled.push([](Item::Builder b) { b.initData(1 << 16); }, 1s))) {
  }
  EXPECT_EQ(r.error().code, errc::deadline_exceeded);
  EXPECT_GE(net.now() - before, 1s);
}

TEST_F(Network, AnIdempotentCallOfAThreadIsMadeAgainInVirtualTime) {
  network net{system};
  open(net);
  auto& client = net["client"];
  weir::client caller{client};
  auto to = client.lookup<Shop>("shop", shop_at);
  net.between("client", "server").dials(dialling::refused);
  net.after(3s, [&] { net.between("client", "server").dials(dialling::connects); });
  auto r = call_add(caller, to, 1, 1, {.timeout = 20s, .idempotent = true});
  EXPECT_TRUE(r) << to_string(r.error());
  EXPECT_GE(net.now(), 3s);
}

TEST_F(Network, WhoIsRunByItMustNotWaitForIt) {
  network net{system};
  open(net);
  auto& client = net["client"];
  weir::client caller{client};
  auto to = client.lookup<Shop>("shop", shop_at);
  failure in_handler, planned;
  tell(net, client.spawn<customer>(), [&](customer&) { in_handler = call_add(caller, to, 1, 1).error(); });
  net.after(1s, [&] { planned = call_add(caller, to, 1, 1).error(); });
  net.advance(1s);
  EXPECT_EQ(in_handler.code, errc::not_supported);
  EXPECT_EQ(planned.code, errc::not_supported);
}

TEST_F(Network, AServiceWithoutAHandlerIsRefusedAtOnce) {
  class empty : public weir::service<Shop> {
  public:
    using service::service;
    weir::handlers make_handlers() override { return {}; }
  };
  network net{system};
  auto& node = net.add_node("server");
  auto r = node.serve<Shop>("shop", node.spawn<empty>());
  EXPECT_EQ(r.error().code, errc::bad_option);
  EXPECT_EQ(net.now(), 0s);
}

TEST_F(Network, AStopLetsWhatIsUnderWayEndAndWaitsForDrainTimeoutAtMost) {
  network net{system};
  open(net);
  auto& client = net["client"];
  auto who = client.spawn<customer>();
  auto to = client.lookup<Shop>("shop", shop_at);
  ending answered, dropped;
  auto ask = [&](ending& e) {
    tell(net, who, [&](customer& c) {
      c.call<later>(to, [](later::args x) { x.initData(1); })
          .then([&e](later::result r) { e.value = static_cast<int64_t>(r.getSize()); },
                [&e](const failure& f) { e.why = f; });
    });
  };
  ask(answered);
  ask(dropped);
  ASSERT_EQ(state.kept.size(), 2u);
  net.after(1s, [&] { state.kept.front().reply([](later::out out) { out.setSize(7); }); });
  auto before = net.now();
  net["server"].stop();
  EXPECT_EQ(net.now() - before, net["server"].options().drain_timeout);
  EXPECT_EQ(answered.value, 7);
  net.run();
  ASSERT_TRUE(dropped.why);
  EXPECT_EQ(dropped.why->what, outcome::unknown);
  EXPECT_EQ(net["server"].stats().links, 0u);
  state.kept.clear();
}

TEST_F(Network, AnActorThatDoesNotEndDelaysAStopByHalfASecondAtMost) {
  network net{system};
  open(net);
  auto& client = net["client"];
  auto who = client.spawn<customer>();
  auto to = client.lookup<Shop>("shop", shop_at);
  tell(net, who, [&](customer& c) {
    c.call<later>(to, [](later::args x) { x.initData(1); }).then([](later::result) {});
  });
  ASSERT_EQ(state.kept.size(), 1u); // draining waits for it in vain
  auto stays = net["server"].spawn<stayer>();
  net.run();
  auto before = net.now();
  net["server"].stop();
  EXPECT_EQ(net.now() - before, net["server"].options().drain_timeout + 500ms);
  state.kept.clear();
}

TEST_F(Network, WhatIsLeftIsSaidWithTheSeed) {
  network net{system, {.seed = 4711}};
  open(net);
  EXPECT_EQ(net.leftovers(), "");
  auto who = net["client"].spawn<customer>();
  {
    auto to = net["client"].lookup<Shop>("shop", shop_at);
    tell(net, who, [&](customer& c) {
      c.call<later>(to, [](later::args x) {
         x.initData(1);
       }).then([](later::result) {}, [](const failure&) {});
    });
    EXPECT_THAT(net.leftovers(), ::testing::AllOf(HasSubstr("server owes"), HasSubstr("seed 4711")));
    state.kept.clear();
  }
  net.advance(50ms);
  EXPECT_EQ(net.leftovers(), "");
}

TEST_F(Network, WhatNeverRestsIsFoundOut) {
  class restless : public weir::actor {
  public:
    using actor::actor;
    caf::behavior make_behavior() override {
      put(caf::strong_actor_ptr{ctrl()}, nullptr, job{});
      return {[this](job&) { put(caf::strong_actor_ptr{ctrl()}, nullptr, job{}); }};
    }
  };
  network net{system, {.seed = 4711, .rounds_max = 1000}};
  net.add_node("a").spawn<restless>();
  try {
    net.run();
    FAIL() << "it rested";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("seed 4711"));
  }
}

TEST_F(Network, TheSameSeedGivesTheSameRunAndAnotherOneAnother) {
  auto first = history(1, everything);
  EXPECT_GT(first.size(), 100u);
  EXPECT_EQ(first, history(1, everything));
  EXPECT_NE(first, history(2, everything));
  EXPECT_EQ(history(3, {}), history(3, {}));
}

TEST_F(Network, WithAnyFaultsEveryCallEndsOnceAndNothingIsLeft) {
  uint64_t cuts = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    auto lines = history(seed, everything);
    EXPECT_EQ(ended, 40u) << "seed " << seed;
    EXPECT_EQ(left, "") << "seed " << seed;
    cuts += static_cast<uint64_t>(
        std::count_if(lines.begin(), lines.end(), [](auto& l) { return l.find("by chance") != l.npos; }));
  }
  EXPECT_GT(cuts, 50u);
}

TEST_F(Network, DifferentLinksAreReorderedAndOneLinkIsNot) {
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    goods = {};
    network net{system, {.seed = seed}};
    open(net, {"one", "two"});
    net.shuffle();
    net["one"].spawn<porter>(net["one"].lookup<Item>("shelf", shop_at), 0, 50);
    net["two"].spawn<porter>(net["two"].lookup<Item>("shelf", shop_at), 50, 100);
    net.advance(1s);
    ASSERT_EQ(goods.numbers.size(), 100u);
    orders.insert(goods.numbers);
    std::vector<uint64_t> one, two;
    for (auto n : goods.numbers)
      (n < 50 ? one : two).push_back(n);
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
    EXPECT_TRUE(std::is_sorted(two.begin(), two.end()));
  }
  EXPECT_GT(orders.size(), 1u);
}

} // namespace

} // namespace weir::test
