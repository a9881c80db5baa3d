#pragma once
// Forwarders that cannot lock each other up: rule R8, a forwarder pairs sessions.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <weir/stream.hpp>

namespace weir {

/// How one stream through a relay went.
struct relayed {
  uint64_t messages = 0;    ///< went on
  uint64_t consumed = 0;    ///< of them, as the next one has confirmed
  uint64_t waited_most = 0; ///< waited here at one time
  failure why;              ///< code none: all of them went on, to the end
};

/// A sink that passes on what it gets: each incoming stream leaves on an outlet of its own, and on nothing
/// else. A message that cannot go on yet is kept by its lease, in the charge of the stream that it came on:
/// so the ration of that stream bounds what waits here, its producer waits when the ration is used up, and no
/// other stream notices. That is what keeps forwarders that send to each other in a ring from locking up;
/// streams that shared an outlet would wait for each other.
///
/// The end is passed on behind the last message, a stream that is given up or lost is given up on the other
/// side with the same reason, in both directions. What `close` confirms to a producer is that the relay has
/// passed on everything.
///
///     node.serve<Number>("stage", node.spawn<weir::relay<Number, Square>>(node.lookup<Square>("consumer"),
///                                  [](Number::Reader n, Square::Builder s) { s.setValue(n.getValue()); }));
template <class In, class Out = In>
class relay : public sink<In> {
public:
  using transform = std::function<void(typename In::Reader, typename Out::Builder)>;

  /// Without `f` messages are passed on as they are, which needs In and Out to be the same.
  relay(caf::actor_config& cfg, ref<Out> next, transform f = {})
      : sink<In>(cfg), next_(std::move(next)), transform_(std::move(f)) {}

  void on_open(inlet<In> from) override {
    auto p = std::make_shared<pair>(this, next_, from);
    by_inlet_.insert_or_assign(from.id(), p);
    pairs_.insert(p);
    p->out.on_credit([this, at = std::weak_ptr{p}] { go_on(at.lock()); });
    p->out.on_failure([this, at = std::weak_ptr{p}](const failure& why) { end(at.lock(), why); });
  }
  void on_message(inlet<In> from, typename In::Reader message) override {
    auto p = find(from);
    if (!p || (p->waiting.empty() && pass_on(*p, message)))
      return;
    p->waiting.push_back(from.lease());
    p->so_far.waited_most = std::max<uint64_t>(p->so_far.waited_most, p->waiting.size());
  }
  void on_finished(inlet<In> from) override {
    if (auto p = find(from)) {
      p->finished = true;
      go_on(p);
    }
  }
  void on_ended(inlet<In> from, const failure& why) override {
    auto p = find(from);
    by_inlet_.erase(from.id());
    if (!p)
      return;
    p->in.reset();
    if (why.code == errc::none)
      return;          // `on_finished` was before
    p->out.abort(why); // or the next one would take a part for the whole
    end(p, why);
  }

protected:
  /// A stream has ended, here and to the next one.
  virtual void on_passed(const relayed& stream) { static_cast<void>(stream); }

private:
  struct pair {
    pair(actor* self, const ref<Out>& next, inlet<In> from) : in(from), out(self, next) {
      out.pair_with(from);
    }
    std::optional<inlet<In>> in; // until it has ended
    outlet<Out> out;
    std::deque<held<In>> waiting; // at most the ration of the stream that they came on
    relayed so_far;
    bool finished = false;
  };
  using pair_ptr = std::shared_ptr<pair>;

  pair_ptr find(const inlet<In>& from) const {
    auto i = by_inlet_.find(from.id());
    return i == by_inlet_.end() || !pairs_.contains(i->second) ? nullptr : i->second;
  }
  bool pass_on(pair& p, typename In::Reader message) {
    auto fill = [&](typename Out::Builder b) { transform_(message, b); };
    bool gone;
    if constexpr (std::is_same_v<In, Out>)
      gone = transform_ ? p.out.offer(fill) : p.out.offer_copy(message);
    else
      gone = p.out.offer(fill);
    p.so_far.messages += gone ? 1 : 0;
    return gone;
  }
  void go_on(const pair_ptr& p) {
    if (!p)
      return;
    while (!p->waiting.empty() && pass_on(*p, p->waiting.front().get()))
      p->waiting.pop_front(); // its credit returns now
    if (!p->finished || !p->waiting.empty())
      return;
    p->out.close().then(
        [this, at = std::weak_ptr{p}](uint64_t consumed) {
          if (auto passed = at.lock()) {
            passed->so_far.consumed = consumed;
            end(passed, {});
          }
        },
        [this, at = std::weak_ptr{p}](const failure& why) { end(at.lock(), why); });
  }
  /// The stream to the next one is over. If it is lost nothing more is taken of what comes in for it.
  void end(const pair_ptr& p, const failure& why) {
    if (!p || pairs_.erase(p) == 0)
      return;
    if (p->in && why.code != errc::none)
      p->in->abort(why);
    p->so_far.why = why;
    on_passed(p->so_far);
  }

  ref<Out> next_;
  transform transform_;
  std::unordered_set<pair_ptr> pairs_;
  std::unordered_map<uint64_t, pair_ptr> by_inlet_; // those whose incoming stream is open
};

} // namespace weir
