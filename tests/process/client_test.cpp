// The blocking client: threads outside CAF that call, tell and stream over real sockets.
#include <mutex>
#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <weir/client.hpp>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using testing::HasSubstr;

constexpr auto soon = 10s; // for what must not take as long as the time-outs of a minute below

class Client : public ::testing::Test {
protected:
  /// The node that serves, and the one whose threads call; made with what `server_options` and
  /// `client_options` say by then.
  machine& server() {
    if (!server_) {
      server_ = std::make_unique<machine>(server_options);
      EXPECT_TRUE(server_->node().serve<Probe>("probe", server_->node().spawn<probe>()));
    }
    return *server_;
  }
  machine& caller() {
    if (!caller_)
      caller_ = std::make_unique<machine>(client_options);
    return *caller_;
  }
  client& via() {
    if (!client_)
      client_ = std::make_unique<client>(caller().node());
    return *client_;
  }
  ref<Probe> remote() { return caller().node().lookup<Probe>("probe", server().address()); }
  ref<Probe> local() {
    EXPECT_TRUE(caller().node().serve<Probe>("probe", caller().node().spawn<probe>()));
    return caller().node().lookup<Probe>("probe");
  }
  void expect_base_lines() {
    EXPECT_TRUE(caller().is_at_base_line());
    EXPECT_TRUE(server().is_at_base_line());
  }

  node_options server_options = machine::listening(), client_options;

private:
  std::unique_ptr<machine> server_, caller_;
  std::unique_ptr<client> client_;
};

auto echo_of(client& via, const ref<Probe>& to, std::string_view text, call_options o = {}) {
  return via.call<echo>(to, o, [&](echo::args a) {
    a.setData({reinterpret_cast<const kj::byte*>(text.data()), text.size()});
  });
}
std::string text_of(const weir::reply<echo>& r) {
  return r ? std::string(r->getData().asChars().begin(), r->getData().size()) : to_string(r.error());
}

TEST_F(Client, ACallReturnsWithItsResult) {
  for (auto& to : {remote(), local()}) {
    EXPECT_EQ(text_of(echo_of(via(), to, "hello")), "hello");
    EXPECT_EQ(text_of(echo_of(via(), to, "")), "");
    EXPECT_EQ(text_of(echo_of(via(), to, std::string(1'000'000, 'x'))), std::string(1'000'000, 'x'));
  }
  expect_base_lines();
}

TEST_F(Client, AReplyOwnsItsMemoryAndGivesItBack) {
  auto to = remote();
  std::vector<weir::reply<echo>> kept;
  for (int i = 0; i < 200; ++i)
    kept.push_back(echo_of(via(), to, fmt::format("number {}", i), {.reply_room_bytes = 1 << 14}));
  auto owed = caller().node().stats();
  EXPECT_GE(owed.liability - owed.base_line, 200u << 14);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(text_of(kept[i]), fmt::format("number {}", i));
  kept.clear();
  auto now = caller().node().stats();
  EXPECT_LT(now.liability - now.base_line, 200u << 13);
  to = {};
  expect_base_lines();
}

TEST_F(Client, AReplyLargerThanItsRoomIsFundedWhenItComes) {
  auto to = remote();
  auto r = via().call<reply>(to, {.reply_room_bytes = 256}, [](reply::args a) { a.setSize(3'000'000); });
  ASSERT_TRUE(r) << to_string(r.error());
  EXPECT_EQ(r->getData().size(), 3'000'000u);
}

TEST_F(Client, AFailureSaysWhetherTheHandlerRan) {
  auto to = remote();
  auto threw = via().call<throws>(to, data_of(1));
  ASSERT_FALSE(threw);
  EXPECT_EQ(threw.error().code, errc::handler_failed);
  EXPECT_EQ(threw.error().what, outcome::unknown); // it ran, but not to its end
  EXPECT_THAT(threw.error().text, HasSubstr("as it was told"));
  auto nobody = via().call<echo>(caller().node().lookup<Probe>("nobody", server().address()), data_of(1));
  EXPECT_EQ(nobody.error().code, errc::no_such_service);
  EXPECT_EQ(nobody.error().what, outcome::not_executed);
  auto nothing = via().call<echo>(ref<Probe>{}, data_of(1));
  EXPECT_EQ(nothing.error().code, errc::session_closed);
  machine other;
  ASSERT_TRUE(other.node().serve<Probe>("probe", other.node().spawn<probe>()));
  auto foreign = via().call<echo>(other.node().lookup<Probe>("probe"), data_of(1));
  EXPECT_EQ(foreign.error().code, errc::not_supported);
  EXPECT_EQ(text_of(echo_of(via(), to, "and on")), "and on");
}

