// Streams that a service sends back, across a link and within a node: order, credit, and every way to end.
#include <numeric>

#include <gmock/gmock.h>

#include <weir/task.hpp>

#include "tests/support/shop.hpp"
#include "tests/support/virtual_nodes.hpp"

namespace weir::test {

using namespace std::chrono_literals;

namespace {

using scan = weir::method<&Warehouse::Client::scanRequest>;
using walk = weir::method<&Warehouse::Client::walkRequest>;
using total = weir::method<&Warehouse::Client::totalRequest>;
using scan_outlet = weir::outlet<scan::results>;

struct warehouse_state {
  std::function<void(scan::in, scan_outlet)> scan; ///< what the test does with a request
  std::optional<scan_outlet> rows;                 ///< of the last request, kept for the test
  std::vector<failure> lost;
  std::optional<uint64_t> consumed;
  uint64_t runs = 0, walked = 0;
};

class warehouse : public weir::service<Warehouse> {
public:
  warehouse(caf::actor_config& cfg, warehouse_state* s) : service(cfg), state_(s) {}
  weir::handlers make_handlers() override {
    return {on_stream<scan>([this](scan::in query, scan_outlet rows) {
              ++state_->runs;
              rows.on_failure([this](const failure& why) { state_->lost.push_back(why); });
              if (state_->scan)
                state_->scan(query, std::move(rows));
              else
                state_->rows = std::move(rows);
            }),
            on_stream<walk>([this](walk::in query, weir::outlet<walk::results> rows) -> weir::task {
              for (uint64_t i = 0; i < query.getCount(); ++i, ++state_->walked)
                while (!rows.offer([&](walk::out row) {
                  row.setNumber(query.getFrom() + i);
                  row.initData(static_cast<unsigned>(query.getSize()));
                }))
                  if (!co_await weir::credit(rows))
                    co_return;
              if (query.getFrom() == 13)
                throw std::runtime_error("thirteen is bad luck");
              if (auto end = co_await rows.close())
                state_->consumed = *end;
            }),
            on<total>([](total::in, total::out out) { out.setItems(99); })};
  }
  void on_exit() override {
    state_->rows.reset();
    service::on_exit();
  }

private:
  warehouse_state* state_;
};

/// What a caller sees of one stream.
struct shipment {
  std::vector<uint64_t> numbers;
  std::vector<weir::held<walk::results>> leases;
  bool lease = false;
  std::vector<failure> ends;
  uint64_t rows_at_end = 0;
};

/// Whether the service is on the caller's node.
class Rows : public virtual_nodes, public ::testing::WithParamInterface<bool> {
protected:
  void TearDown() override {
    streams.clear(); // on this thread, as everything is
    state.rows.reset();
  }
  /// Makes the nodes with what the test has set.
  void begin() {
    if (service)
      return;
    service = spawn<warehouse>(server(), &state);
    serve<Warehouse>(server(), "warehouse", service);
    who = spawn<customer>(GetParam() ? server() : client());
  }
  ref<Warehouse> warehouse_ref() {
    begin();
    return GetParam() ? lookup_here<Warehouse>("warehouse") : lookup<Warehouse>("warehouse");
  }
  void tell(const caf::actor& whom, std::function<void(customer&)> f) {
    put(whom, nullptr, job{std::move(f)});
    run();
  }
  template <class Method>
  static void listen(weir::rows<Method>& rows, shipment& s) {
    rows.on_message([&](typename Method::result row) {
      s.numbers.push_back(row.getNumber());
      if constexpr (std::is_same_v<Method, walk>)
        if (s.lease)
          s.leases.push_back(rows.lease());
    });
    rows.on_end([&](const failure& why, uint64_t n) {
      s.ends.push_back(why);
      s.rows_at_end = n;
    });
  }
  weir::rows<scan>& open_scan(const ref<Warehouse>& to, shipment& s, call_options o = {}) {
    tell(who, [&](customer& c) {
      streams.push_back(std::make_unique<weir::rows<scan>>(c.open_stream<scan>(to, o, [](scan::args q) {
        q.setFrom(7);
        q.setCount(3);
      })));
      listen(*streams.back(), s);
    });
    return *streams.back();
  }
  /// Rows `from`, `from` + 1, ... of `size` bytes.
  void open_walk(const ref<Warehouse>& to, shipment& s, uint64_t from, uint64_t count, uint64_t size = 10) {
    tell(who, [&](customer& c) {
      walks.push_back(std::make_unique<weir::rows<walk>>(c.open_stream<walk>(to, {}, [&](walk::args q) {
        q.setFrom(from);
        q.setCount(count);
        q.setSize(size);
      })));
      listen(*walks.back(), s);
    });
  }
  uint64_t offer(uint64_t from, uint64_t count) {
    uint64_t n = 0;
    tell(who, [&](customer&) {
      while (n < count && state.rows->offer([&](scan::out row) { row.setNumber(from + n); }))
        ++n;
    });
    put(service, nullptr, job{}); // a turn of the service, at whose end they leave
    run();
    return n;
  }
  void expect_end(const shipment& s, errc code, const std::string& text = {}) {
    ASSERT_EQ(s.ends.size(), 1u);
    EXPECT_EQ(s.ends[0].code, code) << to_string(s.ends[0]);
    EXPECT_THAT(s.ends[0].text, ::testing::HasSubstr(text));
    EXPECT_EQ(s.rows_at_end, s.numbers.size());
  }
  void expect_nothing_left() {
    tell(who, [&](customer&) { streams.clear(), walks.clear(); });
    state.rows.reset();
    expect_base_line();
  }

