// Conversations between real actors on virtual time: calls, streams and how they end.
#include <numeric>

#include <gmock/gmock.h>

#include "tests/support/conversation.hpp"

namespace weir::test {

TEST_F(Conversation, ACallIsAnsweredAcrossALink) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  ending e;
  {
    auto to = lookup<Shop>("shop");
    call_add(who, to, 20, 22, e);
    EXPECT_EQ(e.value, 42);
  }
  run();
  expect_base_line();
}

TEST_F(Conversation, ALocalCallIsAnsweredTheSameWay) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(server());
  ending e, f;
  {
    auto to = lookup_here<Shop>("shop");
    call_add(who, to, 20, 22, e);
    EXPECT_EQ(e.value, 42);
    tell(who, [&](customer& c) {
      c.call<fail>(to, [](fail::args) {}).then([](fail::result) {}, [&](const failure& w) { f.why = w; });
    });
    expect_failed(f, errc::handler_failed, outcome::unknown);
  }
  expect_base_line();
}

TEST_F(Conversation, AnUnknownServiceIsRefusedAndNothingRan) {
  server();
  auto who = customer_at(client());
  ending e;
  auto to = lookup<Shop>("nobody");
  call_add(who, to, 1, 2, e);
  expect_failed(e, errc::no_such_service, outcome::not_executed);
  EXPECT_THAT(e.why->text, ::testing::HasSubstr("nobody"));
  expect_base_line();
}

TEST_F(Conversation, AWrongInterfaceIsRefusedAtOpen) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  ending e;
  auto to = lookup<Other>("shop");
  tell(who, [&](customer& c) {
    using nothing = weir::method<&Other::Client::nothingRequest>;
    c.call<nothing>(to, [](nothing::args) {
     }).then([](nothing::result) {}, [&](const failure& f) { e.why = f; });
  });
  expect_failed(e, errc::wrong_interface, outcome::not_executed);
}

TEST_F(Conversation, AHandlerThatThrowsAnswersThatCallAndLives) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  {
    auto to = lookup<Shop>("shop");
    for (int i = 0; i < 1000; ++i) { // C3
      ending e;
      tell(who, [&](customer& c) {
        c.call<fail>(to, [](fail::args) {}).then([](fail::result) {}, [&](const failure& f) { e.why = f; });
      });
      expect_failed(e, errc::handler_failed, outcome::unknown);
      ASSERT_THAT(e.why->text, ::testing::HasSubstr("no luck today"));
    }
    ending e;
    call_add(who, to, 1, 2, e);
    EXPECT_EQ(e.value, 3);
  }
  expect_base_line();
}

TEST_F(Conversation, ACallThatIsNotAnsweredEndsAtItsDeadline) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  {
    auto to = lookup<Shop>("shop");
    ending e;
    call_later(who, to, 10, e, {.timeout = 200ms});
    ASSERT_EQ(state.kept.size(), 1u);
    advance(150ms);
    EXPECT_FALSE(e.done());
    advance(100ms);
    expect_failed(e, errc::deadline_exceeded, outcome::unknown);
    answer_first(1); // too late: nobody waits, nothing leaks
  }
  expect_base_line();
}

TEST_F(Conversation, ARequestThatDiesUnansweredFailsAtItsCaller) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  auto to = lookup<Shop>("shop");
  ending e;
  call_later(who, to, 10, e);
  state.kept.clear();
  run();
  expect_failed(e, errc::handler_failed, outcome::unknown);
}

TEST_F(Conversation, ACancelledCallEndsAtOnceAndItsAnswerIsDropped) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  for (bool here : {false, true}) {
    auto who = customer_at(here ? server() : client());
    auto to = here ? lookup_here<Shop>("shop") : lookup<Shop>("shop");
    ending e;
    uint64_t id = 0;
    tell(who, [&](customer& c) {
      id = c.call<later>(to, [](later::args) {
            }).then([](later::result) {}, [&](const failure& f) { e.why = f; });
    });
    tell(who, [&](customer& c) { c.cancel(id); });
    expect_failed(e, errc::cancelled, outcome::unknown);
    answer_first(1);
  }
  expect_base_line();
}

