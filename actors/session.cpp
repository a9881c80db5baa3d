#include "actors/session.hpp"

#include <algorithm>
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
} // namespace

session::session(caf::actor_config& cfg, loop& l, environment_ptr env, target to, row_reader reader)
    : pinnable(cfg),
      loop_(l),
      env_(std::move(env)),
      target_(std::move(to)),
      reader_(std::move(reader)),
      sends_stream_(target_.stream),
      gate_(std::make_shared<gate>(env_->send_buffer_bytes, env_->send_buffer_messages, l.room())),
      account_(new account{l.port(), this}) {}

session::session(caf::actor_config& cfg, loop& l, environment_ptr env, link& from, net::session* protocol)
    : session(cfg, l, std::move(env),
              target{protocol->service(), protocol->interface(), protocol->is_stream(), false, {}, 0}) {
  link_ = &from;
  protocol_ = protocol;
  stage_ = stage::remote;
  sends_stream_ = !target_.stream && protocol->out().limit().messages > 0;
  if (target_.stream || sends_stream_)
    account_->set_back(caf::weak_actor_ptr{ctrl()});
  if (!sends_stream_)
    return;
  gate_->open(protocol->id());
  gate_->publish(protocol->out().limit());
}

session::~session() {
  account_->drop(); // orphaned by then
}

caf::behavior session::make_behavior() {
  ignore_unexpected();
  if (stage_ == stage::unbound && loop_.stopping())
    return refuse_all();
  self_ = caf::actor_cast<caf::actor>(this);
  if (stage_ != stage::over)
    loop_.sessions.insert(this);
  made_at_ = loop_.now();
  if (stage_ == stage::unbound && target_.rows == 0)
    look_up();
  else if (stage_ == stage::unbound)
    loop_.credit().seek(loop_.first_ration().bytes, [this, self = self_] {
      if (stage_ == stage::unbound)
        look_up();
    });
  return {[this](ask& a) { carry(std::move(a), current_sender()); },
          [this](const cancel_call& c) { give_up(c.token, current_sender()); },
          [](answers& a) { link::answer_all(a); },
          [this](found_service& f) { on_found(f); },
          [this](const close_session&) { close(); },
          [this](const abort_session& a) { abort(a.why); },
          [this](const want& w) { hear(w); },
          [this](produce& p) { set_producer(std::exchange(p.producer, nullptr), p.outlet); },
          [this](end_session& e) {
            self_ = nullptr;
            quit(e.why.code == errc::none ? caf::error{caf::exit_reason::normal}
                                          : caf::error{caf::exit_reason::remote_link_unreachable});
          }};
}

/// Looked up on a node that stops: it ends when its user has let go of it, for every call is to get its
/// answer.
caf::behavior session::refuse_all() {
  const failure why{errc::shutting_down, outcome::not_executed, "the node stops"};
  stage_ = stage::over;
  gate_->end(why);
  account_->orphan();
  fail_waiting(why); // what was carried on the loop before it was started
  cancel_timers();
  return {[this, why](ask& a) { refuse(current_sender(), a, why); },
          [this](produce& p) { set_producer(std::exchange(p.producer, nullptr), p.outlet); },
          [this](const close_session&) { quit(caf::exit_reason::normal); },
          [this](const abort_session&) { quit(caf::exit_reason::normal); }};
}

void session::cancel_timers() {
  for (auto* t : {&retry_, &expiry_, &press_})
    if (*t)
      loop_.cancel(std::exchange(*t, 0));
}

void session::on_exit() {
  if (stage_ != stage::over)
    end_now({errc::session_aborted, outcome::unknown, "the session was stopped"});
  producer_ = nullptr;
  service_ = nullptr;
  self_ = nullptr;
}

// ---- finding a conversation

void session::look_up() {
  if (!target_.here_first)
    return next_peer({errc::no_such_service, outcome::not_executed, "no peer to ask"});
  put(env_->dispatcher, caf::strong_actor_ptr{ctrl()},
      find_service{target_.service, target_.interface, target_.stream, loop_.first_ration().messages, 0});
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
  loop_.credit().seek(loop_.first_ration().bytes,
                      [this, self = caf::strong_actor_ptr{ctrl()}, f] { converse_here(f); });
}

void session::converse_here(const found_service& f) {
  if (stage_ != stage::unbound) // it ended while the loops looked for budget
    return put(env_->dispatcher, nullptr, return_mailbox{target_.service, f.ration_messages});
  local_ = std::make_unique<local_conversation>(*this, f);
  auto why = local_->start();
  if (why.code == errc::none && target_.rows != 0)
    why = open_way_back();
  if (why.code != errc::none) {
    local_->end(why);
    local_.reset();
    put(env_->dispatcher, nullptr, return_mailbox{target_.service, f.ration_messages});
    return on_ended(why, 0);
  }
  if (target_.stream)
    account_->set_back(caf::weak_actor_ptr{ctrl()});
  service_ = f.service;
  mailbox_messages_ = f.ration_messages;
  note_ration(f);
  stage_ = stage::local;
  gate_->open(1);
  loop_.watch_service(service_, *this);
  drain_waiting();
  wake_producer();
  if (closing_)
    close();
}

