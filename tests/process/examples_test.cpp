// The examples, as a user runs them: what they print, what they return, and that they say what is wrong.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.hpp"

namespace weir::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string example(const std::string& name) { return WEIR_EXAMPLES_DIR "/" + name; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);)
    all.push_back(line);
  return all;
}

/// The number at `key` in JSON on one line, from `start` on.
double number(const std::string& json, const std::string& key, size_t start = 0) {
  auto at = json.find("\"" + key + "\":", start);
  return at == std::string::npos ? -1 : std::strtod(json.c_str() + at + key.size() + 3, nullptr);
}

std::string shell(const std::string& script) {
  auto end = run({"/bin/sh", "-c", script}, {{"LC_ALL", "C"}});
  EXPECT_EQ(end.status, 0) << end.err;
  return end.out;
}

// ---- calculator

TEST(Calculator, AnswersAndReportsTheErrorOfAHandler) {
  scratch dir;
  for (std::string at : {std::string{"tcp://127.0.0.1:0"}, "unix://" + dir.path("calculator.sock")}) {
    process server{{example("calculator_server"), "--listen", at}};
    auto client = run({example("calculator_client"), "--connect", server.ready()});
    EXPECT_EQ(client.status, 0);
    EXPECT_THAT(lines_of(client.out),
                ElementsAre("20 + 22 = 42", "1 / 0: handler_failed (unknown): division by zero"));
    EXPECT_EQ(server.stop().status, 0);
  }
}

TEST(Calculator, SaysWhyItCannotStart) {
  process first{{example("calculator_server"), "--listen", "tcp://127.0.0.1:0"}};
  auto second = run({example("calculator_server"), "--listen", first.ready()});
  EXPECT_EQ(second.status, 2);
  EXPECT_THAT(lines_of(second.err), ElementsAre(HasSubstr("the port is in use")));
}

// ---- pipeline

struct pipeline_run {
  std::vector<std::string> produced, passed, consumed;
};

pipeline_run run_pipeline(int streams, int numbers, const std::vector<std::string>& consumer_options = {},
                          const std::vector<std::pair<std::string, std::string>>& variables = {}) {
  std::vector<std::string> words{example("pipeline_consumer"), "--listen", "tcp://127.0.0.1:0", "--streams",
                                 std::to_string(streams)};
  words.insert(words.end(), consumer_options.begin(), consumer_options.end());
  process consumer{words, variables};
  process stage{{example("pipeline_stage"), "--listen", "tcp://127.0.0.1:0", "--connect", consumer.ready()},
                variables};
  auto producer = run({example("pipeline_producer"), "--connect", stage.ready(), "--streams",
                       std::to_string(streams), "--numbers", std::to_string(numbers)},
                      variables);
  auto end = consumer.end();
  EXPECT_EQ(producer.status, 0) << producer.err;
  EXPECT_EQ(end.status, 0) << end.err;
  pipeline_run r{lines_of(producer.out), {}, lines_of(end.out)};
  for (int i = 0; i < streams; ++i)
    r.passed.push_back(stage.line().value_or("nothing"));
  EXPECT_EQ(stage.stop().status, 0);
  return r;
}

