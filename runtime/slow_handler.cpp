// Handlers that hold their loop for too long, and with it all links of that loop.
#include "runtime/actor_core.hpp"

namespace weir::detail {

using std::chrono::steady_clock;

/// Two clock readings per turn are all that it costs while turns are short. A long turn may have been many
/// short handlers: from then on each one is timed.
void actor_core::begin_turn() {
  if (!loop_ || loop_->slow_after() == net::duration::max())
    return;
  handled_ = 0;
  turn_began_ = steady_clock::now();
}

void actor_core::end_turn() {
  if (turn_began_ == net::time_point{})
    return;
  auto took = steady_clock::now() - std::exchange(turn_began_, {});
  if (took < loop_->slow_after())
    return;
  if (!std::exchange(each_handler_, true) && handled_ <= 1)
    loop_->say_slow(served_as.empty() ? self_.name() : served_as, took);
}

void handler_watch::end() {
  auto took = steady_clock::now() - began_;
  if (auto* l = of_.loop_; l && took >= l->slow_after())
    l->say_slow(of_.served_as.empty() ? of_.self_.name() : of_.served_as, took);
}

} // namespace weir::detail