TEST_F(Conversation, HeldRequestsLeaveTheRationAndBeyondTheAllowanceThereIsOverloaded) {
  ration = {16 << 10, 4, 4}; // four messages
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state), 0, 1 << 20, 10);
  auto who = customer_at(client());
  {
    auto to = lookup<Shop>("shop");
    std::vector<ending> ends(15);
    for (auto& e : ends)
      call_later(who, to, 100, e);
    EXPECT_EQ(state.kept.size(), 10u); // more than the ration, so holding does not starve the session
    for (size_t i = 10; i < 15; ++i)
      expect_failed(ends[i], errc::overloaded, outcome::not_executed);
    while (!state.kept.empty())
      answer_first(7);
    for (size_t i = 0; i < 10; ++i)
      EXPECT_EQ(ends[i].value, 7);
  }
  expect_base_line();
  EXPECT_EQ(server().allowances[0]->bytes(), 0u);
}

TEST_F(Conversation, AReplyLargerThanItsRoomIsFundedAndArrives) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  {
    auto to = lookup<Shop>("shop");
    for (uint64_t size :
         {uint64_t{0}, uint64_t{4000}, uint64_t{5000}, uint64_t{100} << 10, uint64_t{2} << 20}) {
      ending e;
      call_give(who, to, size, e);
      advance(10ms);
      ASSERT_TRUE(e.done());
      EXPECT_EQ(e.value, static_cast<int64_t>(size)) << (e.why ? to_string(*e.why) : "");
    }
  }
  expect_base_line();
}

TEST_F(Conversation, ARequestLargerThanTheRationIsFundedAndOneAboveTheLimitIsRefusedAtOnce) {
  ration = {16 << 10, 16, 4};
  link_settings.message_bytes_max = 3 << 20;
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state), 0, 8 << 20, 100);
  auto who = customer_at(client());
  {
    auto to = lookup<Shop>("shop");
    ending large, after, too_large;
    call_later(who, to, 2 << 20, large);
    call_add(who, to, 1, 1, after);
    advance(20ms);
    ASSERT_EQ(state.kept.size(), 1u);
    EXPECT_EQ(state.kept.front().params().getData().size(), size_t{2} << 20);
    EXPECT_EQ(after.value, 2);
    call_later(who, to, 4 << 20, too_large);
    expect_failed(too_large, errc::message_too_large, outcome::not_executed);
    answer_first(1);
    EXPECT_EQ(large.value, 1);
  }
  expect_base_line();
}

TEST_F(Conversation, ALostLinkFailsWhatWasUnderWayAsUnknown) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  {
    auto to = lookup<Shop>("shop");
    ending e;
    call_later(who, to, 10, e);
    cut();
    expect_failed(e, errc::link_lost, outcome::unknown);
    state.kept.clear();
    expect_base_line();
    ending after;
    call_add(who, to, 1, 1, after); // dials again
    advance(6s);
    EXPECT_EQ(after.value, 2);
  }
  expect_base_line();
}

TEST_F(Conversation, AStoppedPeerIsAnErrorAtConnectTimeout) { // L1
  dials(dialling::silent);
  auto who = customer_at(client());
  ending e;
  auto to = lookup<Shop>("shop");
  call_add(who, to, 1, 1, e);
  advance(4900ms);
  EXPECT_FALSE(e.done());
  advance(200ms);
  expect_failed(e, errc::connect_timeout, outcome::not_executed);
}

TEST_F(Conversation, ARefusedConnectionFailsItsCallsAtOnce) {
  dials(dialling::refused);
  auto who = customer_at(client());
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  ending e, f;
  auto to = lookup<Shop>("shop");
  call_add(who, to, 1, 1, e);
  expect_failed(e, errc::connect_failed, outcome::not_executed);
  EXPECT_EQ(dialled(), 1u);
  auto again = lookup<Shop>("shop"); // the next dial has its delay
  dials(dialling::connects);
  call_add(who, again, 1, 1, f);
  EXPECT_FALSE(f.done());
  EXPECT_EQ(dialled(), 1u);
  advance(client().env->reconnect_base + 5ms);
  EXPECT_EQ(f.value, 2);
}

TEST_F(Conversation, AKeptConnectionIsTriedAgainWithJitterUntilConnectTimeout) {
  dials(dialling::refused);
  auto who = customer_at(client());
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  keep_connection();
  ending e, f;
  auto to = lookup<Shop>("shop");
  call_add(who, to, 1, 1, e);
  advance(1s);
  EXPECT_FALSE(e.done());
  EXPECT_GE(dialled(), 3u);
  advance(4100ms);
  expect_failed(e, errc::connect_failed, outcome::not_executed);
  auto again = lookup<Shop>("shop");
  call_add(who, again, 1, 1, f);
  dials(dialling::connects);
  advance(5s);
  EXPECT_EQ(f.value, 2);
}

