// Actors of one node that wait in a circle for each other's credit are found, and nobody else is.
#include <gmock/gmock.h>

#include <weir/relay.hpp>

#include "actors/cycle_watch.hpp"
#include "actors/session.hpp"
#include "tests/support/conversation.hpp"
#include "tests/support/funnel.hpp"

namespace weir::test {

namespace {

using ::testing::AllOf, ::testing::Contains, ::testing::HasSubstr;

/// Passes what comes on each stream on an outlet of that stream: the data of an item has a byte for each hop
/// that it still has to go. What has arrived is leased until the test lets go of it.
class junction : public weir::sink<Item> {
public:
  struct state {
    ref<Item> next;
    bool pairs = true;   ///< says that it does
    bool asleep = false; ///< its mail is kept where it does not look
    std::vector<held<Item>> arrived;
  };
  junction(caf::actor_config& cfg, state* s) : sink(cfg), state_(s) {}

  enqueue_result enqueue(caf::mailbox_element_ptr x, caf_context* ctx) override {
    if (!state_->asleep)
      return sink::enqueue(std::move(x), ctx);
    mail_.push_back(std::move(x));
    return enqueued();
  }
  void wake() {
    state_->asleep = false;
    for (auto& x : std::exchange(mail_, {}))
      sink::enqueue(std::move(x), nullptr);
  }

  void on_message(weir::inlet<Item> from, Item::Reader item) override {
    if (item.getData().size() == 0)
      return state_->arrived.push_back(from.lease());
    auto& way = ways_[from.id()];
    if (!way)
      way = open(from);
    if (!way->waiting.empty() || !pass_on(*way, item))
      way->waiting.push_back(from.lease());
  }

protected:
  void on_exit() override {
    ways_.clear();
    sink::on_exit();
  }

private:
  struct passage {
    weir::outlet<Item> out;
    std::deque<held<Item>> waiting;
  };
  std::shared_ptr<passage> open(const weir::inlet<Item>& from) {
    auto made = std::make_shared<passage>(passage{weir::outlet<Item>{this, state_->next}, {}});
    if (state_->pairs)
      made->out.pair_with(from);
    made->out.on_credit([w = made.get()] {
      while (!w->waiting.empty() && pass_on(*w, w->waiting.front().get()))
        w->waiting.pop_front();
    });
    return made;
  }
  static bool pass_on(passage& w, Item::Reader item) {
    return w.out.offer(
        [&](Item::Builder b) { b.initData(static_cast<unsigned>(item.getData().size() - 1)); });
  }

  state* state_;
  std::map<uint64_t, std::shared_ptr<passage>> ways_;
  std::vector<caf::mailbox_element_ptr> mail_;
};

/// Keeps each request until another service has answered one with a byte less, the last one until the test
/// lets go of it.
class asker : public weir::service<Shop> {
public:
  struct state {
    ref<Shop> next;
    std::vector<weir::request<later>> kept;
  };
  asker(caf::actor_config& cfg, state* s) : service(cfg), state_(s) {}
  weir::handlers make_handlers() override {
    return {on<add>([](add::in, add::out) {}), on<fail>([](fail::in, fail::out) {}),
            on<give>([](give::in, give::out) {}), on<later>([this](weir::request<later> rq) {
              auto hops = rq.params().getData().size();
              if (hops == 0)
                return state_->kept.push_back(rq);
              call<later>(state_->next, [&](later::args x) { x.initData(static_cast<unsigned>(hops - 1)); })
                  .then([rq](later::result) mutable { rq.reply([](later::out out) { out.setSize(1); }); },
                        [rq](const failure& why) mutable { rq.fail(why); });
            })};
  }

private:
  state* state_;
};

using scan = weir::method<&Warehouse::Client::scanRequest>;
using walk = weir::method<&Warehouse::Client::walkRequest>;
using total = weir::method<&Warehouse::Client::totalRequest>;

/// Streams rows to the last who asked for them, as many as it may, and keeps those that it reads from
/// another one.
class mirror : public weir::service<Warehouse> {
public:
  struct state {
    ref<Warehouse> other;
    std::vector<held<scan::results>> kept;
  };
  mirror(caf::actor_config& cfg, state* s) : service(cfg), state_(s) {}
  weir::handlers make_handlers() override {
    return {on_stream<scan>([this](scan::in, weir::outlet<scan::results> rows) { show(std::move(rows)); }),
            on_stream<walk>([](walk::in, const weir::outlet<walk::results>&) {}),
            on<total>([](total::in, total::out) {})};
  }

protected:
  void on_exit() override {
    out_.reset();
    in_ = {};
    service::on_exit();
  }

private:
  void show(weir::outlet<scan::results> rows) {
    out_ = std::move(rows);
    out_->on_credit([this] { go_on(); });
    go_on();
    if (in_)
      return;
    in_ = open_stream<scan>(state_->other, {}, [](scan::args) {});
    in_.on_message([this](scan::result) { state_->kept.push_back(in_.lease()); });
  }
  void go_on() {
    while (out_->offer([](scan::out) {}))
      continue;
  }

