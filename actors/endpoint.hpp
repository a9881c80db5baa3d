#pragma once
#include <deque>
#include <memory>

#include "actors/link.hpp"
#include "net/backoff.hpp"
#include "net/stream.hpp"
#include "net/uri.hpp"

namespace weir::actors {

/// An address that this loop dials: keeps one link to it while anybody wants one, dials again with full
/// jitter, and gives sessions that wait for it a link or the reason why there is none: as soon as a dial has
/// failed, or, when it is kept (the peer may be starting), after `connect-timeout`. Not kept and without
/// use for `idle-timeout` it ends, and its link with it.
class endpoint final : public pinnable {
public:
  endpoint(caf::actor_config& cfg, loop& l, environment_ptr env, net::uri to);
  ~endpoint() override;
  caf::behavior make_behavior() override;
  const char* name() const override { return "weir.endpoint"; }
  void on_exit() override;

  // ---- on the loop
  /// Gives `s` the link, or the reason why there is none, as soon as it knows. A reason that it knows at once
  /// is returned instead: one that called back would go deeper for every peer that a session asks.
  failure take_in(session& s);
  /// Dials now and for ever, also without sessions.
  void keep();
  /// Dials no more; who waits is told that the node stops.
  void drain();
  void link_ready(link& l);
  void link_going_away(link& l);
  void link_down(link& l, const failure& why);
  const net::uri& address() const { return to_; }
  bool connected() const { return link_ != nullptr && link_->ready(); }

private:
  struct waiting {
    caf::actor keep;
    session* who;
    net::time_point until;
  };
  void dial();
  void dialled(result<std::unique_ptr<net::stream>> r);
  void no_link(const failure& why);
  void dial_later();
  net::time_point idle_since() const;
  void watch_use();
  void end_unused();
  void expire();
  void expire_all(const failure& why);

  loop& loop_;
  const environment_ptr env_;
  const net::uri to_;
  net::backoff backoff_;
  net::splitmix64 random_;
  std::unique_ptr<net::dial> dial_;
  link* link_ = nullptr;
  std::deque<waiting> waiting_;
  failure last_;
  net::time_point used_; // at the latest
  net::loop::timer_id retry_ = 0, expiry_ = 0, idle_ = 0;
  bool keep_ = false, stopped_ = false;
};

/// The endpoint of `l` that dials `to`; made when it is new.
endpoint& endpoint_to(loop& l, const environment_ptr& env, const net::uri& to);

/// An address that the node listens on. Spreads its links over the loops.
class acceptor final : public pinnable {
public:
  acceptor(caf::actor_config& cfg, loop& l, environment_ptr env)
      : pinnable(cfg), loop_(l), env_(std::move(env)) {}
  caf::behavior make_behavior() override;
  const char* name() const override { return "weir.acceptor"; }
  void on_exit() override { listener_.reset(); }
  /// On the loop.
  result<net::uri> listen(const net::uri& at);

private:
  void accepted(environment::stream_maker make);

  loop& loop_;
  const environment_ptr env_;
  std::unique_ptr<net::listener> listener_;
  size_t next_loop_ = 0;
};

} // namespace weir::actors