TEST_F(Client, ATimeoutEndsTheCallHereAndAtItsService) {
  server_options.calls_max = 1; // a call that is still open there would keep the next one out
  auto to = remote();
  ASSERT_TRUE(echo_of(via(), to, "open"));
  for (int i = 0; i < 3; ++i) {
    auto start = clock::now();
    auto late = via().call<keep>(to, {.timeout = 50ms}, data_of(10));
    EXPECT_EQ(late.error().code, errc::deadline_exceeded) << to_string(late.error());
    EXPECT_EQ(late.error().what, outcome::unknown);
    EXPECT_GE(clock::now() - start, 50ms);
    EXPECT_LT(clock::now() - start, soon);
    bool freed = eventually([&] { return static_cast<bool>(echo_of(via(), to, "next")); });
    EXPECT_TRUE(freed);
  }
}

TEST_F(Client, ATimeoutBeforeTheSessionIsOpenSaysThatNothingRan) {
  int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); // accepts, and never says hello
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof at;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&at), n), 0);
  ASSERT_EQ(listen(silent, 1), 0);
  getsockname(silent, reinterpret_cast<sockaddr*>(&at), &n);
  client_options.send_buffer_messages = 4;
  client_options.hello_timeout = client_options.connect_timeout = 60s;
  auto to = caller().node().lookup<Probe>("probe", fmt::format("tcp://127.0.0.1:{}", ntohs(at.sin_port)));
  for (int i = 0; i < 10; ++i) { // more than send-buffer has: each has left it
    auto late = via().call<echo>(to, {.timeout = 20ms}, data_of(10));
    EXPECT_EQ(late.error().code, errc::deadline_exceeded) << to_string(late.error());
    EXPECT_EQ(late.error().what, outcome::not_executed) << to_string(late.error());
  }
  to = {};
  EXPECT_TRUE(caller().is_at_base_line());
  close(silent);
}

TEST_F(Client, ManyThreadsShareIt) {
  client_options.io_threads = 2;
  auto to = remote(), here = local();
  auto& shared = via();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  constexpr int thread_count = 40, calls = 200;
  for (int t = 0; t < thread_count; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < calls; ++i) {
        auto text = fmt::format("{} of {}", i, t);
        auto got = text_of(echo_of(shared, i % 4 ? to : here, text));
        if (got == text)
          ++right;
        else
          ADD_FAILURE() << text << ": " << got;
      }
    });
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(right, thread_count * calls);
  to = {};
  EXPECT_TRUE(eventually([&] { return server().node().stats().sessions == 0; }));
  EXPECT_TRUE(server().is_at_base_line());
}

TEST_F(Client, ThreadsThatWaitWakeWhenTheirNodeStops) {
  client_options.drain_timeout = 100ms;
  auto to = remote(), here = local();
  ASSERT_TRUE(echo_of(via(), to, "open") && echo_of(via(), here, "open"));
  std::atomic<int> waiting{0};
  std::vector<failure> ends(16);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < ends.size(); ++t)
    threads.emplace_back([&, t] {
      ++waiting;
      ends[t] = via().call<keep>(t % 2 ? to : here, {.timeout = 60s}, data_of(10)).error();
    });
  EXPECT_TRUE(eventually([&] { return waiting == 16; }));
  EXPECT_TRUE(eventually([&] { return server().node().stats().liability > 0; }));
  auto start = clock::now();
  caller().node().stop();
  for (auto& t : threads)
    t.join();
  EXPECT_LT(clock::now() - start, soon);
  for (auto& why : ends)
    EXPECT_NE(why.code, errc::none);
  auto after = echo_of(via(), to, "too late");
  EXPECT_EQ(after.error().what, outcome::not_executed) << to_string(after.error());
  EXPECT_NE(after.error().code, errc::none);
}

