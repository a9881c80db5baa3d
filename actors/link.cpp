#include "actors/link.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "actors/birth_order.hpp"
#include "actors/credit_manager.hpp"
#include "actors/endpoint.hpp"

namespace weir::actors {

namespace {
constexpr size_t iovecs_per_write = 256;
constexpr int writes_per_round = 16; // then other links have their turn
} // namespace

link::link(caf::actor_config& cfg, loop& l, environment_ptr env, stream_maker s, net::side side,
           link_owner owner)
    : pinnable(cfg),
      loop_(l),
      env_(std::move(env)),
      make_stream_(std::move(s)),
      side_(side),
      owner_(owner.who),
      idle_since_(l.now()) {
  if (owner_)
    owner_alive_ = caf::strong_actor_ptr{owner_->ctrl()};
  if (side_ == net::side::accepted)
    place_ = ++env_->count.links_open;
}

link::~link() { leave_place(); }

void link::leave_place() {
  if (std::exchange(place_, 0) > 0)
    --env_->count.links_open;
}

caf::behavior link::make_behavior() {
  ignore_unexpected();
  loop_.links.emplace(this, caf::actor_cast<caf::actor>(this));
  stream_ = std::exchange(make_stream_, nullptr)();
  if (!stream_) { // the connection was gone before we had it
    over_ = true;
    leave_place();
    loop_.links.erase(this);
    return {};
  }
  auto options = env_->link;
  if (loop_.limits_now.fragment_bytes != 0)
    options.fragment_bytes = loop_.limits_now.fragment_bytes;
  mux_ = std::make_unique<net::mux>(std::move(options), side_, loop_.inbound(), loop_.outbound(),
                                    loop_.read_slabs(), loop_.now());
  made_at_ = loop_.now();
  if (!refuse_at_birth()) {
    touch(); // our hello
    wait_readable();
  }
  return {[](answers& a) { answer_all(a); }, [this](found_service& f) { on_found(f); },
          [this](const close_session&) { go_away(); },
          [this](end_session&) { quit(caf::exit_reason::normal); }};
}

/// True: this connection is not wanted, and its other end has been told why.
bool link::refuse_at_birth() {
  bool full = place_ > env_->links_max;
  if (!full && !loop_.stopping())
    return false;
  ++env_->count.links_refused;
  std::byte dropped[hello_read_bytes]; // its hello: closing before it is read might take our reason back
  stream_->read(dropped, sizeof dropped);
  if (!full) {
    stop();
    return true;
  }
  mux_->fail(errc::overloaded, fmt::format("the node has {} accepted links (links-max)", env_->links_max));
  dispatch();
  return true;
}

void link::on_exit() { stop(); }

void link::stop() {
  if (over_)
    return;
  if (!mux_) { // it has not started
    over_ = true;
    leave_place();
    loop_.links.erase(this);
    return put(caf::strong_actor_ptr{ctrl()}, nullptr, end_session{});
  }
  mux_->fail(errc::shutting_down, "the node stops");
  dispatch();
}

// ---- reading

void link::wait_readable() {
  stream_->when_readable([this, self = caf::strong_actor_ptr{ctrl()}] {
    if (!over_)
      read();
  });
}

/// Where the next read goes: behind what is left when that is at the end of the loop's slab, else to a new
/// place in it, with what is left in front.
void link::make_room() {
  auto left = end_ - parsed_;
  auto wanted = std::max<size_t>(mux_->wanted_bytes(), left + read_bytes_min);
  if (left > 0 && in_->used == end_ && in_->size - parsed_ >= wanted)
    return;
  net::slab_ref before = std::move(in_);
  auto slab = ready()
                  ? loop_.read_slab(wanted + 8)
                  : loop_.read_slabs().take(std::max(mux_->wanted_bytes(), left + hello_read_bytes / 2) + 8);
  slab->used = (slab->used + 7) & ~7u;
  if (left > 0)
    std::memcpy(slab->data() + slab->used, before->data() + parsed_, left);
  parsed_ = slab->used;
  slab->used += left;
  end_ = slab->used;
  in_ = std::move(slab);
}

void link::read() {
  loop_.fresh_now();
  make_room();
  auto r = stream_->read(in_->data() + end_, in_->size - end_);
  switch (r.what) {
  case net::io_count::state::ok:
    end_ += static_cast<uint32_t>(r.bytes);
    bytes_in_ += r.bytes;
    in_->used = end_;
    slice_ = std::max(slice_bytes, r.bytes / 4);
    parse();
    return;
  case net::io_count::state::would_block:
    return wait_readable();
  case net::io_count::state::end:
    mux_->lost(reason_of_loss(), "the peer closed the connection");
    break;
  case net::io_count::state::failed:
    mux_->lost(reason_of_loss(), r.text);
    break;
  }
  dispatch();
}

void link::parse() {
  auto n = end_ - parsed_;
  auto taken = mux_->receive(in_->data() + parsed_, n, slice_, loop_.now());
  parsed_ += static_cast<uint32_t>(taken);
  more_ = taken >= slice_ && taken < n;
  dispatch();
  if (over_)
    return;
  rearm_ = !more_;
  touch();
}

void link::dispatch() {
  mux_->take_events(events_);
  for (auto& e : events_)
    handle(e);
  events_.clear();
  hand_over();
  if (mux_->has_reasons())
    note_reasons();
  if (mux_->has_events())
    dispatch();
}

void link::note_reasons() {
  mux_->take_reasons(reasons_);
  for (auto& r : reasons_)
    env_->log->note(r.code, r.times, [&] { return fmt::format("{}: {}", describe(), r.text); });
  reasons_.clear();
}

std::string link::describe() const {
  auto& peer = mux_->peer();
  return was_up() ? fmt::format("link to '{}' ({})", peer.name, stream_->describe())
                  : fmt::format("link {}", stream_->describe());
}

void link::handle(net::event& e) {
  using type = net::event::type;
  auto* s = e.on ? session_of(e.on) : nullptr;
  switch (e.what) {
  case type::ready:
    env_->log->link([&] {
      return fmt::format("{} is up, {}, node {}", describe(),
                         side_ == net::side::dialled ? "dialled" : "accepted", to_string(mux_->peer().node));
    });
    if (owner_)
      owner_->link_ready(*this);
    return;
  case type::open:
    return on_open(*e.on);
  case type::opened:
    if (s)
      s->on_opened();
    return;
  case type::request:
  case type::item:
    ++messages_in_;
    if (s)
      s->on_arrival(e, in_);
    else
      loop_.inbound().give(net::charge::session, e.cost); // its session was given up a moment ago
    return;
  case type::reply:
    ++messages_in_;
    if (s)
      s->on_reply(e, in_);
    else
      loop_.inbound().give(net::charge::reply_room, e.cost);
    return;
  case type::failed:
    if (s)
      s->on_failed(e);
    return;
  case type::credit:
    if (s)
      s->on_credit();
    return;
  case type::finished:
    if (s)
      s->on_finished();
    return;
  case type::blocked:
    if (s)
      s->on_peer_blocked();
    return;
  case type::resumed:
    if (s)
      s->on_peer_resumed();
    return;
  case type::cancelled:
    if (s)
      s->on_cancelled(e.call);
    return;
  case type::ended:
    offered_.erase(e.on->id());
    if (s)
      s->on_ended(e.why ? *e.why : failure{}, e.token);
    return;
  case type::going_away:
    peer_goes_ = true;
    if (owner_)
      owner_->link_going_away(*this);
    return close_idle_sessions();
  case type::down:
    return finish(e.why ? *e.why : failure{errc::link_lost, outcome::unknown, "the link is lost"});
  }
}

void service_port::hand_over(loop& home, caf::strong_actor_ptr from) {
  if (reader != 0)
    put(to, nullptr, rows_arrived{reader, std::move(batch)});
  else
    put(to, std::move(from), arrived{std::move(batch), &home, allowance});
  batch = arrivals{};
}

/// Hands each service its part of what was read: one mailbox element.
void link::hand_over() {
  for (auto* p : touched_ports_)
    if (!p->batch.empty())
      flush_port(p);
  touched_ports_.clear();
}

void link::flush_port(service_port* p) {
  if (p->batch.empty())
    return;
  auto n = p->batch.size();
  p->hand_over(loop_, caf::strong_actor_ptr{ctrl()});
  p->batch.reserve(n);
}

// ---- sessions

failure link::open(session& s) {
  failure why;
  net::open_request r{s.to().service, s.to().interface, s.to().stream, 0, {0, 0, 4}};
  if (s.to().rows != 0) {
    r.replies_in = loop_.first_ration();
    r.replies_range = loop_.limits_now.rations.range(false);
  }
  auto* protocol = mux_->open(r, why);
  if (!protocol)
    return why;
  protocol->owner = &s;
  sessions_.emplace(&s, caf::actor_cast<caf::actor>(&s));
  opening_.emplace(&s, protocol);
  touch();
  return {};
}

net::session* link::protocol_of(session& s) {
  auto i = opening_.find(&s);
  auto* p = i->second;
  opening_.erase(i);
  return p;
}

void link::forget(session& s) {
  if (auto i = opening_.find(&s); i != opening_.end()) { // given up before the peer has answered
    auto* protocol = i->second;
    opening_.erase(i);
    protocol->owner = nullptr;
    if (!over_) {
      mux_->abort(*protocol, errc::session_aborted, "given up before it was open");
      touch();
    }
  }
  if (s.queue_is_noted())
    std::erase(queued_, &s);
  sessions_.erase(&s);
  idle_since_ = loop_.now();
}

void link::on_open(net::session& s) {
  offered_.emplace(s.id(), &s);
  put(env_->dispatcher, caf::strong_actor_ptr{ctrl()},
      find_service{s.service(), s.interface(), s.is_stream(), loop_.first_ration().messages, s.id()});
}

void link::on_found(found_service& f) {
  auto i = offered_.find(static_cast<uint32_t>(f.id));
  auto* s = i == offered_.end() ? nullptr : i->second;
  if (over_ || !s) { // the peer gave it up
    if (f.why.code == errc::none)
      put(env_->dispatcher, nullptr, return_mailbox{f.name, f.ration_messages});
    return;
  }
  if (f.why.code != errc::none) {
    touch();
    offered_.erase(i);
    ++env_->count.sessions_refused;
    return mux_->refuse(*s, f.why.code, f.why.text, f.why.code == errc::overloaded);
  }
  auto wanted = f.ration_bytes ? f.ration_bytes : loop_.first_ration().bytes;
  loop_.credit().seek(wanted, [this, self = caf::strong_actor_ptr{ctrl()}, id = s->id(), f, wanted] {
    auto again = offered_.find(id);
    if (over_ || again == offered_.end()) {
      put(env_->dispatcher, nullptr, return_mailbox{f.name, f.ration_messages});
      return;
    }
    touch();
    auto& offer = *again->second;
    if (accept(offer, f))
      return;
    offered_.erase(id);
    ++env_->count.sessions_refused;
    put(env_->dispatcher, nullptr, return_mailbox{f.name, f.ration_messages});
    mux_->refuse(offer, errc::no_budget,
                 fmt::format("the budget has no {} bytes left for a session (budget-bytes, ration)", wanted),
                 true);
  });
}

/// False: the budget cannot fund it.
bool link::accept(net::session& s, const found_service& f) {
  auto ration = loop_.first_ration();
  auto range = f.ration_bytes ? net::ration_range{} : loop_.limits_now.rations.range(f.dealt);
  if (f.ration_bytes)
    ration.bytes = f.ration_bytes;
  ration.messages = std::min(ration.messages, f.ration_messages);
  if (!mux_->accept(s, ration, 0, range))
    return false;
  offered_.erase(s.id());
  ++env_->count.sessions_accepted;
  auto made = loop_.spawn<session>(std::ref(loop_), env_, std::ref(*this), &s);
  auto* raw = static_cast<session*>(caf::actor_cast<caf::abstract_actor*>(made));
  s.owner = raw;
  sessions_.emplace(raw, made);
  raw->serve(port_of(f), f);
  return true;
}

service_port* link::port_of(const found_service& f) {
  auto& p = ports_[f.service.id()];
  if (!p)
    p = std::make_unique<service_port>(
        service_port{caf::actor_cast<caf::strong_actor_ptr>(f.service), f.allowance, {}});
  ++p->sessions;
  return p.get();
}

void link::leave_port(service_port* p) {
  if (--p->sessions > 0)
    return;
  std::erase(touched_ports_, p);
  ports_.erase(p->to->id());
}

void link::answer_all(answers& a) {
  for (auto& x : a.items)
    if (auto* s = x.to->owner())
      s->answer_call(x);
}

void link::go_away(std::string why) {
  if (!ready())
    return stop();
  goes_ = true;
  mux_->go_away(errc::going_away, std::move(why));
  close_idle_sessions();
  touch();
}

/// Sessions to services end when their open calls have: idle refs do not keep a link from draining. A stream
/// is its producer's to end.
void link::close_idle_sessions() {
  for (auto* s : in_order_of_birth(sessions_))
    if (auto* p = s->protocol(); p && p->opened_here() && !p->is_stream() && s->to().rows == 0)
      s->close();
}

// ---- writing

void link::touch() {
  if (!std::exchange(in_round_, true))
    loop_.at_end_of_round(*this);
}

void link::end_of_round() {
  in_round_ = false;
  if (over_)
    return;
  if (!write_blocked_)
    write();
  settle_gates();
  if (mux_->has_events() || mux_->has_reasons())
    dispatch();
  if (over_)
    return;
  if (mux_->drained()) {
    mux_->lost(errc::going_away, "the link is drained");
    return dispatch();
  }
  arm_timer();
  if (std::exchange(more_, false))
    parse();
  else if (std::exchange(rearm_, false)) { // after the write: the next read delays no answer
    if (parsed_ == end_) {
      in_.reset();
      parsed_ = end_ = 0;
    }
    wait_readable();
  }
}

void link::write() {
  iovec v[iovecs_per_write];
  for (int i = 0; i < writes_per_round && mux_->wants_write(); ++i) {
    auto n = mux_->gather(v, loop_.now());
    if (n == 0)
      return;
    size_t offered = 0;
    for (size_t k = 0; k < n; ++k)
      offered += v[k].iov_len;
    auto r = stream_->write(v, static_cast<int>(n));
    if (r.what == net::io_count::state::failed) {
      mux_->lost(errc::link_lost, r.text);
      return dispatch();
    }
    mux_->wrote(r.bytes);
    bytes_out_ += r.bytes;
    if (r.bytes < offered) {
      write_blocked_ = true;
      return stream_->when_writable([this, self = caf::strong_actor_ptr{ctrl()}] {
        write_blocked_ = false;
        if (!over_)
          touch();
      });
    }
  }
  if (mux_->wants_write())
    touch();
}

void link::settle_gates() {
  for (size_t i = 0; i < queued_.size();) {
    auto* s = queued_[i];
    s->settle_gate();
    if (s->queue_is_empty()) {
      s->forget_queued();
      queued_[i] = queued_.back();
      queued_.pop_back();
    } else {
      ++i;
    }
  }
}

void link::arm_timer() {
  auto due = mux_->next_tick();
  if (due >= timer_at_)
    return;
  if (timer_)
    loop_.cancel(timer_);
  timer_at_ = due;
  timer_ = loop_.at(due, [this] {
    timer_ = 0;
    timer_at_ = net::time_point::max();
    mux_->tick(loop_.now());
    dispatch();
    if (!over_)
      touch();
  });
}

void link::finish(const failure& why) {
  if (std::exchange(over_, true))
    return;
  if (was_up())
    env_->log->link([&] { return fmt::format("{} is down: {}", describe(), to_string(why)); });
  env_->count.late_frames += mux_->late_frames();
  if (mux_->wants_write() && !write_blocked_) { // the reason, as far as it goes
    iovec v[iovecs_per_write];
    if (auto n = mux_->gather(v, loop_.now()))
      stream_->write(v, static_cast<int>(n));
  }
  stream_->close();
  if (timer_)
    loop_.cancel(std::exchange(timer_, 0));
  loop_.forget(*this);
  offered_.clear();
  for (auto* s : std::exchange(queued_, {})) // else each would be looked for in them
    s->forget_queued();
  while (!sessions_.empty())
    for (auto* s : in_order_of_birth(sessions_))
      if (sessions_.contains(s))
        s->on_ended(why, 0);
  if (auto* o = std::exchange(owner_, nullptr))
    o->link_down(*this, why);
  leave_place();
  put(caf::strong_actor_ptr{ctrl()}, nullptr, end_session{why});
  loop_.links.erase(this);
}

} // namespace weir::actors