/// Rows of a service of this node come on a session of their own, whose service is their reader.
failure session::open_way_back() {
  target to{target_.service, target_.rows, true, true, {}, 0};
  way_back_ = loop_.spawn<session>(std::ref(loop_), env_, std::move(to), reader_);
  auto* raw = static_cast<session*>(caf::actor_cast<caf::abstract_actor*>(way_back_));
  account_->set_back(caf::weak_actor_ptr{raw->ctrl()});
  return raw->serve_rows();
}

failure session::serve_rows() {
  found_service f;
  f.service = caf::actor_cast<caf::actor>(reader_.who);
  f.ration_messages = loop_.first_ration().messages;
  local_ = std::make_unique<local_conversation>(*this, f, reader_.id);
  if (auto why = local_->start(); why.code != errc::none) {
    local_.reset();
    finish(why, 0);
    return why;
  }
  stage_ = stage::local;
  gate_->open(1);
  return {};
}

void session::next_peer(failure why) {
  while (why.code != errc::none && next_peer_ < target_.peers.size())
    why = endpoint_to(loop_, env_, target_.peers[next_peer_++]).take_in(*this);
  if (why.code != errc::none)
    on_ended(why, 0);
}

failure session::bind(link* l) {
  if (stage_ == stage::over)
    return {}; // its user gave it up while it waited for the link
  link_ = l;
  stage_ = stage::opening;
  auto why = l->open(*this);
  if (why.code != errc::none) {
    link_ = nullptr;
    stage_ = stage::unbound;
  }
  return why;
}

void session::fail(const failure& why) {
  if (stage_ == stage::over)
    return;
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
  if (reader_.who) {
    rows_.to = reader_.who;
    rows_.reader = reader_.id;
    port_ = &rows_;
  }
  update_wake();
  drain_waiting();
  wake_producer();
  if (closing_)
    close();
}

// ---- carrying

void session::carry(ask a, const caf::strong_actor_ptr& from) {
  a.bounce_to = nullptr; // from here on it is the session that answers
  a.bounced_by = nullptr;
  switch (stage_) {
  case stage::remote:
    return carry_remote(a, from);
  case stage::local:
    return local_->carry(a, from);
  case stage::unbound:
  case stage::opening:
    waiting_.push_back({std::move(a), from});
    return arm_expiry();
  case stage::over:
    release(a.message.cost(), a.message.count);
    return tell_failure(from, a,
                        loop_.stopping()
                            ? failure{errc::shutting_down, outcome::not_executed, "the node stops"}
                            : gate_->why_over());
  }
}

void session::carry_remote(ask& a, const caf::strong_actor_ptr& from) {
  auto cost = a.message.cost();
  auto count = a.message.count;
  failure why;
  if (sends_stream_ && (!waiting_.empty() || !has_outbound_room(cost))) { // a stream has no holes: it waits
    waiting_.push_back({std::move(a), from});
    return retry_later();
  }
  if (a.token == 0) {
    auto r = link_->protocol().post(*protocol_, std::move(a.message), a.in_lane, note_teller(a.from_teller));
    if (!r)
      why = r.error();
  } else {
    auto ticket = add_caller(from, a.token);
    auto r = link_->protocol().call(*protocol_, std::move(a.message),
                                    {ticket, a.deadline, a.reply_room_bytes, a.in_lane});
    callers_[ticket].call = r ? *r : 0;
    if (!r) {
      free_tickets_.push_back(ticket);
      callers_[ticket].who = nullptr;
      why = r.error();
    }
  }
  if (why.code != errc::none)
    return refuse(from, a, cost, count, why);
  a.from_teller = nullptr;
  in_queue_bytes_ += cost;
  in_queue_messages_ += count;
  link_->note_queued(*this);
  link_->touch();
}

/// A message that cannot be carried. A stream with a hole in it is no stream: it ends with the reason.
void session::refuse(const caf::strong_actor_ptr& from, ask& a, uint64_t cost, uint64_t count,
                     const failure& why) {
  note(why);
  a.bounced_by = nullptr;
  release(cost, count);
  a.message.count = static_cast<uint32_t>(count);
  if (!sends_stream_ || stage_ == stage::over)
    return tell_failure(from, a, why);
  abort(why);
}

void session::note(const failure& why) const {
  env_->log->note(why.code, 1, [&] { return fmt::format("session to '{}': {}", target_.service, why.text); });
}