  state* state_;
  std::optional<weir::outlet<scan::results>> out_;
  weir::rows<scan> in_;
};

class WaitCycles : public Conversation {
protected:
  static constexpr net::duration limit = 1s, look = limit / 4, log_period = 10s;

  WaitCycles() {
    ration = {16 << 10, 16, 4};
    stall_limit = limit;
    journal = std::make_shared<actors::journal>(actors::journal::options{
        .level = log_level::warning,
        .period = log_period,
        .node = "server",
        .write = [this](log_level, const std::string& text) { lines.push_back(text); },
        .now = [n = &net()] { return actors::journal::clock::time_point{n->now()}; }});
  }
  /// The nodes go before what their actors see.
  void TearDown() override {
    for (auto& s : funnels)
      s = {};
    for (auto& s : junctions)
      s = {};
    for (auto& s : askers)
      s = {};
    for (auto& s : mirrors)
      s = {};
    senders.clear();
    shut_down();
  }

  /// A ref whose session lives on that loop.
  template <class T>
  ref<T> lookup_on(size_t loop, const std::string& name) {
    auto& on = *server().env->loops.at(loop);
    actors::session::target to{name, detail::type_id<T>(), capnp::kind<T>() == capnp::Kind::STRUCT, true, {},
                               0};
    actors::environment_ptr env = server().env;
    return ref<T>{detail::guard_of(on.spawn<actors::session>(std::ref(on), env, std::move(to)))};
  }
  /// Streams `count` items of so many bytes to `to` as fast as it may.
  void send(const ref<Item>& to, uint64_t count, size_t bytes = 0) {
    auto who = spawn<customer>(server());
    senders.push_back(who);
    tell(who, [=](customer& c) {
      c.outlets.push_back(std::make_unique<weir::outlet<Item>>(&c, to));
      auto& out = *c.outlets.back();
      out.on_credit([&out, bytes, left = count]() mutable {
        while (left > 0 && out.offer([&](Item::Builder b) { b.initData(static_cast<unsigned>(bytes)); }))
          --left;
      });
    });
  }
  /// Funnels in a ring, on as many loops as there are; each sends as much as it may to the next.
  void make_ring(size_t n) {
    in_ring = n;
    auto name = [n](size_t i) { return "funnel" + std::to_string(i % n); };
    for (size_t i = 0; i < n; ++i)
      serve<Item>(server(), name(i), spawn<funnel<Item>>(server(), &funnels[i]));
    for (size_t i = 0; i < n; ++i) {
      funnels[i].own_messages = 1000;
      funnels[i].next = lookup_on<Item>(i % loops, name(i + 1));
    }
    for (size_t i = 0; i < n; ++i)
      send(lookup_here<Item>(name(i)), 1);
  }
  bool is_stuck() const {
    return std::all_of(funnels.begin(), funnels.begin() + in_ring,
                       [](auto& f) { return !f.waiting.empty(); });
  }
  uint64_t reported() { return wait_cycles(server()); }

