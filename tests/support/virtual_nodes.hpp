#pragma once
// A server and a client in a network of weir::testing, and what tests of weir itself change and see inside.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/testing.hpp>

#include "actors/dispatcher.hpp"
#include "actors/link.hpp"
#include "runtime/ground.hpp"
#include "runtime/testing/world.hpp"
#include "tests/support/shop.hpp"

namespace weir::test {

using weir::testing::dialling;

class virtual_nodes : public ::testing::Test {
protected:
  struct node_under_test {
    weir::node* node = nullptr;
    std::shared_ptr<actors::loop> loop; ///< the first one
    std::shared_ptr<actors::environment> env;
    std::vector<std::shared_ptr<actors::held_allowance>> allowances;
    std::vector<caf::actor> kept;
    uint64_t base_line = 0;

    net::budget& budget() { return loop->inbound(); }
  };

  virtual_nodes() : config_(make_config()), system_(*config_), net_(new testing::network{system_}) {}
  ~virtual_nodes() override { shut_down(); }

  /// Changes what a node is made with; call before anything else.
  net::ration_options ration{64 << 10, 512, 4};
  actors::rationing::kind rations = actors::rationing::kind::fixed; ///< of that size, or as they need
  uint64_t budget_bytes = 64 << 20, reserve_bytes = 8 << 20, send_buffer_messages = 4096;
  net::link_options link_settings;
  std::chrono::nanoseconds stall_limit = std::chrono::seconds{1};
  uint32_t loops = 1;                       ///< of each node
  std::shared_ptr<actors::journal> journal; ///< of both, instead of one that writes to stderr
  /// Actors are to wait for each other in a circle; else none may.
  bool cycle_on_purpose = false;

  node_under_test& server() { return start(server_, "server"); }
  node_under_test& client() { return start(client_, "client"); }
  testing::network& net() { return *net_; }

  template <class T, class... Ts>
  caf::actor spawn(node_under_test& n, Ts&&... xs) {
    auto a = n.node->spawn<T>(std::forward<Ts>(xs)...);
    n.kept.push_back(a);
    return a;
  }
  /// As `node::serve`, with an allowance of its own.
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
  /// A ref from the client to the server, which is also called `another`.
  template <class T>
  ref<T> lookup(std::string name, const std::string& host = "server") {
    server();
    return client().node->lookup<T>(std::move(name), "tcp://" + host + ":7000");
  }
  /// A ref from the server to itself.
  template <class T>
  ref<T> lookup_here(std::string name) {
    return server().node->lookup<T>(std::move(name));
  }
  void keep_connection() {
    server();
    EXPECT_TRUE(client().node->connect("tcp://server:7000"));
  }

  void run() { net_->run(); }
  void advance(net::duration d) { net_->advance(d); }
  /// What flows from the client to the server, and back.
  testing::paths to_server() { return paths("client", "server"); }
  testing::paths to_client() { return paths("server", "client"); }
  void dials(dialling what) { to_server().dials(what); }
  uint64_t dialled() { return to_server().dialled(); }
  void cut() {
    to_server().cut();
    run();
  }
  void expect_base_line() {
    advance(std::chrono::milliseconds{50});
    EXPECT_EQ(net_->leftovers(), "");
  }
  /// How often a node has said that actors wait for each other in a circle.
  static uint64_t wait_cycles(node_under_test& n) {
    for (auto& r : n.env->log->reasons())
      if (r.code == errc::wait_cycle)
        return r.times;
    return 0;
  }
  void shut_down() {
    for (auto* n : {&server_, &client_}) {
      auto found = n->node && !cycle_on_purpose ? wait_cycles(*n) : 0;
      EXPECT_EQ(found, 0u) << "actors of a node wait for each other in a circle";
    }
    for (auto* n : {&server_, &client_})
      for (auto& a : std::exchange(n->kept, {}))
        send_exit(caf::actor_cast<caf::strong_actor_ptr>(a), caf::exit_reason::user_shutdown);
    if (net_)
      run();
    server_ = client_ = {};
    net_.reset();
  }

private:
  static std::unique_ptr<caf::actor_system_config> make_config() {
    init_types<caf::id_block::weir_test>();
    auto c = std::make_unique<caf::actor_system_config>();
    c->set(caf_key("scheduler.max-threads"), 1);
    set_caf_policy(*c, "sharing");
    return c;
  }
  testing::paths paths(const std::string& from, const std::string& to) {
    server();
    client();
    return net_->from(from, to);
  }
  node_under_test& start(node_under_test& n, const std::string& name) {
    if (n.node)
      return n;
    node_options o;
    o.listen = {"tcp://" + name + ":7000"};
    if (name == "server")
      o.listen.emplace_back("tcp://another:7000");
    o.stall_limit = stall_limit;
    n.node = &testing::detail::insides::add(*net_, name, o, [this](detail::ground& g) { change(g); });
    auto& inside = testing::detail::insides::of(*net_, name);
    n.loop = inside.loops.front();
    n.env = inside.env;
    n.base_line = n.budget().liability();
    return n;
  }
  /// Also to what the checks of `node_options` would not let pass.
  void change(detail::ground& g) {
    g.io_threads = loops;
    g.budget = {budget_bytes, reserve_bytes};
    g.adjust = [this, usual = g.adjust](actors::environment& e) {
      usual(e);
      auto id = e.link.node;
      e.link = link_settings;
      e.link.node = id;
      e.rations = {rations, ration.bytes, ration.messages, ration.grant_at};
      e.send_buffer_messages = send_buffer_messages;
      if (journal)
        e.log = journal;
    };
  }

  std::unique_ptr<caf::actor_system_config> config_;
  caf::actor_system system_;
  std::unique_ptr<testing::network> net_;
  node_under_test server_, client_;
};

} // namespace weir::test