  warehouse_state state;
  caf::actor service, who;
  std::vector<std::unique_ptr<weir::rows<scan>>> streams;
  std::vector<std::unique_ptr<weir::rows<walk>>> walks;
};

TEST_P(Rows, ComeInOrderAndBothSidesHearOfTheEnd) {
  ration = {16 << 10, 16, 4};
  shipment s;
  {
    auto to = warehouse_ref();
    open_walk(to, s, 100, 5000);
    advance(100ms);
  }
  std::vector<uint64_t> expected(5000);
  std::iota(expected.begin(), expected.end(), uint64_t{100});
  EXPECT_EQ(s.numbers, expected);
  expect_end(s, errc::none);
  EXPECT_EQ(state.consumed, 5000u);
  expect_nothing_left();
}

TEST_P(Rows, OfAnEmptyStreamAreNoneAndItEnds) {
  shipment s;
  {
    auto to = warehouse_ref();
    open_walk(to, s, 1, 0);
    advance(20ms);
  }
  expect_end(s, errc::none);
  EXPECT_EQ(state.consumed, 0u);
  expect_nothing_left();
}

TEST_P(Rows, ThatTheirCallerKeepsStopTheProducerAtTheRationAndOnlyThatOne) {
  ration = {64 << 10, 100, 4};
  shipment slow, quick;
  slow.lease = true;
  {
    auto to = warehouse_ref();
    open_walk(to, slow, 0, 2000);
    advance(50ms);
    EXPECT_EQ(slow.numbers.size(), ration.messages);
    EXPECT_EQ(state.walked, ration.messages);
    open_walk(to, quick, 0, 2000);
    advance(50ms);
    EXPECT_EQ(quick.numbers.size(), 2000u);
    expect_end(quick, errc::none);
    EXPECT_EQ(slow.leases.front().get().getNumber(), 0u);
    slow.lease = false;
    slow.leases.clear();
    advance(50ms);
    EXPECT_EQ(slow.numbers.size(), 2000u);
    expect_end(slow, errc::none);
  }
  expect_nothing_left();
}

TEST_P(Rows, LargerThanTheRationPass) {
  ration = {16 << 10, 16, 4};
  shipment s;
  {
    auto to = warehouse_ref();
    open_walk(to, s, 0, 3, 1 << 20);
    advance(200ms);
    EXPECT_EQ(s.numbers, (std::vector<uint64_t>{0, 1, 2}));
    expect_end(s, errc::none);
  }
  expect_nothing_left();
}

TEST_P(Rows, EndWhenTheCallerCancelsAndTheProducerIsTold) {
  shipment s;
  {
    auto to = warehouse_ref();
    auto& rows = open_scan(to, s);
    EXPECT_EQ(offer(0, 5), 5u);
    tell(who, [&](customer&) { rows.cancel(); });
    offer(5, 5);
    EXPECT_EQ(s.numbers.size(), 5u);
    expect_end(s, errc::cancelled);
    ASSERT_EQ(state.lost.size(), 1u);
    EXPECT_EQ(state.lost[0].code, errc::cancelled) << to_string(state.lost[0]);
    EXPECT_EQ(offer(10, 1), 0u);
  }
  expect_nothing_left();
}

TEST_P(Rows, EndWhenTheCallerDropsThemOrDies) {
  shipment dropped, dead;
  {
    auto to = warehouse_ref();
    open_scan(to, dropped);
    offer(0, 5);
    tell(who, [&](customer&) { streams.clear(); });
    EXPECT_EQ(state.lost.size(), 1u);
    open_scan(to, dead);
    offer(0, 5);
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(who), caf::exit_reason::kill);
    run();
    ASSERT_EQ(state.lost.size(), 2u);
    EXPECT_EQ(state.lost[1].code, errc::cancelled);
    EXPECT_TRUE(dropped.ends.empty()); // nobody listens
    EXPECT_TRUE(dead.ends.empty());
  }
  streams.clear();
  state.rows.reset();
  expect_base_line();
}

TEST_P(Rows, EndWithTheWordsOfAProducerThatGivesUp) {
  shipment s;
  {
    auto to = warehouse_ref();
    open_scan(to, s);
    offer(0, 5);
    state.rows->abort({errc::io_error, outcome::unknown, "the shelf fell down"});
    run();
    expect_end(s, errc::io_error, "the shelf fell down");
  }
  expect_nothing_left();
}

TEST_P(Rows, EndWithAnErrorWhenTheirOutletIsDroppedOrItsServiceEnds) {
  shipment dropped, dead;
  {
    auto to = warehouse_ref();
    open_scan(to, dropped);
    offer(0, 5);
    state.rows.reset();
    run();
    expect_end(dropped, errc::handler_failed, "without an end");
    open_scan(to, dead);
    offer(0, 5);
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(service), caf::exit_reason::kill);
    run();
    ASSERT_EQ(dead.ends.size(), 1u);
    EXPECT_NE(dead.ends[0].code, errc::none);
  }
  expect_nothing_left();
}