  std::vector<std::string> lines;
  std::array<funnel_state<Item>, 5> funnels;
  size_t in_ring = 0; ///< of them
  std::array<junction::state, 2> junctions;
  std::array<asker::state, 2> askers;
  std::array<mirror::state, 2> mirrors;
  std::vector<caf::actor> senders;
};

// ---- found

struct ring {
  size_t funnels;
  uint32_t loops;
};
class WaitCycleOfFunnels : public WaitCycles, public ::testing::WithParamInterface<ring> {};

TEST_P(WaitCycleOfFunnels, IsReportedByNameWithinTheLimitAndALook) {
  cycle_on_purpose = true;
  loops = GetParam().loops;
  make_ring(GetParam().funnels);
  ASSERT_TRUE(is_stuck());
  advance(limit - 1ms);
  EXPECT_EQ(reported(), 0u);
  advance(look + 1ms);
  EXPECT_EQ(reported(), 1u);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("wait_cycle: 'funnel"), HasSubstr("weir::relay"), HasSubstr("R8")));
  for (size_t i = 0; i < GetParam().funnels; ++i)
    EXPECT_THAT(lines[0], HasSubstr("-> 'funnel" + std::to_string(i) + "' (actor "));
}

INSTANTIATE_TEST_SUITE_P(
    All, WaitCycleOfFunnels,
    ::testing::Values(ring{1, 1}, ring{2, 1}, ring{3, 1}, ring{2, 2}, ring{3, 3}, ring{5, 2}), [](auto& i) {
      return "Of" + std::to_string(i.param.funnels) + "On" + std::to_string(i.param.loops) + "Loops";
    });

TEST_F(WaitCycles, AreReportedOncePerPeriodForAsLongAsTheyAreThere) {
  cycle_on_purpose = true;
  make_ring(2);
  advance(limit + look + log_period - 2 * look);
  EXPECT_EQ(reported(), 1u);
  advance(2 * look);
  EXPECT_EQ(reported(), 2u);
  EXPECT_EQ(lines.size(), 2u);
  advance(3 * log_period);
  EXPECT_EQ(reported(), 5u);
  EXPECT_EQ(lines.size(), 5u);
}

TEST_F(WaitCycles, AreCountedOneByOneAndWrittenAsOneLine) {
  cycle_on_purpose = true;
  make_ring(2);
  std::array<funnel_state<Item>, 2> others;
  for (size_t i = 0; i < 2; ++i)
    serve<Item>(server(), "other" + std::to_string(i), spawn<funnel<Item>>(server(), &others[i]));
  for (size_t i = 0; i < 2; ++i) {
    others[i].own_messages = 1000;
    others[i].next = lookup_here<Item>("other" + std::to_string(1 - i));
  }
  send(lookup_here<Item>("other0"), 1);
  send(lookup_here<Item>("other1"), 1);
  advance(limit + look);
  EXPECT_EQ(reported(), 2u);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("'funnel1' (actor "));
  EXPECT_THAT(lines[0], HasSubstr("and 1 more such"));
  for (auto& s : others)
    s = {};
  shut_down();
}

TEST_F(WaitCycles, BeginAnewWhenAnythingWasGivenBack) {
  cycle_on_purpose = true;
  make_ring(3);
  advance(limit - 2 * look);
  for (int i = 0; i < 8; ++i)
    funnels[0].waiting.pop_front();
  run();
  ASSERT_TRUE(is_stuck());
  advance(limit - look);
  EXPECT_EQ(reported(), 0u);
  advance(2 * look);
  EXPECT_EQ(reported(), 1u);
}

TEST_F(WaitCycles, AreFoundWhereALittleWasGivenBackThatNobodyWasToldOf) {
  cycle_on_purpose = true;
  make_ring(2);
  for (int i = 0; i < 3; ++i)
    funnels[0].waiting.pop_front(); // less than a quarter of the ration
  run();
  ASSERT_TRUE(is_stuck());
  advance(limit + look);
  EXPECT_EQ(reported(), 1u);
}

