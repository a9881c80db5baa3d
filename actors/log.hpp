#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/log_level.hpp"
#include "net/errc.hpp"

namespace weir::actors {

/// What a node tells people: how often each reason occurred, and a line now and then. A peer decides how
/// often things go wrong, so a reason is written at most once per period, with how many were left out since.
/// One per node; any thread.
class journal {
public:
  using clock = std::chrono::steady_clock;
  struct options {
    log_level level = log_level::off;
    std::chrono::nanoseconds period = std::chrono::seconds{10};
    std::string node;                                         ///< whose lines these are
    std::function<void(log_level, const std::string&)> write; ///< empty: stderr
    std::function<clock::time_point()> now = &clock::now;
  };
  journal() : journal(options{}) {}
  explicit journal(options o);
  ~journal();
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  /// `code` occurred. One addition; no line.
  void count(errc code, uint64_t times = 1) {
    reasons_[static_cast<uint8_t>(code)].times.fetch_add(times, std::memory_order_relaxed);
  }
  /// The same with a line of `words()`, which is asked only when one is due.
  template <class F>
  void note(errc code, uint64_t times, F words) {
    count(code, times);
    auto level = level_of(code);
    if (level > options_.level)
      return;
    if (auto left_out = uint64_t{0}; due(reasons_[static_cast<uint8_t>(code)].said, 1, times, left_out))
      write(level, to_string(code) + ": " + words(), left_out);
  }
  /// A link comes or goes: at most `links_per_period` lines.
  template <class F>
  void link(F words) {
    if (log_level::info > options_.level)
      return;
    if (auto left_out = uint64_t{0}; due(links_, links_per_period, 1, left_out))
      write(log_level::info, words(), left_out);
  }

  struct counted {
    errc code;
    uint64_t times;
  };
  /// Of every reason that has occurred, by its number.
  std::vector<counted> reasons() const;
  /// How bad it is when something ends for this reason.
  static log_level level_of(errc code);

  static constexpr uint64_t links_per_period = 100;

private:
  struct line {
    std::atomic<int64_t> period_ends{std::numeric_limits<int64_t>::min()}; // nanoseconds of the clock
    std::atomic<uint64_t> written{0}, left_out{0};
  };
  struct reason {
    std::atomic<uint64_t> times{0};
    line said;
  };
  bool due(line& l, uint64_t lines_max, uint64_t times, uint64_t& left_out);
  void write(log_level level, std::string words, uint64_t left_out) const;

  const options options_;
  std::array<reason, 256> reasons_;
  line links_;
  struct target;
  std::unique_ptr<target> target_;
};

} // namespace weir::actors
