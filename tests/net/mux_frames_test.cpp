// More to say than one control frame holds: it goes on in the next one, and nothing is lost or said twice.
#include <gtest/gtest.h>

#include "net/control.hpp"
#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {
using namespace test::words;

/// Many sessions or calls at once. A frame that is too large would end the link.
struct Crowd : testing::Test {
  static constexpr size_t sessions = 700, calls = 2100;
  mux_pair p{settings(client_settings()), settings(server_settings())};
  std::vector<session*> s;

  static peer::settings settings(peer::settings x) {
    x.link.calls_max = calls;
    x.inbound = {64 << 20, 1 << 20};
    x.outbound_bytes = 64 << 20;
    x.ration = {4096, 4, 4};
    return x;
  }
  void SetUp() override {
    p.checks = false; // once at the end
    p.connect();
  }
  void TearDown() override {
    for (auto* side : {&p.client, &p.server})
      if (auto* down = side->last(type::down))
        ADD_FAILURE() << to_string(down->why);
    p.expect_invariants();
  }
  void open_all() {
    for (size_t i = 0; i < sessions; ++i)
      s.push_back(&p.client.open("sink", true));
    p.exchange();
  }
  std::vector<session*> offered() {
    std::vector<session*> all;
    for (auto& e : p.server.events)
      if (e.what == type::open)
        all.push_back(e.on);
    return all;
  }
};

TEST_F(Crowd, IsAcceptedAtOnce) {
  p.server.accepts = false;
  open_all();
  for (auto* one : offered())
    EXPECT_TRUE(p.server.link.accept(*one, p.server.with.ration));
  p.exchange();
  EXPECT_EQ(p.client.count(type::opened), sessions);
}

TEST_F(Crowd, IsRefusedAtOnce) {
  p.server.accepts = false;
  open_all();
  for (auto* one : offered())
    p.server.link.refuse(*one, errc::no_such_service, bytes(1000), false);
  p.exchange();
  EXPECT_EQ(p.client.count(type::ended), sessions);
  EXPECT_EQ(p.client.last(type::ended)->why.text, bytes(1000));
  p.expect_base_line();
}

TEST_F(Crowd, ClosesAtOnce) {
  open_all();
  for (auto* one : s)
    p.client.link.close(*one);
  p.exchange();
  EXPECT_EQ(p.client.count(type::ended), sessions);
  EXPECT_EQ(p.server.count(type::ended), sessions);
  p.expect_base_line();
}

TEST_F(Crowd, IsAbortedAtOnce) {
  open_all();
  for (auto* one : s)
    p.client.link.abort(*one, errc::cancelled, bytes(1000));
  p.exchange();
  EXPECT_EQ(p.server.count(type::ended), sessions);
  EXPECT_EQ(p.server.last(type::ended)->why.text, bytes(1000));
  p.expect_base_line();
}

TEST_F(Crowd, IsBlockedAndServedAtOnce) {
  p.server.consumes = false;
  open_all();
  for (auto* one : s)
    for (int i = 0; i < 5; ++i)
      p.client.post(*one, "x");
  p.exchange();
  EXPECT_EQ(p.server.count(type::blocked), sessions);
  EXPECT_EQ(p.server.count(type::item), 4 * sessions);
  p.server.consume_all();
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 5 * sessions);
  p.server.consume_all();
}

TEST_F(Crowd, GetsLittleCreditBackWithTheNextFrameOrSoonAfter) {
  p.server.with.ration = {4096, 64, 4};
  open_all();
  for (auto* one : s)
    p.client.post(*one, "x");
  p.exchange();
  auto raised = [&] {
    size_t n = 0;
    for (auto* one : s)
      n += one->out().limit().messages == 65;
    return n;
  };
  EXPECT_EQ(raised(), 0u) << "too little for a grant of its own";
  p.server.open(); // a frame leaves anyway
  p.exchange();
  auto along = raised();
  EXPECT_GT(along, 100u);
  EXPECT_LT(along, sessions) << "it is full";
  p.advance(milliseconds{20});
  EXPECT_EQ(raised(), sessions);
}

TEST_F(Crowd, OfCallsIsCancelledAtOnce) {
  p.server.answers = false;
  p.server.with.ration = {4 << 20, 4096, 4};
  auto& one = p.client.open();
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < calls; ++i)
    ids.push_back(*p.client.link.call(one, test::build_message("x"), {}));
  p.exchange();
  EXPECT_EQ(p.server.count(type::request), calls);
  for (auto id : ids)
    p.client.link.cancel(one, id, errc::cancelled);
  p.exchange();
  EXPECT_EQ(p.server.count(type::cancelled), calls);
  EXPECT_EQ(one.calls_open(), 0u);
  p.client.link.close(one);
  p.exchange();
  p.expect_base_line();
}

TEST_F(Crowd, OfAnswersIsFundedAtOnce) {
  p.server.answers = false;
  p.server.with.ration = {4 << 20, 4096, 4};
  auto& one = p.client.open();
  for (size_t i = 0; i < calls; ++i)
    p.client.call(one, "x");
  p.exchange();
  for (auto& request : p.server.unanswered)
    p.server.answer(request, bytes(5000));
  p.exchange();
  EXPECT_EQ(p.client.count(type::reply), calls);
  EXPECT_EQ(p.client.last(type::reply)->body.size(), 5000u);
  p.client.link.close(one);
  p.exchange();
  p.expect_base_line();
}

} // namespace
} // namespace weir::net
