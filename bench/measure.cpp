#include "bench/measure.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <ctime>
#include <fstream>
#include <string>

namespace weir::bench {

std::size_t histogram::bucket_of(std::uint64_t ns) {
  ns = std::min(ns, (std::uint64_t{1} << value_bits) - 1);
  if (ns < (1u << sub_bits))
    return ns;
  auto shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - sub_bits;
  return (std::size_t{shift} << sub_bits) + (ns >> shift);
}

std::uint64_t histogram::middle_of(std::size_t bucket) {
  if (bucket < (2u << sub_bits))
    return bucket;
  auto shift = (bucket >> sub_bits) - 1;
  auto lowest = (bucket - (shift << sub_bits)) << shift;
  return lowest + (std::uint64_t{1} << shift) / 2;
}

void histogram::record(std::chrono::nanoseconds latency) {
  auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 0));
  ++counts_[bucket_of(ns)];
  max_ = std::max(max_, ns);
}

void histogram::add_to(histogram& shared) const {
  for (std::size_t i = 0; i < bucket_count; ++i)
    if (counts_[i] != 0)
      std::atomic_ref(shared.counts_[i]).fetch_add(counts_[i]);
  std::atomic_ref highest(shared.max_);
  auto seen = highest.load();
  while (seen < max_ && !highest.compare_exchange_weak(seen, max_)) {
  }
}

std::uint64_t histogram::count() const {
  std::uint64_t sum = 0;
  for (auto n : counts_)
    sum += n;
  return sum;
}

std::chrono::nanoseconds histogram::quantile(double q) const {
  auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count())));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < bucket_count; ++i) {
    seen += counts_[i];
    if (seen != 0 && seen >= rank)
      return std::chrono::nanoseconds(std::min(middle_of(i), max_));
  }
  return std::chrono::nanoseconds::zero();
}

std::optional<seconds> cpu_time(pid_t pid) {
  clockid_t id{};
  timespec used{};
  if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &used) != 0)
    return std::nullopt;
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

std::optional<memory> memory_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  memory found;
  bool any = false;
  for (std::string line; std::getline(status, line);) {
    auto number = [&](std::size_t from) {
      return std::stoull(line.substr(from)) * 1024;
    }; // the kernel says kB
    if (line.starts_with("VmRSS:"))
      found.resident_bytes = number(6), any = true;
    else if (line.starts_with("VmHWM:"))
      found.peak_bytes = number(6);
  }
  return any ? std::optional(found) : std::nullopt;
}

} // namespace weir::bench
