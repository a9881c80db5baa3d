// Whatever a peer does wrong is told to the link once, with its reason and its words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/raw_peer.hpp"

namespace weir::net {
namespace {
using test::raw_peer;
using testing::HasSubstr, testing::IsEmpty;

say::open open_of(uint32_t session, position limit) {
  say::open o;
  o.session = session;
  o.service = "nobody";
  o.limit = limit;
  return o;
}

struct Reasons : testing::Test {
  raw_peer p;

  std::vector<noted_reason> taken() {
    std::vector<noted_reason> all;
    p.host.link.take_reasons(all);
    return all;
  }
  void expect_only(errc code, uint64_t times, std::string_view words) {
    auto all = taken();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].code, code) << to_string(all[0].code);
    EXPECT_EQ(all[0].times, times);
    EXPECT_THAT(all[0].text, HasSubstr(words));
    EXPECT_THAT(taken(), IsEmpty());
  }
};

TEST_F(Reasons, AFaultOfTheLinkIsOneHoweverManySessionsEndWithIt) {
  p.hello();
  p.open(1);
  p.open(3);
  p.frame({0, 0, frame_kind{9}, 0, 0, 0}, {});
  EXPECT_EQ(p.fault(), errc::malformed_frame);
  expect_only(errc::malformed_frame, 1, "kind 9");
}

TEST_F(Reasons, AFaultThatThePeerSays) {
  p.hello();
  say::control c;
  c.fault = say::fault{errc::wrong_cluster, "not with you"};
  p.control(c);
  expect_only(errc::wrong_cluster, 1, "not with you");
}

TEST_F(Reasons, AnAbortedSessionIsNamed) {
  p.hello();
  p.open(1);
  p.open(3);
  p.message(1, 5, 10); // a call of generation 0
  EXPECT_EQ(p.abort_of(1), errc::bad_state);
  expect_only(errc::bad_state, 1, "session 1 of 'echo': ");
}

TEST_F(Reasons, AnAbortByThePeer) {
  p.hello();
  p.open(1);
  say::control c;
  c.aborts.push_back({1, errc::handler_failed, "my fault", {}});
  p.control(c);
  expect_only(errc::handler_failed, 1, "my fault");
}

TEST_F(Reasons, RefusedOpensAreCountedTogether) {
  p.host.accepts = false;
  p.hello();
  for (uint32_t id = 1; id <= 5; id += 2) {
    say::control c;
    c.opens.push_back(open_of(id, {}));
    p.control(c);
    p.host.link.refuse(*p.host.last(event::type::open)->on, errc::no_such_service, "nobody here", false);
  }
  expect_only(errc::no_such_service, 3, "nobody here");
}

TEST_F(Reasons, ALimitThatNoCounterReachesIsRefusedAndCounted) {
  p.hello();
  say::control c;
  c.opens.push_back(open_of(1, {~uint64_t{0}, 1}));
  p.control(c);
  expect_only(errc::grant_overflow, 1, "2^62");
}

TEST_F(Reasons, AnOrderlyEndHasNone) {
  p.hello();
  p.open(1);
  say::control c;
  c.closes.push_back({1, {}});
  p.control(c);
  EXPECT_THAT(taken(), IsEmpty());
}

TEST_F(Reasons, AFailedAnswerHasItsOwn) {
  p.host.answers = false;
  p.hello();
  p.open(1);
  p.message(1, call_id(0, 1), 10);
  p.host.link.reply_failure(*p.host.last(event::type::request)->on, call_id(0, 1),
                            {errc::handler_failed, outcome::unknown, "no luck"});
  expect_only(errc::handler_failed, 1, "no luck");
}

} // namespace
} // namespace weir::net
