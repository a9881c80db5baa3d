// Very many of what is rare: in the end nothing may be left of it, not a byte, descriptor or thread.
#include <filesystem>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t many = 5'000;
#else
constexpr uint64_t many = 100'000;
#endif

size_t entries(const char* directory) {
  using files = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(files{directory}, files{}));
}

/// Two nodes with a link and a session between them; what they had then they must have again.
class Storms : public ::testing::Test {
protected:
  Storms() : server_(machine::listening()) {
    EXPECT_TRUE(server_.node().serve<Probe>("probe", server_.node().spawn<probe>()));
    EXPECT_TRUE(server_.node().serve<Piece>("catcher", server_.node().spawn<catcher>(seen_)));
    to_ = client_.node().lookup<Probe>("probe", server_.address());
    EXPECT_EQ(client_.call<echo>(to_, data_of(10)), failure{});
    descriptors_ = entries("/proc/self/fd");
    threads_ = entries("/proc/self/task");
  }
  void TearDown() override {
    to_ = {};
    EXPECT_TRUE(client_.is_at_base_line());
    EXPECT_TRUE(server_.is_at_base_line());
    EXPECT_EQ(entries("/proc/self/fd"), descriptors_);
    EXPECT_EQ(entries("/proc/self/task"), threads_);
  }
  /// Runs `f(hand&)` on the client's actor until it is false, a thousand times per turn, and between two
  /// turns waits until `settled()`.
  void repeat(
      const std::function<bool(hand&)>& f, const std::function<bool()>& settled = [] { return true; }) {
    for (std::atomic<bool> more{true}; more;) {
      std::promise<void> done;
      client_.tell([&](hand& h) {
        for (int i = 0; i < 1000 && more; ++i)
          more = f(h);
        done.set_value();
      });
      done.get_future().wait();
      ASSERT_TRUE(eventually(settled));
    }
  }

  std::shared_ptr<seen> seen_ = std::make_shared<seen>();
  machine server_, client_;
  ref<Probe> to_;

private:
  size_t descriptors_ = 0, threads_ = 0;
};

TEST_F(Storms, OfCancelsEndEveryCallOnce) {
  uint64_t started = 0;
  std::atomic<uint64_t> ended{0}, cancelled{0};
  repeat([&](hand& h) {
    auto id = h.call<keep>(to_, data_of(200))
                  .then([&](keep::result) { ++ended; },
                        [&](const failure& why) {
                          ++ended;
                          cancelled += why.code == errc::cancelled;
                        });
    h.cancel(id);
    return ++started < many;
  });
  EXPECT_TRUE(eventually([&] { return ended == many; })) << ended << " of " << many;
  EXPECT_GT(cancelled, many / 2); // the others found the send buffer full
}

TEST_F(Storms, OfOpensWithAbortLeaveNoSession) {
  uint64_t opened = 0;
  repeat([&](hand& h) {
    auto to = client_.node().lookup<Piece>("catcher", server_.address());
    weir::outlet<Piece> out{&h, to};
    if (opened % 3 == 0)
      out.offer([](Piece::Builder p) { p.initData(100); });
    if (opened % 2 == 0)
      out.abort({errc::cancelled, outcome::not_executed, "not wanted"});
    return ++opened < many;
  });
  EXPECT_EQ(client_.call<echo>(to_, data_of(10)), failure{}); // the link has lived through it
}

TEST_F(Storms, OfHandlersThatThrowAnswerEveryCall) {
  uint64_t started = 0;
  std::atomic<uint64_t> failed{0}, other{0};
  auto call = [&](hand& h) {
    h.call<throws>(to_, data_of(200))
        .then([&](throws::result) { ++other; },
              [&](const failure& why) { ++(why.code == errc::handler_failed ? failed : other); });
    return ++started < many / 2;
  };
  repeat(call, [&] { return failed + other == started; }); // fewer at a time than calls-max
  EXPECT_EQ(failed, many / 2);
}

