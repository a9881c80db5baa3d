// Actors of one node that wait in a circle for each other's credit, on threads: found, and only they.
#include <gmock/gmock.h>

#include "runtime/program/services.capnp.h"
#include "tests/process/machine.hpp"
#include "tests/support/funnel.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

node_options with_small_rations(uint32_t loops) {
  auto o = machine::listening();
  o.io_threads = loops;
  o.ration_messages = 16;
  o.stall_limit = 200ms;
  o.log_level = log_level::off;
  return o;
}

/// Two funnels that send to each other, each on a loop of its own where there are two.
class ring {
public:
  explicit ring(machine& m) {
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(m.node().serve<Piece>(name(i), m.node().spawn<funnel<Piece>>(&funnels_[i])));
    for (size_t i = 0; i < 2; ++i) {
      funnels_[i].own_messages = 1000;
      funnels_[i].next = m.node().lookup<Piece>(name(1 - i));
    }
    for (size_t i = 0; i < 2; ++i)
      pour(m, m.node().lookup<Piece>(name(i)), 1, 0);
  }

private:
  static std::string name(size_t i) { return "funnel" + std::to_string(i); }
  std::array<funnel_state<Piece>, 2> funnels_;
};

TEST(WaitCycles, OnTwoLoopsAreFoundAndShownByAProbe) {
  auto m = std::make_unique<machine>(with_small_rations(2));
  m->cycle_on_purpose = true;
  ring funnels{*m};
  EXPECT_TRUE(eventually([&] { return m->node().stats().times(errc::wait_cycle) == 1; }));
  EXPECT_THAT(run({WEIR_PROGRAM, "probe", m->address()}).out, HasSubstr("wait_cycle"));
  m = nullptr;
}

/// What `weir bench rpc` calls.
class mirror : public weir::service<program::Echo> {
public:
  using service::service;
  using echo = weir::method<&program::Echo::Client::echoRequest>;
  using pass = weir::method<&program::Echo::Client::passRequest>;
  handlers make_handlers() override {
    return {on<echo>([](echo::in in, echo::out out) {
              out.setSequence(in.getSequence());
              out.setCheck(in.getCheck());
              out.setData(in.getData());
            }),
            on<pass>([](pass::in, pass::out) {})};
  }
};

TEST(WaitCycles, FailABenchmark) {
  auto m = std::make_unique<machine>(with_small_rations(1));
  ASSERT_TRUE(m->node().serve<program::Echo>("echo", m->node().spawn<mirror>()));
  auto bench = [&] {
    process p{{WEIR_PROGRAM, "bench", "rpc", "--connect", m->address(), "--seconds", "0.05", "--placement",
               "loop"}};
    p.cycle_on_purpose = true;
    return p.end();
  };
  EXPECT_EQ(bench().status, 0);
  m->cycle_on_purpose = true;
  ring funnels{*m};
  EXPECT_TRUE(eventually([&] { return m->node().stats().times(errc::wait_cycle) == 1; }));
  auto failed = bench();
  EXPECT_EQ(failed.status, 1);
  EXPECT_EQ(failed.out, "");
  EXPECT_THAT(failed.err,
              HasSubstr("weir bench rpc: wait_cycle: actors have waited for each other's credit in a "
                        "circle, found 0 times at the client and 1 times at the server"));
  m = nullptr;
}

/// Begins with the message 0 to send as much as it may to another one; what it does with others is up to the
/// test.
class trader : public weir::sink<Piece> {
public:
  using action = std::function<void(trader&, weir::inlet<Piece>&)>;
  trader(caf::actor_config& cfg, std::shared_ptr<ref<Piece>> other, action then)
      : sink(cfg), other_(std::move(other)), then_(std::move(then)) {}
  void on_message(weir::inlet<Piece> from, Piece::Reader p) override {
    if (p.getNumber() > 0)
      return then_(*this, from);
    out_.emplace(this, *other_);
    out_->on_credit([this] {
      while (out_->offer([](Piece::Builder b) { b.setNumber(1); }))
        continue;
    });
  }
  std::vector<held<Piece>> leased;

private:
  std::shared_ptr<ref<Piece>> other_;
  action then_;
  std::optional<weir::outlet<Piece>> out_;
};

TEST(WaitCycles, AreNoneWhereWhatWasSentLiesInAMailbox) {
  std::promise<void> end;
  std::atomic<uint64_t> leased{0}, begun{0};
  auto m = std::make_unique<machine>(with_small_rations(2));
  m->cycle_on_purpose = true; // of others
  auto to_busy = std::make_shared<ref<Piece>>(), to_keeper = std::make_shared<ref<Piece>>();
  trader::action lease = [&](trader& t, auto& from) {
    t.leased.push_back(from.lease());
    ++leased;
  };
  trader::action work = [&, ended = end.get_future().share()](trader&, auto&) {
    ++begun;
    ended.wait();
  };
  auto keeper = m->system().spawn<trader>(to_busy, lease), busy = m->system().spawn<trader>(to_keeper, work);
  EXPECT_TRUE(m->node().serve<Piece>("keeper", keeper));
  EXPECT_TRUE(m->node().serve<Piece>("busy", busy));
  *to_keeper = m->node().lookup<Piece>("keeper");
  *to_busy = m->node().lookup<Piece>("busy");
  pour(*m, *to_busy, 1, 0);
  EXPECT_TRUE(eventually([&] { return leased == 16; })); // the ration: now `busy` waits for `keeper`
  pour(*m, *to_keeper, 1, 0);
  EXPECT_TRUE(eventually([&] { return begun == 1; })); // and `keeper` for `busy`, which gets on, if slowly

  ring funnels{*m}; // waits in a circle, but not for so long yet
  EXPECT_TRUE(eventually([&] { return m->node().stats().times(errc::wait_cycle) > 0; }));
  EXPECT_EQ(m->node().stats().times(errc::wait_cycle), 1u);
  EXPECT_EQ(begun, 1u);
  end.set_value();
  *to_busy = *to_keeper = {};
  keeper = busy = nullptr;
  m = nullptr;
}

} // namespace
} // namespace weir::test
