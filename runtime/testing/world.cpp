#include "runtime/testing/world.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "runtime/testing/wire.hpp"

namespace weir::testing::detail {

namespace {
constexpr net::time_point beginning{std::chrono::hours{1}}; // as loops do

bool is_own_host(const std::string& h) {
  return h == "localhost" || h == "0.0.0.0" || h == "::" || h == "::1" || h == "127.0.0.1";
}

struct while_moving {
  explicit while_moving(bool& m) : moving(m) { moving = true; }
  ~while_moving() { moving = false; }
  while_moving(const while_moving&) = delete;
  while_moving& operator=(const while_moving&) = delete;
  bool& moving;
};
} // namespace

world::world(network_options o) : options_(std::move(o)), random_(options_.seed), now_(beginning) {}

// ---- time

net::duration world::elapsed() const { return now_ - beginning; }

void world::end() {
  planned_.clear();
  listening_.clear();
}

void world::add_loop(const std::shared_ptr<actors::loop>& l) {
  l->set_time(now_);
  loops_.push_back(l);
}

/// Those of nodes that have not stopped.
std::vector<std::shared_ptr<actors::loop>> world::live_loops() {
  std::vector<std::shared_ptr<actors::loop>> live;
  std::erase_if(loops_, [&](auto& weak) {
    auto l = weak.lock();
    if (!l || l->retired())
      return true;
    live.push_back(std::move(l));
    return false;
  });
  return live;
}

net::time_point world::next() {
  auto t = planned_.empty() ? net::time_point::max() : planned_.begin()->first;
  for (auto& l : live_loops())
    t = std::min(t, l->next_timer());
  return t;
}

void world::set_now(net::time_point t) {
  now_ = t;
  rounds_ = 0;
  for (auto& l : live_loops())
    l->set_time(t);
}

bool world::run_planned() {
  bool any = false;
  while (!planned_.empty() && planned_.begin()->first <= now_) {
    auto f = std::move(planned_.begin()->second);
    planned_.erase(planned_.begin());
    f();
    any = true;
  }
  return any;
}

/// What is planned for now, then one round of every loop that has something to do. False: there was nothing,
/// or there is no end of it.
bool world::turn() {
  if (restless())
    return false;
  ++rounds_;
  bool any = run_planned();
  auto loops = live_loops();
  if (chance.turns)
    for (size_t i = loops.size(); i > 1; --i)
      std::swap(loops[i - 1], loops[draw(i - 1)]);
  for (auto& l : loops)
    if (!l->idle()) {
      l->step();
      any = true;
    }
  return any;
}

bool world::move_on(net::time_point t) {
  if (moving_)
    return false;
  while_moving guard{moving_};
  if (turn())
    return true;
  auto n = restless() ? net::time_point::max() : next();
  if (n <= t) {
    set_now(std::max(n, now_));
    return true;
  }
  if (t > now_ && !restless())
    set_now(t);
  return false;
}

void world::settle() {
  if (moving_)
    return;
  while_moving guard{moving_};
  while (turn()) {
  }
}

// ---- chance

uint64_t world::draw(uint64_t most) {
  return most == std::numeric_limits<uint64_t>::max() ? random_() : random_() % (most + 1);
}

void world::trace(const std::string& what) const {
  if (traces())
    options_.trace(
        fmt::format("{:.6f} ms {}", std::chrono::duration<double, std::milli>{elapsed()}.count(), what));
}

// ---- places

path& world::between(const std::string& from, const std::string& to) {
  auto& p = paths_[{from, to}];
  if (p.from.empty()) {
    p.from = from;
    p.to = to;
  }
  return p;
}

std::vector<std::shared_ptr<wire>> world::wires(const std::string& a, const std::string& b) {
  std::vector<std::shared_ptr<wire>> found;
  std::erase_if(wires_, [](auto& w) { return w.expired(); });
  for (auto& weak : wires_)
    if (auto w = weak.lock(); w && w->is_between(a, b))
      found.push_back(std::move(w));
  return found;
}

world::address world::address_of(const std::string& node, const net::uri& u) const {
  if (u.kind == net::uri::scheme::unix_)
    return {u.path, 0};
  return {is_own_host(u.host) ? node : u.host, u.port};
}

/// A dial under way.
struct world::attempt {
  std::string from, host;
  address to;
  std::string text; // for people
  std::weak_ptr<actors::loop> loop;
  net::dial::on_result done; // empty: it was given up, or is over
};

class world::dial_handle final : public net::dial {
public:
  explicit dial_handle(std::shared_ptr<attempt> a) : attempt_(std::move(a)) {}
  ~dial_handle() override { attempt_->done = nullptr; }

private:
  std::shared_ptr<attempt> attempt_;
};

void world::finish(const std::shared_ptr<attempt>& a, result<std::unique_ptr<net::stream>> r) {
  auto l = a->loop.lock();
  if (!l || !a->done)
    return;
  l->post([a, came = std::make_shared<result<std::unique_ptr<net::stream>>>(std::move(r))] {
    if (auto f = std::exchange(a->done, nullptr))
      f(std::move(*came));
  });
}

void world::refuse(const std::shared_ptr<attempt>& a) {
  finish(a, failure{errc::connect_failed, outcome::not_executed,
                    fmt::format("cannot connect to {}: connection refused", a->text)});
}

void world::time_out(const std::shared_ptr<attempt>& a) {
  finish(a, failure{errc::connect_timeout, outcome::not_executed,
                    fmt::format("cannot connect to {}: no answer within connect-timeout", a->text)});
}

void world::dial_at(net::time_point t, const std::shared_ptr<attempt>& a,
                    void (world::*what)(const std::shared_ptr<attempt>&)) {
  plan(t, [this, a, what] {
    if (a->done)
      (this->*what)(a);
  });
}

/// The dial has reached the other node.
void world::connect_now(const std::shared_ptr<attempt>& a) {
  auto& back = between(a->host, a->from);
  auto who = listening_.find(a->to);
  auto l = a->loop.lock();
  if (who == listening_.end() || !l)
    return dial_at(now_ + back.delay, a, &world::refuse);
  auto w = std::make_shared<wire>(shared_from_this(), ++last_wire_, between(a->from, a->host), back);
  if (wires_.size() == wires_.capacity()) // those that have gone are forgotten now and then
    std::erase_if(wires_, [](auto& other) { return other.expired(); });
  wires_.push_back(w);
  trace(fmt::format("{} -> {} #{}: connected", a->from, a->host, last_wire_));
  auto stream = std::make_shared<std::unique_ptr<net::stream>>(w->dialled_end(*l));
  who->second.accepted([w](net::loop& at) { return w->accepted_end(at); });
  plan(now_ + back.delay, [this, a, stream] { finish(a, std::move(*stream)); });
}

std::unique_ptr<net::dial> world::connect(const std::string& node, net::loop& l, const net::uri& to,
                                          net::duration timeout, net::dial::on_result f) {
  auto a = std::make_shared<attempt>();
  a->from = node;
  a->to = address_of(node, to);
  a->text = to_string(to);
  a->loop = static_cast<actors::loop&>(l).weak_from_this();
  a->done = std::move(f);
  auto who = listening_.find(a->to);
  a->host = who != listening_.end() ? who->second.node : a->to.first;
  auto& there = between(node, a->host);
  auto& back = between(a->host, node);
  ++there.dialled;
  trace(fmt::format("{} dials {}", node, a->text));
  auto round_trip = there.delay + back.delay;
  if (there.dials == dialling::silent || there.stalled || back.stalled || round_trip > timeout)
    dial_at(now_ + timeout, a, &world::time_out);
  else if (there.dials == dialling::refused || who == listening_.end())
    dial_at(now_ + round_trip, a, &world::refuse);
  else
    dial_at(now_ + there.delay, a, &world::connect_now);
  return std::make_unique<dial_handle>(std::move(a));
}

class world::listener final : public net::listener {
public:
  listener(std::shared_ptr<world> w, world::address at, net::uri u)
      : world_(std::move(w)), at_(std::move(at)), uri_(std::move(u)) {}
  ~listener() override { world_->listening_.erase(at_); }
  net::uri address() const override { return uri_; }

private:
  std::shared_ptr<world> world_;
  world::address at_;
  net::uri uri_;
};

result<world::address> world::free_address(const std::string& node, const net::uri& at) {
  auto a = address_of(node, at);
  if (a.first != node && places_.contains(a.first))
    return {errc::io_error, fmt::format("cannot listen on {}: that is another node", to_string(at))};
  if (at.kind == net::uri::scheme::tcp && at.port == 0) {
    do
      a.second = ++last_port_;
    while (listening_.contains(a));
    return a;
  }
  for (uint32_t port = at.port; port <= at.port_last; ++port) {
    a.second = static_cast<uint16_t>(port);
    if (!listening_.contains(a))
      return a;
  }
  return {errc::address_in_use,
          fmt::format("cannot listen on {}: {}", to_string(at),
                      at.is_range() ? "every port of the range is in use" : "it is in use")};
}

result<std::unique_ptr<net::listener>>
world::listen(const std::string& node, const net::uri& at,
              std::function<void(actors::environment::stream_maker)> f) {
  auto a = free_address(node, at);
  if (!a)
    return a.error();
  auto real = at;
  if (at.kind == net::uri::scheme::tcp) {
    real.host = a->first;
    real.port = real.port_last = a->second;
  }
  listening_[*a] = {node, std::move(f)};
  return std::unique_ptr<net::listener>{std::make_unique<listener>(shared_from_this(), *a, real)};
}

} // namespace weir::testing::detail
