#pragma once
// Forwarders as they must not be (rule R8): a ring of them stops for ever.
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include <weir/ref.hpp>
#include <weir/stream.hpp>

namespace weir::test {

/// What a test sees of a funnel and may change, where the funnel does not run at the same time.
template <class T>
struct funnel_state {
  ref<T> next; ///< where it sends what it gets and what it makes; set before the first message comes
  uint64_t own_messages = 0;   ///< that it makes; each goes two hops
  uint64_t arrived = 0;        ///< at the end of their way
  std::deque<held<T>> waiting; ///< leased until they can go on
  bool drops = false;          ///< it passes nothing on any more
};

/// One outlet for its own messages and for those that it passes on: those with data have a hop to go. Begins
/// with the first message that comes, and with its own.
template <class T>
class funnel : public weir::sink<T> {
public:
  funnel(caf::actor_config& cfg, funnel_state<T>* s) : sink<T>(cfg), state_(s) {}

  void on_message(weir::inlet<T> from, typename T::Reader item) override {
    if (!out_)
      begin();
    state_->arrived += item.getData().size() == 0 ? 1 : 0;
    if (item.getData().size() == 0 || state_->drops)
      return;
    state_->waiting.push_back(from.lease());
    go_on();
  }

protected:
  void on_exit() override {
    out_.reset();
    sink<T>::on_exit();
  }

private:
  void begin() {
    out_.emplace(this, state_->next);
    out_->on_credit([this] { go_on(); });
  }
  void go_on() {
    while (sent_ < state_->own_messages && out_->offer([](typename T::Builder b) { b.initData(20); }))
      ++sent_;
    while (!state_->waiting.empty() && out_->offer([](typename T::Builder) {}))
      state_->waiting.pop_front();
  }

  funnel_state<T>* state_;
  std::optional<weir::outlet<T>> out_;
  uint64_t sent_ = 0;
};

} // namespace weir::test
