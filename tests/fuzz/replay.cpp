// Runs every file of a corpus through a fuzz target, each as a test of its own: fuzz_replay_NAME DIRECTORY.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

class replay : public testing::Test {
public:
  explicit replay(std::filesystem::path file) : file_(std::move(file)) {}

  void TestBody() override {
    std::ifstream in(file_, std::ios::binary);
    std::vector<char> read{std::istreambuf_iterator<char>(in), {}};
    ASSERT_FALSE(in.bad()) << file_;
    std::vector<uint8_t> bytes(read.begin(), read.end()); // exactly as long as the input, for ASan
    EXPECT_EQ(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()), 0);
  }

private:
  std::filesystem::path file_;
};

std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.is_regular_file())
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

} // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
    return 2;
  }
  auto files = files_in(argv[1]);
  if (files.empty()) {
    std::fprintf(stderr, "%s: there is no input\n", argv[1]);
    return 1;
  }
  for (const auto& f : files)
    testing::RegisterTest("Replay", f.filename().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [f]() -> testing::Test* { return new replay(f); });
  return RUN_ALL_TESTS();
}
