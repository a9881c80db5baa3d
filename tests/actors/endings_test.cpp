// How calls, one-way messages and streams end when something goes away or is given up.
#include <gmock/gmock.h>

#include "tests/support/conversation.hpp"

namespace weir::test {

class Endings : public Conversation {
protected:
  /// A shop at the server, a customer and a ref at the client, with the session open.
  void open_shop() {
    serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
    who = customer_at(client());
    to = lookup<Shop>("shop");
    ending e;
    call_add(who, to, 1, 1, e);
    ASSERT_EQ(e.value, 2);
  }
  /// A customer with an outlet to a shelf.
  void open_stream(bool local = false) {
    serve<Item>(server(), "shelf", spawn<shelf>(server(), &goods));
    auto& at = local ? server() : client();
    auto items = local ? lookup_here<Item>("shelf") : lookup<Item>("shelf");
    who = customer_at(at);
    tell(who, [items](customer& c) { c.outlets.push_back(std::make_unique<outlet<Item>>(&c, items)); });
  }
  void offer(uint64_t from, uint64_t to_number, size_t bytes = 0) {
    tell(who, [=](customer& c) {
      for (auto i = from; i < to_number; ++i)
        ASSERT_TRUE(c.outlets.back()->offer([&](Item::Builder b) {
          b.setNumber(i);
          b.initData(static_cast<unsigned>(bytes));
        }));
    });
  }
  void TearDown() override {
    tell_if(who, [](customer& c) { c.outlets.clear(); });
    to = {};
    state.kept.clear();
    expect_base_line();
    EXPECT_EQ(client().loop->sessions.size(), 0u);
    EXPECT_EQ(server().loop->sessions.size(), 0u);
  }
  void tell_if(const caf::actor& a, std::function<void(customer&)> f) {
    if (a)
      tell(a, std::move(f));
  }

