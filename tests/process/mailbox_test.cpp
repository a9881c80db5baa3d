// What becomes of calls when a service's mailbox is full, and of handlers that are slow or throw.
#include <latch>

#include <gmock/gmock.h>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using gate_echo = weir::method<&NotProbe::Client::echoRequest>;

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// Its first call waits for the test; each one after it is noted.
class gatekeeper : public weir::service<NotProbe> {
public:
  struct gate {
    std::latch begun{1}, open{1};
    std::atomic<uint64_t> run{0};
  };
  gatekeeper(caf::actor_config& c, std::shared_ptr<gate> g) : service(c), gate_(std::move(g)) {}
  handlers make_handlers() override {
    return {on<gate_echo>([this](gate_echo::in in, gate_echo::out out) {
      if (gate_->run++ == 0) {
        gate_->begun.count_down();
        gate_->open.wait();
      }
      out.setData(in.getData());
    })};
  }

private:
  std::shared_ptr<gate> gate_;
};

/// Remote or on the same node.
class Mailbox : public ::testing::TestWithParam<bool> {
protected:
  Mailbox() : server_(machine::listening()) {}

  void serve(when_full policy, uint64_t places) {
    auto by = server_.system().spawn<gatekeeper>(gate_);
    auto ok = server_.node().serve<NotProbe>("gate", by, {.mailbox_messages = places, .when_full = policy});
    ASSERT_TRUE(ok) << to_string(ok.error());
  }
  /// How each of `n` calls ended that came while the first one was at work.
  std::vector<errc> call_behind_a_slow_one(size_t n) {
    auto& from = GetParam() ? server_ : client_;
    auto to = GetParam() ? from.node().lookup<NotProbe>("gate")
                         : from.node().lookup<NotProbe>("gate", server_.address());
    std::vector<std::future<failure>> ends;
    auto start = [&] { ends.push_back(from.start<gate_echo>(to, {}, data_of(10), [](auto) {})); };
    start();
    gate_->begun.wait();
    for (size_t i = 0; i < n; ++i)
      start();
    EXPECT_TRUE(eventually([&] { return arrived(from, to, n); }));
    gate_->open.count_down();
    std::vector<errc> codes;
    for (auto& e : ends) {
      auto why = e.get();
      codes.push_back(why.code);
      if (why.code != errc::none) {
        EXPECT_EQ(why.what, outcome::not_executed);
        EXPECT_THAT(why.text, HasSubstr("mailbox"));
      }
    }
    return codes;
  }

  std::shared_ptr<gatekeeper::gate> gate_ = std::make_shared<gatekeeper::gate>();
  machine server_, client_;

private:
  /// The calls have left their sender, and a call to the node behind them has come back: they are there.
  bool arrived(machine& from, const ref<NotProbe>&, size_t) {
    std::promise<void> said;
    from.tell([&](hand&) { said.set_value(); });
    said.get_future().wait();
    auto probe = GetParam() ? from.node().lookup<NotProbe>("nobody")
                            : from.node().lookup<NotProbe>("nobody", server_.address());
    return from.call<gate_echo>(probe, data_of(1)).code == errc::no_such_service;
  }
};

TEST_P(Mailbox, ThatRejectsAnswersAtOnceWhatHasNoPlace) {
  serve(when_full::reject, 3);
  auto codes = call_behind_a_slow_one(8);
  EXPECT_THAT(std::vector(codes.begin(), codes.begin() + 4), Each(errc::none));
  EXPECT_THAT(std::vector(codes.begin() + 4, codes.end()), Each(errc::overloaded));
  EXPECT_EQ(gate_->run, 4u);
}

TEST_P(Mailbox, ThatDropsTheOldestRunsTheNewest) {
  serve(when_full::drop_oldest, 3);
  auto codes = call_behind_a_slow_one(8);
  EXPECT_EQ(codes.front(), errc::none); // at work
  EXPECT_THAT(std::vector(codes.begin() + 1, codes.end() - 3), Each(errc::overloaded));
  EXPECT_THAT(std::vector(codes.end() - 3, codes.end()), Each(errc::none));
  EXPECT_EQ(gate_->run, 4u);
}

TEST_P(Mailbox, ThatWaitsRefusesNoCall) {
  serve(when_full::wait, 3);
  EXPECT_THAT(call_behind_a_slow_one(8), Each(errc::none));
  EXPECT_EQ(gate_->run, 9u);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Mailbox, ::testing::Bool(),
                         [](const auto& i) { return i.param ? "Local" : "Remote"; });

class dawdler : public weir::service<NotProbe> {
public:
  using service::service;
  handlers make_handlers() override {
    return {on<gate_echo>([](gate_echo::in, gate_echo::out) {
      auto until = std::chrono::steady_clock::now() + 6ms;
      while (std::chrono::steady_clock::now() < until) {
      }
    })};
  }
};

TEST(SlowHandler, IsReportedWhenItHoldsALoopAndNotOnTheScheduler) {
  node_options o;
  o.slow_handler = 5ms;
  o.log_level = log_level::off;
  for (bool on_loop : {true, false}) {
    machine m{o};
    ASSERT_TRUE(m.node().serve<NotProbe>("slow", on_loop ? m.node().spawn<dawdler>()
                                                         : caf::actor{m.system().spawn<dawdler>()}));
    auto to = m.node().lookup<NotProbe>("slow");
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(m.call<gate_echo>(to, data_of(1)), failure{});
    EXPECT_EQ(m.node().stats().times(errc::slow_handler), on_loop ? 3u : 0u);
  }
}

TEST(Sink, AHandlerThatThrowsEndsItsStreamAndNothingElse) {
  machine server{machine::listening()}, client;
  auto s = std::make_shared<seen>();
  auto throws = [](weir::inlet<Piece>&, Piece::Reader p) {
    if (p.getNumber() == 5)
      throw std::runtime_error{"five is too many"};
  };
  ASSERT_TRUE(server.node().serve<Piece>("sink", server.node().spawn<catcher>(s, throws)));
  auto to = [&] { return client.node().lookup<Piece>("sink", server.address()); };
  auto why = pour(client, to(), 100, 10)->end.get_future().get();
  EXPECT_EQ(why.code, errc::handler_failed);
  EXPECT_THAT(why.text, HasSubstr("five is too many"));
  EXPECT_EQ(s->messages, 5u); // nothing behind it
  expect_poured(pour(client, to(), 3, 10), 3);
  EXPECT_TRUE(client.is_at_base_line());
  EXPECT_TRUE(server.is_at_base_line());
}

} // namespace
} // namespace weir::test
