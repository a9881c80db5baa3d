// Cases about credit from public bug reports in which the size of the sockets matters, or what is under way
// in them.
#include <map>

#include <weir/task.hpp>

#include "tests/process/machine.hpp"
#include "tests/process/small_sockets.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using feed_rows = weir::method<&Feed::Client::rowsRequest>;
using feed_twice = weir::method<&Feed::Client::twiceRequest>;

constexpr uint64_t operator""_KiB(unsigned long long n) { return n << 10; }

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t many = 1'000;
#else
constexpr uint64_t many = 10'000;
#endif

/// Rows for as long as somebody wants them.
class spring : public weir::service<Feed> {
public:
  using service::service;
  handlers make_handlers() override {
    return {
        on_stream<feed_rows>([](feed_rows::in query, weir::outlet<feed_rows::results> rows) -> weir::task {
          while (rows.offer([&](feed_rows::out row) { row.initData(query.getBytes()); }) ||
                 co_await weir::credit(rows))
            continue;
        }),
        on<feed_twice>([](feed_twice::in, feed_twice::out) {})};
  }
};

/// Pushes on 64 sessions and takes rows from 64, for as long as it lives.
class pusher : public weir::actor {
public:
  pusher(caf::actor_config& c, ref<Piece> sink, ref<Feed> rows, std::shared_ptr<std::atomic<uint64_t>> got)
      : actor(c), sink_(std::move(sink)), feed_(std::move(rows)), got_(std::move(got)) {}

  caf::behavior make_behavior() override {
    for (int i = 0; i < 64; ++i) {
      push();
      rows_.push_back(open_stream<feed_rows>(feed_, {}, [](feed_rows::args q) { q.setBytes(1000); }));
      rows_.back().on_message([this](feed_rows::result row) { *got_ += row.getData().size(); });
    }
    return actor::make_behavior();
  }

private:
  weir::task push() {
    weir::outlet<Piece> out{this, sink_};
    for (uint64_t n = 0;;)
      if (out.offer([&](Piece::Builder p) { p.setNumber(n), p.initData(1000); }))
        ++n;
      else if (!co_await weir::credit(out))
        co_return;
  }

  ref<Piece> sink_;
  ref<Feed> feed_;
  std::shared_ptr<std::atomic<uint64_t>> got_;
  std::vector<weir::rows<feed_rows>> rows_;
};

/// How streams of an actor have ended.
struct endings {
  std::atomic<uint64_t> started{0}, ended{0}, cancelled{0};
};

class Sockets : public ::testing::Test {
protected:
  Sockets() {
    options.ration = 64_KiB;
    options.fragment = 4_KiB;
    options.listen = {"tcp://127.0.0.1:0"};
  }
  void open(bool with_small_sockets) {
    auto of_client = options;
    of_client.listen = {};
    for (auto& [m, o] : {std::pair{&server, &options}, std::pair{&client, &of_client}})
      *m = with_small_sockets ? std::make_unique<machine>(small_.node_maker(*o))
                              : std::make_unique<machine>(*o);
  }
  template <class T>
  ref<T> remote(const std::string& name) {
    return client->node().lookup<T>(name, server->address());
  }
  void expect_base_line() {
    EXPECT_TRUE(client->is_at_base_line());
    EXPECT_TRUE(server->is_at_base_line());
  }

private:
  small_sockets small_;

protected:
  node_options options;
  std::unique_ptr<machine> server, client;
};

// rust-yamux 227
TEST_F(Sockets, C2_BytesMoveBothWaysAllTheTimeThoughBothSidesPushAndTheSocketsAreSmall) {
  options.ping_interval = 10ms;
  open(true);
  auto there = std::make_shared<seen>();
  auto here = std::make_shared<std::atomic<uint64_t>>(0);
  ASSERT_TRUE(server->node().serve<Piece>("sink", server->node().spawn<catcher>(there)));
  ASSERT_TRUE(server->node().serve<Feed>("feed", server->node().spawn<spring>()));
  auto by = client->node().spawn<pusher>(remote<Piece>("sink"), remote<Feed>("feed"), here);
  for (int slice = 0; slice < 4; ++slice) {
    auto begin = std::chrono::steady_clock::now();
    auto to_there = there->bytes.load(), to_here = here->load();
    EXPECT_TRUE(eventually([&] { return there->bytes > to_there + 64_KiB && *here > to_here + 64_KiB; }))
        << "slice " << slice << ": " << there->bytes - to_there << " there, " << *here - to_here << " here";
    EXPECT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > begin + 500ms; }));
  }
  EXPECT_EQ(client->node().stats().links_dialled, 1u); // it is one link, and it was never given up
  EXPECT_EQ(there->wrong, 0u);
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(std::exchange(by, {})), caf::exit_reason::user_shutdown);
  expect_base_line();
}