TEST_F(Client, AThreadWaitsNoLongerThanItsServiceLives) {
  auto to = remote();
  ASSERT_TRUE(echo_of(via(), to, "open"));
  std::thread stopper{[&] {
    server().node().stop(); // drain-timeout is 5 s
  }};
  auto why = via().call<keep>(to, {.timeout = 60s}, data_of(10)).error();
  stopper.join();
  EXPECT_NE(why.code, errc::none);
  EXPECT_NE(why.code, errc::deadline_exceeded) << to_string(why);
}

TEST_F(Client, AThreadOfALoopIsRefusedAtOnce) {
  auto to = local();
  ASSERT_TRUE(echo_of(via(), to, "open"));
  std::promise<std::vector<failure>> seen;
  auto stream = caller().node().lookup<Piece>("nobody");
  caller().tell([&](hand&) {
    blocking_outlet<Piece> out{via(), stream};
    seen.set_value({echo_of(via(), to, "from the loop", {.timeout = 60s}).error(),
                    out.push([](Piece::Builder) {}, 60s).error(), out.close(60s).error()});
  });
  auto all = seen.get_future();
  ASSERT_EQ(all.wait_for(soon), std::future_status::ready);
  for (auto& why : all.get()) {
    EXPECT_EQ(why.code, errc::not_supported) << to_string(why);
    EXPECT_EQ(why.what, outcome::not_executed);
    EXPECT_THAT(why.text, HasSubstr("loop"));
  }
}

TEST_F(Client, TellsAreDeliveredInOrderOrRefused) {
  client_options.send_buffer_messages = 8;
  client_options.connect_timeout = 200ms;
  auto to = remote();
  ASSERT_TRUE(echo_of(via(), to, "open"));
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(eventually([&] { return static_cast<bool>(via().tell<echo>(to, data_of(10))); }));
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(echo_of(via(), to, "behind them")); }));
  EXPECT_EQ(via().undelivered(), 0u);

  server().node().stop();
  auto nowhere = caller().node().lookup<Probe>("probe", "tcp://127.0.0.1:1");
  int taken = 0;
  failure why;
  for (int i = 0; i < 1000 && why.code == errc::none; ++i)
    if (auto r = via().tell<echo>(nowhere, data_of(10)); r)
      ++taken;
    else
      why = r.error();
  EXPECT_TRUE(why.code == errc::overloaded || why.code == errc::session_closed) << to_string(why);
  EXPECT_TRUE(eventually([&] { return via().undelivered() == static_cast<uint64_t>(taken); }))
      << via().undelivered() << " of " << taken;
}

// ---- streams

/// What a sink of a test holds on to.
struct leases {
  std::mutex mutex;
  std::vector<weir::held<Piece>> kept;
  bool keeps = true;

  void take(weir::inlet<Piece>& from) {
    std::lock_guard guard{mutex};
    if (keeps)
      kept.push_back(from.lease());
  }
  void let_go() {
    std::lock_guard guard{mutex};
    keeps = false;
    kept.clear();
  }
};

class ClientStream : public Client {
protected:
  ref<Piece> sink(catcher::action then = {}) {
    EXPECT_TRUE(server().node().serve<Piece>("sink", server().node().spawn<catcher>(got, std::move(then))));
    return caller().node().lookup<Piece>("sink", server().address());
  }
  auto piece(uint64_t number, unsigned bytes) {
    return [=](Piece::Builder p) {
      p.setNumber(number);
      p.initData(bytes);
    };
  }
  std::shared_ptr<seen> got = std::make_shared<seen>();
};

