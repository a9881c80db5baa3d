#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include <weir/testing.hpp>

#include "net/uri.hpp"
#include "runtime/ground.hpp"
#include "runtime/testing/wire.hpp"
#include "runtime/testing/world.hpp"

namespace weir::testing {

namespace {
constexpr uint16_t usual_port = 7000;
constexpr uint64_t usual_budget_bytes = 64 << 20, usual_outbound_bytes = 16 << 20;

/// What the node makes of its options must not depend on the machine that the test runs on.
node_options settled(const std::string& name, node_options o, uint32_t loops) {
  o.io_threads = loops;
  if (o.name.empty())
    o.name = name;
  if (o.budget_bytes == 0)
    o.budget_bytes = usual_budget_bytes;
  if (o.outbound_bytes == 0)
    o.outbound_bytes = usual_outbound_bytes;
  if (o.listen.empty())
    o.listen.push_back(fmt::format("tcp://{}:{}", name, usual_port));
  return o;
}
} // namespace

struct network::member {
  std::string name;
  weir::detail::ground ground;
  std::unique_ptr<weir::node> node;
};

network::network(caf::actor_system& sys, network_options o)
    : system_(sys), world_(std::make_shared<detail::world>(std::move(o))) {}

network::~network() {
  while (!members_.empty()) {
    members_.pop_back();
    world_->settle(); // the others see their links end
  }
  world_->end();
}

// ---- nodes

node& network::add_node(const std::string& name, node_options o) {
  return add(name, std::move(o), [](auto&) {});
}

node& network::add(const std::string& name, node_options o,
                   const std::function<void(weir::detail::ground&)>& change) {
  if (!net::parse_uri(fmt::format("tcp://{}:{}", name, usual_port)))
    throw std::invalid_argument{fmt::format("weir::testing: '{}' is no host name", name)};
  if (std::any_of(members_.begin(), members_.end(), [&](auto& m) { return m->name == name; }))
    throw std::invalid_argument{fmt::format("weir::testing: there is a node '{}' already", name)};
  auto made = std::make_unique<member>();
  made->name = name;
  auto& g = made->ground;
  auto w = world_;
  g.loop = {std::chrono::microseconds{0}, true, w, w->draw(~uint64_t{0})};
  g.id = {w->draw(~uint64_t{0}), w->draw(~uint64_t{0})};
  g.adjust = [w, name](actors::environment& e) {
    e.connect = [w, name](auto& l, auto& to, auto timeout, auto f) {
      return w->connect(name, l, to, timeout, std::move(f));
    };
    e.listen = [w, name](auto&, auto& at, auto f) { return w->listen(name, at, std::move(f)); };
  };
  g.made = [w, &g] {
    for (auto& l : g.loops)
      w->add_loop(l);
  };
  change(g);
  w->add_place(name);
  made->node = weir::detail::node_on_ground::make(system_, settled(name, std::move(o), g.io_threads), g);
  members_.push_back(std::move(made));
  return *members_.back()->node;
}

void network::remove_node(const std::string& name) {
  auto i = std::find_if(members_.begin(), members_.end(), [&](auto& m) { return m->name == name; });
  if (i == members_.end())
    throw std::out_of_range{fmt::format("weir::testing: there is no node '{}'", name)};
  members_.erase(i);
  run(); // the others see their links end
}

network::member& network::at(const std::string& name) const {
  for (auto& m : members_)
    if (m->name == name)
      return *m;
  throw std::out_of_range{fmt::format("weir::testing: there is no node '{}'", name)};
}

node& network::operator[](const std::string& name) const { return *at(name).node; }

// ---- time

duration network::now() const { return world_->elapsed(); }
void network::run() {
  world_->settle();
  check_rest();
}

void network::check_rest() const {
  if (world_->restless())
    throw std::runtime_error{
        fmt::format("weir::testing: the network does not come to rest within rounds_max (seed {})", seed())};
}

void network::advance(duration d) {
  auto until = world_->now() + d;
  while (world_->move_on(until)) {
  }
  check_rest();
}

bool network::run_until(const std::function<bool()>& done, duration limit) {
  auto until = world_->now() + limit;
  while (!done())
    if (!world_->move_on(until)) {
      check_rest();
      return done();
    }
  return true;
}

void network::after(duration d, std::function<void()> f) { world_->plan(world_->now() + d, std::move(f)); }

// ---- what goes wrong

paths network::between(const std::string& a, const std::string& b) const {
  for (auto& name : {a, b})
    if (!world_->knows(name))
      throw std::out_of_range{fmt::format("weir::testing: there is no node '{}'", name)};
  return paths{world_, a, b, true};
}

paths network::from(const std::string& from, const std::string& to) const {
  auto p = between(from, to);
  p.both_ = false;
  return p;
}

void network::set_faults(const faults& f) { world_->chance = f; }
uint64_t network::seed() const { return world_->seed(); }

paths::paths(std::shared_ptr<detail::world> w, std::string a, std::string b, bool both)
    : world_(std::move(w)), from_(std::move(a)), to_(std::move(b)), both_(both) {}

/// Changes what it stands for, then lets the connections notice.
paths& paths::change(const std::function<void(detail::path&)>& f) {
  f(world_->between(from_, to_));
  if (both_)
    f(world_->between(to_, from_));
  for (auto& w : world_->wires(from_, to_))
    w->stir();
  return *this;
}

paths& paths::delay(duration d) {
  return change([d](auto& p) { p.delay = std::max(d, duration{0}); });
}
paths& paths::stall() {
  return change([](auto& p) { p.stalled = true; });
}
paths& paths::resume() {
  return change([](auto& p) { p.stalled = false; });
}
paths& paths::capacity(size_t bytes) {
  return change([bytes](auto& p) { p.capacity = bytes; });
}
paths& paths::dials(dialling what) {
  return change([what](auto& p) { p.dials = what; });
}
paths& paths::cut() {
  for (auto& w : world_->wires(from_, to_))
    w->cut();
  return *this;
}

uint64_t paths::dialled() const {
  return world_->between(from_, to_).dialled + (both_ ? world_->between(to_, from_).dialled : 0);
}
size_t paths::connections() const {
  auto all = world_->wires(from_, to_);
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](auto& w) { return !w->over(); }));
}
size_t paths::bytes_under_way() const {
  size_t n = 0;
  for (auto& w : world_->wires(from_, to_))
    n += w->bytes_from(from_) + (both_ ? w->bytes_from(to_) : 0);
  return n;
}

// ---- what is left

std::string network::leftovers() const {
  std::string all;
  for (auto& m : members_) {
    auto s = m->node->stats();
    uint64_t unconsumed = 0;
    for (auto& l : m->ground.loops)
      unconsumed += l->unconsumed_bytes;
    if (auto times = s.times(errc::wait_cycle))
      all += fmt::format("{}: actors waited for each other's credit in a circle, found {} times\n", m->name,
                         times);
    if (s.liability - s.pinned == s.base_line && s.outbound == 0 && unconsumed == 0)
      continue;
    all += fmt::format(
        "{} owes {} bytes beyond its base line, keeps {} that arrived and {} that leave, in {} "
        "sessions on {} links\n",
        m->name, static_cast<int64_t>(s.liability - s.pinned - s.base_line), unconsumed, s.outbound,
        s.sessions, s.links);
  }
  return all.empty() ? all : all + fmt::format("(seed {})\n", seed());
}

// ---- for weir's own tests

weir::detail::ground& detail::insides::of(network& n, const std::string& name) { return n.at(name).ground; }
node& detail::insides::add(network& n, const std::string& name, node_options o,
                           const std::function<void(weir::detail::ground&)>& change) {
  return n.add(name, std::move(o), change);
}

} // namespace weir::testing