TEST_F(Conversation, AKeptConnectionComesBackAfterItsPeerWentAway) {
  keep_connection();
  run();
  ASSERT_EQ(dialled(), 1u);
  for (auto& [link, handle] : std::unordered_map{server().loop->links})
    link->go_away(); // as a node that restarts does; the next link finds the new one
  run();
  EXPECT_EQ(client().loop->links.size(), 0u);
  EXPECT_EQ(dialled(), 1u);
  advance(client().env->reconnect_base + 5ms);
  EXPECT_EQ(dialled(), 2u);
  EXPECT_EQ(client().loop->links.size(), 1u);
}

TEST_F(Conversation, AnUnusedLinkEndsAfterItsTimeAndAUsedOneStays) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  auto idle = client().env->idle_timeout = 3s;
  auto to = lookup<Shop>("shop");
  ending e, f;
  call_add(who, to, 1, 1, e);
  advance(3 * idle);
  EXPECT_EQ(client().loop->links.size(), 1u); // its ref is there
  to = {};
  advance(idle - 100ms);
  EXPECT_EQ(client().loop->links.size(), 1u);
  advance(200ms);
  EXPECT_EQ(client().loop->links.size(), 0u);
  EXPECT_EQ(server().loop->links.size(), 0u);
  EXPECT_EQ(client().loop->endpoints.size(), 0u);
  auto again = lookup<Shop>("shop");
  call_add(who, again, 2, 2, f);
  EXPECT_EQ(f.value, 4);
}

TEST_F(Conversation, AnUnusedLinkThatIsKeptStays) {
  client().env->idle_timeout = 3s;
  keep_connection();
  ending e;
  auto who = customer_at(client());
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  call_add(who, lookup<Shop>("shop"), 1, 1, e);
  advance(3 * client().env->idle_timeout);
  EXPECT_EQ(client().loop->links.size(), 1u);
  EXPECT_EQ(dialled(), 1u);
}

TEST_F(Conversation, AnAddressThatNobodyAnswersIsForgotten) {
  client().env->idle_timeout = 3s;
  dials(dialling::refused);
  auto to = lookup<Shop>("shop");
  run();
  EXPECT_EQ(client().loop->endpoints.size(), 1u);
  advance(client().env->idle_timeout + 10ms);
  EXPECT_EQ(client().loop->endpoints.size(), 0u);
}

TEST_F(Conversation, ALinkAboveTheLimitIsToldSoAndItsPlaceIsFreeAgain) {
  server().env->links_max = 1;
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  auto first = lookup<Shop>("shop");
  ending e;
  call_add(who, first, 1, 1, e);
  EXPECT_EQ(e.value, 2);
  auto second = lookup<Shop>("shop", "another"); // an address of its own: a link of its own
  ending f;
  call_add(who, second, 1, 1, f);
  expect_failed(f, errc::overloaded, outcome::not_executed);
  EXPECT_THAT(f.why->text, ::testing::HasSubstr("links-max"));
  EXPECT_EQ(server().env->count.links_refused, 1u);
  first = {};
  cut();
  auto third = lookup<Shop>("shop", "another");
  ending g;
  call_add(who, third, 1, 1, g);
  advance(1s);
  EXPECT_EQ(g.value, 2);
  EXPECT_EQ(server().env->count.links_open, 1u);
}

TEST_F(Conversation, ALoopThatDrainsLetsOpenCallsEndAndBeginsNothing) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto there = customer_at(client()), here = customer_at(server());
  auto remote = lookup<Shop>("shop"), local = lookup_here<Shop>("shop");
  ending r, l;
  call_later(there, remote, 10, r);
  call_later(here, local, 10, l);
  bool drained = false;
  server().loop->drain([&] { drained = true; });
  run();
  ending late;
  auto too_late = lookup_here<Shop>("shop");
  call_add(here, too_late, 1, 1, late);
  expect_failed(late, errc::shutting_down, outcome::not_executed);
  ending closed;
  call_add(here, local, 1, 1, closed);
  expect_failed(closed, errc::session_closed, outcome::not_executed);
  EXPECT_FALSE(r.done() || l.done() || drained);
  answer_first(1);
  answer_first(2);
  EXPECT_EQ(r.value, 1);
  EXPECT_EQ(l.value, 2);
  EXPECT_TRUE(drained);
}

