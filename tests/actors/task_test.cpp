// Coroutines that belong to an actor: what they wait for, and how they end.
#include <gmock/gmock.h>

#include <weir/task.hpp>

#include "tests/support/shop.hpp"
#include "tests/support/virtual_nodes.hpp"

namespace weir::test {

using namespace std::chrono_literals;

namespace {

/// Counts itself down when it dies: in a frame it says whether that is gone.
class tally {
public:
  explicit tally(int& n) : n_(n) { ++n_; }
  tally(const tally&) = delete;
  tally& operator=(const tally&) = delete;
  ~tally() { --n_; }

private:
  int& n_;
};

struct front_state {
  int frames = 0, resumed = 0;
  std::string greeting = "no luck";
};

/// A shop that asks another one before it answers.
class front : public weir::service<Shop> {
public:
  front(caf::actor_config& cfg, front_state* s, ref<Shop> behind)
      : service(cfg), state_(s), behind_(std::move(behind)) {}

  weir::handlers make_handlers() override {
    return {on<add>([this](weir::request<add> rq) -> weir::task {
              tally alive{state_->frames};
              auto a = rq.params().getA(), b = rq.params().getB();
              auto r = co_await call<add>(behind_, {.timeout = 1s}, [=](add::args x) {
                x.setA(a);
                x.setB(b);
              });
              ++state_->resumed;
              if (r)
                rq.reply([&](add::out out) { out.setSum(2 * r->getSum()); });
              else
                rq.fail(r.error());
            }),
            on<later>([this](weir::request<later> rq) -> weir::task {
              tally alive{state_->frames};
              auto r = co_await call<later>(behind_, [](later::args) {});
              ++state_->resumed;
              if (r)
                rq.reply([&](later::out out) { out.setSize(r->getSize()); });
              else
                rq.fail(r.error());
            }),
            on<fail>([this, text = state_->greeting](weir::request<fail> rq) -> weir::task {
              tally alive{state_->frames};
              auto mine = std::move(rq); // its end must wait for what the exception says
              co_await call<add>(behind_, [](add::args) {});
              throw std::runtime_error(text);
            }),
            on<give>([](weir::request<give> rq) -> weir::task {
              if (rq.params().getSize() == 0)
                throw std::domain_error("nothing to give");
              co_return; // it dies unanswered
            })};
  }

private:
  front_state* state_;
  ref<Shop> behind_;
};

class Task : public virtual_nodes {
protected:
  static customer& raw(const caf::actor& a) {
    return *static_cast<customer*>(caf::actor_cast<caf::abstract_actor*>(a));
  }
  void tell(const caf::actor& who, std::function<void(customer&)> f) {
    put(who, nullptr, job{std::move(f)});
    run();
  }
  template <class M, class Get>
  void ask(const caf::actor& who, const ref<Shop>& to, ending& e, Get get, uint64_t size = 0) {
    tell(who, [&](customer& c) {
      c.call<M>(to, {.timeout = 2s}, [&](typename M::args x) {
         if constexpr (std::is_same_v<M, add>)
           x.setA(20), x.setB(22);
         if constexpr (std::is_same_v<M, give>)
           x.setSize(size);
       }).then([&e, get](typename M::result r) { e.value = get(r); }, [&e](const failure& f) { e.why = f; });
    });
  }
  void serve_both() {
    serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
    front_actor = spawn<front>(server(), &fronts, lookup_here<Shop>("shop"));
    serve<Shop>(server(), "front", front_actor);
  }
  static int64_t sum_of(add::result r) { return r.getSum(); }
  static int64_t size_of(later::result r) { return static_cast<int64_t>(r.getSize()); }
  template <class Result>
  static int64_t nothing_of(Result) {
    return 0;
  }

