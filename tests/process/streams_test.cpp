// Coroutines, streams that a service sends back, and relays between nodes over real sockets and threads.
#include <array>

#include <gmock/gmock.h>

#include <weir/relay.hpp>
#include <weir/task.hpp>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using feed_rows = weir::method<&Feed::Client::rowsRequest>;
using feed_twice = weir::method<&Feed::Client::twiceRequest>;

struct feed_state {
  std::atomic<uint64_t> offered{0}, confirmed{0}, lost{0}, frames{0};
};

class feed : public weir::service<Feed> {
public:
  feed(caf::actor_config& c, std::shared_ptr<feed_state> s, ref<Probe> other)
      : service(c), state_(std::move(s)), other_(std::move(other)) {}

  handlers make_handlers() override {
    return {on_stream<feed_rows>(
                [this](feed_rows::in query, weir::outlet<feed_rows::results> rows) -> weir::task {
                  for (uint64_t i = 0; i < query.getCount(); ++i, ++state_->offered)
                    while (!rows.offer([&](feed_rows::out row) {
                      row.setNumber(i);
                      row.initData(query.getBytes());
                    }))
                      if (!co_await weir::credit(rows)) {
                        ++state_->lost;
                        co_return;
                      }
                  if (auto consumed = co_await rows.close())
                    state_->confirmed += *consumed;
                }),
            on<feed_twice>([this](weir::request<feed_twice> rq) -> weir::task {
              ++state_->frames;
              uint64_t bytes = 0;
              for (int i = 0; i < 2; ++i) {
                co_await weir::sleep_for(1ms);
                auto r = co_await call<echo>(other_, [&](echo::args a) { a.setData(rq.params().getData()); });
                if (!r) {
                  rq.fail(r.error());
                  break;
                }
                bytes += r->getData().size();
              }
              --state_->frames;
              if (!rq.answered())
                rq.reply([&](feed_twice::out out) { out.setBytes(bytes); });
            })};
  }

private:
  std::shared_ptr<feed_state> state_;
  ref<Probe> other_;
};

/// A stream that the test has opened; its rows live on the actor of its machine.
struct opened {
  std::optional<weir::rows<feed_rows>> rows;
  std::atomic<uint64_t> seen{0}, wrong{0};
  std::promise<failure> end;
};

std::shared_ptr<opened> open_feed(machine& m, const ref<Feed>& to, uint64_t count, uint32_t bytes) {
  auto o = std::make_shared<opened>();
  m.tell([=](hand& h) {
    o->rows = h.open_stream<feed_rows>(to, {}, [&](feed_rows::args q) {
      q.setCount(count);
      q.setBytes(bytes);
    });
    o->rows->on_message([raw = o.get(), bytes](feed_rows::result row) {
      if (row.getNumber() != raw->seen || row.getData().size() != bytes)
        ++raw->wrong;
      ++raw->seen;
    });
    o->rows->on_end([raw = o.get()](const failure& why, uint64_t) { raw->end.set_value(why); });
  });
  return o;
}

void drop(machine& m, const std::shared_ptr<opened>& o) {
  std::promise<void> done;
  m.tell([&](hand&) {
    o->rows.reset();
    done.set_value();
  });
  done.get_future().wait();
}

/// Whether the service runs on a loop of its node or on CAF's scheduler.
class Feeds : public ::testing::TestWithParam<bool> {
protected:
  Feeds() : server_(machine::listening()), client_(machine::listening()) {
    client_.node().serve<Probe>("probe", client_.node().spawn<probe>(nullptr));
    auto back = server_.node().lookup<Probe>("probe", client_.address());
    auto by = GetParam() ? server_.system().spawn<feed>(state_, back)
                         : server_.node().spawn<feed>(state_, back);
    auto served = server_.node().serve<Feed>("feed", by);
    EXPECT_TRUE(served) << to_string(served.error());
    if (GetParam())
      own_ = by;
  }
  ~Feeds() override {
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(own_), caf::exit_reason::user_shutdown);
  }
  ref<Feed> feed_ref() { return client_.node().lookup<Feed>("feed", server_.address()); }

  std::shared_ptr<feed_state> state_ = std::make_shared<feed_state>();
  machine server_, client_;
  caf::actor own_; // not ended by its node
};

