#include <algorithm>
#include <future>
#include <mutex>
#include <random>
#include <stdexcept>

#include <fmt/format.h>

#include <weir/config.hpp>
#include <weir/node.hpp>

#include "actors/credit_manager.hpp"
#include "actors/cycle_watch.hpp"
#include "actors/dispatcher.hpp"
#include "actors/endpoint.hpp"
#include "actors/link.hpp"
#include "actors/loop.hpp"
#include "actors/session.hpp"
#include "runtime/client_desk.hpp"
#include "runtime/ground.hpp"
#include "runtime/node_option_table.hpp"
#include "runtime/probe.hpp"
#include "runtime/values.hpp"

namespace weir {

namespace {

net::node_id random_id() {
  std::random_device source;
  auto word = [&] { return uint64_t{source()} << 32 | source(); };
  return {word(), word()};
}

actors::rationing rations_of(const node_options& o) {
  using kind = actors::rationing::kind;
  if (o.ration == automatic)
    return {kind::tuned, 0, o.ration_messages, o.grant_at};
  if (o.ration == infinite)
    return {kind::infinite, uint64_t{1} << 20, o.ration_messages, o.grant_at};
  return {kind::fixed, o.ration, o.ration_messages, o.grant_at};
}

std::shared_ptr<actors::environment> environment_of(const node_options& o) {
  auto e = std::make_shared<actors::environment>();
  e->link.node = random_id();
  e->link.node_name = o.name;
  e->link.cluster = o.cluster;
  e->link.message_bytes_max = o.message_max;
  e->link.fragment_bytes = o.fragment;
  e->link.sessions_max = o.sessions_max;
  e->link.calls_max = o.calls_max;
  e->link.reply_room_bytes = o.reply_room;
  e->link.hello_timeout = o.hello_timeout;
  e->link.ping_interval = o.ping_interval;
  e->link.dead_after = o.dead_after;
  e->link.fragment_timeout = o.fragment_timeout;
  e->link.funding_timeout = o.funding_timeout;
  e->rations = rations_of(o);
  e->send_buffer_bytes = o.send_buffer;
  e->send_buffer_messages = o.send_buffer_messages;
  e->call_timeout = o.call_timeout;
  e->connect_timeout = o.connect_timeout;
  e->drain_timeout = o.drain_timeout;
  e->links_max = o.links_max;
  e->idle_timeout = o.idle_timeout;
  e->reconnect_base = o.reconnect_base;
  e->reconnect_cap = o.reconnect_cap;
  e->log = std::make_shared<actors::journal>(
      actors::journal::options{.level = o.log_level, .period = o.log_period, .node = o.name, .write = {}});
  return e;
}

/// A job for an actor of a loop: runs there, in the loop's round.
void run_on(actors::loop& l, std::function<void()> f) { l.post(std::move(f)); }

/// What `f` returns there. A loop that has stopped answers, too (`loop::retire`).
template <class F>
auto ask_loop(actors::loop& l, F f) {
  using value = decltype(f());
  if (l.here())
    return f();
  std::promise<value> done;
  run_on(l, [&] { done.set_value(f()); });
  return done.get_future().get();
}

/// Waits for `f`, by the clock of `l`. False: `until` has come.
bool wait_for(actors::loop& l, auto& f, net::time_point until) {
  if (!l.is_virtual())
    return f.wait_until(until) == std::future_status::ready;
  while (f.wait_for(std::chrono::seconds{0}) != std::future_status::ready)
    if (!l.move_on(until))
      return false;
  return true;
}

/// How long `serve` waits for a service to start, where it may wait.
constexpr auto start_limit = std::chrono::seconds{1};

/// How long `stop` waits for actors to end when draining has used up `drain-timeout`.
constexpr auto end_limit = std::chrono::milliseconds{500};

/// An allowance goes back to the budget of its loop when the service and the last message that it held are
/// gone. Any thread.
struct allowance_end {
  std::weak_ptr<actors::loop> home;

  void operator()(actors::held_allowance* a) const {
    auto bytes = a->bytes_max();
    delete a;
    if (auto l = home.lock())
      l->post([raw = l.get(), bytes] {
        raw->inbound().give(net::charge::held, bytes);
        raw->served_bytes -= bytes;
      });
  }
};

const failure stops{errc::shutting_down, outcome::not_executed, "the node stops"};

} // namespace

struct node::state {
  state(caf::actor_system& s, node_options o) : system(s), options(std::move(o)) {}