  caf::actor who;
  ref<Shop> to;
};

// ---- credit

/// Keeps what comes on streams as it comes, with the charge in it.
class hoarder final : public pinnable {
public:
  hoarder(caf::actor_config& cfg, std::vector<actors::arrivals>* kept) : pinnable(cfg), kept_(kept) {}
  caf::behavior make_behavior() override {
    return {[this](actors::arrived& a) { kept_->push_back(std::move(a.batch)); },
            [](actors::stream_event&) {}};
  }

private:
  std::vector<actors::arrivals>* kept_;
};

TEST_F(Endings, AMessageWhoseBytesComeBackALittleLaterThanItselfIsCounted) {
  ration = {64 << 10, 1, 4};
  std::vector<actors::arrivals> kept;
  serve<Item>(server(), "shelf", spawn<hoarder>(server(), &kept));
  auto items = lookup<Item>("shelf");
  who = customer_at(client());
  tell(who, [items](customer& c) { c.outlets.push_back(std::make_unique<outlet<Item>>(&c, items)); });
  offer(0, 1);
  ASSERT_EQ(kept.size(), 1u);
  auto& in = (*server().loop->sessions.begin())->protocol()->in();
  ASSERT_EQ(in.received().messages, 1u);
  kept[0].from(0)->give_back(0, 1); // as a loop sees it that looks while another thread gives back
  run();
  EXPECT_EQ(in.consumed().messages, 1u);
  tell(who, [](customer& c) { c.outlets.back()->abort({errc::cancelled, outcome::unknown, "seen enough"}); });
  kept.clear();
}

// ---- calls

TEST_F(Endings, WhatComesBackIsGrantedAtOnceWhileThePeerIsBlocked) {
  ration = {64 << 10, 512, 4}; // a grant of its own leaves at 16 KiB
  open_shop();
  ending small, large;
  call_later(who, to, 12'000, small);
  answer_first(1);
  EXPECT_EQ(small.value, 1);
  call_later(who, to, 60'000, large, {.timeout = 1s}); // fits only with what has come back
  advance(100ms);
  ASSERT_EQ(state.kept.size(), 1u);
  answer_first(2);
  EXPECT_EQ(large.value, 2);
}

TEST_F(Endings, ACallBehindACancelledOneHasAnEndOfItsOwn) {
  open_shop();
  ending given_up, next;
  tell(who, [&](customer& c) {
    auto id = c.call<later>(to, [](later::args) {
               }).then([](later::result) {}, [&](const failure& f) { given_up.why = f; });
    c.cancel(id);
    c.call<add>(to, [](add::args a) {
       a.setA(3);
     }).then([&](add::result r) { next.value = r.getSum(); }, [&](const failure& f) { next.why = f; });
  });
  expect_failed(given_up, errc::cancelled, outcome::not_executed);
  EXPECT_EQ(next.value, 3);
}

TEST_F(Endings, ACallThatIsCancelledInItsServicesMailboxIsNotRun) {
  open_shop();
  auto runs = state.runs;
  to_server().stall();
  ending e;
  uint64_t id = 0;
  tell(who, [&](customer& c) {
    id = c.call<add>(to, [](add::args) {}).then([](add::result) {}, [&](const failure& f) { e.why = f; });
  });
  tell(who, [&](customer& c) { c.cancel(id); });
  expect_failed(e, errc::cancelled, outcome::unknown);
  to_server().resume(); // the request and its cancel are read together
  run();
  EXPECT_EQ(state.runs, runs);
}

TEST_F(Endings, ARequestThatIsKeptKnowsThatItWasCancelled) {
  open_shop();
  ending e;
  uint64_t id = 0;
  tell(who, [&](customer& c) {
    id = c.call<later>(to, [](later::args) {
          }).then([](later::result) {}, [&](const failure& f) { e.why = f; });
  });
  ASSERT_EQ(state.kept.size(), 1u);
  EXPECT_FALSE(state.kept.front().cancelled());
  tell(who, [&](customer& c) { c.cancel(id); });
  EXPECT_TRUE(state.kept.front().cancelled());
}

TEST_F(Endings, ADeadlineHoldsWhileTheSessionIsNotOpen) {
  dials(dialling::silent);
  who = customer_at(client());
  to = lookup<Shop>("shop");
  ending timed, cancelled;
  call_add(who, to, 1, 1, timed, {.timeout = 100ms});
  uint64_t id = 0;
  tell(who, [&](customer& c) {
    id = c.call<add>(to, [](add::args) {
          }).then([](add::result) {}, [&](const failure& f) { cancelled.why = f; });
  });
  tell(who, [&](customer& c) { c.cancel(id); });
  expect_failed(cancelled, errc::cancelled, outcome::not_executed);
  EXPECT_FALSE(timed.done());
  advance(120ms);
  expect_failed(timed, errc::deadline_exceeded, outcome::not_executed);
}

/// Notes what sessions answer.
class recorder final : public pinnable {
public:
  recorder(caf::actor_config& cfg, std::vector<failure>* s) : pinnable(cfg), seen_(s) {}
  caf::behavior make_behavior() override {
    return {[this](actors::reply& r) { seen_->push_back(r.why); },
            [this](actors::outlet_event& e) { seen_->push_back(e.why); }};
  }

private:
  std::vector<failure>* seen_;
};

TEST_F(Endings, AMessageInTheMailboxOfASessionThatIsOverAnswersItself) {
  open_shop();
  std::vector<failure> seen;
  auto caller = spawn<recorder>(client(), &seen);
  auto session = to.handle();
  cut();
  actors::ask a;
  a.token = 7;
  a.bounce_to = caf::actor_cast<caf::strong_actor_ptr>(caller);
  put(session, nullptr, std::move(a));
  run();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].code, errc::session_closed);
  EXPECT_EQ(seen[0].what, outcome::not_executed);
}

TEST_F(Endings, ACallThatComesTooLateIsToldWhyItsSessionHasEnded) {
  server();
  std::vector<failure> seen;
  auto caller = spawn<recorder>(client(), &seen);
  auto ref = lookup<Shop>("nobody");
  auto guard = ref.guard();
  run();
  for (bool mailed : {false, true}) {
    actors::ask a;
    a.token = 7;
    if (mailed) {
      a.bounce_to = caf::actor_cast<caf::strong_actor_ptr>(caller);
      a.bounced_by = guard->raw()->entrance();
      put(guard->handle(), nullptr, std::move(a)); // to an actor that has ended
    } else {
      guard->raw()->carry(std::move(a), caf::actor_cast<caf::strong_actor_ptr>(caller));
    }
  }
  run();
  ASSERT_EQ(seen.size(), 2u);
  for (auto& why : seen) {
    EXPECT_EQ(why.code, errc::no_such_service) << to_string(why);
    EXPECT_EQ(why.what, outcome::not_executed);
  }
}

TEST_F(Endings, AProducerThatComesTooLateIsToldWhyItsSessionHasEnded) {
  server();
  std::vector<failure> seen;
  auto producer = caf::actor_cast<caf::strong_actor_ptr>(spawn<recorder>(client(), &seen));
  auto ref = lookup<Item>("nobody");
  auto guard = ref.guard();
  run();
  put(guard->handle(), nullptr, actors::produce{1, producer, guard->raw()->entrance()}); // it has ended
  guard->raw()->set_producer(producer, 2);
  run();
  ASSERT_EQ(seen.size(), 2u);
  for (auto& why : seen) {
    EXPECT_EQ(why.code, errc::no_such_service) << to_string(why);
    EXPECT_EQ(why.what, outcome::not_executed);
  }
}

TEST_F(Endings, ALocalReplyThatTheBudgetCannotPayIsAFailure) {
  budget_bytes = 8 << 20, reserve_bytes = 4 << 20;
  link_settings.message_bytes_max = 6 << 20;
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  who = customer_at(server());
  to = lookup_here<Shop>("shop");
  ending small, large, too_large;
  call_give(who, to, 100'000, small);
  EXPECT_EQ(small.value, 100'000);
  call_give(who, to, 5 << 20, large);
  expect_failed(large, errc::no_budget, outcome::done);
  call_give(who, to, 7 << 20, too_large);
  expect_failed(too_large, errc::message_too_large, outcome::done);
}

TEST_F(Endings, ACallThatCannotBeOpenedTakesNoPlaceInAMailbox) {
  link_settings.calls_max = 1;
  auto allowance = std::make_shared<actors::held_allowance>(1 << 20, 1024, "shop", when_full::reject, 2);
  server().allowances.push_back(allowance);
  put(server().env->dispatcher, nullptr,
      actors::serve_service{"shop", detail::type_id<Shop>(), false, spawn<shop>(server(), &state), 2,
                            allowance, 0});
  run();
  who = customer_at(server());
  to = lookup_here<Shop>("shop");
  ending kept;
  call_later(who, to, 10, kept);
  for (int i = 0; i < 5; ++i) {
    ending beyond;
    call_add(who, to, 1, 1, beyond);
    expect_failed(beyond, errc::too_many_calls, outcome::not_executed);
  }
  EXPECT_EQ(allowance->mailbox.waiting(), 0u);
  answer_first(1);
}

TEST_F(Endings, ARefusedCallIsAnsweredOnce) {
  std::vector<failure> seen;
  auto caller = spawn<recorder>(client(), &seen);
  auto handle = lookup<Shop>("shop").handle();
  client().loop->shut_down();
  run();
  auto late = client().loop->spawn<actors::session>(std::ref(*client().loop),
                                                    actors::environment_ptr{client().env},
                                                    actors::session::target{"shop", 1, false, true, {}, 0});
  actors::ask a;
  a.token = 7;
  a.bounce_to = caf::actor_cast<caf::strong_actor_ptr>(caller);
  put(late, a.bounce_to, std::move(a));
  put(late, nullptr, actors::close_session{});
  run();
  EXPECT_EQ(seen.size(), 1u);
}

TEST_F(Endings, ACallThatWasParkedBeforeItsSessionRefusedIsAnsweredOnce) {
  std::vector<failure> seen;
  auto caller = caf::actor_cast<caf::strong_actor_ptr>(spawn<recorder>(client(), &seen));
  auto& loop = *client().loop;
  loop.shut_down();
  run();
  auto late = loop.spawn<actors::session>(std::ref(loop), actors::environment_ptr{client().env},
                                          actors::session::target{"shop", 1, false, true, {}, 0});
  actors::ask a;
  a.token = 7;
  a.deadline = loop.now() + 1s;
  static_cast<actors::session*>(caf::actor_cast<caf::abstract_actor*>(late))->carry(std::move(a), caller);
  run();
  put(late, nullptr, actors::close_session{});
  late = nullptr;
  run();
  EXPECT_EQ(loop.next_timer(), net::time_point::max()) << "of a session that is gone";
  advance(2s);
  EXPECT_EQ(seen.size(), 1u);
}

// ---- idempotent calls

TEST_F(Endings, AnIdempotentCallIsMadeAgainWhenItsLinkIsLost) {
  open_shop();
  ending once, again;
  call_later(who, to, 10, once);
  call_later(who, to, 10, again, {.idempotent = true});
  cut();
  expect_failed(once, errc::link_lost, outcome::unknown);
  EXPECT_FALSE(again.done());
  state.kept.clear();
  advance(6s);
  ASSERT_EQ(state.kept.size(), 1u);
  answer_first(10);
  EXPECT_EQ(again.value, 10);
}

TEST_F(Endings, AnIdempotentCallIsTriedUntilItsDeadlineAndNotBeyond) {
  dials(dialling::refused);
  who = customer_at(client());
  to = lookup<Shop>("shop");
  ending e;
  call_add(who, to, 1, 1, e, {.timeout = 20s, .idempotent = true});
  advance(19s);
  EXPECT_FALSE(e.done());
  advance(2s);
  ASSERT_TRUE(e.why.has_value());
  EXPECT_EQ(e.why->what, outcome::not_executed);
}

TEST_F(Endings, AnIdempotentCallFindsAServiceThatIsServedLater) {
  who = customer_at(client());
  to = lookup<Shop>("shop");
  ending e;
  call_add(who, to, 1, 1, e, {.timeout = 20s, .idempotent = true});
  advance(50ms);
  EXPECT_FALSE(e.done());
  serve<Shop>(server(), "shop", spawn<shop>(server(), &state));
  advance(3s);
  EXPECT_EQ(e.value, 2);
}

TEST_F(Endings, AnIdempotentCallCanBeCancelledBetweenTwoAttempts) {
  who = customer_at(client());
  to = lookup<Shop>("shop");
  ending e;
  uint64_t id = 0;
  tell(who, [&](customer& c) {
    id = c.call<add>(to, {.idempotent = true}, [](add::args) {
          }).then([](add::result) {}, [&](const failure& f) { e.why = f; });
  });
  advance(30ms);
  tell(who, [&](customer& c) { c.cancel(id); });
  ASSERT_TRUE(e.why.has_value());
  EXPECT_EQ(e.why->code, errc::cancelled);
}

TEST_F(Endings, AFailureOfTheHandlerIsNotTriedAgain) {
  open_shop();
  auto runs = state.runs;
  ending e;
  tell(who, [&](customer& c) {
    c.call<fail>(to, {.idempotent = true}, [](fail::args) {
     }).then([](fail::result) {}, [&](const failure& f) { e.why = f; });
  });
  advance(2s);
  expect_failed(e, errc::handler_failed, outcome::unknown);
  EXPECT_EQ(state.runs, runs + 1);
}

// ---- one way

TEST_F(Endings, OneWayMessagesThatAreLostWithTheirLinkAreTold) {
  open_shop();
  to_server().capacity(to_server().bytes_under_way()); // nothing leaves any more
  to_server().stall();
  tell(who, [&](customer& c) {
    for (int i = 0; i < 100; ++i)
      EXPECT_TRUE(c.tell<later>(to, [](later::args a) { a.initData(10'000); }));
  });
  EXPECT_THAT(raw(who).undelivered_seen, ::testing::IsEmpty());
  cut();
  to_server().resume();
  run();
  uint64_t lost = 0;
  for (auto n : raw(who).undelivered_seen)
    lost += n;
  EXPECT_GT(lost, 50u); // all but what was handed over to the socket
  EXPECT_LE(lost, 100u);
}

// ---- streams

TEST_F(Endings, AProducerThatDiesEndsItsStream) {
  for (bool local : {false, true}) {
    goods = {};
    open_stream(local);
    offer(0, 3);
    ASSERT_EQ(goods.numbers.size(), 3u);
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(std::exchange(who, nullptr)),
              caf::exit_reason::user_shutdown);
    run();
    ASSERT_EQ(goods.ended.size(), 1u) << (local ? "local" : "remote");
    EXPECT_EQ(goods.ended[0].code, errc::session_aborted);
    EXPECT_EQ(goods.finished, 0u);
  }
}

TEST_F(Endings, AnOutletThatGoesWithoutCloseAbortsItsStream) {
  open_stream();
  offer(0, 3);
  tell(who, [](customer& c) { c.outlets.clear(); });
  ASSERT_EQ(goods.ended.size(), 1u);
  EXPECT_EQ(goods.ended[0].code, errc::session_aborted);
}

TEST_F(Endings, AnOutletThatIsAbortedBeforeItIsOpenLeavesNothingBehind) {
  open_stream();
  for (auto n : {1, 2, 3})
    tell(who, [&, n](customer& c) {
      auto items = lookup<Item>("shelf");
      outlet<Item> out{&c, items};
      if (n == 2)
        out.abort({errc::cancelled, outcome::not_executed, "not needed"});
    });
  dials(dialling::silent);
  cut();
  tell(who, [&](customer& c) {
    auto items = lookup<Item>("shelf");
    outlet<Item> out{&c, items};
  });
  advance(6s);
}

TEST_F(Endings, TheEndOfAStreamThatWasLostBeforeIsToldToWhoClosesIt) {
  open_stream();
  offer(0, 1);
  cut();
  std::optional<failure> why;
  tell(who, [&](customer& c) {
    c.outlets.back()->close().then([](uint64_t) { ADD_FAILURE(); }, [&](const failure& f) { why = f; });
  });
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->code, errc::link_lost);
}

TEST_F(Endings, ManySmallItemsPassWhateverTheLargestMessageIs) {
  for (bool local : {false, true}) {
    goods = {};
    link_settings.message_bytes_max = 8 << 10;
    open_stream(local);
    offer(0, 40, 1000);
    EXPECT_EQ(goods.numbers.size(), 40u) << (local ? "local" : "remote");
    EXPECT_THAT(goods.ended, ::testing::IsEmpty());
    tell(who, [](customer& c) { c.outlets.clear(); });
  }
}

TEST_F(Endings, ASessionWhoseActorIsStoppedIsOverForThePeerToo) {
  open_shop();
  ASSERT_EQ(server().loop->sessions.size(), 1u);
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(to.handle()), caf::exit_reason::kill);
  run();
  EXPECT_EQ(server().loop->sessions.size(), 0u);
  EXPECT_EQ(client().loop->sessions.size(), 0u);
}

} // namespace weir::test
