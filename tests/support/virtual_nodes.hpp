#pragma once
// Two nodes in one test, on virtual time: real actors, links and sessions, a pipe instead of a socket, and no
// thread but the test's.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/node.hpp>

#include "actors/credit_manager.hpp"
#include "actors/dispatcher.hpp"
#include "actors/endpoint.hpp"
#include "actors/link.hpp"
#include "tests/support/pipe_stream.hpp"
#include "tests/support/shop.hpp"

namespace weir::test {

class virtual_nodes : public ::testing::Test {
protected:
  struct node_under_test {
    std::shared_ptr<actors::loop> loop;
    std::shared_ptr<actors::environment> env;
    std::vector<std::shared_ptr<actors::held_allowance>> allowances;
    std::vector<caf::actor> kept;
    uint64_t base_line = 0;

    net::budget& budget() { return loop->inbound(); }
  };

  virtual_nodes() : config_(make_config()), system_(*config_) {}
  ~virtual_nodes() override { shut_down(); }

  /// Changes what a node is made with; call before anything else.
  net::ration_options ration{64 << 10, 512, 4};
  uint64_t budget_bytes = 64 << 20, reserve_bytes = 8 << 20, send_buffer_messages = 4096;
  uint64_t send_buffer_bytes = 1 << 20;
  net::link_options link_settings;
  /// What dialling does: 0 connects, 1 refuses, 2 never answers.
  enum class network : uint8_t { connects, refuses, silent } dials = network::connects;
  size_t dialled = 0;

  node_under_test& server() { return start(server_, 1); }
  node_under_test& client() { return start(client_, 2); }

  template <class T, class... Ts>
  caf::actor spawn(node_under_test& n, Ts&&... xs) {
    auto a = n.loop->spawn<T>(std::forward<Ts>(xs)...);
    n.kept.push_back(a);
    return a;
  }
  template <class T>
  void serve(node_under_test& n, std::string name, const caf::actor& by, uint64_t mailbox_messages = 0,
             uint64_t held_bytes = 1 << 20, uint64_t held_messages = 1024) {
    auto allowance = std::make_shared<actors::held_allowance>(held_bytes, held_messages);
    n.allowances.push_back(allowance);
    put(n.env->dispatcher, nullptr,
        actors::serve_service{std::move(name), detail::type_id<T>(), capnp::kind<T>() == capnp::Kind::STRUCT,
                              by, mailbox_messages, std::move(allowance)});
    run();
  }
  /// A ref from the client to the server, across the pipe.
  template <class T>
  ref<T> lookup(std::string name, std::string host = "server") {
    server();
    return find<T>(client(), std::move(name), false, std::move(host));
  }
  /// A ref from the server to itself.
  template <class T>
  ref<T> lookup_here(std::string name) {
    return find<T>(server(), std::move(name), true);
  }

  /// As `node::connect` does.
  void keep_connection() {
    server();
    actors::endpoint_to(*client().loop, client().env, {net::uri::scheme::tcp, "server", 1, 1, {}}).keep();
  }

