#pragma once
#include <cstdint>
#include <string>

namespace weir::settings {

/// What defaults depend on. An argument of everything that chooses one, so that tests choose the machine.
struct machine {
  uint64_t memory_bytes = 0; ///< that this process may use
  uint32_t cores = 1;
  std::string host;
  std::string program;
};

machine this_machine();

/// The lowest of the memory limits of this process's cgroup and its ancestors (v2 or v1) and the machine's
/// memory. `root` stands for `/` in tests. What cannot be read sets no limit; 1 GiB when nothing can be read
/// at all.
uint64_t memory_limit_bytes(const std::string& root = "");

} // namespace weir::settings
