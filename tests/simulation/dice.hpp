#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace weir::net::sim {

/// Every choice of a run comes from one of these, so a seed is a run (splitmix64).
class dice {
public:
  explicit dice(uint64_t seed) : state_(seed * 0x2545f4914f6cdd1dull + 1) {}

  /// `bytes` make the choices that come next, until they are used up: so that a fuzzer can turn each. One
  /// byte chooses among up to 256, two among up to 65536, and so on. They must outlive their use.
  void follow(std::span<const uint8_t> bytes) { script_ = bytes; }
  bool follows() const { return !script_.empty(); }

  uint64_t next() {
    if (follows())
      return take(8);
    auto z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// 0 .. n-1. Precondition: n > 0.
  uint64_t below(uint64_t n) {
    if (follows())
      return take((static_cast<size_t>(std::bit_width(n - 1)) + 7) / 8) % n;
    __extension__ using wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<wide>(next()) * n) >> 64);
  }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[below(of.size())];
  }
  /// Between the two, each power of two as likely as the others.
  uint64_t by_magnitude(uint64_t low, uint64_t high) {
    auto powers = std::bit_width(high) - std::bit_width(low | 1);
    auto most = high >> below(static_cast<uint64_t>(powers) + 1);
    return between(std::max(low, most / 2), std::max(low, most));
  }

private:
  uint64_t take(size_t bytes) {
    uint64_t value = 0;
    bytes = std::min(bytes, script_.size());
    for (auto b : script_.first(bytes))
      value = value << 8 | b;
    script_ = script_.subspan(bytes);
    return value;
  }

  uint64_t state_;
  std::span<const uint8_t> script_;
};

} // namespace weir::net::sim