TEST_F(Conversation, APeerThatIsNamedTwiceIsWaitedForOnce) {
  dials(dialling::refused);
  keep_connection();
  keep_connection();
  auto who = customer_at(client());
  ending e;
  call_add(who, client().node->lookup<Shop>("shop"), 1, 1, e, {.timeout = 60s});
  advance(client().env->connect_timeout + 100ms);
  expect_failed(e, errc::connect_failed, outcome::not_executed);
}

TEST_F(Conversation, AServiceThatEndsFailsItsSessions) {
  auto service = spawn<shop>(server(), &state);
  serve<Shop>(server(), "shop", service);
  auto who = customer_at(client());
  {
    auto to = lookup<Shop>("shop");
    ending e;
    call_later(who, to, 10, e);
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(service), caf::exit_reason::kill);
    run();
    expect_failed(e, errc::service_down, outcome::unknown);
    state.kept.clear();
  }
  expect_base_line();
}

TEST_F(Conversation, AServiceThatIsKilledGivesBackWhatIsInItsMailbox) { // C3
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  std::vector<ending> ends(20);
  {
    ref<Shop> over[] = {lookup<Shop>("shop"), lookup<Shop>("shop", "another")}; // two links: two batches
    for (auto& to : over)
      call_add(who, to, 1, 1, ends[0]);
    state.dies = true;
    to_server().stall();
    for (size_t i = 0; i < ends.size(); ++i)
      call_add(who, over[i % 2], 1, 1, ends[i] = {});
    to_server().resume();
    run();
  }
  EXPECT_EQ(state.runs, 2 + ends.size() / 2) << "one batch ran, and the other was in the mailbox";
  expect_failed(ends[1], errc::service_down, outcome::unknown);
  expect_base_line();
}

TEST_F(Conversation, TheMailboxOfAServiceIsDealtOutAndThenOpensAreRefused) {
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state), 3);
  std::vector<ref<Shop>> refs;
  auto who = customer_at(client());
  std::vector<ending> ends(4);
  for (auto& e : ends) {
    refs.push_back(lookup<Shop>("shop"));
    call_add(who, refs.back(), 1, 1, e);
  }
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(ends[i].value, 2);
  expect_failed(ends[3], errc::overloaded, outcome::not_executed);
  refs.clear();
  advance(50ms);
  ending e;
  auto again = lookup<Shop>("shop"); // the places came back
  call_add(who, again, 1, 1, e);
  EXPECT_EQ(e.value, 2);
}

TEST_F(Conversation, ANodeWithoutBudgetRefusesAnOpenAndSaysWhy) { // C6, the part without a pool
  budget_bytes = (1 << 20) + (8 << 10); // the node itself takes a little, to be looked at
  reserve_bytes = 256 << 10;
  ration = {256 << 10, 512, 4};
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  {
    std::vector<ref<Shop>> refs;
    std::vector<ending> ends(5);
    for (auto& e : ends) {
      refs.push_back(lookup<Shop>("shop"));
      call_add(who, refs.back(), 1, 1, e);
    }
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(ends[i].value, 2);
    for (size_t i = 3; i < 5; ++i)
      expect_failed(ends[i], errc::no_budget, outcome::not_executed);
    refs.clear();
    advance(50ms);
    ending e;
    auto again = lookup<Shop>("shop");
    call_add(who, again, 1, 1, e);
    EXPECT_EQ(e.value, 2);
  }
  expect_base_line();
}

class Stream : public Conversation, public ::testing::WithParamInterface<bool> {
protected:
  bool here() const { return GetParam(); }
  node_under_test& producer_node() { return here() ? server() : client(); }
  ref<Item> sink() { return here() ? lookup_here<Item>("shelf") : lookup<Item>("shelf"); }
  weir::outlet<Item>& open(const caf::actor& who, const ref<Item>& to) {
    tell(who, [&](customer& c) { c.outlets.push_back(std::make_unique<weir::outlet<Item>>(&c, to)); });
    return *raw(who).outlets.back();
  }
  /// Offers until it is refused or `count` are in.
  uint64_t offer(const caf::actor& who, weir::outlet<Item>& out, uint64_t from, uint64_t count,
                 size_t bytes) {
    uint64_t n = 0;
    tell(who, [&](customer&) {
      while (n < count && out.offer([&](Item::Builder b) {
        b.setNumber(from + n);
        b.initData(static_cast<unsigned>(bytes));
      }))
        ++n;
    });
    return n;
  }
};

