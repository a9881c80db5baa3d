// Calls that are made again: idempotent ones whose link, session or service was lost or had no room.
#include "runtime/actor_core.hpp"

namespace weir::detail {

bool may_pass(errc e) {
  switch (e) {
  case errc::peer_silent:
  case errc::going_away:
  case errc::link_lost:
  case errc::connect_failed:
  case errc::connect_timeout:
  case errc::no_such_service: // its node may have just started
  case errc::too_many_sessions:
  case errc::no_budget:
  case errc::session_closed:
  case errc::session_aborted:
  case errc::service_down:
  case errc::too_many_calls:
  case errc::overloaded:
  case errc::shutting_down: // the peer; of our own node's end every attempt hears
    return true;
  default:
    return false;
  }
}

namespace {

/// Waits on a loop for the moment of the next attempt. When the loop ends before, the call ends with it.
struct alarm {
  alarm(caf::strong_actor_ptr w, uint64_t t) : who(std::move(w)), token(t) {}
  alarm(const alarm&) = delete;
  alarm& operator=(const alarm&) = delete;
  ~alarm() {
    if (!rung)
      put(who, nullptr,
          actors::reply{token,
                        failure{errc::cancelled, outcome::unknown, "the node stopped between two attempts"}});
  }
  void ring() {
    rung = true;
    put(who, nullptr, actors::retry_call{token});
  }
  caf::strong_actor_ptr who;
  uint64_t token;
  bool rung = false;
};

} // namespace

actors::ask actor_core::second_try::ask(uint64_t token) const {
  actors::ask a;
  a.message = net::copy_of(message);
  a.token = token;
  a.deadline = deadline;
  a.reply_room_bytes = reply_room_bytes;
  a.in_lane = in_lane;
  return a;
}

bool actor_core::try_again(uint64_t token, open_call& c, const failure& why) {
  if (!c.again || !may_pass(why.code))
    return false;
  auto delay = c.again->delay.next(random_);
  if (c.again->deadline <= now() + delay)
    return false;
  auto via = c.again->to.guard();
  auto& home = via->raw()->home();
  c.again->waiting = true;
  c.session = via;
  home.post([&home, delay, a = std::make_shared<alarm>(self_ptr(), token)] {
    home.at(home.now() + delay, [a] { a->ring(); });
  });
  return true;
}

void actor_core::on_retry(uint64_t token) {
  auto* c = find(token);
  if (!c || !c->again)
    return; // cancelled meanwhile
  c->again->waiting = false;
  auto via = c->again->to.guard();
  c->session = via;
  send(*via, c->again->ask(token));
}

} // namespace weir::detail
