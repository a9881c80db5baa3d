#include "net/pace.hpp"

#include <algorithm>
#include <utility>

namespace weir::net {

void pace::mark(uint64_t number, time_point now) {
  marks_.push_back(
      {number, sent_, read_, now, std::exchange(busy_, false), under_way() <= 2 * window_measuring});
  marked_ = sent_;
}

void pace::measure(const point& of, duration round_trip, time_point now) {
  auto is_old = now - shortest_at_ >= shortest_lasts;
  if (shortest_ == duration{0} || round_trip <= shortest_ || (is_old && of.alone)) {
    shortest_ = round_trip;
    shortest_at_ = now;
    is_old = false;
  }
  measuring_ = is_old;
}

/// A mark answers for those before it. The rate is taken over one round trip: from what was known to be read
/// when the mark left to what is known now.
std::optional<duration> pace::answered(uint64_t number, time_point now) {
  size_t i = 0;
  while (i < marks_.size() && marks_[i].number != number)
    ++i;
  if (i == marks_.size())
    return std::nullopt;
  auto of = marks_[i];
  for (; i > 0; --i)
    marks_.pop_front();
  marks_.pop_front();
  read_ = of.sent;
  auto round_trip = std::max(now - of.at, duration{1});
  measure(of, round_trip, now);
  auto per_second = [](uint64_t bytes, duration in) {
    auto nanos = static_cast<uint64_t>(in.count());
    constexpr uint64_t second = 1'000'000'000, most = uint64_t{1} << 34; // no overflow below
    return nanos > second ? std::min(bytes, most) * 1000 / (nanos / 1'000'000 + 1)
                          : std::min(bytes, most) * second / nanos;
  };
  auto seen = per_second(of.sent - of.read, round_trip);
  if (of.busy && !of.alone)
    rate_ = std::max(seen, rate_ - rate_ / 8);
  else if (rate_ != 0) // who offered less than it carries has measured nothing but that it carries so much
    rate_ = std::max(seen, rate_);
  auto in_round_trip = rate_ / 1000 * static_cast<uint64_t>(shortest_.count() / 1000) / 1000;
  window_ = measuring_ ? window_measuring : std::max(window_min, 2 * in_round_trip);
  return round_trip;
}

} // namespace weir::net