TEST_P(Stream, EverythingOfferedArrivesInOrderAndTheEndIsConfirmed) {
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
  auto who = customer_at(producer_node());
  std::optional<uint64_t> consumed;
  {
    auto to = sink();
    auto& out = open(who, to);
    uint64_t next = 0;
    for (int i = 0; i < 1000 && next < 5000; ++i)
      next += offer(who, out, next, 5000 - next, 100);
    EXPECT_EQ(next, 5000u);
    tell(who, [&](customer&) { out.close().then([&](uint64_t n) { consumed = n; }, [](const failure&) {}); });
    advance(20ms);
    tell(who, [](customer& c) { c.outlets.clear(); });
  }
  EXPECT_EQ(consumed, 5000u);
  ASSERT_EQ(goods.numbers.size(), 5000u);
  std::vector<uint64_t> expected(5000);
  std::iota(expected.begin(), expected.end(), uint64_t{0});
  EXPECT_EQ(goods.numbers, expected);
  EXPECT_EQ(goods.opened, 1u);
  EXPECT_EQ(goods.finished, 1u);
  ASSERT_EQ(goods.ended.size(), 1u);
  EXPECT_EQ(goods.ended[0].code, errc::none);
  expect_base_line();
}

TEST_P(Stream, AProducerIsToldWhenItMayOfferAgain) {
  ration = {16 << 10, 16, 4};
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
  auto who = customer_at(producer_node());
  auto to = sink();
  auto& out = open(who, to);
  uint64_t next = 0, credits = 0;
  tell(who, [&](customer&) {
    auto pump = [&] {
      ++credits;
      while (next < 1000 && out.offer([&](Item::Builder b) { b.setNumber(next); }))
        ++next;
    };
    out.on_credit(pump);
    pump();
  });
  advance(100ms);
  EXPECT_EQ(next, 1000u);
  EXPECT_EQ(goods.numbers.size(), 1000u);
  EXPECT_GT(credits, 10u); // a ration of 16 messages cannot be done at once
}

TEST_P(Stream, ASinkThatHoldsItsAllowanceFullStillGetsMessagesAndGivesBackExactlyOnce) { // C10
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods), 0, 1 << 20, 100);
  goods.hold = true;
  auto who = customer_at(producer_node());
  {
    auto to = sink();
    auto& out = open(who, to);
    EXPECT_EQ(offer(who, out, 0, 150, 50), 150u);
    EXPECT_EQ(goods.held.size(), 100u);
    EXPECT_EQ(goods.refused, 50u);
    EXPECT_EQ(server().allowances[0]->messages(), 100u);
    goods.held.erase(goods.held.begin() + 10, goods.held.begin() + 60); // in any order
    EXPECT_EQ(server().allowances[0]->messages(), 50u);
    EXPECT_EQ(goods.held[0].get().getNumber(), 0u);
    tell(who, [](customer& c) { c.outlets.clear(); });
  }
  advance(50ms);
  EXPECT_EQ(goods.held.back().get().getNumber(), 99u); // lives on when its session is long gone
  goods.held.clear();
  EXPECT_EQ(server().allowances[0]->bytes(), 0u);
  expect_base_line();
}

TEST_P(Stream, AMessageLargerThanTheRationPasses) {
  ration = {16 << 10, 16, 4};
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
  auto who = customer_at(producer_node());
  {
    auto to = sink();
    auto& out = open(who, to);
    EXPECT_EQ(offer(who, out, 0, 1, 100), 1u);
    EXPECT_EQ(offer(who, out, 1, 1, 1 << 20), 1u);
    advance(50ms);
    EXPECT_EQ(offer(who, out, 2, 1, 100), 1u);
    advance(50ms);
    EXPECT_EQ(goods.numbers, (std::vector<uint64_t>{0, 1, 2}));
    tell(who, [](customer& c) { c.outlets.clear(); });
  }
  expect_base_line();
}

