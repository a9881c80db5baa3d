#include "net/tuner.hpp"

namespace weir::net {

/// Doubles once per grant that its sender had to wait for: a frame that an earlier growth will have paid for,
/// but which waited before that was said, proves nothing.
uint64_t tuner::grown(const ration_options& now, const position& consumed, const position& granted) {
  auto bytes = now.bytes;
  if (is_fixed() || !std::exchange(waited_, false))
    return bytes;
  auto starved = before_.within(consumed);
  if (!starved || with_.within(grown_at_))
    return bytes;
  grown_at_ = granted;
  auto most = range_.ceiling_bytes;
  if (!range_.messages_too && largest_ != 0 && now.messages < most / largest_)
    most = now.messages * largest_;
  return std::max(bytes, std::min(2 * std::max(bytes, largest_), most));
}

uint64_t tuner::shrunk(uint64_t bytes, uint64_t consumed, uint64_t waiting, time_point now,
                       duration round_trip) {
  if (is_fixed() || bytes <= range_.floor_bytes)
    return bytes;
  auto took = now - looked_at_;
  auto begins = looked_at_ == time_point{};
  if (!begins && took < std::max(look_every, round_trip))
    return bytes;
  auto back = consumed - std::exchange(consumed_, consumed);
  looked_at_ = waiting == 0 ? time_point{}
                            : now; // who has nothing waiting is not measured until something comes
  if (begins || waiting == 0)
    return bytes;
  largest_ -= largest_ / 8;
  auto micros = [](duration d) {
    auto longest = duration{std::chrono::seconds{100}}; // so that nothing overflows below
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::min(d, longest)).count());
  };
  if (waiting * micros(took) <= back * micros(wait_max))
    return bytes;
  return std::min(bytes, std::max({bytes - bytes / 8, range_.floor_bytes, 2 * largest_}));
}

uint64_t tuner::messages_for(uint64_t bytes, uint64_t messages) const {
  return range_.messages_too ? messages_of(bytes) : messages;
}

} // namespace weir::net