  caf::actor_system& system;
  node_options options;
  std::shared_ptr<actors::environment> env;
  std::vector<std::shared_ptr<actors::loop>> loops;
  std::vector<caf::actor_addr> spawned;
  caf::actor dispatcher;
  mutable std::mutex mutex; // what follows, and what `tune` changes of the options
  uint64_t tunings = 0;
  std::vector<caf::actor> acceptors;
  std::vector<std::string> addresses;
  std::vector<net::uri> peers;
  size_t spawned_kept = 64;

  /// The loop whose thread this is, or nullptr.
  actors::loop* here() const {
    for (auto& l : loops)
      if (l->here())
        return l.get();
    return nullptr;
  }
  std::shared_ptr<actors::held_allowance> allow(uint64_t bytes, uint64_t messages, std::string name = {},
                                                when_full w = when_full::wait, uint64_t mailbox_messages = 0);
  /// False: this thread runs one of the loops and would wait for itself.
  bool may_wait() const {
    return std::all_of(loops.begin(), loops.end(), [](auto& l) { return l->may_wait(); });
  }

  std::atomic<size_t> next_loop{0};   // for the next actor
  std::atomic<size_t> next_lookup{0}; // and for the next session, counted apart: who looks up a service and
                                      // then makes the actor that calls it has both on one loop
  std::atomic<bool> stopped{false};   // or about to
  std::mutex stopping;                // held while it stops: a second caller waits
};

node::node(caf::actor_system& sys, const config& cfg) : node(sys, cfg.options()) {}

node::node(caf::actor_system& sys, node_options o) : node(sys, std::move(o), nullptr) {}

node::node(caf::actor_system& sys, node_options o, detail::ground* g)
    : state_(std::make_unique<state>(sys, std::move(o))) {
  auto& s = *state_;
  if (auto ok = validate(s.options); !ok)
    throw start_error{ok.error()};
  s.env = environment_of(s.options);
  net::budget_options share{s.options.budget_bytes / s.options.io_threads, s.options.reserve_bytes};
  net::loop_options on{std::chrono::duration_cast<std::chrono::microseconds>(s.options.spin), false};
  if (g) {
    on = g->loop;
    s.env->link.node = g->id;
    g->adjust(*s.env);
    share = g->budget.value_or(share);
  }
  for (uint32_t i = 0; i < s.options.io_threads; ++i) {
    s.loops.push_back(
        std::make_shared<actors::loop>(sys, on, share, s.options.outbound_bytes / s.options.io_threads));
    s.env->loops.push_back(s.loops.back());
    s.loops.back()->limits_now = {s.env->rations, 0, s.options.budget_bytes / s.options.io_threads};
    if (s.options.slow_handler.count() > 0 && !on.virtual_time)
      s.loops.back()->report_slow(s.options.slow_handler, [log = s.env->log, limit = s.options.slow_handler](
                                                              std::string_view who, net::duration took) {
        log->note(errc::slow_handler, 1, [&] {
          return fmt::format(
              "{} held its loop for {}, and with it all links there (slow-handler {})", who,
              settings::show_duration(std::chrono::duration_cast<std::chrono::microseconds>(took)),
              settings::show_duration(limit));
        });
      });
  }
  if (s.options.stall_limit.count() > 0)
    s.env->cycles = std::make_shared<actors::cycle_watch>(
        actors::cycle_watch::options{s.options.stall_limit, s.options.log_period}, s.env->log, s.loops);
  if (g) {
    g->env = s.env;
    g->loops = s.loops;
    g->made();
  }
  s.dispatcher = s.loops[0]->spawn<actors::dispatcher>();
  s.env->dispatcher = s.dispatcher;
  for (auto& l : s.loops) {
    std::vector<caf::actor> others;
    for (auto& other : s.loops)
      if (other != l)
        others.push_back(other->credit_handle());
    l->credit().set_peers(std::move(others));
  }
  for (auto& l : s.loops)
    l->start();
  if (auto r = serve_probe(); !r) {
    stop();
    throw start_error{r.error()};
  }
  for (auto& u : s.options.listen)
    if (auto r = listen(u); !r) {
      stop();
      throw start_error{r.error()};
    }
  for (auto& u : s.options.connect)
    if (auto r = connect(u); !r) {
      stop();
      throw start_error{r.error()};
    }
}

node::~node() { stop(); }

caf_context* node::next_loop() {
  auto& s = *state_;
  return s.loops[s.next_loop++ % s.loops.size()]->own();
}

result<std::string> node::listen(std::string_view text) {
  auto& s = *state_;
  auto u = net::parse_uri(text);
  if (!u)
    return u.error();
  if (s.stopped)
    return stops;
  auto& l = *s.loops[0];
  actors::environment_ptr env = s.env;
  auto handle = l.spawn<actors::acceptor>(std::ref(l), env);
  auto* raw = static_cast<actors::acceptor*>(caf::actor_cast<caf::abstract_actor*>(handle));
  auto r = ask_loop(l, [&] { return raw->listen(*u); });
  std::lock_guard guard{s.mutex};
  if (!r || s.stopped) {
    put(handle, nullptr, actors::close_session{});
    return r ? stops : r.error();
  }
  s.acceptors.push_back(handle);
  s.addresses.push_back(to_string(*r));
  return s.addresses.back();
}

std::vector<std::string> node::addresses() const {
  std::lock_guard guard{state_->mutex};
  return state_->addresses;
}

result<void> node::connect(std::string_view text) {
  auto& s = *state_;
  auto u = net::parse_uri(text);
  if (!u)
    return u.error();
  if (s.stopped)
    return stops;
  {
    std::lock_guard guard{s.mutex};
    auto& all = s.peers; // each is asked and waited for once, however often it is named
    if (std::find(all.begin(), all.end(), *u) == all.end())
      all.push_back(*u);
  }
  for (auto& l : s.loops)
    run_on(*l, [loop = l.get(), env = actors::environment_ptr{s.env}, to = *u] {
      if (!loop->stopping())
        actors::endpoint_to(*loop, env, to).keep();
    });
  return {};
}

/// What a service may hold, paid for by one loop; nullptr when none can. A loop asks itself only: it must not
/// wait for another.
std::shared_ptr<actors::held_allowance> node::state::allow(uint64_t bytes, uint64_t messages,
                                                           std::string name, when_full w,
                                                           uint64_t mailbox_messages) {
  auto* own = here();
  for (auto& l : loops) {
    if (own && own != l.get())
      continue;
    auto taken = ask_loop(*l, [&] {
      auto ok = l->inbound().take(net::charge::held, bytes);
      l->served_bytes += ok ? bytes : 0;
      return ok;
    });
    if (taken)
      return {new actors::held_allowance(bytes, messages, std::move(name), w, mailbox_messages),
              allowance_end{l}};
  }
  return nullptr;
}

result<void> node::serve_typed(std::string name, uint64_t type, bool stream, const caf::actor& by,
                               const serve_options& o) {
  auto& s = *state_;
  auto bad = [&](std::string why) {
    return result<void>{errc::bad_option, fmt::format("cannot serve '{}': {}", name, why)};
  };
  if (s.stopped)
    return stops;
  if (name.empty() || name.size() > 255)
    return bad("a name has 1 to 255 bytes");
  if (name.starts_with("weir."))
    return bad("names that begin with 'weir.' are weir's own");
  if (o.ration != 0 && (o.ration < 16 << 10 || o.ration > options().budget_bytes / s.options.io_threads / 2))
    return bad(fmt::format("a ration of {} bytes is not within 16KiB and half a loop's budget", o.ration));
  auto* raw = caf::actor_cast<caf::abstract_actor*>(by);
  if (stream) {
    if (!dynamic_cast<sink_base*>(raw))
      return bad("the actor is no weir::sink of that type");
  } else {
    auto* service = dynamic_cast<service_base*>(raw);
    if (!service || service->interface() != type)
      return bad("the actor is no weir::service of that interface");
    // A handler that is missing is an error now, not when it is called. Where it runs on this very thread, or
    // on one that we keep busy, there is nothing to wait for: a service that cannot start ends, and is then
    // served no more.
    auto& clock = *s.loops[0];
    auto limit = s.may_wait() ? start_limit : std::chrono::seconds{0};
    if (auto started = service->started(); wait_for(clock, started, clock.waiting_clock() + limit))
      if (auto& why = started.get(); why.code != errc::none)
        return bad(why.text);
  }
  auto mailbox = o.mailbox_messages ? o.mailbox_messages : s.options.mailbox_messages;
  auto policy = stream ? when_full::wait : o.when_full.value_or(s.options.when_full);
  auto held_bytes = o.held_bytes ? o.held_bytes : s.options.held_bytes;
  auto held_messages = o.held_messages ? o.held_messages : s.options.held_messages;
  auto allowance = s.allow(held_bytes, held_messages, name, policy, mailbox);
  if (!allowance)
    return {
        errc::no_budget,
        fmt::format("cannot serve '{}': the budget has no {} bytes left for what it may hold (held-bytes)",
                    name, held_bytes)};
  put(s.dispatcher, nullptr,
      actors::serve_service{std::move(name), type, stream, by, mailbox, std::move(allowance), o.ration});
  return {};
}

/// Small enough to be there when the budget is used up.
result<void> node::serve_probe() {
  auto& s = *state_;
  auto of = std::make_shared<probed_node>();
  of->env = s.env;
  of->cluster = s.options.cluster;
  of->options = [this] {
    std::vector<std::pair<std::string, std::string>> all;
    auto now = options();
    for (auto& row : settings::node_option_table())
      all.emplace_back(row.name, settings::show(now, row));
    return all;
  };
  of->addresses = [this] { return addresses(); };
  of->started = std::chrono::steady_clock::now();
  auto allowance = s.allow(probe_service::held_bytes, probe_service::held_messages);
  if (!allowance)
    return {errc::no_budget, "budget-bytes: too little for the probe service"};
  auto made = s.loops[0]->spawn<probe_service>(std::shared_ptr<const probed_node>{std::move(of)});
  remember(made);
  put(s.dispatcher, nullptr,
      actors::serve_service{probe_service::served_as, detail::type_id<snapshot::Prober>(), false, made, 0,
                            std::move(allowance), probe_service::ration_bytes});
  return {};
}

std::shared_ptr<detail::session_guard> node::find(std::string name, uint64_t type, bool stream,
                                                  std::string_view at) {
  auto& s = *state_;
  actors::session::target to{std::move(name), type, stream, at.empty(), {}};
  if (at.empty()) {
    std::lock_guard guard{s.mutex};
    to.peers = s.peers;
  } else {
    auto u = net::parse_uri(at);
    if (!u)
      throw std::invalid_argument{u.error().text};
    to.peers.push_back(*u);
  }
  auto* home = s.here();
  if (!home)
    home = s.loops[s.next_lookup++ % s.loops.size()].get();
  actors::environment_ptr env = s.env;
  auto handle = home->spawn<actors::session>(std::ref(*home), env, std::move(to));
  return detail::guard_of(std::move(handle));
}

node_stats node::stats() const {
  node_stats n;
  n.budget = options().budget_bytes;
  n.links_refused = state_->env->count.links_refused;
  auto& count = state_->env->count;
  n.links_accepted = count.links_accepted;
  n.links_dialled = count.links_dialled;
  n.sessions_accepted = count.sessions_accepted;
  n.sessions_refused = count.sessions_refused;
  n.late_frames = count.late_frames;
  for (auto& r : state_->env->log->reasons())
    n.reasons.push_back({r.code, r.times});
  for (auto& l : state_->loops)
    ask_loop(*l, [&] {
      l->credit().measure_pinned();
      n.links += l->links.size();
      for (auto& [link, handle] : l->links)
        n.late_frames += link->late_frames();
      n.sessions += l->sessions.size();
      n.liability += l->inbound().liability();
      n.base_line += l->inbound().options().reserve_bytes + l->served_bytes;
      n.pinned += l->inbound().pinned();
      n.outbound += std::max(l->outbound().bytes(), l->room()->bytes()); // the second: also before its link
      n.refused += l->inbound().refused();
      return 0;
    });
  return n;
}

caf::actor_system& node::system() { return state_->system; }

node_options node::options() const {
  std::lock_guard guard{state_->mutex};
  return state_->options;
}

result<void> node::tune(const tuning& t) {
  auto& s = *state_;
  actors::loop::limits to;
  {
    std::lock_guard guard{s.mutex};
    auto now = s.options;
    if (t.ration) {
      now.ration = *t.ration;
      now.ration_messages = 0; // as it goes with that
    }
    now.ration_messages = t.ration_messages.value_or(now.ration_messages);
    now.budget_bytes = t.budget_bytes.value_or(now.budget_bytes);
    now.fragment = t.fragment.value_or(now.fragment);
    if (auto ok = validate(now); !ok)
      return ok.error();
    s.options.ration = now.ration; // others read the other options without the lock
    s.options.ration_messages = now.ration_messages;
    s.options.budget_bytes = now.budget_bytes;
    s.options.fragment = now.fragment;
    to = {rations_of(now), now.fragment, now.budget_bytes / now.io_threads, ++s.tunings};
  }
  auto may_wait = s.may_wait();
  for (auto& l : s.loops) { // the lock is free again: one of them may be in here, too
    auto change = [raw = l.get(), to] {
      raw->tune(to);
      return 0;
    };
    if (may_wait || l->here())
      ask_loop(*l, change);
    else
      run_on(*l, change);
  }
  return {};
}

void node::remember(const caf::actor& a) {
  auto& s = *state_;
  std::lock_guard guard{s.mutex};
  if (s.stopped)
    return send_exit(caf::actor_cast<caf::strong_actor_ptr>(a), caf::exit_reason::user_shutdown);
  if (s.spawned.size() >= 2 * s.spawned_kept) { // those that have gone are forgotten now and then
    std::erase_if(s.spawned, [](auto& x) { return !caf::actor_cast<caf::strong_actor_ptr>(x); });
    s.spawned_kept = std::max<size_t>(64, s.spawned.size());
  }
  s.spawned.push_back(a.address());
}

/// One on each loop, for a `client`. They end with the node.
std::vector<caf::actor> node::open_desks() {
  std::vector<caf::actor> all;
  for (auto& l : state_->loops) {
    all.push_back(l->spawn<detail::desk>(std::ref(*l)));
    remember(all.back());
  }
  return all;
}

/// The actors that live on the loops must end before the loops do.
void node::stop_spawned(net::time_point until) {
  auto& s = *state_;
  std::vector<caf::strong_actor_ptr> left;
  {
    std::lock_guard guard{s.mutex};
    for (auto& x : s.spawned)
      if (auto a = caf::actor_cast<caf::strong_actor_ptr>(x))
        left.push_back(std::move(a));
    s.spawned.clear();
  }
  std::vector<std::future<void>> ended;
  for (auto& a : left) {
    auto end = std::make_shared<std::promise<void>>();
    ended.push_back(end->get_future());
    caf::actor_cast<caf::abstract_actor*>(a)->attach_functor([end] { end->set_value(); });
    send_exit(a, caf::exit_reason::user_shutdown);
  }
  for (auto& e : ended)
    wait_for(*s.loops[0], e, until);
}

/// Waits until all loops have nothing under way.
void node::drain(net::time_point until) {
  auto& s = *state_;
  std::vector<std::future<void>> drained;
  for (auto& l : s.loops) {
    auto done = std::make_shared<std::promise<void>>();
    drained.push_back(done->get_future());
    run_on(*l, [raw = l.get(), done] { raw->drain([done] { done->set_value(); }); });
  }
  for (auto& d : drained)
    wait_for(*s.loops[0], d, until);
}

void node::stop() {
  auto& s = *state_;
  std::lock_guard one_at_a_time{s.stopping};
  if (s.stopped.exchange(true))
    return;
  {
    std::lock_guard guard{s.mutex};
    for (auto& a : s.acceptors)
      put(a, nullptr, actors::close_session{});
    s.acceptors.clear();
  }
  auto& clock = *s.loops[0];
  auto until = clock.waiting_clock() + s.options.drain_timeout;
  drain(until);
  for (auto& l : s.loops)
    ask_loop(*l, [&] { return l->shut_down(), 0; });
  stop_spawned(std::max<net::time_point>(until, clock.waiting_clock() + end_limit));
  put(s.dispatcher, nullptr, actors::end_session{});
  for (auto& l : s.loops)
    l->stop();
  s.env->dispatcher = nullptr; // no loop runs: nobody looks
  for (auto& l : s.loops)
    l->retire(); // what was just told to end ends now
}

namespace detail {
session_guard::~session_guard() { put(handle_, nullptr, actors::close_session{}); }

std::shared_ptr<session_guard> guard_of(caf::actor session) {
  auto* raw = static_cast<actors::session*>(caf::actor_cast<caf::abstract_actor*>(session));
  return std::make_shared<session_guard>(std::move(session), raw);
}

std::shared_ptr<session_guard> session_source::now() {
  std::lock_guard guard{mutex_};
  if (current_->raw()->entrance()->over())
    current_ = guard_of(current_->raw()->sibling());
  return current_;
}
} // namespace detail

} // namespace weir