TEST(Pipeline, PassesOnEveryNumberOfEveryStream) {
  auto r = run_pipeline(3, 50'000);
  auto sum = 50'000ull * 50'001 / 2;
  std::vector<std::string> three(3, fmt::format("produced 50000 sum {} consumed 50000", sum));
  EXPECT_EQ(r.produced, three);
  EXPECT_EQ(r.consumed, std::vector<std::string>(3, fmt::format("consumed 50000 sum {} wrong 0", sum)));
  for (auto& line : r.passed)
    EXPECT_THAT(line, StartsWith("passed on 50000 consumed 50000"));
}

TEST(Pipeline, KeepsNoMoreThanARationOfAStreamWhoseConsumerIsSlow) {
  auto r = run_pipeline(2, 3'000, {"--pause", "100us"},
                        {{"WEIR_RATION", "16KiB"}, {"WEIR_RATION_MESSAGES", "50"}});
  ASSERT_EQ(r.passed.size(), 2u);
  for (auto& line : r.passed) {
    auto most = std::strtoull(line.c_str() + line.rfind(' '), nullptr, 10);
    EXPECT_GT(most, 0u) << line;
    EXPECT_LE(most, 50u) << line;
  }
  EXPECT_EQ(r.consumed.size(), 2u);
}

// ---- wordcount

process::ending count(std::vector<std::string> words,
                      const std::vector<std::pair<std::string, std::string>>& variables = {}) {
  words.insert(words.begin(), example("wordcount"));
  words.emplace_back("--json");
  return run(std::move(words), variables);
}

/// What coreutils say about all files of a directory or file: "lines words bytes" and ten times "count word".
void expect_as_coreutils(const std::string& json, const std::string& path) {
  auto files = "find -H '" + path + "' -xtype f ";
  auto totals = shell(files +
                      "-print0 | wc -l -w -c --files0-from=- | tail -n 1 | awk '{ print $1, $2, $3 }'");
  EXPECT_EQ(fmt::format("{} {} {}\n", number(json, "lines"), number(json, "words"), number(json, "bytes")),
            totals);
  auto top = shell(files +
                   R"(-exec sh -c 'for f; do tr -cs A-Za-z "\n" <"$f"; echo; done' sh {} + | grep . | sort |
    uniq -c | sort -k1,1nr -k2,2 | awk 'NR <= 10 { printf "{\"word\":\"%s\",\"count\":%s}\n", $2, $1 }')");
  auto at = json.find("\"top\":[");
  ASSERT_NE(at, std::string::npos) << json;
  auto ours = json.substr(at + 7, json.rfind(']') - at - 7);
  std::string theirs;
  for (auto& entry : lines_of(top))
    theirs += (theirs.empty() ? "" : ",") + entry;
  EXPECT_EQ(ours, theirs);
}

/// Words of our own, so that the test needs nothing but itself.
std::string some_text(size_t bytes, uint32_t seed) {
  std::mt19937 random{seed};
  std::string text;
  while (text.size() < bytes) {
    text += fmt::format("{}{}", std::string(1 + random() % 3, static_cast<char>('a' + random() % 26)),
                        random() % 10 ? "" : "'s");
    text += " \n\t.\f-"[random() % 6 % (1 + random() % 6)];
  }
  return text;
}

TEST(Wordcount, CountsATreeAsCoreutilsDo) {
  scratch dir;
  for (int i = 0; i < 40; ++i)
    dir.file(fmt::format("tree/{}/{}.txt", i % 4, i), some_text(i * 1000, i + 1));
  dir.file("tree/empty", "");
  dir.file("tree/open end", "no line feed here");
  dir.file("outside", "linked text\n");
  shell("cd '" + dir.path("tree") + "' && ln -s ../outside link && ln -s .. up && ln -s nowhere broken");
  for (auto workers : {"1", "3"}) {
    auto end = count({"--workers", workers, dir.path("tree")});
    ASSERT_EQ(end.status, 0) << end.err;
    expect_as_coreutils(end.out, dir.path("tree"));
    EXPECT_EQ(end.err, "");
  }
}

TEST(Wordcount, CountsBytesThatAreNoText) {
  scratch dir;
  std::mt19937 random{7};
  std::string noise(300'000, '\0');
  for (auto& c : noise)
    c = static_cast<char>(random() % 4 ? random() % 128 : random() % 256);
  dir.file("all/noise", noise);
  dir.file("all/one long word",
           "x" + std::string(150'000, 'y') + " end\n" + std::string(100'000, '-') + "of it");
  auto end = count({"--chunk", "1k", dir.path("all")});
  ASSERT_EQ(end.status, 0) << end.err;
  auto totals = shell("cat '" + dir.path("all") + "'/* | wc -l -c | awk '{ print $1, $2 }'");
  EXPECT_EQ(fmt::format("{} {}\n", number(end.out, "lines"), number(end.out, "bytes")), totals);
  EXPECT_EQ(number(end.out, "long_words"), 1); // more letters than the vocabulary keeps
}

TEST(Wordcount, CountsAFileLargerThanTheBudgetInBoundedMemory) {
  scratch dir;
  auto part = some_text(1 << 20, 3);
  {
    std::ofstream big{dir.path("big")};
    for (int i = 0; i < 20; ++i)
      big << part;
  }
  auto end = count({"--budget-bytes", "8MiB", "--ration", "256KiB", dir.path("big")});
  ASSERT_EQ(end.status, 0) << end.err;
  expect_as_coreutils(end.out, dir.path("big"));
#if !defined(__SANITIZE_ADDRESS__)
  for (auto at = end.out.find("peak_rss_mb"); at != std::string::npos;
       at = end.out.find("peak_rss_mb", at + 1))
    EXPECT_LT(number(end.out, "peak_rss_mb", at - 1), 18) << end.out; // MB
#endif
}

TEST(Wordcount, NamesBadInputInOneLine) {
  scratch dir;
  dir.file("file", "text");
  struct bad {
    std::vector<std::string> words;
    std::string names;
  };
  for (auto& [words, names] :
       {bad{{dir.path("missing")}, dir.path("missing")}, bad{{"/dev/null"}, "/dev/null"},
        bad{{"/proc/1/mem"}, "/proc/1/mem"}, bad{{"--workers", "0", dir.path()}, "--workers"},
        bad{{"--workers", "65", dir.path()}, "--workers"}, bad{{"--workers", "two", dir.path()}, "--workers"},
        bad{{"--chunk", "0", dir.path()}, "--chunk"}, bad{{"--unknown", dir.path()}, "--unknown"},
        bad{{}, "name a file"}}) {
    auto end = count(words);
    EXPECT_EQ(end.status, 2) << names;
    EXPECT_THAT(lines_of(end.err), ElementsAre(HasSubstr(names)));
    EXPECT_EQ(end.out, "");
  }
}

/// Processes whose command line has `word`: here, those that were started with a path of the test's own.
std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> all;
  for (auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    std::ifstream in{entry.path() / "cmdline"};
    std::string text{std::istreambuf_iterator<char>{in}, {}};
    if (text.find(word) != std::string::npos)
      all.push_back(static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10)));
  }
  return all;
}

