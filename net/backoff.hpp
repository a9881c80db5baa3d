#pragma once
#include <chrono>
#include <cstdint>

namespace weir::net {

/// A small deterministic source of random numbers: splitmix64 (Steele, Lea, Flood 2014;
/// https://prng.di.unimi.it/splitmix64.c). Its owner seeds it, so a simulation can be replayed. Not for
/// secrets.
class splitmix64 {
public:
  explicit splitmix64(uint64_t seed) : state_(seed) {}
  uint64_t operator()();

private:
  uint64_t state_;
};

struct backoff_options {
  std::chrono::nanoseconds base = std::chrono::milliseconds{50}; ///< at least 1 ns
  std::chrono::nanoseconds cap = std::chrono::seconds{5};        ///< at least `base`
};

/// How long to wait before dialling again, by *full jitter*: delay = random(0, min(cap, base * 2^attempt)).
/// From https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ (Brooker 2015): of the
/// policies compared there it costs the server the fewest attempts, because clients that lost it together do
/// not come back together. Pure: no clock, no timer. Owner: the endpoint.
class backoff {
public:
  explicit backoff(const backoff_options& o);

  /// The delay before the next attempt, from 0 to `ceiling()`, both included; counts the attempt.
  std::chrono::nanoseconds next(splitmix64& random);
  /// The attempt succeeded: the next delay starts from `base` again.
  void reset() { attempts_ = 0; }

  /// The longest delay that `next` may return now.
  std::chrono::nanoseconds ceiling() const;
  /// Delays given since the last success.
  uint32_t attempts() const { return attempts_; }

private:
  backoff_options options_;
  uint32_t attempts_ = 0;
};

} // namespace weir::net