TEST_P(Rows, EndWithTheTextOfAnExceptionWheneverItIsThrown) {
  shipment before, within, later;
  auto to = warehouse_ref();
  state.scan = [](scan::in, scan_outlet) { throw std::runtime_error("nothing on the shelf"); };
  open_scan(to, before);
  expect_end(before, errc::handler_failed, "nothing on the shelf");
  state.scan = [](scan::in query, scan_outlet rows) {
    rows.offer([](scan::out row) { row.setNumber(1); });
    throw std::runtime_error("only one, not " + std::to_string(query.getCount()));
  };
  open_scan(to, within);
  expect_end(within, errc::handler_failed, "only one, not 3");
  open_walk(to, later, 13, 1000);
  advance(50ms);
  expect_end(later, errc::handler_failed, "bad luck");
  shipment after;
  open_walk(to, after, 0, 10); // the service lives
  advance(10ms);
  expect_end(after, errc::none);
  to = {};
  expect_nothing_left();
}

TEST_P(Rows, OfAnUnknownServiceEndWithTheReason) {
  shipment s;
  begin();
  auto to = GetParam() ? lookup_here<Warehouse>("nowhere") : lookup<Warehouse>("nowhere");
  open_scan(to, s);
  expect_end(s, errc::no_such_service, "nowhere");
  EXPECT_EQ(s.ends[0].what, outcome::not_executed);
}

TEST_P(Rows, AreNotWhatACallAsksFor) {
  auto to = warehouse_ref();
  std::vector<failure> bad;
  tell(who, [&](customer& c) {
    c.call<scan>(to, [](scan::args) {
     }).then([](scan::result) {}, [&](const failure& why) { bad.push_back(why); });
  });
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].code, errc::wrong_type);
  EXPECT_EQ(bad[0].what, outcome::not_executed);
  EXPECT_THAT(bad[0].text, ::testing::HasSubstr("open_stream"));
  std::optional<weir::rows<total>> wrong;
  tell(who, [&](customer& c) {
    wrong = c.open_stream<total>(to, {}, [](total::args) {});
    wrong->on_end([&](const failure& why, uint64_t) { bad.push_back(why); });
  });
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[1].code, errc::wrong_type);
  EXPECT_THAT(bad[1].text, ::testing::HasSubstr("call it"));
  tell(who, [&](customer&) { wrong.reset(); });
  to = {};
  expect_nothing_left();
}

TEST_P(Rows, ThatCannotBeFundedAreRefused) {
  shipment s;
  begin();
  auto& node = GetParam() ? server() : client();
  auto to = warehouse_ref();
  auto all = node.budget().free_bytes();
  ASSERT_TRUE(node.budget().take(net::charge::session, all));
  open_scan(to, s);
  expect_end(s, errc::no_budget);
  EXPECT_EQ(state.runs, 0u);
  node.budget().give(net::charge::session, all);
  to = {};
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Rows, ::testing::Bool(),
                         [](auto& i) { return i.param ? "Local" : "Remote"; });

class RowsAcrossALink : public Rows {};

TEST_P(RowsAcrossALink, EndOnBothSidesWhenItIsLost) {
  shipment s;
  {
    auto to = warehouse_ref();
    open_scan(to, s);
    offer(0, 5);
    cut();
    expect_end(s, errc::link_lost);
    ASSERT_EQ(state.lost.size(), 1u);
    EXPECT_EQ(state.lost[0].code, errc::link_lost);
  }
  expect_nothing_left();
}

TEST_P(RowsAcrossALink, AreNoMatterOfTheRefThatTheyWereOpenedWith) {
  shipment s;
  begin();
  keep_connection();
  cut();
  dials(dialling::refused); // so that both sessions wait for the link
  {
    auto to = warehouse_ref();
    open_walk(to, s, 0, 10);
  }
  run(); // the ref's own session was given up, and must stay so when the link comes
  dials(dialling::connects);
  advance(5s);
  EXPECT_EQ(s.numbers.size(), 10u);
  expect_end(s, errc::none);
  expect_nothing_left();
  EXPECT_EQ(client().loop->sessions.size(), 0u);
}

TEST_P(RowsAcrossALink, ThatAreNotOpenedInTimeEndAndAreNotRun) {
  shipment s;
  {
    auto to = warehouse_ref();
    run();
    to_client().stall(); // the answer does not come
    open_scan(to, s, {.timeout = 200ms});
    advance(150ms);
    EXPECT_TRUE(s.ends.empty());
    advance(100ms);
    expect_end(s, errc::deadline_exceeded);
    to_client().resume();
    advance(20ms);
    EXPECT_EQ(state.runs, 0u);
  }
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Remote, RowsAcrossALink, ::testing::Values(false), [](auto&) { return "Remote"; });

} // namespace
} // namespace weir::test
