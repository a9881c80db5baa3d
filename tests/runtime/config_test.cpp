#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>

#include <stdlib.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <weir/caf.hpp>
#include <weir/config.hpp>

namespace weir {
namespace {

using namespace std::chrono_literals;

/// A program's own options, one of each kind.
struct calculator_config : config {
  int precision = 10;
  double factor = 1.5;
  bool verbose = false;
  std::string title = "sums # and products";
  std::vector<std::string> words = {"x,y", "z"};
  byte_size chunk{64 << 10};
  std::chrono::milliseconds pause{5};

  calculator_config() {
    about("Adds numbers.");
    add_option("calculator.precision", "digits that are kept", precision, 1, 100);
    add_option("calculator.factor", "for all sums", factor);
    add_option("verbose", "say more", verbose);
    add_option("calculator.title", "of the report", title);
    add_option("calculator.words", "that are known", words);
    add_option("calculator.chunk", "read at once", chunk, {1 << 10}, {1 << 30});
    add_option("calculator.pause", "between two sums", pause);
  }
};

class Config : public testing::Test {
protected:
  ~Config() override {
    unlink(file_.c_str());
    for (const auto& name : variables_)
      unsetenv(name.c_str());
  }

  void set_variable(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  /// `--config=FILE`, with that text in it.
  std::string file(std::string_view text) {
    std::ofstream(file_) << text;
    return "--config=" + file_;
  }

  result<config::action> load(config& cfg, std::vector<std::string> words) {
    std::vector<const char*> argv{"/usr/bin/calculator"};
    for (const auto& w : words)
      argv.push_back(w.c_str());
    return cfg.load(static_cast<int>(argv.size()), argv.data());
  }

  /// The configuration that a program with these arguments runs with.
  std::unique_ptr<calculator_config> loaded(const std::vector<std::string>& words) {
    auto cfg = std::make_unique<calculator_config>();
    auto next = load(*cfg, words);
    EXPECT_TRUE(next) << next.error().text;
    EXPECT_TRUE(next && *next == config::action::run);
    return cfg;
  }

  /// In `words`, FILE stands for the path of the file.
  void expect_error(const std::vector<std::string>& args, std::string words, errc code = errc::bad_option) {
    calculator_config cfg;
    auto next = load(cfg, args);
    ASSERT_FALSE(next) << "expected: " << words;
    if (auto at = words.find("FILE"); at != std::string::npos)
      words.replace(at, 4, file_);
    EXPECT_EQ(next.error().text, words);
    EXPECT_EQ(next.error().code, code);
    EXPECT_EQ(next.error().text.find('\n'), std::string::npos);
  }

  void expect_file_error(std::string_view text, std::string words) {
    expect_error({file(text)}, std::move(words));
  }

  void expect_printed(const std::vector<std::string>& words, std::string_view part) {
    calculator_config cfg;
    testing::internal::CaptureStdout();
    auto next = load(cfg, words);
    auto printed = testing::internal::GetCapturedStdout();
    ASSERT_TRUE(next) << next.error().text;
    EXPECT_EQ(*next, config::action::exit_ok);
    EXPECT_NE(printed.find(part), std::string::npos) << printed;
  }

  std::string file_ = testing::TempDir() + "weir-config-" + std::to_string(getpid()) + ".conf";
  std::vector<std::string> variables_;
};

// ---- where values come from

TEST_F(Config, HasDefaults) {
  auto cfg = loaded({});
  EXPECT_EQ(cfg->options().ration, automatic);
  EXPECT_EQ(cfg->options().ration_messages, 0u) << "they follow the bytes";
  EXPECT_EQ(cfg->options().spin, 20us);
  EXPECT_EQ(cfg->options().cluster, "weir");
  EXPECT_GE(cfg->options().io_threads, 1u);
  EXPECT_EQ(cfg->precision, 10);
  EXPECT_TRUE(cfg->arguments().empty());
}

TEST_F(Config, ReadsAFile) {
  auto cfg = loaded({file("# comment\n"
                          "verbose = true\n"
                          "weir.spin = 5us # comment\n"
                          "\r\n"
                          "[weir] # comment\n"
                          "ration=256KiB\r\n"
                          "  listen = tcp://[::]:7000-7010, unix:///run/a.sock  \n"
                          "cluster = a#b\n"
                          "[calculator]\n"
                          "title = \" # quoted\" # comment\n"
                          "words = [\"a # b\", c]\n"
                          "pause = 7ms")});
  EXPECT_TRUE(cfg->verbose);
  EXPECT_EQ(cfg->options().spin, 5us);
  EXPECT_EQ(cfg->options().ration, 256u << 10);
  EXPECT_EQ(cfg->options().listen, (std::vector<std::string>{"tcp://[::]:7000-7010", "unix:///run/a.sock"}));
  EXPECT_EQ(cfg->options().cluster, "a#b");
  EXPECT_EQ(cfg->title, " # quoted");
  EXPECT_EQ(cfg->words, (std::vector<std::string>{"a # b", "c"}));
  EXPECT_EQ(cfg->pause, 7ms);
}

TEST_F(Config, ReadsTheEnvironment) {
  set_variable("WEIR_RATION", "64k");
  set_variable("WEIR_IO_THREADS", "3");
  set_variable("WEIR_CALCULATOR_PRECISION", "7");
  set_variable("WEIR_VERBOSE", "true");
  auto cfg = loaded({});
  EXPECT_EQ(cfg->options().ration, 64u << 10);
  EXPECT_EQ(cfg->options().io_threads, 3u);
  EXPECT_EQ(cfg->precision, 7);
  EXPECT_TRUE(cfg->verbose);
}

TEST_F(Config, FindsItsFileThroughTheEnvironment) {
  file("[weir]\nration = 64k\n");
  set_variable("WEIR_CONFIG", file_);
  EXPECT_EQ(loaded({})->options().ration, 64u << 10);
}

TEST_F(Config, ReadsTheCommandLine) {
  auto cfg = loaded({"--weir.ration=64k", "--ration-messages", "99", "--verbose", "--precision=7",
                     "--calculator.factor", "-2.5", "--chunk=2m", "--title", "a \"b\" # c"});
  EXPECT_EQ(cfg->options().ration, 64u << 10);
  EXPECT_EQ(cfg->options().ration_messages, 99u);
  EXPECT_TRUE(cfg->verbose);
  EXPECT_EQ(cfg->precision, 7);
  EXPECT_EQ(cfg->factor, -2.5);
  EXPECT_EQ(cfg->chunk, byte_size{2 << 20});
  EXPECT_EQ(cfg->title, "a \"b\" # c");
}

TEST_F(Config, ReadsInf) { EXPECT_EQ(loaded({"--ration=inf"})->options().ration, infinite); }

TEST_F(Config, LaterSourcesWin) {
  auto conf = file("[weir]\nration = 64k\nfragment = 8k\ngrant-at = 2\nlisten = tcp://a:1\n");
  set_variable("WEIR_RATION", "128k");
  set_variable("WEIR_FRAGMENT", "16k");
  auto cfg = loaded({"--ration=256k", conf, "--listen=tcp://b:1"});
  EXPECT_EQ(cfg->options().ration, 256u << 10);
  EXPECT_EQ(cfg->options().fragment, 16u << 10);
  EXPECT_EQ(cfg->options().grant_at, 2u);
  EXPECT_EQ(cfg->options().listen, std::vector<std::string>{"tcp://b:1"});
}

TEST_F(Config, AProgramMayHaveOtherDefaults) {
  calculator_config cfg;
  cfg.defaults().ration = 64 << 10;
  EXPECT_TRUE(load(cfg, {}));
  EXPECT_EQ(cfg.options().ration, 64u << 10);
}

TEST_F(Config, ARepeatedListAddsItems) {
  auto cfg = loaded({"--listen=tcp://a:1", "--weir.listen", "tcp://b:1,tcp://c:1"});
  EXPECT_EQ(cfg->options().listen, (std::vector<std::string>{"tcp://a:1", "tcp://b:1", "tcp://c:1"}));
}

TEST_F(Config, KeepsArguments) {
  auto cfg = loaded({"one", "--verbose", "two", "-", "--", "--ration", "-x"});
  EXPECT_EQ(cfg->arguments(), (std::vector<std::string>{"one", "two", "-", "--ration", "-x"}));
}

// ---- CAF's options

TEST_F(Config, SetsDefaultsForCafsScheduler) {
  auto cfg = loaded({});
  auto dump = cfg->dump();
  EXPECT_NE(dump.find("scheduler.policy = sharing"), std::string::npos);
  EXPECT_NE(dump.find("scheduler.max-throughput = 300"), std::string::npos);
  EXPECT_NE(dump.find("work-stealing.moderate-poll-attempts = 0"), std::string::npos);
}

TEST_F(Config, PassesCafsOptionsOn) {
  set_variable("WEIR_CAF_SCHEDULER_MAX_THROUGHPUT", "77");
  auto cfg = loaded(
      {"--caf.scheduler.max-threads=3", file("[caf]\nscheduler.policy = stealing\n"
                                             "[caf.work-stealing]\nrelaxed-sleep-duration = 7ms\n")});
  EXPECT_EQ(caf::get_or(*cfg, caf_key("scheduler.max-threads"), uint64_t{0}), 3u);
  EXPECT_EQ(caf::get_or(*cfg, caf_key("scheduler.max-throughput"), uint64_t{0}), 77u);
  EXPECT_EQ(caf::get_or(*cfg, caf_key("work-stealing.relaxed-sleep-duration"), caf::timespan{0}), 7ms);
  EXPECT_NE(cfg->dump().find("scheduler.policy = stealing"), std::string::npos);
}

TEST_F(Config, RefusesCafsOptionsThatAreWrong) {
  std::string uint64_name = WEIR_CAF_1X ? "uint64_t" : "uint64";
  expect_error({"--caf.scheduler.max-thread=1"},
               "--caf.scheduler.max-thread: unknown option; did you mean --caf.scheduler.max-threads?");
  expect_error({"--caf.scheduler.policy=none"},
               "--caf.scheduler.policy: 'none' is neither sharing nor stealing");
  expect_error({"--caf.scheduler.max-throughput=x"},
               "--caf.scheduler.max-throughput: 'x' is not of CAF's type " + uint64_name);
  expect_error({"--max-threads=1"}, "--max-threads: unknown option; did you mean --io-threads?");
}

// ---- errors name what and where

TEST_F(Config, NamesUnknownOptions) {
  expect_error({"--rations=64k"}, "--rations: unknown option; did you mean --ration?");
  expect_error({"--weir.rations=64k"}, "--weir.rations: unknown option; did you mean --weir.ration?");
  expect_error({"--io_threads=1"}, "--io_threads: unknown option; did you mean --io-threads?");
  expect_error({"--helpp"}, "--helpp: unknown option; did you mean --help?");
  expect_error({"--something-else"}, "--something-else: unknown option; --help shows them all");
  expect_error({"-x"}, "-x: unknown option; --help shows them all");
}

TEST_F(Config, NamesUnknownKeysWithTheirLine) {
  expect_file_error("\n[weir]\nrations = 1\n",
                    "FILE:3: rations: unknown option in [weir]; did you mean ration?");
  expect_file_error("rations = 1\n", "FILE:1: rations: unknown option; did you mean ration?");
  expect_file_error("[calculator]\nration = 1\n",
                    "FILE:2: ration: unknown option in [calculator]; --help shows them all");
  expect_file_error("[wier]\nration = 64k\n", "FILE:2: [wier]: unknown section; did you mean weir?");
}

TEST_F(Config, NamesUnknownVariables) {
  set_variable("WEIR_RATIONS", "1");
  expect_error({}, "WEIR_RATIONS: unknown variable; did you mean WEIR_RATION?");
}

TEST_F(Config, NamesAmbiguousOptions) {
  calculator_config cfg;
  int other = 0;
  cfg.add_option("other.precision", "another", other);
  auto next = load(cfg, {"--precision=1"});
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().text, "--precision: there is --calculator.precision and --other.precision; which?");
}

TEST_F(Config, NamesWrongValuesAndTheirSource) {
  expect_error({"--ration=1q"}, "--ration: '1q' is not a size such as 512, 64k, 16MiB or 1g");
  expect_error({"--ration", "8k"}, "--ration: 8KiB is out of range (16KiB to 1GiB, auto or inf)");
  expect_error({"--fragment=inf"}, "--fragment: 'inf' is not a size such as 512, 64k, 16MiB or 1g");
  expect_error({"--fragment=8g"}, "--fragment: 8GiB is out of range (4KiB to 1MiB)");
  expect_error({"--sessions-max=-1"}, "--sessions-max: '-1' is negative");
  expect_error({"--sessions-max=1.5"}, "--sessions-max: '1.5' is not a whole number");
  expect_error({"--log-level=loud"}, "--log-level: 'loud' is none of off, error, warning, info or debug");
  expect_error({"--log-period=1ms"}, "--log-period: 1ms is out of range (100ms to 1h)");
  expect_error({"--stall-limit=2h"}, "--stall-limit: 2h is out of range (0 to 1h)");
  expect_error({"--weir.spin=20"}, "--weir.spin: '20' is not a time such as 20us, 5ms, 2s or 1min");
  expect_error({"--listen=tcp://a"}, "--listen: 'tcp://a': the port is missing");
  expect_file_error("[weir]\nspin = 2ms\n", "FILE:2: spin: 2ms is out of range (0 to 1ms)");
  set_variable("WEIR_SPIN", "2ms");
  expect_error({}, "WEIR_SPIN: 2ms is out of range (0 to 1ms)");
}

TEST_F(Config, NamesWrongValuesOfTheUsersOptions) {
  expect_error({"--precision=0"}, "--precision: 0 is out of range (1 to 100)");
  expect_error({"--precision=x"}, "--precision: 'x' is not a whole number");
  expect_error({"--factor=x"}, "--factor: 'x' is not a number");
  expect_error({"--verbose=yes"}, "--verbose: 'yes' is not true or false");
  expect_error({"--chunk=1"}, "--chunk: 1 is out of range (1KiB to 1GiB)");
  expect_error({"--pause=5us"}, "--pause: 5us is finer than the option's unit, 1ms");
  expect_error({"--words=[a"}, "--words: '[a' is not a list: the closing ] is missing");
}

TEST_F(Config, NamesWhatDoesNotFitTogetherAndItsSource) {
  expect_error({"--dead-after=2s"},
               "--dead-after: 2s is too short: more than 2 x ping-interval (1s) is needed");
  expect_error({"--ping-interval=10s"},
               "dead-after: 15s is too short: more than 2 x ping-interval (10s) is needed");
  expect_file_error(
      "[weir]\nbudget-bytes = 64m\nio-threads = 1\nration = 33m\n",
      "FILE:4: ration: 33MiB is too large: at most 32MiB, half of budget-bytes (64MiB) / io-threads (1)");
}

TEST_F(Config, NamesWhatIsGivenTwice) {
  expect_error({"--ration=64k", "--weir.ration=64k"}, "--weir.ration: given twice");
  expect_error({"--config=a", "--config=b"}, "--config: given twice");
  expect_file_error("[weir]\nration = 64k\n\nration = 64k\n",
                    "FILE:4: ration: given before, at " + file_ + ":2");
}

TEST_F(Config, NamesMissingValues) {
  expect_error({"--ration"}, "--ration: needs a value");
  expect_error({"--ration", "--verbose"}, "--ration: needs a value");
  expect_error({"--config"}, "--config: needs the name of a file");
  expect_error({"--config="}, "--config: needs the name of a file");
  expect_error({"--help=x"}, "--help: takes no value");
}

TEST_F(Config, NamesLinesThatAreNotOfAFile) {
  expect_file_error("[weir]\nration 64k\n", "FILE:2: 'ration 64k' is neither key = value nor [section]");
  expect_file_error("= 64k\n", "FILE:1: '= 64k' is neither key = value nor [section]");
  expect_file_error("[weir\n", "FILE:1: '[weir' is neither key = value nor [section]");
  expect_file_error("[]\n", "FILE:1: a section needs a name");
  expect_file_error("[weir]\nname = \"a\n",
                    "FILE:2: name: '\"a' is not well quoted: the closing quote is missing");
  expect_file_error("[weir]\nname = \"a\" b\n",
                    "FILE:2: name: '\"a\" b' is not well quoted: there is text behind the closing quote");
}

TEST_F(Config, NamesFilesThatItCannotRead) {
  expect_error({"--config=/nowhere/a.conf"},
               "/nowhere/a.conf: cannot read the config file: No such file or directory", errc::io_error);
  expect_error({"--config=/tmp"}, "/tmp: cannot read the config file: Is a directory", errc::io_error);
  expect_error({"--config=/dev/zero"}, "/dev/zero: too large for a config file (at most 1MiB)",
               errc::io_error);
}

// ---- help and dump

TEST_F(Config, HelpShowsOptionsWithUnitsLimitsAndDefaults) {
  expect_printed({"--help"}, "Adds numbers.\n\nusage: calculator [options] [arguments]\n");
  expect_printed({"-h"},
                 "what the peer of a session may have under way (16KiB to 1GiB, auto or inf; default auto)");
  expect_printed({"--ration=64k", "--help"}, "--ration BYTES ");
  expect_printed({"--help"}, "digits that are kept (1 to 100; default 10)");
  expect_printed({"--help"}, "--caf.scheduler.max-threads");
}

TEST_F(Config, DumpNamesTheSourceOfEachValue) {
  set_variable("WEIR_FRAGMENT", "8k");
  auto conf = file("[calculator]\nprecision = 7\n");
  auto dump = loaded({conf, "--ration=64k"})->dump();
  auto line = [&](std::string_view key) {
    auto at = dump.find("\n" + std::string(key) + " = ") + 1;
    auto text = dump.substr(at, dump.find('\n', at) - at);
    text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
               text.end());
    return text;
  };
  EXPECT_EQ(line("ration"), "ration = 64KiB # --ration");
  EXPECT_EQ(line("fragment"), "fragment = 8KiB # WEIR_FRAGMENT");
  EXPECT_EQ(line("precision"), "precision = 7 # " + file_ + ":2");
  EXPECT_EQ(line("grant-at"), "grant-at = 4 # default");
}

TEST_F(Config, DumpIsPrinted) { expect_printed({"--dump-config", "--ration=64k"}, "\n[weir]\n"); }

TEST_F(Config, DumpOfAWrongConfigurationIsItsError) {
  expect_error({"--dump-config", "--ration=1"}, "--ration: 1 is out of range (16KiB to 1GiB, auto or inf)");
}

void expect_equal(const calculator_config& a, const calculator_config& b) {
  EXPECT_EQ(a.options(), b.options());
  EXPECT_EQ(a.precision, b.precision);
  EXPECT_EQ(a.factor, b.factor);
  EXPECT_EQ(a.verbose, b.verbose);
  EXPECT_EQ(a.title, b.title);
  EXPECT_EQ(a.words, b.words);
  EXPECT_EQ(a.chunk, b.chunk);
  EXPECT_EQ(a.pause, b.pause);
  EXPECT_EQ(caf::deep_to_string(a.content), caf::deep_to_string(b.content));
}

TEST_F(Config, DumpReadAsAFileIsTheSameConfiguration) {
  auto cfg = loaded({"--ration=inf", "--listen=tcp://[::1]:0,unix:///tmp/a b", "--title= \"x\\ # y",
                     "--words=\"\",\"[a]\"", "--verbose", "--factor=0.1", "--name=a # b",
                     "--caf.scheduler.max-threads=3", "--caf.scheduler.policy=stealing"});
  expect_equal(*loaded({file(cfg->dump())}), *cfg);
}

RC_GTEST_FIXTURE_PROP(Config, DumpOfAnyTextsIsTheSameConfiguration,
                      (const std::string& title, const std::vector<std::string>& words, double factor)) {
  RC_PRE(std::isfinite(factor));
  calculator_config cfg;
  cfg.title = title;
  cfg.words = words;
  cfg.factor = factor;
  RC_ASSERT(static_cast<bool>(load(cfg, {})));
  calculator_config again;
  auto next = load(again, {file(cfg.dump())});
  RC_ASSERT(next.error().text == "");
  RC_ASSERT(again.title == title);
  RC_ASSERT(again.words == words);
  RC_ASSERT(again.factor == factor);
}

// ---- CAF_MAIN calls parse

TEST_F(Config, ParseForCafMainReportsErrors) {
  calculator_config cfg;
  std::string words[] = {"calculator", "--rations=1"};
  char* argv[] = {words[0].data(), words[1].data(), nullptr};
  EXPECT_TRUE(cfg.parse(2, argv, "caf-application.ini"));
  EXPECT_FALSE(cfg.helptext_printed());
}

TEST_F(Config, ParseForCafMainStopsAfterHelp) {
  calculator_config cfg;
  std::string words[] = {"calculator", "--help"};
  char* argv[] = {words[0].data(), words[1].data(), nullptr};
  testing::internal::CaptureStdout();
  EXPECT_FALSE(cfg.parse(2, argv));
  EXPECT_NE(testing::internal::GetCapturedStdout(), "");
  EXPECT_TRUE(cfg.helptext_printed());
}

} // namespace
} // namespace weir