TEST_F(WaitCycles, OfForwardersThatDoNotPairAreNoMatterHowManyOutletsTheyHave) {
  cycle_on_purpose = true; // who does not pair may as well wait for one outlet with what came for the other
  for (size_t i = 0; i < 2; ++i) {
    junctions[i].pairs = false;
    serve<Item>(server(), "junction" + std::to_string(i), spawn<junction>(server(), &junctions[i]));
  }
  for (size_t i = 0; i < 2; ++i)
    junctions[i].next = lookup_here<Item>("junction" + std::to_string(1 - i));
  send(lookup_here<Item>("junction0"), 100, 2);
  advance(limit + look);
  EXPECT_EQ(reported(), 1u);
  EXPECT_THAT(net().leftovers(), HasSubstr("server: actors waited for each other's credit in a circle"));
}

TEST_F(WaitCycles, OfRowsAreNamedAfterTheServicesThatSendThem) {
  cycle_on_purpose = true;
  for (size_t i = 0; i < 2; ++i)
    serve<Warehouse>(server(), "mirror" + std::to_string(i), spawn<mirror>(server(), &mirrors[i]));
  for (size_t i = 0; i < 2; ++i)
    mirrors[i].other = lookup_here<Warehouse>("mirror" + std::to_string(1 - i));
  auto who = spawn<customer>(server());
  weir::rows<scan> first;
  tell(who, [&](customer& c) {
    first = c.open_stream<scan>(lookup_here<Warehouse>("mirror0"), {}, [](scan::args) {});
  });
  EXPECT_EQ(mirrors[0].kept.size(), 16u); // the ration
  EXPECT_EQ(mirrors[1].kept.size(), 16u);
  advance(limit + look);
  EXPECT_EQ(reported(), 1u);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("'reader of mirror0'"), HasSubstr("'reader of mirror1'"))));
}

// ---- not found

TEST_F(WaitCycles, WithoutALimitNobodyLooks) {
  stall_limit = 0s;
  make_ring(2);
  ASSERT_TRUE(is_stuck());
  advance(1h);
  EXPECT_EQ(server().env->cycles, nullptr);
  EXPECT_EQ(reported(), 0u);
}

TEST_F(WaitCycles, AreNoneWhenTheyEndBeforeTheLimit) {
  make_ring(3);
  ASSERT_TRUE(is_stuck());
  advance(limit - 1ms);
  funnels[0].drops = true;
  funnels[0].waiting.clear();
  advance(1min);
  EXPECT_EQ(funnels[2].arrived, 1000u + 1); // what funnel 1 has made, by funnel 0's successor, and its start
  EXPECT_EQ(reported(), 0u);
}

TEST_F(WaitCycles, AreNoneWhereWhatWasSentLiesInAMailbox) {
  std::array<caf::actor, 2> actors;
  for (size_t i = 0; i < 2; ++i) {
    junctions[i].pairs = false;
    actors[i] = spawn<junction>(server(), &junctions[i]);
    serve<Item>(server(), "junction" + std::to_string(i), actors[i]);
  }
  for (size_t i = 0; i < 2; ++i)
    junctions[i].next = lookup_here<Item>("junction" + std::to_string(1 - i));
  send(lookup_here<Item>("junction0"), 100, 1);
  ASSERT_EQ(junctions[1].arrived.size(), 16u); // 0 waits for 1
  junctions[0].asleep = true;
  send(lookup_here<Item>("junction1"), 100, 1);
  advance(1min); // and 1 for 0, which has not come to what it got
  EXPECT_EQ(reported(), 0u);
  cycle_on_purpose = true;
  static_cast<junction*>(caf::actor_cast<caf::abstract_actor*>(actors[0]))->wake();
  run();
  EXPECT_EQ(junctions[0].arrived.size(), 16u); // it keeps that as well
  advance(limit - 1ms);
  EXPECT_EQ(reported(), 0u);
  advance(look + 1ms);
  EXPECT_EQ(reported(), 1u);
}

