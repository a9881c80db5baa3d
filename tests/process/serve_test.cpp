// What `serve` answers, and that it never keeps a loop waiting.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class thrower : public weir::service<Probe> {
public:
  using service::service;
  handlers make_handlers() override { throw std::runtime_error{"no handlers today"}; }
};

/// A service that nobody starts properly: it ends at once.
class quitter : public weir::service<Probe> {
public:
  using service::service;
  handlers make_handlers() override { return {}; }
  caf::behavior make_behavior() override {
    quit(caf::exit_reason::user_shutdown);
    return {};
  }
};

/// What `f(hand&)` returned on the actor.
template <class F>
auto on(machine& m, const caf::actor& who, F f) {
  using value = std::invoke_result_t<F, hand&>;
  static_cast<void>(m);
  auto done = std::make_shared<std::promise<value>>();
  auto end = done->get_future();
  put(who, nullptr, task{[f, done](hand& h) { done->set_value(f(h)); }});
  if (end.wait_for(process::patience) != std::future_status::ready)
    throw std::runtime_error{"it never returns"};
  return end.get();
}

TEST(Serve, AServiceWhoseHandlersThrowIsRefusedWithItsWords) {
  machine m;
  for (auto& by : {m.node().spawn<thrower>(), caf::actor{m.system().spawn<thrower>()}}) {
    auto r = m.node().serve<Probe>("probe", by);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, errc::bad_option);
    EXPECT_THAT(r.error().text, HasSubstr("no handlers today"));
  }
  auto gone = m.node().serve<Probe>("probe", m.node().spawn<quitter>());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, errc::bad_option);
}

TEST(Serve, FromAnyLoopItServesAtOnceForAServiceOfAnyLoop) {
  node_options o;
  o.io_threads = 3;
  machine m{o};
  std::vector<caf::actor> hands;
  for (uint32_t i = 0; i < o.io_threads; ++i) // one on each loop
    hands.push_back(m.node().spawn<hand>());
  for (auto& from : hands)
    for (uint32_t i = 0; i < o.io_threads; ++i) { // spread over the loops, too
      auto name = fmt::format("probe {} {}", &from - hands.data(), i);
      EXPECT_TRUE(
          on(m, from, [&](hand&) { return bool{m.node().serve<Probe>(name, m.node().spawn<probe>())}; }));
      EXPECT_EQ(m.call<echo>(m.node().lookup<Probe>(name), data_of(1)), failure{});
    }
  EXPECT_TRUE(m.is_at_base_line());
}

TEST(Serve, OneThatCannotStartIsServedNoMore) {
  machine m;
  caf::actor from = m.node().spawn<hand>();
  EXPECT_TRUE(
      on(m, from, [&](hand&) { return bool{m.node().serve<Probe>("probe", m.node().spawn<thrower>())}; }));
  EXPECT_TRUE(eventually([&] {
    return m.call<echo>(m.node().lookup<Probe>("probe"), data_of(1)).code == errc::no_such_service;
  }));
}

} // namespace
} // namespace weir::test
