#include "net/mux.hpp"

#include "tests/support/mux_pair.hpp"

#include <gtest/gtest.h>

namespace weir::net {
namespace {
using test::client_settings;
using test::mux_pair;
using test::server_settings;
using std::chrono::milliseconds;
using std::chrono::seconds;
using type = event::type;

std::string bytes(size_t n) { return std::string(n, 'x'); }

TEST(Mux, SaysHelloAndKnowsItsPeer) {
  mux_pair p;
  p.connect();
  EXPECT_EQ(p.client.link.peer().name, "server");
  EXPECT_EQ(p.server.link.peer().node, (node_id{1, 1}));
  EXPECT_EQ(p.client.count(type::ready), 1u);
}

TEST(Mux, AnswersACall) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "hello");
  p.exchange();
  ASSERT_NE(p.client.end_of(token), nullptr);
  EXPECT_EQ(p.client.end_of(token)->body, "hello");
  EXPECT_EQ(s.now(), session::state::open);
}

TEST(Mux, ReturnsToTheBaseLineAfterACloseByEitherSide) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open();
  auto token = p.client.call(s, "hello");
  p.client.link.close(s);
  p.exchange();
  EXPECT_EQ(p.client.end_of(token)->body, "hello");
  EXPECT_EQ(p.client.count(type::ended), 1u);
  EXPECT_EQ(p.server.count(type::ended), 1u);
  EXPECT_EQ(p.client.last(type::ended)->token, 1u) << "messages that the server consumed";
  p.expect_base_line();
  EXPECT_EQ(p.client.link.session_count(), 0u);
}

TEST(Mux, MovesMuchMoreThanARationAsOnewayMessages) {
  mux_pair p;
  p.connect();
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 1000; ++i) p.client.post(s, bytes(1000));
  p.client.link.close(s);
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 1000u);
  EXPECT_EQ(p.server.count(type::finished), 1u);
  EXPECT_EQ(p.client.last(type::ended)->token, 1000u);
  p.expect_base_line();
}

TEST(Mux, ComesBackToTheBaseLineAfterAnAbort) {
  mux_pair p;
  p.connect();
  p.server.consumes = false;
  auto& s = p.client.open("sink", true);
  for (int i = 0; i < 100; ++i) p.client.post(s, bytes(5000));
  p.exchange();
  EXPECT_GT(p.server.count(type::item), 5u);
  EXPECT_LT(p.server.count(type::item), 100u);
  p.client.link.abort(s, errc::cancelled, "enough");
  p.exchange();
  EXPECT_EQ(p.server.last(type::ended)->why.code, errc::cancelled);
  EXPECT_EQ(p.server.last(type::ended)->why.text, "enough");
  EXPECT_GT(p.server.inbound.charged(charge::session), 0u) << "not before the memory dies";
  p.server.consume_all();
  p.expect_base_line();
}

} // namespace
} // namespace weir::net