TEST_P(Feeds, AllRowsCrossAndTheEndIsConfirmed) {
  auto o = open_feed(client_, feed_ref(), 50'000, 100);
  auto end = o->end.get_future();
  ASSERT_EQ(end.wait_for(process::patience), std::future_status::ready) << "stuck after " << o->seen;
  EXPECT_EQ(end.get(), failure{});
  EXPECT_EQ(o->seen, 50'000u);
  EXPECT_EQ(o->wrong, 0u);
  EXPECT_TRUE(eventually([&] { return state_->confirmed == 50'000; }));
  drop(client_, o);
  auto left = [&] {
    auto s = server_.node().stats(), c = client_.node().stats();
    return s.sessions == 1 && c.sessions == 1; // the one that the service calls the probe on
  };
  EXPECT_TRUE(eventually(left));
}

TEST_P(Feeds, ManyStreamsAtOnceEachHaveTheirOwnRation) {
  auto to = feed_ref();
  std::vector<std::shared_ptr<opened>> all;
  for (int i = 0; i < 20; ++i)
    all.push_back(open_feed(client_, to, 2'000, 100));
  for (auto& o : all) {
    auto end = o->end.get_future();
    ASSERT_EQ(end.wait_for(process::patience), std::future_status::ready) << "stuck after " << o->seen;
    EXPECT_EQ(end.get(), failure{});
    EXPECT_EQ(o->seen, 2'000u);
    drop(client_, o);
  }
}

TEST_P(Feeds, AStreamThatIsDroppedStopsItsProducer) {
  auto o = open_feed(client_, feed_ref(), 1'000'000'000, 1'000);
  EXPECT_TRUE(eventually([&] { return o->seen > 1'000; }));
  drop(client_, o);
  EXPECT_TRUE(eventually([&] { return state_->lost == 1; }));
}

TEST_P(Feeds, AHandlerWaitsForAnotherNodeAndForTime) {
  auto to = feed_ref();
  std::vector<std::future<failure>> all;
  std::atomic<uint64_t> bytes{0};
  for (int i = 0; i < 100; ++i)
    all.push_back(
        client_.start<feed_twice>(to, {}, data_of(50), [&](feed_twice::result r) { bytes += r.getBytes(); }));
  for (auto& f : all) {
    ASSERT_EQ(f.wait_for(process::patience), std::future_status::ready);
    EXPECT_EQ(f.get(), failure{});
  }
  EXPECT_EQ(bytes, 100u * 2 * 50);
  EXPECT_TRUE(eventually([&] { return state_->frames == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Feeds, ::testing::Bool(),
                         [](auto& i) { return i.param ? "Scheduler" : "Loop"; });

TEST(RelayRing, ThreeNodesThatForwardForEachOtherDeliverEverything) { // R8
  constexpr uint64_t messages = 10'000;
  node_options o = machine::listening();
  o.ration_messages = 16;
  std::array<std::unique_ptr<machine>, 3> nodes;
  std::array<std::shared_ptr<seen>, 3> shelves;
  for (size_t i = 0; i < 3; ++i) {
    nodes[i] = std::make_unique<machine>(o);
    shelves[i] = std::make_shared<seen>();
    nodes[i]->node().serve<Piece>("shelf", nodes[i]->node().spawn<catcher>(shelves[i]));
  }
  for (size_t i = 0; i < 3; ++i) {
    auto next = nodes[i]->node().lookup<Piece>("shelf", nodes[(i + 1) % 3]->address());
    nodes[i]->node().serve<Piece>("relay", nodes[i]->node().spawn<weir::relay<Piece>>(next));
  }
  std::vector<std::shared_ptr<pourer::result>> all;
  for (size_t i = 0; i < 3; ++i)
    all.push_back(pour(*nodes[i], nodes[i]->node().lookup<Piece>("relay", nodes[(i + 1) % 3]->address()),
                       messages, 100));
  for (auto& r : all)
    expect_poured(r, messages);
  for (auto& s : shelves) {
    EXPECT_TRUE(eventually([&] { return s->ended == 1; }));
    EXPECT_EQ(s->messages, messages);
    EXPECT_EQ(s->wrong, 0u);
  }
}

} // namespace
} // namespace weir::test
