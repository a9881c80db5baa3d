#include "actors/session.hpp"

#include <cstring>

#include <fmt/format.h>

#include "actors/credit_manager.hpp"
#include "actors/endpoint.hpp"
#include "actors/link.hpp"
#include "actors/local_conversation.hpp"

namespace weir::actors {

namespace {
constexpr uint64_t copied_below_bytes = 4 << 10; // from slabs that pin too much
constexpr size_t small_slab_bytes = 16 << 10;
uint32_t slot_of(uint32_t call) { return call & 0xffff; }
} // namespace

session::session(caf::actor_config& cfg, loop& l, environment_ptr env, target to)
    : pinnable(cfg),
      loop_(l),
      env_(std::move(env)),
      target_(std::move(to)),
      gate_(std::make_shared<gate>(env_->send_buffer_bytes, env_->send_buffer_messages)),
      account_(new account{l.port(), this}) {}

session::session(caf::actor_config& cfg, loop& l, environment_ptr env, link& from, net::session* protocol)
    : session(cfg, l, std::move(env),
              target{protocol->service(), protocol->interface(), protocol->is_stream(), false, {}}) {
  link_ = &from;
  protocol_ = protocol;
  stage_ = stage::remote;
}

session::~session() {
  account_->drop(); // orphaned by then
}

caf::behavior session::make_behavior() {
  ignore_unexpected();
  self_ = caf::actor_cast<caf::actor>(this);
  loop_.sessions.insert(this);
  if (stage_ == stage::unbound)
    look_up();
  return {[this](ask& a) { carry(std::move(a), current_sender()); },
          [this](const cancel_call& c) { give_up(c.token, current_sender()); },
          [this](answers& a) { link::answer_all(a); },
          [this](found_service& f) { on_found(f); },
          [this](const close_session&) { close(); },
          [this](const abort_session& a) { abort(a.why); },
          [this](outlet_event& e) { set_producer(current_sender(), e.outlet), wake_producer(); },
          [this](end_session& e) {
            self_ = nullptr;
            quit(e.why.code == errc::none ? caf::error{caf::exit_reason::normal}
                                          : caf::error{caf::exit_reason::remote_link_unreachable});
          }};
}

void session::on_exit() {
  if (stage_ != stage::over)
    finish({errc::shutting_down, outcome::unknown, "the session was stopped"}, 0);
  producer_ = last_teller_ = nullptr;
  service_ = nullptr;
  self_ = nullptr;
}

// ---- finding a conversation

void session::look_up() {
  if (!target_.here_first)
    return next_peer({errc::no_such_service, outcome::not_executed, "no peer to ask"});
  put(env_->dispatcher, caf::strong_actor_ptr{ctrl()},
      find_service{target_.service, target_.interface, target_.stream, env_->ration.messages, 0});
}

void session::on_found(found_service& f) {
  if (stage_ != stage::unbound) {
    if (f.why.code == errc::none)
      put(env_->dispatcher, nullptr, return_mailbox{target_.service, f.ration_messages});
    return;
  }
  if (f.why.code == errc::no_such_service && !target_.peers.empty())
    return next_peer(f.why);
  if (f.why.code != errc::none)
    return on_ended(f.why, 0);
  local_ = std::make_unique<local_conversation>(*this, f);
  if (auto why = local_->start(); why.code != errc::none) {
    local_.reset();
    put(env_->dispatcher, nullptr, return_mailbox{target_.service, f.ration_messages});
    return on_ended(why, 0);
  }
  service_ = f.service;
  mailbox_messages_ = f.ration_messages;
  stage_ = stage::local;
  gate_->open(1);
  watch(service_, [this](const caf::error&) {
    on_ended({errc::service_down, outcome::unknown, fmt::format("the service '{}' is gone", target_.service)},
             0);
  });
  drain_waiting();
  wake_producer();
  if (closing_)
    close();
}

void session::next_peer(failure why) {
  if (next_peer_ == target_.peers.size())
    return on_ended(why, 0);
  endpoint_to(loop_, env_, target_.peers[next_peer_++]).attach(*this);
}

void session::bind(link* l) {
  link_ = l;
  stage_ = stage::opening;
  if (auto why = l->open(*this); why.code != errc::none)
    fail(why);
}

void session::fail(const failure& why) {
  link_ = nullptr;
  stage_ = stage::unbound;
  if (next_peer_ < target_.peers.size())
    return next_peer(why);
  on_ended(why, 0);
}

void session::on_opened() {
  protocol_ = link_->protocol_of(*this);
  stage_ = stage::remote;
  gate_->open(protocol_->id());
  gate_->publish(protocol_->out().limit());
  update_wake();
  drain_waiting();
  wake_producer();
  if (closing_)
    close();
}

// ---- carrying

void session::carry(ask a, const caf::strong_actor_ptr& from) {
  switch (stage_) {
  case stage::remote:
    return carry_remote(a, from);
  case stage::local:
    return local_->carry(a, from);
  case stage::unbound:
  case stage::opening:
    waiting_.push_back({std::move(a), from});
    return;
  case stage::over:
    gate_->release(a.message.cost(), a.message.count);
    return tell_failure(from, a, {errc::session_closed, outcome::not_executed, "the session is over"});
  }
}

void session::carry_remote(ask& a, const caf::strong_actor_ptr& from) {
  auto cost = a.message.cost();
  auto count = a.message.count;
  failure why;
  if (target_.stream && (!waiting_.empty() || !has_outbound_room(cost))) { // a stream has no holes: it waits
    waiting_.push_back({std::move(a), from});
    return retry_later();
  }
  if (a.token == 0) {
    if (!target_.stream)
      last_teller_ = from;
    if (auto r = link_->protocol().post(*protocol_, std::move(a.message), a.in_lane); !r)
      why = r.error();
  } else if (auto r = link_->protocol().call(*protocol_, std::move(a.message),
                                             {a.token, a.deadline, a.reply_room_bytes, a.in_lane})) {
    set_caller(*r, from, a.token);
  } else {
    why = r.error();
  }
  if (why.code != errc::none)
    return refuse(from, a, cost, count, why);
  in_queue_bytes_ += cost;
  in_queue_messages_ += count;
  link_->note_queued(*this);
  link_->touch();
}

/// A message that cannot be carried. A stream with a hole in it is no stream: it ends with the reason.
void session::refuse(const caf::strong_actor_ptr& from, const ask& a, uint64_t cost, uint64_t count,
                     const failure& why) {
  gate_->release(cost, count);
  if (!target_.stream || stage_ == stage::over)
    return tell_failure(from, a, why);
  abort(why);
}

void session::abort(const failure& why) {
  if (stage_ == stage::remote) {
    link_->protocol().abort(*protocol_, why.code, why.text);
    link_->touch();
  }
  finish(why, 0);
}

bool session::has_outbound_room(uint64_t cost) const {
  auto& ledger = loop_.outbound();
  return ledger.bytes() == 0 || ledger.bytes() + cost <= ledger.bytes_max();
}

/// Other links may have to write before there is room, and none of them tells us.
void session::retry_later() {
  if (retry_)
    return;
  constexpr net::duration soon = std::chrono::milliseconds{5};
  retry_ = loop_.at(loop_.now() + soon, [this] {
    retry_ = 0;
    drain_waiting();
    if (closing_)
      close();
  });
}

void session::set_caller(uint32_t call, const caf::strong_actor_ptr& from, uint64_t token) {
  auto slot = slot_of(call);
  if (callers_.size() <= slot)
    callers_.resize(slot + 1);
  callers_[slot] = {from, token, call};
}

void session::tell_failure(const caf::strong_actor_ptr& to, const ask& a, const failure& why) {
  if (a.token != 0)
    put(to, nullptr, reply{a.token, why});
  else
    put(to, nullptr, undelivered_note{id(), a.message.count});
}

void session::drain_waiting() {
  auto all = std::exchange(waiting_, {});
  for (auto& w : all)
    carry(std::move(w.what), w.from);
}

void session::fail_waiting(const failure& why) {
  auto all = std::exchange(waiting_, {});
  for (auto& w : all) {
    gate_->release(w.what.message.cost(), w.what.message.count);
    tell_failure(w.from, w.what, why);
  }
}

void session::give_up(uint64_t token, const caf::strong_actor_ptr& from) {
  if (stage_ == stage::local)
    return local_->give_up(token, from);
  for (auto& c : callers_)
    if (c.who == from && c.token == token) {
      link_->protocol().cancel(*protocol_, c.call, errc::cancelled);
      return link_->touch();
    }
}

void session::answer_call(answer& a) {
  if (stage_ == stage::local)
    return local_->answer(a);
  if (stage_ != stage::remote)
    return; // over: the answer has nowhere to go, and its caller knows
  if (a.message)
    link_->protocol().reply(*protocol_, a.call, std::move(a.message));
  else
    link_->protocol().reply_failure(*protocol_, a.call, a.why);
  link_->touch();
}

// ---- what the link brings

void session::on_reply(net::event& e, const net::slab_ref& read_memory) {
  auto& c = callers_[slot_of(e.call)];
  account_->hold();
  put(std::exchange(c.who, nullptr), nullptr,
      reply{e.token,
            delivery::reply(e.message, e.memory ? std::move(e.memory) : read_memory, account_, e.cost)});
}

void session::on_failed(net::event& e) {
  if (e.call == 0)
    return on_refused_message(*e.why);
  auto& c = callers_[slot_of(e.call)];
  put(std::exchange(c.who, nullptr), nullptr, reply{e.token, *e.why});
}

/// A queued one-way message that the peer could not fund. A stream with a hole in it is no stream: it ends.
void session::on_refused_message(const failure& why) {
  if (!target_.stream)
    return put(last_teller_, nullptr, undelivered_note{id(), 1});
  abort(why);
}

void session::on_arrival(net::event& e, const net::slab_ref& read_memory) {
  loop_.unconsumed_bytes += e.cost;
  if (net::envelope head;
      target_.stream && (!net::read_envelope(e.message, head) || head.type != target_.interface)) {
    account_->give_back(e.cost, 1);
    auto why = failure{
        errc::wrong_type, outcome::not_executed,
        fmt::format("an item of type {:#x} on a stream of {:#x}", head.type, target_.interface)};
    return abort(why);
  }
  if (target_.stream)
    tell_opened();
  arrival a{e.message, e.deadline, e.cost, e.call, 0};
  auto* memory = e.memory ? &e.memory : &read_memory;
  if (loop_.credit().pinned_is_high() && !e.memory && e.message.bytes() < copied_below_bytes) {
    auto n = static_cast<uint32_t>(e.message.bytes());
    if (!small_messages_ || small_messages_->size - small_messages_->used < n)
      small_messages_ = loop_.read_slabs().take(small_slab_bytes);
    auto* to = small_messages_->data() + small_messages_->used;
    std::memcpy(to, e.message.words, n);
    small_messages_->used += n;
    a.message.words = reinterpret_cast<const uint64_t*>(to);
    memory = &small_messages_;
  }
  if (port_->batch.empty())
    link_->touch_port(port_);
  port_->batch.add(account_, a, *memory);
}

void session::serve(service_port* port, const caf::actor& service, uint64_t mailbox_messages) {
  port_ = port;
  service_ = service;
  mailbox_messages_ = mailbox_messages;
  update_wake();
  watch(service_, [this](const caf::error&) {
    if (stage_ == stage::remote)
      abort({errc::service_down, outcome::unknown, fmt::format("the service '{}' is gone", target_.service)});
  });
}

void session::on_credit() {
  gate_->publish(protocol_->out().limit());
  wake_producer();
}

/// The sink hears of a stream with its first message, or with its end.
void session::tell_opened() {
  if (!std::exchange(stream_opened_, true))
    put(port_->to, nullptr, stream_event{stream_event::type::opened, account_});
}

void session::on_finished() {
  update_wake(); // the peer waits until the last message has died
  collect();
  if (!target_.stream)
    return;
  tell_opened();
  link_->flush_port(port_); // its last messages go first
  put(port_->to, nullptr, stream_event{stream_event::type::finished, account_});
}

void session::on_ended(const failure& why, uint64_t consumed) { finish(why, consumed); }

void session::finish(const failure& why, uint64_t consumed) {
  if (stage_ == stage::over)
    return;
  bool accepted = port_ != nullptr;
  if (link_ && port_)
    link_->flush_port(port_);
  stage_ = stage::over;
  gate_->end();
  auto told = why.code == errc::none
                  ? failure{errc::session_closed, outcome::not_executed, "the session is closed"}
                  : why;
  fail_waiting(told);
  if (local_)
    local_->end(told);
  for (auto& c : callers_)
    if (c.who)
      put(std::exchange(c.who, nullptr), nullptr,
          reply{c.token, failure{told.code, outcome::unknown, told.text}});
  if (producer_) {
    outlet_event e{why.code == errc::none ? outlet_event::type::closed : outlet_event::type::failed, outlet_,
                   consumed, why};
    put(std::exchange(producer_, nullptr), nullptr, std::move(e));
  }
  if (accepted && target_.stream && stream_opened_) {
    put(port_->to, nullptr, stream_event{stream_event::type::ended, account_, why});
  }
  if (mailbox_messages_ > 0)
    put(env_->dispatcher, nullptr, return_mailbox{target_.service, mailbox_messages_});
  collect();
  account_->orphan();
  account_->wake_at(0, 0);
  loop_.give_back(account_->take()); // what came back between collect() and wake_at()
  if (protocol_)
    protocol_->owner = nullptr;
  if (link_) {
    if (port_)
      link_->leave_port(port_);
    link_->forget(*this);
  }
  link_ = nullptr;
  protocol_ = nullptr;
  port_ = nullptr;
  loop_.sessions.erase(this);
  if (retry_)
    loop_.cancel(std::exchange(retry_, 0));
  put(caf::strong_actor_ptr{ctrl()}, nullptr, end_session{why});
}

caf::actor session::sibling() const { return loop_.spawn<session>(std::ref(loop_), env_, target_); }

void session::close() {
  closing_ = true;
  switch (stage_) {
  case stage::remote:
    if (!waiting_.empty() || std::exchange(close_said_, true))
      return; // what waits goes first, then we come here again
    link_->protocol().close(*protocol_);
    return link_->touch();
  case stage::local:
    if (!std::exchange(close_said_, true))
      local_->close();
    return;
  case stage::unbound:
  case stage::opening:
    if (waiting_.empty() && stage_ == stage::unbound)
      finish({}, 0);
    return; // when it is open
  case stage::over:
    return;
  }
}

// ---- credit

void session::collect() {
  auto r = account_->take();
  if (stage_ == stage::local)
    return local_->collect(r);
  if (stage_ == stage::remote && protocol_) {
    loop_.unconsumed_bytes -= r.bytes;
    if (r.bytes)
      link_->protocol().consumed(*protocol_, r.bytes, r.messages);
    if (r.reply_bytes)
      link_->protocol().reply_died(r.reply_bytes);
    update_wake();
    link_->touch();
    return;
  }
  loop_.give_back(r);
}

/// The loop hears of returned credit at a quarter of the ration; of every bit while the peer waits for it or
/// the end is near.
void session::update_wake() {
  if (!protocol_)
    return;
  auto& in = protocol_->in();
  bool every = in.peer_is_blocked() || protocol_->now() != net::session::state::open ||
               protocol_->peer_closed();
  auto& o = in.options();
  if (every)
    account_->wake_at(1, 1);
  else
    account_->wake_at(std::max<uint64_t>(1, o.bytes / o.grant_at),
                      std::max<uint64_t>(1, o.messages / o.grant_at));
}

void session::settle_gate() {
  if (!protocol_)
    return;
  auto bytes = protocol_->queued_bytes(), messages = protocol_->queued_messages();
  if (bytes == in_queue_bytes_ && messages == in_queue_messages_)
    return;
  gate_->release(in_queue_bytes_ - bytes, in_queue_messages_ - messages);
  in_queue_bytes_ = bytes;
  in_queue_messages_ = messages;
  wake_producer();
}

void session::wake_producer() {
  if (!producer_ || gate_->session_id() == 0 || !gate_->wanted() || !gate_->has_much_room())
    return;
  if (gate_->take_wanted())
    put(producer_, nullptr, outlet_event{outlet_event::type::credit, outlet_, 0, {}});
}

} // namespace weir::actors