  /// Until nothing moves.
  void run() {
    for (uint64_t before = ~uint64_t{0}; before != steps();) {
      before = steps();
      for (auto* n : {&server_, &client_})
        if (n->loop)
          n->loop->run_until_idle();
    }
    for (auto* n : {&server_, &client_})
      if (n->loop)
        n->loop->run_until_idle();
  }
  void advance(net::duration d) {
    constexpr net::duration step = std::chrono::milliseconds{5};
    for (run(); d > net::duration::zero(); d -= step) {
      for (auto* n : {&server_, &client_})
        if (n->loop)
          n->loop->advance(std::min(d, step));
      run();
    }
  }
  void cut() {
    for (auto& p : pipes_)
      p->cut();
    run();
  }
  pipe_state& pipe() { return *pipes_.back(); }
  void expect_base_line() {
    advance(std::chrono::milliseconds{50});
    for (auto* n : {&server_, &client_}) {
      if (!n->loop)
        continue;
      EXPECT_EQ(n->budget().liability() - n->budget().pinned(), n->base_line)
          << (n == &server_ ? "server" : "client");
      EXPECT_EQ(n->loop->outbound().bytes(), 0u) << (n == &server_ ? "server" : "client");
      EXPECT_EQ(n->loop->unconsumed_bytes, 0u);
    }
  }
  void shut_down() {
    for (auto* n : {&server_, &client_})
      if (n->loop) {
        for (auto& a : n->kept)
          send_exit(caf::actor_cast<caf::strong_actor_ptr>(a), caf::exit_reason::user_shutdown);
        n->kept.clear();
        n->loop->shut_down();
        put(n->env->dispatcher, nullptr, actors::end_session{});
      }
    run();
    run();
    for (auto* n : {&server_, &client_})
      if (n->env) {
        n->env->dispatcher = nullptr;
        n->env->loops.clear();
      }
  }

private:
  static std::unique_ptr<caf::actor_system_config> make_config() {
    init_types<caf::id_block::weir_test>();
    auto c = std::make_unique<caf::actor_system_config>();
    c->set(caf_key("scheduler.max-threads"), 1);
    set_caf_policy(*c, "sharing");
    return c;
  }
  uint64_t steps() const {
    uint64_t n = 0;
    for (auto& p : pipes_)
      n += p->steps;
    return n;
  }
  node_under_test& start(node_under_test& n, uint64_t id) {
    if (n.loop)
      return n;
    n.env = std::make_shared<actors::environment>();
    n.env->link = link_settings;
    n.env->link.node = {id, id};
    n.env->ration = ration;
    n.env->send_buffer_bytes = send_buffer_bytes;
    n.env->send_buffer_messages = send_buffer_messages;
    n.loop = std::make_shared<actors::loop>(system_, net::loop_options{std::chrono::microseconds{0}, true},
                                            net::budget_options{budget_bytes, reserve_bytes},
                                            uint64_t{8} << 20);
    n.env->loops.push_back(n.loop);
    n.env->dispatcher = n.loop->spawn<actors::dispatcher>();
    n.env->connect = [this](net::loop&, const net::uri& to, net::duration timeout, net::dial::on_result f) {
      return dial(to, timeout, std::move(f));
    };
    n.base_line = n.budget().liability();
    return n;
  }
  std::unique_ptr<net::dial> dial(const net::uri& to, net::duration timeout, net::dial::on_result f) {
    ++dialled;
    auto& from = *client_.loop;
    if (dials == network::connects) {
      auto p = std::make_shared<pipe_state>();
      p->ab.writes = p->ba.reads = client_.loop.get();
      p->ab.reads = p->ba.writes = server_.loop.get();
      pipes_.push_back(p);
      actors::link::stream_maker other = [p] { return std::make_unique<pipe_stream>(p, false); };
      actors::environment_ptr env = server_.env;
      server_.loop->spawn<actors::link>(std::ref(*server_.loop), env, std::move(other), net::side::accepted,
                                        actors::link_owner{});
      from.post([f, p] { f(std::unique_ptr<net::stream>{std::make_unique<pipe_stream>(p, true)}); });
    } else {
      auto why = dials == network::refuses
                     ? failure{errc::connect_failed, outcome::not_executed, "refused by " + to_string(to)}
                     : failure{errc::connect_timeout, outcome::not_executed, "silence from " + to_string(to)};
      auto after = dials == network::refuses ? net::duration::zero() : timeout;
      from.at(from.now() + after, [f, why] { f(why); });
    }
    return std::make_unique<net::dial>();
  }
  template <class T>
  ref<T> find(node_under_test& n, std::string name, bool here, std::string host = "server") {
    actors::session::target to{
        std::move(name), detail::type_id<T>(), capnp::kind<T>() == capnp::Kind::STRUCT, here, {}};
    if (!here)
      to.peers.push_back({net::uri::scheme::tcp, std::move(host), 1, 1, {}});
    actors::environment_ptr env = n.env;
    auto handle = n.loop->spawn<actors::session>(std::ref(*n.loop), env, std::move(to));
    auto* raw = static_cast<actors::session*>(caf::actor_cast<caf::abstract_actor*>(handle));
    return ref<T>{std::make_shared<detail::session_guard>(std::move(handle), raw)};
  }

  std::unique_ptr<caf::actor_system_config> config_;
  caf::actor_system system_;
  std::vector<std::shared_ptr<pipe_state>> pipes_;
  node_under_test server_, client_;
};

} // namespace weir::test
