#pragma once
// A customer at one node and a shop or a shelf at the other, with verbs for tests.
#include "tests/support/shop.hpp"
#include "tests/support/virtual_nodes.hpp"

namespace weir::test {

using namespace std::chrono_literals;

class Conversation : public virtual_nodes {
protected:
  caf::actor customer_at(node_under_test& n) { return spawn<customer>(n); }
  static customer& raw(const caf::actor& a) {
    return *static_cast<customer*>(caf::actor_cast<caf::abstract_actor*>(a));
  }
  void tell(const caf::actor& who, std::function<void(customer&)> f) {
    put(who, nullptr, job{std::move(f)});
    run();
  }
  /// Starts a call; `e` says how it ended.
  void call_add(const caf::actor& who, const ref<Shop>& to, int64_t a, int64_t b, ending& e,
                call_options o = {}) {
    tell(who, [&, o](customer& c) {
      c.call<add>(to, o, [&](add::args x) {
         x.setA(a);
         x.setB(b);
       }).then([&e](add::result r) { e.value = r.getSum(); }, [&e](const failure& f) { e.why = f; });
    });
  }
  void call_later(const caf::actor& who, const ref<Shop>& to, size_t bytes, ending& e, call_options o = {}) {
    tell(who, [&, o, bytes](customer& c) {
      c.call<later>(to, o, [&](later::args x) { x.initData(static_cast<unsigned>(bytes)); })
          .then([&e](later::result r) { e.value = static_cast<int64_t>(r.getSize()); },
                [&e](const failure& f) { e.why = f; });
    });
  }
  void call_give(const caf::actor& who, const ref<Shop>& to, uint64_t size, ending& e) {
    tell(who, [&, size](customer& c) {
      c.call<give>(to, [&](give::args x) { x.setSize(size); })
          .then([&e](give::result r) { e.value = static_cast<int64_t>(r.getData().size()); },
                [&e](const failure& f) { e.why = f; });
    });
  }
  void answer_first(uint64_t size) {
    state.kept.front().reply([&](later::out out) { out.setSize(size); });
    state.kept.pop_front();
    run();
  }
  static void expect_failed(const ending& e, errc code, outcome what) {
    ASSERT_TRUE(e.why.has_value());
    EXPECT_EQ(e.why->code, code) << to_string(*e.why);
    EXPECT_EQ(e.why->what, what) << to_string(*e.why);
  }

  shop_state state;
  shelf_state goods;
};

} // namespace weir::test