uint64_t bytes_read_by(pid_t pid) {
  std::ifstream in{fmt::format("/proc/{}/io", pid)};
  std::string word;
  uint64_t n = 0;
  in >> word >> n; // rchar: N
  return n;
}

TEST(Wordcount, FailsWhenAWorkerIsKilled) {
  scratch dir;
  std::filesystem::resize_file(dir.file("long", ""),
                               uint64_t{4} << 30); // holes: it takes seconds, but no disk
  process run{{example("wordcount"), "--workers", "2", dir.path("long")}};
  ASSERT_TRUE(eventually([&] { return bytes_read_by(run.pid()) > 4 << 20 || !run.running(); }));
  for (auto pid : processes_with(dir.path("long")))
    if (pid != run.pid())
      kill(pid, SIGKILL);
  auto end = run.end();
  EXPECT_EQ(end.status, 1);
  EXPECT_THAT(lines_of(end.err), ElementsAre(AllOf(HasSubstr("worker"), HasSubstr("link_lost"))));
}

TEST(Wordcount, LeavesNoProcessBehind) {
  scratch dir;
  auto path = dir.file("text", "a few words");
  EXPECT_EQ(run({example("wordcount"), "--workers", "3", path}).status, 0);
  EXPECT_TRUE(processes_with(path).empty());
  std::filesystem::resize_file(path, uint64_t{4} << 30);
  process killed{{example("wordcount"), "--workers", "3", path}};
  ASSERT_TRUE(eventually([&] { return processes_with(path).size() == 4; }));
  killed.send(SIGKILL);
  EXPECT_EQ(killed.end().status, 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return processes_with(path).empty(); }));
}

} // namespace
} // namespace weir::test