  shop_state state;
  shelf_state goods;
  front_state fronts;
  caf::actor front_actor;
};

TEST_F(Task, AHandlerWaitsForAnotherServiceAndAnswers) {
  serve_both();
  auto who = spawn<customer>(client());
  {
    auto to = lookup<Shop>("front");
    ending e;
    ask<add>(who, to, e, sum_of);
    EXPECT_EQ(e.value, 84) << (e.why ? to_string(*e.why) : "");
    EXPECT_EQ(fronts.frames, 0);
  }
}

TEST_F(Task, ManyHandlersWaitAtTheSameTimeAndNoneHoldsUpTheOthers) {
  serve_both();
  auto who = spawn<customer>(client());
  auto to = lookup<Shop>("front");
  std::vector<ending> slow(5);
  for (auto& e : slow)
    ask<later>(who, to, e, size_of);
  EXPECT_EQ(fronts.frames, 5);
  ending quick;
  ask<add>(who, to, quick, sum_of);
  EXPECT_EQ(quick.value, 84);
  while (!state.kept.empty()) { // the last one first
    state.kept.back().reply([](later::out out) { out.setSize(7); });
    state.kept.pop_back();
  }
  run();
  for (auto& e : slow)
    EXPECT_EQ(e.value, 7);
  EXPECT_EQ(fronts.frames, 0);
}

TEST_F(Task, TheFailureOfACallIsAnAnswerWithWords) {
  serve_both();
  auto who = spawn<customer>(client());
  auto to = lookup<Shop>("front");
  ending e;
  ask<later>(who, to, e, size_of);
  state.kept.front().fail({errc::overloaded, outcome::not_executed, "come back later"});
  run();
  ASSERT_TRUE(e.why);
  EXPECT_EQ(e.why->code, errc::overloaded);
  EXPECT_THAT(e.why->text, ::testing::HasSubstr("come back later"));
}

TEST_F(Task, AnExceptionAnswersTheRequestWithItsTextAndTheServiceLives) {
  serve_both();
  auto who = spawn<customer>(client());
  auto to = lookup<Shop>("front");
  for (int i = 0; i < 3; ++i) {
    ending late, at_once;
    ask<fail>(who, to, late, nothing_of<fail::result>);
    ASSERT_TRUE(late.why);
    EXPECT_EQ(late.why->code, errc::handler_failed);
    EXPECT_THAT(late.why->text, ::testing::HasSubstr("no luck")); // captured by the lambda
    ask<give>(who, to, at_once, nothing_of<give::result>);
    ASSERT_TRUE(at_once.why);
    EXPECT_THAT(at_once.why->text, ::testing::HasSubstr("nothing to give"));
  }
  ending dropped, e;
  ask<give>(who, to, dropped, nothing_of<give::result>, 1);
  ASSERT_TRUE(dropped.why);
  EXPECT_THAT(dropped.why->text, ::testing::HasSubstr("without an answer"));
  ask<add>(who, to, e, sum_of);
  EXPECT_EQ(e.value, 84);
  EXPECT_EQ(fronts.frames, 0);
}

TEST_F(Task, WhenTheActorEndsWhatWaitsIsDestroyedAndItsCallersHearOfIt) {
  serve_both();
  auto who = spawn<customer>(client());
  {
    auto to = lookup<Shop>("front");
    ending e;
    ask<later>(who, to, e, size_of);
    EXPECT_EQ(fronts.frames, 1);
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(front_actor), caf::exit_reason::kill);
    run();
    EXPECT_EQ(fronts.frames, 0);
    ASSERT_TRUE(e.why);
    EXPECT_EQ(e.why->what, outcome::unknown);
    state.kept.front().reply([](later::out out) { out.setSize(7); }); // too late: nobody is resumed
    state.kept.clear();
    run();
    EXPECT_EQ(fronts.resumed, 0);
  }
  std::erase(server().kept, front_actor); // and with it the session to the shop behind
  front_actor = nullptr;
  expect_base_line();
}

TEST_F(Task, CallsThatAreUnderWayTogetherAreWaitedForInAnyOrder) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = spawn<customer>(client());
  {
    auto to = lookup<Shop>("shop");
    std::vector<int64_t> got;
    auto both = [](customer& c, ref<Shop> shop, std::vector<int64_t>& out) -> weir::task {
      auto slow = c.call<later>(shop, [](later::args) {});
      auto quick = c.call<add>(shop, [](add::args x) { x.setA(1); });
      auto unwanted = c.call<give>(shop, [](give::args x) { x.setSize(100); });
      auto size = co_await slow;
      out.push_back(size ? static_cast<int64_t>(size->getSize()) : -1);
      auto sum = co_await quick; // has come long ago
      out.push_back(sum ? sum->getSum() : -1);
      auto again = co_await quick;
      out.push_back(again ? 0 : static_cast<int64_t>(again.error().code));
    };
    tell(who, [&](customer& c) { both(c, to, got); });
    EXPECT_TRUE(got.empty());
    state.kept.front().reply([](later::out out) { out.setSize(9); });
    state.kept.clear();
    run();
    EXPECT_EQ(got, (std::vector<int64_t>{9, 1, static_cast<int64_t>(errc::unknown_call)}));
  }
  expect_base_line();
}