TEST_F(ClientStream, EverythingThatIsPushedArrivesInOrder) {
  auto to = sink();
  for (unsigned bytes : {0u, 100u, 30'000u}) {
    auto before = got->messages.load();
    blocking_outlet<Piece> out{via(), to};
    for (uint64_t i = 0; i < 5'000; ++i)
      ASSERT_TRUE(out.push(piece(i, bytes)));
    auto end = out.close();
    ASSERT_TRUE(end) << to_string(end.error());
    EXPECT_EQ(*end, 5'000u);
    EXPECT_EQ(got->messages - before, 5'000u);
    EXPECT_EQ(out.push(piece(0, 0)).error().code, errc::session_closed);
  }
  EXPECT_EQ(got->wrong, 0u);
  to = {};
  expect_base_lines();
}

TEST_F(ClientStream, WhatIsPushedLeavesWithoutAnotherCall) {
  auto to = sink();
  blocking_outlet<Piece> out{via(), to};
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(out.push(piece(i, 10)));
    EXPECT_TRUE(eventually([&] { return got->messages == i + 1; }));
  }
}

TEST_F(ClientStream, AnOutletThatGoesEndsItsStreamWithWhatWasPushed) {
  auto to = sink();
  {
    blocking_outlet<Piece> out{via(), to};
    for (uint64_t i = 0; i < 1'000; ++i)
      ASSERT_TRUE(out.push(piece(i, 100)));
  }
  EXPECT_TRUE(eventually([&] { return got->ended == 1; }));
  EXPECT_EQ(got->messages, 1'000u);
  EXPECT_EQ(got->lost, 0u);
}

TEST_F(ClientStream, APushWithoutCreditWaitsUntilItsTimeout) {
  server_options.ration = 16 << 10;
  leases held;
  auto to = sink([&](weir::inlet<Piece>& from, Piece::Reader) { held.take(from); });
  blocking_outlet<Piece> out{via(), to};
  uint64_t pushed = 0;
  result<void> last;
  while (pushed < 10'000 && (last = out.push(piece(pushed, 1000), 100ms)))
    ++pushed;
  EXPECT_EQ(last.error().code, errc::deadline_exceeded) << to_string(last.error());
  EXPECT_EQ(last.error().what, outcome::not_executed);
  EXPECT_GE(pushed, 10u);
  EXPECT_LE(pushed, 40u); // the ration has room for 14
  auto unconfirmed = out.close(50ms);
  EXPECT_EQ(unconfirmed.error().code, errc::deadline_exceeded);
  EXPECT_EQ(unconfirmed.error().what, outcome::unknown);
  held.let_go();
  auto end = out.close();
  ASSERT_TRUE(end) << to_string(end.error());
  EXPECT_EQ(*end, pushed);
}

TEST_F(ClientStream, APushThatWaitsGoesOnWhenCreditComes) {
  server_options.ration = 16 << 10;
  leases held;
  auto to = sink([&](weir::inlet<Piece>& from, Piece::Reader) { held.take(from); });
  blocking_outlet<Piece> out{via(), to};
  std::thread releaser{[&] {
    eventually([&] { return got->messages >= 10; });
    held.let_go();
  }};
  for (uint64_t i = 0; i < 1'000; ++i)
    ASSERT_TRUE(out.push(piece(i, 1000), 60s));
  releaser.join();
  auto end = out.close();
  ASSERT_TRUE(end) << to_string(end.error());
  EXPECT_EQ(*end, 1'000u);
}

TEST_F(ClientStream, AnAbortReachesTheSink) {
  auto to = sink();
  blocking_outlet<Piece> out{via(), to};
  ASSERT_TRUE(out.push(piece(0, 10)));
  EXPECT_TRUE(eventually([&] { return got->messages == 1; }));
  out.abort({errc::cancelled, outcome::unknown, "lost my own input"});
  EXPECT_TRUE(eventually([&] { return got->lost == 1; }));
  EXPECT_FALSE(out.push(piece(1, 10)));
  EXPECT_FALSE(out.close());
}

TEST_F(ClientStream, APushThatWaitsEndsWithTheStream) {
  server_options.ration = 16 << 10;
  server_options.drain_timeout = 100ms;
  leases held;
  auto to = sink([&](weir::inlet<Piece>& from, Piece::Reader) { held.take(from); });
  blocking_outlet<Piece> out{via(), to};
  std::thread stopper{[&] {
    eventually([&] { return got->messages >= 10; });
    server().node().stop();
  }};
  result<void> last;
  for (uint64_t i = 0; i < 10'000 && last; ++i)
    last = out.push(piece(i, 1000), 60s);
  stopper.join();
  EXPECT_FALSE(last);
  EXPECT_NE(last.error().code, errc::deadline_exceeded) << to_string(last.error());
  EXPECT_FALSE(out.close(60s));
}

TEST_F(ClientStream, AStreamToNobodySaysSo) {
  blocking_outlet<Piece> out{via(), caller().node().lookup<Piece>("nobody", server().address())};
  auto r = out.push(piece(0, 10), 60s);
  EXPECT_EQ(r.error().code, errc::no_such_service) << to_string(r.error());
}

} // namespace
} // namespace weir::test
