#pragma once
// What the actors of one process send each other. None of it leaves the process.

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>

#include "actors/caf.hpp"
#include "actors/credit.hpp"
#include "actors/gate.hpp"
#include "net/message.hpp"

namespace weir::actors {

// CAF instantiates the copy of every message type; those that own credit or memory are moved into one mailbox
// and never copied.

/// Who sends one-way messages to a session, and how many of them were lost: at most one note is on its way,
/// whatever happens to how many messages. Shared by the sender and all that have its messages.
struct teller {
  caf::actor_addr who;
  caf::actor_id session = 0;
  std::atomic<uint64_t> lost{0};
};
/// Any thread.
void tell_lost(const std::shared_ptr<teller>& t, uint64_t messages);

/// A message for a session to carry, from an actor that is not on its loop (one that is calls
/// `session::carry`). One that dies in the mailbox of a session that is over answers its sender itself.
struct ask {
  net::outgoing message;
  uint64_t token = 0; ///< of the caller's choice; 0: one way, no answer
  net::time_point deadline = net::time_point::max();
  uint32_t reply_room_bytes = 0;
  net::lane in_lane = net::lane::normal;
  std::shared_ptr<teller> from_teller; ///< of a one-way message that belongs to no stream; who takes charge
                                       ///< of the message takes it out
  caf::strong_actor_ptr bounce_to;     ///< the caller, while nobody has taken charge of the call
  std::shared_ptr<gate> bounced_by; ///< has admitted it, while nobody has taken charge; knows why it bounces

  ask() = default;
  ask(ask&&) = default;
  ask& operator=(ask&&) = default;
  ask(const ask&) { std::abort(); }
  ~ask();
};

/// To a caller: its call `token` is over.
struct reply {
  uint64_t token = 0;
  delivery in; ///< empty when it failed
  failure why;

  reply() = default;
  reply(uint64_t t, delivery d) : token(t), in(std::move(d)) {}
  reply(uint64_t t, failure f) : token(t), why(std::move(f)) {}
  reply(reply&&) = default;
  reply(const reply&) { std::abort(); }
};

class loop;

/// To a service or sink: what one read brought. Answers go back as `answers`: to the loop's sessions directly
/// when the service runs on `home`, else to the sender.
struct arrived {
  arrivals batch;
  loop* home = nullptr;
  std::shared_ptr<held_allowance> allowance; ///< what the service may hold

  arrived() = default;
  arrived(arrivals&& b, loop* l, std::shared_ptr<held_allowance> h)
      : batch(std::move(b)), home(l), allowance(std::move(h)) {}
  arrived(arrived&&) = default;
  arrived(const arrived&) { std::abort(); }
};

/// From a service: answers to requests of one or more sessions.
struct answer {
  account* to = nullptr; ///< holds one reference
  uint32_t call = 0;
  net::outgoing message; ///< empty: `why` is the answer
  failure why;
};
struct answers {
  std::vector<answer> items;

  answers() = default;
  answers(answers&&) = default;
  answers& operator=(answers&&) = default;
  answers(const answers&) { std::abort(); }
  ~answers() {
    for (auto& a : items)
      if (a.to)
        a.to->drop();
  }
};

/// To a sink: the life of one stream.
struct stream_event {
  enum class type : uint8_t { opened, finished, ended };
  type what = type::opened;
  uint64_t stream = 0; ///< names the stream in this process: the address of its account
  failure why;         ///< of `ended`

  stream_event() = default;
  stream_event(type t, account* a, failure f = {})
      : what(t), stream(reinterpret_cast<uintptr_t>(a)), why(std::move(f)), from_(a) {
    a->hold();
  }
  stream_event(stream_event&& other) noexcept
      : what(other.what),
        stream(other.stream),
        why(std::move(other.why)),
        from_(std::exchange(other.from_, nullptr)) {}
  stream_event(const stream_event&) { std::abort(); }
  ~stream_event() {
    if (from_)
      from_->drop();
  }
  /// Hands on the reference that keeps `stream` from being used again.
  account* take_account() { return std::exchange(from_, nullptr); }

private:
  account* from_ = nullptr;
};

/// To an actor that has opened a stream at a service: rows of it, or its end.
struct rows_arrived {
  uint64_t reader = 0; ///< of that actor's choice
  arrivals batch;
  bool over = false;
  failure why; ///< of the end; none: all have come

  rows_arrived() = default;
  rows_arrived(uint64_t r, arrivals&& b) : reader(r), batch(std::move(b)) {}
  rows_arrived(uint64_t r, failure w) : reader(r), over(true), why(std::move(w)) {}
  rows_arrived(rows_arrived&&) = default;
  rows_arrived(const rows_arrived&) { std::abort(); }
};

/// To a producer: it may offer again, or its stream is over.
struct outlet_event {
  enum class type : uint8_t { credit, closed, failed };
  type what = type::credit;
  uint64_t outlet = 0;
  uint64_t consumed = 0; ///< of `closed`
  failure why;           ///< of `failed`
};

/// To a session: who produces on it, to get `outlet_event`s. One that dies in the mailbox of a session that
/// is over tells the producer itself.
struct produce {
  uint64_t outlet = 0;
  caf::strong_actor_ptr producer; ///< while the session has not taken it in
  std::shared_ptr<gate> on;       ///< of the session; knows why it is over

