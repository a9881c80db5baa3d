// How much bulk may be on its way: a model of a link first, then between two muxes.
#include <gtest/gtest.h>

#include "net/pace.hpp"
#include "tests/support/mux_pair.hpp"

namespace weir::net {
namespace {

using namespace test::words;

constexpr uint64_t kib = 1 << 10, mib = 1 << 20;

TEST(Pace, StopsAtItsWindowUntilAMarkIsAnswered) {
  pace p;
  time_point now{seconds{1}};
  EXPECT_FALSE(p.wants_mark());
  p.sent(100 * kib);
  EXPECT_TRUE(p.wants_mark());
  p.mark(1, now);
  EXPECT_FALSE(p.wants_mark());
  p.sent(200 * kib);
  EXPECT_FALSE(p.is_open());
  now += milliseconds{1};
  EXPECT_EQ(p.answered(1, now), milliseconds{1});
  EXPECT_TRUE(p.is_open());
  EXPECT_EQ(p.under_way(), 200 * kib);
}

TEST(Pace, AnAnswerAnswersForTheMarksBeforeIt) {
  pace p;
  time_point now{seconds{1}};
  for (uint64_t n = 1; n <= 3; ++n) {
    p.sent(64 * kib);
    p.mark(n, now);
  }
  EXPECT_TRUE(p.answered(2, now + milliseconds{5}));
  EXPECT_EQ(p.under_way(), 64 * kib);
  EXPECT_FALSE(p.answered(1, now + milliseconds{6})) << "it is over";
  EXPECT_FALSE(p.answered(7, now + milliseconds{6})) << "nobody asked that";
  EXPECT_EQ(p.under_way(), 64 * kib);
  EXPECT_TRUE(p.has_mark());
}

TEST(Pace, HasNoMoreThanEightMarksOut) {
  pace p;
  for (uint64_t n = 1; n <= pace::marks_max; ++n) {
    p.sent(mib);
    EXPECT_TRUE(p.wants_mark());
    p.mark(n, time_point{seconds{1}});
  }
  p.sent(mib);
  EXPECT_FALSE(p.wants_mark());
}

TEST(Pace, WhoOffersLittleHasMeasuredNothing) {
  pace p;
  time_point now{seconds{1}};
  for (uint64_t n = 1; n <= 100; ++n, now += milliseconds{100}) {
    p.sent(64 * kib);
    p.mark(n, now);
    p.answered(n, now + milliseconds{20});
  }
  EXPECT_EQ(p.rate(), 0u);
  EXPECT_EQ(p.window(), pace::window_min);
}

/// A link that carries so much, with a sender that always has more; in steps of 100 us.
struct pipeline {
  uint64_t bytes_per_second;
  duration delay; // one way
  pace p{};
  time_point now{seconds{1}};
  uint64_t sent = 0, queued = 0, carried = 0;
  std::deque<std::pair<uint64_t, uint64_t>> marks{};     // behind so much of what was sent
  std::deque<std::pair<time_point, uint64_t>> answers{}; // when they come back
  uint64_t numbers = 0;

  void mark_if_due() {
    if (!p.wants_mark())
      return;
    p.mark(++numbers, now);
    marks.emplace_back(sent, numbers);
  }
  void run(duration time) {
    constexpr duration step = std::chrono::microseconds{100};
    for (auto end = now + time; now < end; now += step) {
      while (!answers.empty() && answers.front().first <= now) {
        p.answered(answers.front().second, now);
        answers.pop_front();
      }
      while (p.is_open()) {
        p.sent(16 * kib);
        sent += 16 * kib;
        mark_if_due();
      }
      mark_if_due();
      queued = sent - carried;
      carried += std::min(queued, bytes_per_second / 10'000);
      while (!marks.empty() && marks.front().first <= carried) {
        answers.emplace_back(now + 2 * delay, marks.front().second);
        marks.pop_front();
      }
    }
  }
};

TEST(Pace, FillsALongFatPipe) {
  pipeline l{125'000'000, milliseconds{10}}; // 1 Gbit/s, 20 ms: 2.5 MB under way
  l.run(seconds{1});
  auto before = l.carried;
  l.run(seconds{30});
  EXPECT_GE(l.carried - before, 29 * 125'000'000u) << "the time in which it measures included";
  EXPECT_LE(l.p.window(), 6'500'000u) << "and its queue is no longer than the pipe";
}

TEST(Pace, KeepsTheQueueOfAThinPipeShort) {
  pipeline l{1'250'000, milliseconds{1}}; // 10 Mbit/s
  l.run(seconds{35});
  EXPECT_EQ(l.p.window(), pace::window_min);
  EXPECT_NEAR(static_cast<double>(l.p.rate()), 1'250'000, 250'000);
}

TEST(Pace, FindsOutThatThePipeHasBecomeThinner) {
  pipeline l{125'000'000, milliseconds{10}};
  l.run(seconds{2});
  l.bytes_per_second = 12'500'000;
  l.run(seconds{35});
  EXPECT_LE(l.p.window(), 1'500'000u);
}

// ---- between two muxes

class Paced : public ::testing::Test {
protected:
  Paced() : p(settings(client_settings()), settings(server_settings())) {
    p.connect();
    s = &p.client.open("sink", true);
    p.exchange();
  }
  static peer::settings settings(peer::settings s) {
    s.ration = {8 * mib, 8192, 4};
    s.inbound = {64 * mib, 8 * mib};
    s.outbound_bytes = 64 * mib;
    return s;
  }
  void post_bulk(int n) {
    for (int i = 0; i < n; ++i)
      p.client.post(*s, bytes(60'000), lane::bulk);
  }
  /// Writes until nothing more may leave; the server reads nothing.
  void write_all() {
    while (p.write(p.client, p.to_server)) {
    }
  }

  mux_pair p;
  session* s = nullptr;
};

TEST_F(Paced, NoMoreBulkIsOnItsWayThanTheWindow) {
  post_bulk(40);
  write_all();
  EXPECT_GE(p.to_server.size(), pace::window_min);
  EXPECT_LE(p.to_server.size(), pace::window_min + (80 << 10));
  EXPECT_FALSE(p.client.link.wants_write()) << "or it would try without end";
  p.exchange();
  EXPECT_EQ(p.server.count(type::item), 40u);
}

TEST_F(Paced, WhatIsMoreUrgentIsNotHeldBack) {
  post_bulk(40);
  write_all();
  auto before = p.to_server.size();
  p.client.post(*s, bytes(100));
  EXPECT_TRUE(p.client.link.wants_write());
  write_all();
  EXPECT_GT(p.to_server.size(), before);
  for (int i = 0; i < 20; ++i)
    p.client.post(*s, bytes(60'000));
  write_all();
  EXPECT_GT(p.to_server.size(), before + 20 * 60'000);
}

TEST_F(Paced, BulkOfAPeerThatReadsNothingLeavesNoMoreThanOnce) {
  post_bulk(40);
  write_all();
  for (int i = 0; i < 5; ++i) {
    p.now += seconds{1};
    p.client.link.tick(p.now);
    write_all();
  }
  EXPECT_LE(p.to_server.size(), pace::window_min + (80 << 10));
}

} // namespace
} // namespace weir::net
