#include "runtime/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <thread>

#include <unistd.h>

namespace weir::settings {

namespace {

constexpr uint64_t fallback_bytes = uint64_t{1} << 30;

/// A file of one number. "max", nothing, or something else: no limit.
std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  uint64_t value = 0;
  if (!(in >> text) || std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

/// The number behind `key` in a file of lines "key  number ...".
std::optional<uint64_t> read_field(const std::string& path, std::string_view key) {
  std::ifstream in(path);
  for (std::string word; in >> word; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (uint64_t value = 0; word == key && in >> value)
      return value;
  return std::nullopt;
}

/// The lowest number in `file` from `mount` + `path` up to `mount` itself: a limit binds everything below it.
/// In a container `path` may be one of the host's; then only those that exist count.
uint64_t lowest_limit(const std::string& mount, std::string path, const std::string& file) {
  auto lowest = std::numeric_limits<uint64_t>::max();
  for (;;) {
    lowest = std::min(lowest, read_number(mount + path + "/" + file).value_or(lowest));
    auto slash = path.rfind('/');
    if (slash == std::string::npos)
      return lowest;
    path.resize(slash);
  }
}

/// One line of /proc/self/cgroup is "id:controllers:path"; v2 has id 0 and no controllers.
uint64_t limit_of_cgroup(const std::string& root, std::string_view line) {
  auto first = line.find(':');
  auto second = line.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos)
    return std::numeric_limits<uint64_t>::max();
  auto controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
  std::string path(line.substr(second + 1));
  if (path == "/")
    path.clear();
  if (controllers == ",,")
    return lowest_limit(root + "/sys/fs/cgroup", path, "memory.max");
  if (controllers.find(",memory,") != std::string::npos)
    return lowest_limit(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
  return std::numeric_limits<uint64_t>::max();
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

} // namespace

uint64_t memory_limit_bytes(const std::string& root) {
  auto lowest = std::numeric_limits<uint64_t>::max();
  if (auto kib = read_field(root + "/proc/meminfo", "MemTotal:"))
    lowest = *kib << 10;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    lowest = std::min(lowest, limit_of_cgroup(root, line));
  return lowest == std::numeric_limits<uint64_t>::max() ? fallback_bytes : lowest;
}

machine this_machine() {
  return {memory_limit_bytes(), std::max(1U, std::thread::hardware_concurrency()), host_name(),
          program_invocation_short_name};
}

} // namespace weir::settings