  produce(uint64_t o, caf::strong_actor_ptr p, std::shared_ptr<gate> g)
      : outlet(o), producer(std::move(p)), on(std::move(g)) {}
  produce() = default;
  produce(produce&&) = default;
  produce(const produce&) { std::abort(); }
  ~produce();
};

/// To a sender of one-way messages: see what was lost.
struct undelivered_note {
  std::shared_ptr<teller> about;
};

/// To an actor that sessions lead to, behind what they brought: it has got to here.
struct mailbox_mark {
  std::shared_ptr<std::atomic<bool>> through;
};

/// To a session: its user is done with it.
struct close_session {};
/// To a session: its user gives it up, at once and for a reason that the other side is told.
struct abort_session {
  failure why;
};
/// To a session, from itself: end as an actor.
struct end_session {
  failure why;
};
/// To a caller, from itself: make the call again.
struct retry_call {
  uint64_t token = 0;
};
/// To a caller: give up the call.
struct cancel_call {
  uint64_t token = 0;
};

/// To an actor, from itself: a coroutine of it has slept for long enough.
struct wake_up {
  uint64_t sleeper = 0;
};

/// Between credit managers: one loop's budget asks another's for what that has free, and gets some or
/// nothing.
struct borrow {
  uint64_t bytes = 0;
};
struct lent {
  uint64_t bytes = 0;
};

/// To the dispatcher: who serves this? Answered with `found`.
struct find_service {
  std::string service;
  uint64_t interface = 0;
  bool stream = false;
  uint64_t ration_messages = 0; ///< what the session would like
  uint64_t id = 0;              ///< of the asker's choice
};
struct found_service {
  uint64_t id = 0;
  std::string name;
  caf::actor service; ///< when `why` is none
  std::shared_ptr<held_allowance> allowance;
  uint64_t ration_messages = 0;
  bool dealt = false;        ///< the messages are places in the service's mailbox, which go back to it
  uint64_t ration_bytes = 0; ///< 0: as the node's
  failure why;
};
/// To the dispatcher: a session that got messages of a mailbox is over.
struct return_mailbox {
  std::string service;
  uint64_t messages = 0;
};
struct serve_service {
  std::string name;
  uint64_t interface = 0;
  bool stream = false;
  caf::actor service;
  uint64_t mailbox_messages = 0; ///< 0: no limit
  std::shared_ptr<held_allowance> allowance;
  uint64_t ration_bytes = 0; ///< of its sessions; 0: as the node's
};

} // namespace weir::actors

CAF_BEGIN_TYPE_ID_BLOCK(weir, caf::first_custom_type_id + 20000)
CAF_ADD_TYPE_ID(weir, (weir::actors::ask))
CAF_ADD_TYPE_ID(weir, (weir::actors::reply))
CAF_ADD_TYPE_ID(weir, (weir::actors::arrived))
CAF_ADD_TYPE_ID(weir, (weir::actors::answers))
CAF_ADD_TYPE_ID(weir, (weir::actors::stream_event))
CAF_ADD_TYPE_ID(weir, (weir::actors::outlet_event))
CAF_ADD_TYPE_ID(weir, (weir::actors::produce))
CAF_ADD_TYPE_ID(weir, (weir::actors::undelivered_note))
CAF_ADD_TYPE_ID(weir, (weir::actors::close_session))
CAF_ADD_TYPE_ID(weir, (weir::actors::end_session))
CAF_ADD_TYPE_ID(weir, (weir::actors::abort_session))
CAF_ADD_TYPE_ID(weir, (weir::actors::cancel_call))
CAF_ADD_TYPE_ID(weir, (weir::actors::find_service))
CAF_ADD_TYPE_ID(weir, (weir::actors::found_service))
CAF_ADD_TYPE_ID(weir, (weir::actors::return_mailbox))
CAF_ADD_TYPE_ID(weir, (weir::actors::serve_service))
CAF_ADD_TYPE_ID(weir, (weir::actors::borrow))
CAF_ADD_TYPE_ID(weir, (weir::actors::lent))
CAF_ADD_TYPE_ID(weir, (weir::actors::retry_call))
CAF_ADD_TYPE_ID(weir, (weir::actors::wake_up))
CAF_ADD_TYPE_ID(weir, (weir::actors::rows_arrived))
CAF_ADD_TYPE_ID(weir, (weir::actors::mailbox_mark))
CAF_ADD_TYPE_ID(weir, (weir::actors::want))
CAF_END_TYPE_ID_BLOCK(weir)

WEIR_LOCAL_MESSAGE(weir::actors::ask)
WEIR_LOCAL_MESSAGE(weir::actors::reply)
WEIR_LOCAL_MESSAGE(weir::actors::arrived)
WEIR_LOCAL_MESSAGE(weir::actors::answers)
WEIR_LOCAL_MESSAGE(weir::actors::stream_event)
WEIR_LOCAL_MESSAGE(weir::actors::outlet_event)
WEIR_LOCAL_MESSAGE(weir::actors::produce)
WEIR_LOCAL_MESSAGE(weir::actors::undelivered_note)
WEIR_LOCAL_MESSAGE(weir::actors::close_session)
WEIR_LOCAL_MESSAGE(weir::actors::end_session)
WEIR_LOCAL_MESSAGE(weir::actors::abort_session)
WEIR_LOCAL_MESSAGE(weir::actors::cancel_call)
WEIR_LOCAL_MESSAGE(weir::actors::find_service)
WEIR_LOCAL_MESSAGE(weir::actors::found_service)
WEIR_LOCAL_MESSAGE(weir::actors::return_mailbox)
WEIR_LOCAL_MESSAGE(weir::actors::serve_service)
WEIR_LOCAL_MESSAGE(weir::actors::borrow)
WEIR_LOCAL_MESSAGE(weir::actors::lent)
WEIR_LOCAL_MESSAGE(weir::actors::retry_call)
WEIR_LOCAL_MESSAGE(weir::actors::wake_up)
WEIR_LOCAL_MESSAGE(weir::actors::rows_arrived)
WEIR_LOCAL_MESSAGE(weir::actors::mailbox_mark)
WEIR_LOCAL_MESSAGE(weir::actors::want)
