#include "actors/messages.hpp"

namespace weir::actors {

void tell_lost(const std::shared_ptr<teller>& t, uint64_t messages) {
  if (t && t->lost.fetch_add(messages) == 0)
    put(caf::actor_cast<caf::strong_actor_ptr>(t->who), nullptr, undelivered_note{t});
}

ask::~ask() {
  if (bounce_to)
    put(bounce_to, nullptr,
        reply{token, bounced_by && bounced_by->over()
                         ? bounced_by->why_over()
                         : failure{errc::session_closed, outcome::not_executed, "the session is over"}});
  if (from_teller)
    tell_lost(from_teller, message.count);
}

} // namespace weir::actors