void session::abort(const failure& why) {
  if (stage_ != stage::remote)
    return finish(why, 0);
  gate_->end(why);
  link_->protocol().abort(*protocol_, why.code,
                          why.text); // its events say what was lost, then that it is over
  link_->touch();
}

void session::end_now(const failure& why) {
  if (stage_ == stage::remote)
    abort(why);
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

uint32_t session::add_caller(const caf::strong_actor_ptr& from, uint64_t token) {
  if (free_tickets_.empty()) {
    free_tickets_.push_back(static_cast<uint32_t>(callers_.size()));
    callers_.emplace_back();
  }
  auto ticket = free_tickets_.back();
  free_tickets_.pop_back();
  callers_[ticket] = {from, token, 0, loop_.now()};
  return ticket;
}

/// The reply to fill in, and whom it is for.
reply session::end_caller(uint64_t ticket, caf::strong_actor_ptr& who) {
  auto& c = callers_[ticket];
  who = std::exchange(c.who, nullptr);
  free_tickets_.push_back(static_cast<uint32_t>(ticket));
  return {c.token, failure{}};
}

/// What the mux knows a one-way message by, should it be lost. Those who have gone are forgotten now and
/// then.
uint64_t session::note_teller(std::shared_ptr<teller> t) {
  if (!t)
    return 0;
  if (tellers_.size() >= tellers_kept_ && in_queue_messages_ == 0) {
    tellers_.clear();
    tellers_kept_ = 16;
  } else if (tellers_.size() >= tellers_kept_) {
    tellers_kept_ *= 2;
  }
  auto token = reinterpret_cast<uintptr_t>(t.get());
  tellers_.try_emplace(token, std::move(t));
  return token;
}

void session::tell_failure(const caf::strong_actor_ptr& to, ask& a, const failure& why) {
  a.bounce_to = nullptr;
  if (a.token != 0)
    put(to, nullptr, reply{a.token, why});
  else
    tell_lost(std::exchange(a.from_teller, nullptr), a.message.count);
}

void session::drain_waiting() {
  for (auto& w : waiting_.take_all())
    carry(std::move(w.what), w.from);
  if (expiry_ && waiting_.empty())
    loop_.cancel(std::exchange(expiry_, 0));
}

void session::fail_waiting(waiting_list::item& w, const failure& why) {
  release(w.what.message.cost(), w.what.message.count);
  tell_failure(w.from, w.what, why);
}

void session::fail_waiting(const failure& why) {
  for (auto& w : waiting_.take_all())
    fail_waiting(w, why);
}

/// What waits is given up when its deadline has passed, however long the session takes to open.
void session::arm_expiry() {
  if (expiry_ || waiting_.deadline() == net::time_point::max())
    return;
  expiry_ = loop_.at(std::max(waiting_.deadline(), loop_.now() + deadline_grain), [this] {
    expiry_ = 0;
    expire();
  });
}

void session::expire() {
  for (auto& w : waiting_.take_expired(loop_.now()))
    fail_waiting(w, {errc::deadline_exceeded, outcome::not_executed, "the session did not open in time"});
  arm_expiry();
}

void session::give_up(uint64_t token, const caf::strong_actor_ptr& from) {
  if (stage_ == stage::local)
    return local_->give_up(token, from);
  for (auto& w : waiting_.take_call(token, from))
    return fail_waiting(w, {errc::cancelled, outcome::not_executed, "cancelled by the caller"});
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
  caf::strong_actor_ptr who;
  auto r = end_caller(e.token, who);
  account_->hold();
  r.in = delivery::reply(e.message, e.memory ? std::move(e.memory) : read_memory, account_, e.cost);
  put(who, nullptr, std::move(r));
}

void session::on_failed(net::event& e) {
  if (e.call == 0)
    return on_lost_message(e);
  caf::strong_actor_ptr who;
  auto r = end_caller(e.token, who);
  r.why = *e.why;
  put(who, nullptr, std::move(r));
}

/// Queued one-way messages that the peer could not fund, or that were queued when the session ended. A stream
/// with a hole in it is no stream: it ends.
void session::on_lost_message(net::event& e) {
  if (sends_stream_)
    return abort(*e.why);
  if (auto t = tellers_.find(e.token); t != tellers_.end())
    tell_lost(t->second, e.count);
}

void session::on_arrival(net::event& e, const net::slab_ref& read_memory) {
  loop_.unconsumed_bytes += e.cost;
  if (stalled_since_ == net::time_point{})
    stalled_since_ = loop_.now();
  if (net::envelope head;
      e.call == 0 && item_type() != 0 && (!net::read_envelope(e.message, head) || head.type != item_type())) {
    account_->give_back(e.cost, 1);
    auto why = failure{errc::wrong_type, outcome::not_executed,
                       fmt::format("an item of type {:#x} on a stream of {:#x}", head.type, item_type())};
    return abort(why);
  }
  if (target_.stream)
    tell_opened();
  if (e.call != 0 && !port_->allowance->mailbox.enter()) {
    account_->give_back(e.cost, 1);
    auto why = port_->allowance->mailbox.refusal();
    note(why);
    link_->protocol().reply_failure(*protocol_, e.call, why);
    return link_->touch();
  }
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

void session::serve(service_port* port, const found_service& f) {
  port_ = port;
  service_ = f.service;
  mailbox_messages_ = f.ration_messages;
  note_ration(f);
  update_wake();
  loop_.watch_service(service_, *this);
}

void session::service_is_gone() {
  failure why{errc::service_down, outcome::unknown, fmt::format("the service '{}' is gone", target_.service)};
  put(caf::strong_actor_ptr{ctrl()}, nullptr, abort_session{std::move(why)});
}

/// The sink hears of a stream with its first message, or with its end.
void session::tell_opened() {
  if (!std::exchange(stream_opened_, true))
    put(port_->to, nullptr, stream_event{stream_event::type::opened, account_});
}

void session::on_finished() {
  update_wake(); // the peer waits until the last message has died
  collect();
  if (reader_.who && port_) {
    link_->flush_port(port_); // the last rows go first
    return put(reader_.who, nullptr, rows_arrived{reader_.id, failure{}});
  }
  if (!target_.stream)
    return;
  tell_opened();
  link_->flush_port(port_); // its last messages go first
  put(port_->to, nullptr, stream_event{stream_event::type::finished, account_});
}

void session::on_ended(const failure& why, uint64_t consumed) {
  auto may_be_elsewhere = stage_ == stage::opening && why.code == errc::no_such_service;
  if (!may_be_elsewhere || next_peer_ == target_.peers.size())
    return finish(why, consumed);
  caf::strong_actor_ptr keep{ctrl()};
  link_->forget(*this);
  fail(why);
}

void session::finish(const failure& why, uint64_t consumed) {
  if (stage_ == stage::over)
    return;
  if (!link_ && why.code != errc::none && why.code != errc::connect_failed &&
      why.code != errc::connect_timeout) // those are its endpoint's to count
    note(why);
  bool accepted = port_ != nullptr && port_ != &rows_;
  if (link_ && port_)
    link_->flush_port(port_);
  stage_ = stage::over;
  gate_->end(why);
  auto told = why.code == errc::none
                  ? failure{errc::session_closed, outcome::not_executed, "the session is closed"}
                  : why;
  fail_waiting({told.code, outcome::not_executed, told.text});
  release(std::exchange(in_queue_bytes_, 0), std::exchange(in_queue_messages_, 0));
  if (local_)
    local_->end(told);
  for (auto& c : callers_)
    if (c.who)
      put(std::exchange(c.who, nullptr), nullptr,
          reply{c.token, failure{told.code, outcome::unknown, told.text}});
  tell_producer({why.code == errc::none ? outlet_event::type::closed : outlet_event::type::failed, outlet_,
                 consumed, why});
  producer_ = nullptr;
  if (accepted && target_.stream && stream_opened_) {
    put(port_->to, nullptr, stream_event{stream_event::type::ended, account_, why});
  }
  if (reader_.who && why.code != errc::none)
    put(reader_.who, nullptr, rows_arrived{reader_.id, why});
  reader_.who = rows_.to = nullptr;
  if (way_back_ && why.code != errc::none)
    static_cast<session*>(caf::actor_cast<caf::abstract_actor*>(way_back_))->abort(why);
  way_back_ = nullptr;
  if (mailbox_messages_ > 0)
    put(env_->dispatcher, nullptr, return_mailbox{target_.service, mailbox_messages_});
  collect();
  account_->orphan();
  account_->wake_at(0, 0);
  loop_.give_back(account_->take()); // what came back between collect() and wake_at()
  if (protocol_)
    protocol_->owner = nullptr;
  if (link_) {
    if (port_ == &rows_)
      link_->forget_port(port_);
    else if (port_)
      link_->leave_port(port_);
    link_->forget(*this);
  }
  link_ = nullptr;
  protocol_ = nullptr;
  port_ = nullptr;
  loop_.sessions.erase(this);
  if (service_)
    loop_.forget_watch(service_, *this);
  cancel_timers();
  put(caf::strong_actor_ptr{ctrl()}, nullptr, end_session{why});
}

caf::actor session::sibling(uint64_t rows, row_reader reader) const {
  auto to = target_;
  to.rows = rows;
  return loop_.spawn<session>(std::ref(loop_), env_, std::move(to), std::move(reader));
}

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

void session::drain() {
  if (!target_.stream && !port_)
    close();
}

} // namespace weir::actors