TEST_F(Task, AnAnswerOwnsItsReplyUntilItDies) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = spawn<customer>(client());
  {
    auto to = lookup<Shop>("shop");
    std::optional<weir::answer<give>> kept;
    auto fetch = [](customer& c, ref<Shop> shop, std::optional<weir::answer<give>>& out) -> weir::task {
      out = co_await c.call<give>(shop, [](give::args x) { x.setSize(1 << 20); });
    };
    tell(who, [&](customer& c) { fetch(c, to, kept); });
    advance(20ms);
    ASSERT_TRUE(kept && *kept);
    EXPECT_EQ((*kept)->getData().size(), size_t{1} << 20);
    EXPECT_GE(client().budget().liability(), client().base_line + (1 << 20));
    kept.reset();
  }
  expect_base_line();
}

TEST_F(Task, SleepsOnTheClockOfItsLoop) {
  auto who = spawn<customer>(client());
  std::vector<int> log;
  auto steps = [](customer&, std::vector<int>& out) -> weir::task {
    co_await weir::sleep_for(0ms);
    out.push_back(0);
    co_await weir::sleep_for(100ms);
    out.push_back(100);
    co_await weir::sleep_for(1h);
    out.push_back(-1);
  };
  tell(who, [&](customer& c) { steps(c, log); });
  EXPECT_EQ(log, std::vector<int>{0});
  advance(90ms);
  EXPECT_EQ(log.size(), 1u);
  advance(20ms);
  EXPECT_EQ(log, (std::vector<int>{0, 100}));
}

TEST_F(Task, AProducerWaitsForCreditAndForTheConfirmedEnd) {
  ration = {16 << 10, 16, 4};
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
  for (bool here : {false, true}) {
    goods.numbers.clear();
    auto who = spawn<customer>(here ? server() : client());
    auto to = here ? lookup_here<Item>("shelf") : lookup<Item>("shelf");
    std::optional<uint64_t> consumed;
    auto produce = [](customer& c, ref<Item> shelf_ref, std::optional<uint64_t>& out) -> weir::task {
      weir::outlet<Item> items{&c, shelf_ref};
      for (uint64_t i = 0; i < 1000; ++i)
        while (!items.offer([&](Item::Builder b) { b.setNumber(i); }))
          if (!co_await weir::credit(items))
            co_return;
      if (auto end = co_await items.close())
        out = *end;
    };
    tell(who, [&](customer& c) { produce(c, to, consumed); });
    advance(200ms);
    EXPECT_EQ(consumed, 1000u);
    EXPECT_EQ(goods.numbers.size(), 1000u);
  }
  expect_base_line();
}

TEST_F(Task, AProducerThatWaitsIsToldThatItsStreamIsLost) {
  ration = {16 << 10, 16, 4};
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
  auto who = spawn<customer>(client());
  auto to = lookup<Item>("shelf");
  run();
  to_server().stall(); // the ration is used up, and no more comes
  std::vector<std::string> log;
  auto produce = [](customer& c, ref<Item> shelf_ref, std::vector<std::string>& out) -> weir::task {
    weir::outlet<Item> items{&c, shelf_ref};
    for (;;)
      if (!items.offer([](Item::Builder b) { b.initData(100); }) && !co_await weir::credit(items))
        break;
    out.emplace_back("lost");
    auto end = co_await items.close(); // which is over: it does not wait
    out.push_back(to_string(end.error().code));
  };
  tell(who, [&](customer& c) { produce(c, to, log); });
  EXPECT_TRUE(log.empty());
  cut();
  EXPECT_EQ(log, (std::vector<std::string>{"lost", "link_lost"}));
}

/// What a coroutine that answers nobody leaves behind when it throws.
class worker : public customer {
public:
  worker(caf::actor_config& cfg, std::vector<std::string>* log) : customer(cfg), log_(log) {}
  weir::task work() {
    co_await weir::sleep_for(1ms);
    throw std::runtime_error("out of paper");
  }
  void on_task_failed(const failure& why) override {
    log_->push_back(why.text);
    if (log_->size() > 1)
      customer::on_task_failed(why);
  }

private:
  std::vector<std::string>* log_;
};

TEST_F(Task, AnExceptionThatNobodyWaitsForGoesToItsActorAndEndsItByDefault) {
  std::vector<std::string> log;
  auto who = spawn<worker>(client(), &log);
  auto begin = [&] { tell(who, [](customer& c) { static_cast<worker&>(c).work(); }); };
  begin();
  advance(5ms);
  EXPECT_EQ(log, std::vector<std::string>{"out of paper"});
  EXPECT_FALSE(is_terminated(caf::actor_cast<caf::strong_actor_ptr>(who)));
  begin();
  advance(5ms);
  EXPECT_TRUE(is_terminated(caf::actor_cast<caf::strong_actor_ptr>(who)));
}

TEST(TaskWithoutActor, IsRefused) {
  auto lost = []() -> weir::task { co_return; };
  EXPECT_THROW(lost(), std::logic_error);
}

} // namespace
} // namespace weir::test
