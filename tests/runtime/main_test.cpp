#include <gtest/gtest.h>

#include <weir/main.hpp>

namespace weir {
namespace {

struct my_config : config {
  int status = 0;
  my_config() { add_option("my.status", "what main returns", status); }
};

bool ran = false;

int return_status(caf::actor_system&, const my_config& cfg) {
  ran = true;
  return cfg.status;
}

void return_nothing(caf::actor_system&, const config&) { ran = true; }

struct ending {
  int status = 0;
  std::string out, err;
};

template <class Run>
ending run(Run* with, std::string word) {
  std::string program = "/usr/bin/my";
  char* argv[] = {program.data(), word.data(), nullptr};
  ran = false;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  int status = run_main(with, 2, argv);
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(Main, RunsWithTheConfiguration) {
  EXPECT_EQ(run(&return_status, "--status=3").status, 3);
  EXPECT_TRUE(ran);
  EXPECT_EQ(run(&return_nothing, "--ration=64k").status, 0);
  EXPECT_TRUE(ran);
}

TEST(Main, EndsWithOneLineAndStatus2WhenTheConfigurationIsWrong) {
  auto end = run(&return_status, "--rations=64k");
  EXPECT_EQ(end.status, 2);
  EXPECT_EQ(end.err, "/usr/bin/my: --rations: unknown option; did you mean --ration?\n");
  EXPECT_EQ(end.out, "");
  EXPECT_FALSE(ran);
}

TEST(Main, EndsAfterHelpAndDump) {
  for (auto word : {"--help", "--dump-config"}) {
    auto end = run(&return_status, word);
    EXPECT_EQ(end.status, 0);
    EXPECT_NE(end.out, "");
    EXPECT_EQ(end.err, "");
    EXPECT_FALSE(ran);
  }
}

} // namespace
} // namespace weir
