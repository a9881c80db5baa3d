#include "actors/log.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace weir::actors {

struct journal::target {
  explicit target(const std::string& node)
      : log("weir " + node, std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    log.set_pattern("%Y-%m-%d %H:%M:%S.%e [%n] %l: %v");
    log.set_level(spdlog::level::debug);
    log.flush_on(spdlog::level::debug);
  }
  spdlog::logger log;
};

namespace {
spdlog::level::level_enum level_for(log_level l) {
  switch (l) {
  case log_level::off:
    break;
  case log_level::error:
    return spdlog::level::err;
  case log_level::warning:
    return spdlog::level::warn;
  case log_level::info:
    return spdlog::level::info;
  case log_level::debug:
    return spdlog::level::debug;
  }
  return spdlog::level::off;
}

/// Names and texts come from peers: a line stays one line.
void make_printable(std::string& text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
}
} // namespace

journal::journal(options o) : options_(std::move(o)) {
  if (options_.level != log_level::off && !options_.write) {
    auto node = options_.node;
    make_printable(node);
    target_ = std::make_unique<target>(node);
  }
}

journal::~journal() = default;

std::vector<journal::counted> journal::reasons() const {
  std::vector<counted> all;
  for (size_t i = 0; i < reasons_.size(); ++i)
    if (auto n = reasons_[i].times.load(std::memory_order_relaxed); n != 0)
      all.push_back({static_cast<errc>(i), n});
  return all;
}

log_level journal::level_of(errc code) {
  switch (code) {
  case errc::none:
  case errc::going_away:
  case errc::shutting_down:
    return log_level::info;
  case errc::session_closed:
  case errc::cancelled:
  case errc::caller_down:
    return log_level::debug;
  default:
    return log_level::warning;
  }
}

/// Whether a line may be written now; then `left_out` is how many could not since the last one.
bool journal::due(line& l, uint64_t lines_max, uint64_t times, uint64_t& left_out) {
  auto now = options_.now().time_since_epoch();
  auto ends = l.period_ends.load(std::memory_order_relaxed);
  if (now.count() >= ends) {
    if (l.period_ends.compare_exchange_strong(ends, (now + options_.period).count(),
                                              std::memory_order_relaxed))
      l.written.store(0, std::memory_order_relaxed);
  }
  if (l.written.fetch_add(1, std::memory_order_relaxed) >= lines_max) {
    l.left_out.fetch_add(times, std::memory_order_relaxed);
    return false;
  }
  left_out = l.left_out.exchange(0, std::memory_order_relaxed) + times - 1;
  return true;
}

void journal::write(log_level level, std::string words, uint64_t left_out) const {
  make_printable(words);
  if (left_out > 0)
    words += fmt::format(" ({} more since the last such line)", left_out);
  if (options_.write)
    options_.write(level, words);
  else if (target_)
    target_->log.log(level_for(level), words);
}

} // namespace weir::actors