TEST_P(Stream, AStreamThatIsGivenUpTellsItsSinkWhy) {
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
  auto who = customer_at(producer_node());
  {
    auto to = sink();
    auto& out = open(who, to);
    EXPECT_EQ(offer(who, out, 0, 3, 10), 3u);
    tell(who, [&](customer&) { out.abort({errc::link_lost, outcome::unknown, "the input is gone"}); });
    advance(20ms);
    ASSERT_EQ(goods.ended.size(), 1u);
    EXPECT_EQ(goods.ended[0].code, errc::link_lost);
    EXPECT_THAT(goods.ended[0].text, ::testing::HasSubstr("the input is gone"));
    EXPECT_EQ(goods.finished, 0u);
    EXPECT_EQ(offer(who, out, 3, 1, 10), 0u);
    tell(who, [](customer& c) { c.outlets.clear(); });
  }
  expect_base_line();
}

TEST_P(Stream, AMessageThatCannotBeFundedEndsTheStreamWithTheReason) {
  budget_bytes = 9 << 20; // half of the reserve is less than the message, and so is what is free beside it
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
  auto who = customer_at(producer_node());
  std::optional<failure> lost;
  {
    auto to = sink();
    auto& out = open(who, to);
    tell(who, [&](customer&) { out.on_failure([&](const failure& f) { lost = f; }); });
    EXPECT_EQ(offer(who, out, 0, 1, 6 << 20), 1u);
    advance(3s);
    ASSERT_TRUE(lost.has_value());
    EXPECT_EQ(lost->code, errc::no_budget) << to_string(*lost);
    EXPECT_EQ(offer(who, out, 1, 1, 10), 0u);
    tell(who, [](customer& c) { c.outlets.clear(); });
  }
  expect_base_line();
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Stream, ::testing::Bool(),
                         [](auto& i) { return i.param ? "Local" : "Remote"; });

TEST_F(Conversation, AStalledPeerStopsTheProducerAtTheRationAndNobodyElse) { // C14, R7
  ration = {64 << 10, 512, 4};
  serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  auto to = lookup<Item>("shelf");
  auto calls = lookup<Shop>("shop");
  ending e;
  call_add(who, calls, 1, 1, e); // both are open
  goods.hold = true;
  tell(who, [&](customer& c) { c.outlets.push_back(std::make_unique<weir::outlet<Item>>(&c, to)); });
  auto& out = *raw(who).outlets.back();
  to_server().stall(); // nothing reaches the server
  uint64_t n = 0;
  tell(who, [&](customer&) {
    while (n < 100000 && out.offer([&](Item::Builder b) { b.initData(1000); }))
      ++n;
  });
  EXPECT_LT(n, 70u);
  EXPECT_GT(n, 50u);
  to_server().resume();
  run();
  EXPECT_EQ(goods.numbers.size(), n);
  ending f;
  call_add(who, calls, 2, 2, f);
  EXPECT_EQ(f.value, 4);
  goods.held.clear();
}

TEST_F(Conversation, OneWayMessagesBeyondTheSendBufferAreCountedAndToldOnce) {
  send_buffer_messages = 100;
  ration = {16 << 10, 16, 4};
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  auto to = lookup<Shop>("shop");
  uint64_t queued = 0;
  tell(who, [&](customer& c) {
    for (int i = 0; i < 1000; ++i)
      queued += c.tell<add>(to, [](add::args) {}) ? 1 : 0;
  });
  EXPECT_EQ(queued, 100u);
  EXPECT_THAT(raw(who).undelivered_seen, ::testing::ElementsAre(900u));
  advance(100ms);
  EXPECT_EQ(state.runs, 100u);
}

TEST_F(Conversation, CallsBeyondTheLimitAreRefusedNotQueued) {
  link_settings.calls_max = 8;
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  auto who = customer_at(client());
  auto to = lookup<Shop>("shop");
  std::vector<ending> ends(10);
  call_add(who, to, 1, 1, ends[0]);
  for (auto& e : ends) {
    e = {};
    call_later(who, to, 10, e);
  }
  EXPECT_EQ(state.kept.size(), 8u);
  expect_failed(ends[9], errc::too_many_calls, outcome::not_executed);
  while (!state.kept.empty())
    answer_first(1);
}

} // namespace weir::test