/// Sessions to one service that outlives them all: on a loop of its node or on CAF's scheduler, across a link
/// or within its node.
class SessionStorms : public ::testing::TestWithParam<std::tuple<bool, bool>> {
protected:
  SessionStorms() : server_(machine::listening()) {
    by_ = std::get<0>(GetParam()) ? caf::actor{server_.system().spawn<probe>()}
                                  : server_.node().spawn<probe>();
    EXPECT_TRUE(server_.node().serve<Probe>("probe", by_));
  }
  ~SessionStorms() override { end_service(); }
  bool is_local() const { return std::get<1>(GetParam()); }
  machine& from() { return is_local() ? server_ : client_; }
  ref<Probe> lookup() {
    return is_local() ? server_.node().lookup<Probe>("probe")
                      : client_.node().lookup<Probe>("probe", server_.address());
  }
  /// So many, some at a time, each with a call.
  void open_and_close(uint64_t n) {
    constexpr uint64_t at_a_time = 50;
    for (uint64_t done = 0; done < n; done += at_a_time) {
      std::vector<ref<Probe>> sessions;
      std::vector<std::future<failure>> ends;
      for (uint64_t i = 0; i < at_a_time; ++i) {
        sessions.push_back(lookup());
        ends.push_back(from().start<echo>(sessions.back(), {}, data_of(10), [](auto) {}));
      }
      for (auto& e : ends)
        ASSERT_EQ(e.get(), failure{});
    }
  }
  void end_service() {
    send_exit(caf::actor_cast<caf::strong_actor_ptr>(by_), caf::exit_reason::user_shutdown);
    by_ = nullptr;
  }

  machine server_, client_;
  caf::actor by_;
};

TEST_P(SessionStorms, CostNoMemoryWhileTheServiceLives) {
  open_and_close(many / 20); // everybody is warm
  ASSERT_TRUE(from().is_at_base_line());
  auto before = memory_bytes(getpid(), "VmRSS");
  open_and_close(many / 2);
  EXPECT_TRUE(client_.is_at_base_line());
  EXPECT_TRUE(server_.is_at_base_line());
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(memory_bytes(getpid(), "VmRSS"),
            before + (8 << 20)); // 170 bytes each; a session has 1 KiB and more
#else
  static_cast<void>(before);
#endif
}

TEST_P(SessionStorms, AreAllToldOfTheEndOfTheService) {
  open_and_close(500);
  std::vector<ref<Probe>> sessions;
  std::vector<std::future<failure>> ends;
  for (int i = 0; i < 100; ++i) {
    sessions.push_back(lookup());
    ASSERT_EQ(from().call<echo>(sessions.back(), data_of(10)), failure{});
    ends.push_back(from().start<keep>(sessions.back(), {.timeout = 60s}, data_of(10), [](auto) {}));
  }
  end_service();
  for (auto& e : ends) {
    ASSERT_EQ(e.wait_for(process::patience), std::future_status::ready) << "nobody has told it";
    auto why = e.get();
    EXPECT_TRUE(why.code == errc::service_down || why.code == errc::handler_failed)
        << why.text; // as it is dropped
    EXPECT_EQ(why.what, outcome::unknown);
  }
  auto to = lookup();
  EXPECT_EQ(from().call<echo>(to, data_of(10)).code, errc::no_such_service);
  to = {};
  sessions.clear();
  EXPECT_TRUE(client_.is_at_base_line());
  EXPECT_TRUE(server_.is_at_base_line());
}

INSTANTIATE_TEST_SUITE_P(Everywhere, SessionStorms, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](auto& i) {
                           return std::string{std::get<0>(i.param) ? "Scheduler" : "Loop"} +
                                  (std::get<1>(i.param) ? "Local" : "Remote");
                         });

/// A -> B -> A -> ... with every handler holding its request, through a ration of four messages (R6).
TEST(Depth, OfTwoHundredAndFiftySixEndsInSuccessOrOverloaded) {
  for (uint64_t held : {uint64_t{4096}, uint64_t{16}}) {
    auto o = machine::listening();
    o.ration_messages = 4;
    o.held_messages = held;
    machine here{o}, there{o};
    auto to_here = std::make_shared<ref<Probe>>(), to_there = std::make_shared<ref<Probe>>();
    ASSERT_TRUE(here.node().serve<Probe>("probe", here.node().spawn<probe>(to_there)));
    ASSERT_TRUE(there.node().serve<Probe>("probe", there.node().spawn<probe>(to_here)));
    *to_here = there.node().lookup<Probe>("probe", here.address());
    *to_there = here.node().lookup<Probe>("probe", there.address());
    auto end = here.call<nest>(
        *to_there, {.timeout = 5s}, [](nest::args a) { a.setDepth(256), a.initData(100); }, [](auto) {});
    EXPECT_EQ(end.code, held == 16 ? errc::overloaded : errc::none) << to_string(end);
    *to_here = *to_there = {};
    EXPECT_TRUE(here.is_at_base_line());
    EXPECT_TRUE(there.is_at_base_line());
  }
}

} // namespace
} // namespace weir::test