TEST_F(WaitCycles, AreNoneInARingThatPairsItsStreams) {
  for (size_t i = 0; i < 2; ++i)
    serve<Item>(server(), "junction" + std::to_string(i), spawn<junction>(server(), &junctions[i]));
  for (size_t i = 0; i < 2; ++i)
    junctions[i].next = lookup_here<Item>("junction" + std::to_string(1 - i));
  send(lookup_here<Item>("junction0"), 100, 2); // comes back to where it went in, and is kept there
  send(lookup_here<Item>("junction1"), 100, 2);
  advance(1min);
  EXPECT_EQ(junctions[0].arrived.size(), 16u); // the ration: everybody up to here waits
  EXPECT_EQ(junctions[1].arrived.size(), 16u);
  EXPECT_EQ(reported(), 0u);
}

TEST_F(WaitCycles, AreNoneInARingWithARelay) {
  auto& end = junctions[0];
  serve<Item>(server(), "end", spawn<junction>(server(), &end));
  serve<Item>(
      server(), "relay",
      spawn<weir::relay<Item>>(server(), lookup_here<Item>("end"), [](Item::Reader in, Item::Builder out) {
        out.initData(static_cast<unsigned>(in.getData().size() - 1));
      }));
  end.next = lookup_here<Item>("relay");
  send(lookup_here<Item>("relay"), 100, 3); // to the relay, the end, the relay, the end
  advance(1min);
  EXPECT_EQ(end.arrived.size(), 16u);
  EXPECT_EQ(reported(), 0u);
  while (!end.arrived.empty()) {
    end.arrived.clear();
    advance(10ms);
  }
}

TEST_F(WaitCycles, AreNoneWhereAServiceOnlyKeepsWhatItGets) {
  junctions[0].next = lookup_here<Item>("nobody");
  serve<Item>(server(), "end", spawn<junction>(server(), &junctions[0]));
  for (int i = 0; i < 3; ++i)
    send(lookup_here<Item>("end"), 100);
  advance(1min);
  EXPECT_EQ(junctions[0].arrived.size(), 3u * 16);
  EXPECT_EQ(reported(), 0u);
}

TEST_F(WaitCycles, AreNoneWhereServicesHoldEachOthersRequests) {
  for (size_t i = 0; i < 2; ++i)
    serve<Shop>(server(), "asker" + std::to_string(i), spawn<asker>(server(), &askers[i]));
  for (size_t i = 0; i < 2; ++i)
    askers[i].next = lookup_here<Shop>("asker" + std::to_string(1 - i));
  auto who = spawn<customer>(server());
  auto to = lookup_here<Shop>("asker0");
  std::array<ending, 40> ends; // more than a ration
  for (auto& e : ends)
    call_later(who, to, 256, e, {.timeout = 10min});
  advance(20s);                         // the deadline of a call is 30 s
  EXPECT_EQ(askers[0].kept.size(), 7u); // 256 hops each, between them as many as they may hold
  EXPECT_EQ(reported(), 0u);
  for (auto& rq : askers[0].kept)
    rq.reply([](later::out out) { out.setSize(1); });
  askers[0].kept.clear();
  run();
  EXPECT_EQ(std::count_if(ends.begin(), ends.end(), [](auto& e) { return e.value.has_value(); }), 7);
  EXPECT_EQ(std::count_if(ends.begin(), ends.end(), [](auto& e) { return e.why.has_value(); }), 33);
}

// ---- what it costs

TEST_F(WaitCycles, AreLookedForOnlyWhileSessionsLeadToServicesOfTheNode) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = spawn<customer>(server()), guest = spawn<customer>(client());
  ending there, here, again;
  auto far = lookup<Shop>("shop");
  call_add(guest, far, 1, 2, there);
  advance(1min);
  EXPECT_EQ(there.value, 3);
  EXPECT_FALSE(server().env->cycles->is_looking());
  {
    auto to = lookup_here<Shop>("shop");
    call_add(who, to, 1, 2, here);
    EXPECT_EQ(here.value, 3);
    advance(1min);
    EXPECT_TRUE(server().env->cycles->is_looking());
  }
  advance(2 * look);
  EXPECT_FALSE(server().env->cycles->is_looking());
  auto to = lookup_here<Shop>("shop");
  call_add(who, to, 1, 2, again);
  EXPECT_TRUE(server().env->cycles->is_looking());
  EXPECT_FALSE(client().env->cycles->is_looking());
}

} // namespace
} // namespace weir::test
