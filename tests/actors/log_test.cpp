// What a node writes about what went wrong: every reason is counted, few lines are written.
#include <gmock/gmock.h>

#include "actors/log.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre, ::testing::IsEmpty;

class Journal : public testing::Test {
protected:
  std::unique_ptr<journal> make(log_level level) {
    return std::make_unique<journal>(journal::options{
        .level = level,
        .period = 10s,
        .node = "test",
        .write = [this](log_level l, const std::string& text) { lines.emplace_back(l, text); },
        .now = [this] { return now; }});
  }
  static void note(journal& j, errc code, std::string text = "why", uint64_t times = 1) {
    j.note(code, times, [&] { return text; });
  }

  std::vector<std::pair<log_level, std::string>> lines;
  journal::clock::time_point now{};
};

TEST_F(Journal, WritesAReasonOncePerPeriodAndSaysHowManyItLeftOut) {
  auto j = make(log_level::warning);
  for (int i = 0; i < 1000; ++i)
    note(*j, errc::bad_magic, "not ours");
  EXPECT_THAT(lines, ElementsAre(std::pair{log_level::warning, std::string{"bad_magic: not ours"}}));
  lines.clear();
  now += 10s;
  note(*j, errc::bad_magic, "again", 3);
  EXPECT_THAT(lines,
              ElementsAre(std::pair{log_level::warning, std::string{"bad_magic: again (1001 more since the "
                                                                    "last such line)"}}));
  EXPECT_EQ(j->reasons().size(), 1u);
  EXPECT_EQ(j->reasons()[0].code, errc::bad_magic);
  EXPECT_EQ(j->reasons()[0].times, 1003u);
}

TEST_F(Journal, OneReasonDoesNotSilenceAnother) {
  auto j = make(log_level::warning);
  note(*j, errc::bad_magic);
  note(*j, errc::wrong_cluster);
  EXPECT_EQ(lines.size(), 2u);
}

TEST_F(Journal, CountsWhatItsLevelKeepsBack) {
  auto j = make(log_level::error);
  note(*j, errc::bad_magic);
  note(*j, errc{200}); // from a newer peer
  EXPECT_THAT(lines, IsEmpty());
  ASSERT_EQ(j->reasons().size(), 2u);
  EXPECT_EQ(j->reasons()[1].code, errc{200});
}

TEST_F(Journal, OrderlyEndsAreForInfoAndGivenUpCallsForDebug) {
  for (auto [level, written] :
       {std::pair{log_level::warning, 0u}, {log_level::info, 1u}, {log_level::debug, 2u}}) {
    lines.clear();
    auto j = make(level);
    note(*j, errc::going_away);
    note(*j, errc::cancelled);
    EXPECT_EQ(lines.size(), written) << to_string(level);
  }
}

TEST_F(Journal, LinesOfLinksAreBoundedToo) {
  auto j = make(log_level::info);
  for (uint64_t i = 0; i < 2 * journal::links_per_period; ++i)
    j->link([] { return "up"; });
  EXPECT_EQ(lines.size(), journal::links_per_period);
  now += 10s;
  j->link([] { return "up"; });
  EXPECT_EQ(lines.back().second, "up (100 more since the last such line)");
}

TEST_F(Journal, APeersTextStaysOnItsLine) {
  auto j = make(log_level::warning);
  note(*j, errc::session_aborted, "a\nforged line\x1b[2J");
  EXPECT_EQ(lines.at(0).second, "session_aborted: a?forged line?[2J");
}

} // namespace
} // namespace weir::actors