/// Opens streams one after the other, 50 at a time, and offers 1 KiB again and again until it is told no
/// more.
class persistent : public weir::actor {
public:
  persistent(caf::actor_config& c, ref<Piece> to, std::shared_ptr<endings> e)
      : actor(c), to_(std::move(to)), endings_(std::move(e)) {}
  caf::behavior make_behavior() override {
    for (int i = 0; i < 50; ++i)
      run();
    return actor::make_behavior();
  }

private:
  weir::task run() {
    while (endings_->started < many) {
      ++endings_->started;
      weir::outlet<Piece> out{this, to_};
      out.on_failure([e = endings_](const failure& why) { e->cancelled += why.code == errc::cancelled; });
      for (uint64_t n = 0;;)
        if (out.offer([&](Piece::Builder p) { p.setNumber(n), p.initData(1000); }))
          ++n;
        else if (!co_await weir::credit(out))
          break;
      ++endings_->ended;
    }
  }

  ref<Piece> to_;
  std::shared_ptr<endings> endings_;
};

// quiche 1320
TEST_F(Sockets, C7_SessionsThatTheReceiverCancelsWithBytesUnderWayLeaveNothingBehind) {
  open(false);
  auto there = std::make_shared<seen>();
  auto cancel = [](weir::inlet<Piece>& from, Piece::Reader) {
    if (from.messages() == 1)
      from.abort({errc::cancelled, outcome::unknown, "enough"});
  };
  ASSERT_TRUE(server->node().serve<Piece>("sink", server->node().spawn<catcher>(there, cancel)));
  auto end = std::make_shared<endings>();
  client->node().spawn<persistent>(remote<Piece>("sink"), end);
  ASSERT_TRUE(eventually([&] { return end->ended == many; }, 2 * process::patience)) << end->ended;
  EXPECT_EQ(end->cancelled, many);
  EXPECT_TRUE(eventually([&] { return there->lost == many; })) << there->lost;
  EXPECT_EQ(client->node().stats().links_dialled, 1u);
  expect_base_line();
}

/// Opens streams, 50 at a time: two small messages and a large one, and a little later it gives up.
class quitter : public weir::actor {
public:
  static constexpr unsigned large = 256_KiB;

  quitter(caf::actor_config& c, ref<Piece> to, std::shared_ptr<endings> e)
      : actor(c), to_(std::move(to)), endings_(std::move(e)) {}
  caf::behavior make_behavior() override {
    for (int i = 0; i < 50; ++i)
      run(i);
    return actor::make_behavior();
  }

private:
  weir::task run(int i) {
    while (endings_->started < many) {
      ++endings_->started;
      weir::outlet<Piece> out{this, to_};
      for (unsigned bytes : {100u, 100u, large})
        while (!out.offer([&](Piece::Builder p) { p.initData(bytes); }))
          if (!co_await weir::credit(out))
            co_return; // which the count shows
      co_await weir::sleep_for((i++ % 5) * 500us);
      out.abort({errc::cancelled, outcome::unknown, "no longer wanted"});
      ++endings_->ended;
    }
  }

  ref<Piece> to_;
  std::shared_ptr<endings> endings_;
};

// netty 7040, pekko-http 1259
TEST_F(Sockets, C8_AbortsInTheMiddleOfAMessageLeaveNothingBehind) {
  options.ration = 512_KiB;
  open(true);
  auto there = std::make_shared<seen>();
  auto closed = std::make_shared<std::atomic<bool>>(true);
  std::atomic<uint64_t> whole{0}, streams{0};
  auto wait = [&, closed](weir::inlet<Piece>& from, Piece::Reader p) {
    closed->wait(true); // what comes meanwhile stays unread in its mailbox
    streams += from.messages() == 1;
    whole += p.getData().size() == quitter::large;
  };
  ASSERT_TRUE(server->node().serve<Piece>("sink", server->system().spawn<catcher>(there, wait)));
  auto end = std::make_shared<endings>();
  client->node().spawn<quitter>(remote<Piece>("sink"), end);
  for (bool shut = true; end->ended < many; shut = !shut) { // it reads now and then
    auto before = end->ended.load();
    ASSERT_TRUE(eventually([&] { return end->ended >= std::min(many, before + many / 50); })) << end->ended;
    *closed = !shut;
    closed->notify_all();
  }
  *closed = false;
  closed->notify_all();
  EXPECT_EQ(end->started, many);
  expect_base_line();
  EXPECT_GT(streams - whole, many / 5); // of these it has got the beginning, not the large one
}

} // namespace
} // namespace weir::test
