#include "actors/messages.hpp"

namespace weir::actors {

void tell_lost(const std::shared_ptr<teller>& t, uint64_t messages) {
  if (t && t->lost.fetch_add(messages) == 0)
    put(caf::actor_cast<caf::strong_actor_ptr>(t->who), nullptr, undelivered_note{t});
}

/// What comes to a session that is over.
static failure why_over(const std::shared_ptr<gate>& of) {
  if (of && of->over())
    return of->why_over();
  return {errc::session_closed, outcome::not_executed, "the session is over"};
}

ask::~ask() {
  if (bounce_to)
    put(bounce_to, nullptr, reply{token, why_over(bounced_by)});
  if (from_teller)
    tell_lost(from_teller, message.count);
  if (bounced_by && message)
    bounced_by->release(message.cost(), message.count);
}

produce::~produce() {
  if (producer)
    put(producer, nullptr, outlet_event{outlet_event::type::failed, outlet, 0, why_over(on)});
}

} // namespace weir::actors
