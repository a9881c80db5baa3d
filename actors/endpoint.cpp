#include "actors/endpoint.hpp"

#include <fmt/format.h>

namespace weir::actors {

namespace {
uint64_t seed_of(const net::node_id& id, const net::uri& to) {
  return id.low ^ std::hash<std::string>{}(to_string(to));
}
} // namespace

endpoint::endpoint(caf::actor_config& cfg, loop& l, environment_ptr env, net::uri to)
    : pinnable(cfg),
      loop_(l),
      env_(std::move(env)),
      to_(std::move(to)),
      backoff_({env_->reconnect_base, env_->reconnect_cap}),
      random_(seed_of(env_->link.node, to_)) {}

endpoint::~endpoint() = default;

caf::behavior endpoint::make_behavior() {
  ignore_unexpected();
  return {[this](const close_session&) {
    drain();
    quit(caf::exit_reason::normal);
  }};
}

void endpoint::drain() {
  stopped_ = true;
  dial_.reset();
  if (retry_)
    loop_.cancel(std::exchange(retry_, 0));
  expire_all({errc::shutting_down, outcome::not_executed, "the node stops"});
}

void endpoint::on_exit() {
  dial_.reset();
  if (retry_)
    loop_.cancel(std::exchange(retry_, 0));
  if (expiry_)
    loop_.cancel(std::exchange(expiry_, 0));
  if (idle_)
    loop_.cancel(std::exchange(idle_, 0));
  link_ = nullptr;
}

failure endpoint::take_in(session& s) {
  if (stopped_ || loop_.stopping())
    return {errc::shutting_down, outcome::not_executed, "the node stops"};
  used_ = loop_.now();
  watch_use();
  if (connected())
    return s.bind(link_);
  auto until = loop_.now() + env_->connect_timeout;
  waiting_.push_back({caf::actor_cast<caf::actor>(&s), &s, until});
  if (!expiry_)
    expiry_ = loop_.at(until, [this] { expire(); });
  dial();
  return {};
}

void endpoint::keep() {
  keep_ = true;
  dial();
}

void endpoint::dial() {
  if (link_ || dial_ || retry_ || stopped_)
    return;
  dial_ = env_->connect(loop_, to_, env_->connect_timeout,
                        [this, self = caf::strong_actor_ptr{ctrl()}](auto r) { dialled(std::move(r)); });
}

void endpoint::dialled(result<std::unique_ptr<net::stream>> r) {
  auto over = std::move(dial_); // we are called by it
  if (stopped_)
    return;
  if (!r) {
    env_->log->note(r.error().code, 1,
                    [&] { return fmt::format("dialling {}: {}", to_string(to_), r.error().text); });
    return no_link(r.error());
  }
  auto stream = std::make_shared<std::unique_ptr<net::stream>>(std::move(*r));
  link::stream_maker give = [stream] { return std::move(*stream); };
  auto made = loop_.spawn<link>(std::ref(loop_), env_, std::move(give), net::side::dialled, link_owner{this});
  link_ = static_cast<link*>(caf::actor_cast<caf::abstract_actor*>(made)); // its loop keeps it
  ++env_->count.links_dialled;
}

void endpoint::link_ready(link& l) {
  backoff_.reset();
  last_ = {};
  auto all = std::exchange(waiting_, {});
  for (auto& w : all)
    if (auto why = w.who->bind(&l); why.code != errc::none)
      w.who->fail(why);
}

void endpoint::link_going_away(link& l) {
  if (&l != link_)
    return;
  link_ = nullptr; // new sessions get a new link; the old one drains
  if (keep_)
    dial_later();
}

void endpoint::link_down(link& l, const failure& why) {
  if (&l != link_)
    return;
  link_ = nullptr;
  no_link(why);
}

/// Those who wait for an endpoint that nobody keeps hear why at once; who comes now waits for the next dial.
void endpoint::no_link(const failure& why) {
  last_ = why;
  last_.what = outcome::not_executed;
  dial_later();
  if (!keep_)
    expire_all(last_);
}

void endpoint::dial_later() {
  if (stopped_ || retry_)
    return;
  retry_ = loop_.at(loop_.now() + backoff_.next(random_), [this] {
    retry_ = 0;
    if (!waiting_.empty() || keep_)
      dial();
  });
}

net::time_point endpoint::idle_since() const {
  if (!waiting_.empty() || dial_)
    return loop_.now();
  return link_ ? std::max(used_, link_->idle_since()) : used_;
}

void endpoint::watch_use() {
  if (idle_ || keep_ || stopped_)
    return;
  idle_ = loop_.at(idle_since() + env_->idle_timeout, [this] {
    idle_ = 0;
    if (idle_since() + env_->idle_timeout > loop_.now())
      watch_use();
    else if (!keep_ && !stopped_)
      end_unused();
  });
}

void endpoint::end_unused() {
  stopped_ = true;
  caf::strong_actor_ptr self{ctrl()}; // nobody else may have one
  loop_.endpoints.erase(to_string(to_));
  if (auto* l = std::exchange(link_, nullptr))
    l->go_away("unused for idle-timeout");
  put(self, nullptr, close_session{});
}

void endpoint::expire() {
  expiry_ = 0;
  while (!waiting_.empty() && waiting_.front().until <= loop_.now()) {
    auto w = std::move(waiting_.front());
    waiting_.pop_front();
    auto why = last_;
    if (why.code == errc::none) {
      why = {errc::connect_timeout, outcome::not_executed,
             fmt::format("no link to {} within connect-timeout", to_string(to_))};
      env_->log->note(why.code, 1, [&] { return why.text; });
    }
    w.who->fail(why);
  }
  if (!waiting_.empty())
    expiry_ = loop_.at(waiting_.front().until, [this] { expire(); });
}

void endpoint::expire_all(const failure& why) {
  auto all = std::exchange(waiting_, {});
  for (auto& w : all)
    w.who->fail(why);
}

endpoint& endpoint_to(loop& l, const environment_ptr& env, const net::uri& to) {
  auto& e = l.endpoints[to_string(to)];
  if (!e)
    e = l.spawn<endpoint>(std::ref(l), env, to);
  return *static_cast<endpoint*>(caf::actor_cast<caf::abstract_actor*>(e));
}

caf::behavior acceptor::make_behavior() {
  ignore_unexpected();
  return {[this](const close_session&) { quit(caf::exit_reason::normal); }};
}

result<std::unique_ptr<net::listener>>
listen_on_socket(net::loop& l, const net::uri& at,
                 const std::function<void(environment::stream_maker)>& accepted) {
  auto address = std::make_shared<net::uri>(at);
  auto r = net::listen(l, at, [accepted, address](int descriptor) {
    accepted([descriptor, address](net::loop& target) { return net::adopt(target, descriptor, *address); });
  });
  if (r)
    *address = (*r)->address();
  return r;
}

result<net::uri> acceptor::listen(const net::uri& at) {
  auto r = env_->listen(loop_, at, [this](environment::stream_maker make) { accepted(std::move(make)); });
  if (!r)
    return r.error();
  listener_ = std::move(*r);
  return listener_->address();
}

void acceptor::accepted(environment::stream_maker make) {
  auto& target = *env_->loops[next_loop_++ % env_->loops.size()];
  ++env_->count.links_accepted;
  link::stream_maker make_here = [&target, make = std::move(make)] { return make(target); };
  target.spawn<link>(std::ref(target), env_, std::move(make_here), net::side::accepted, link_owner{});
}

} // namespace weir::actors
