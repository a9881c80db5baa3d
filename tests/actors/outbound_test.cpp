// What a node keeps to be sent is bounded for all its sessions together (M1), and who waits for room gets it
// in turn.
#include <gtest/gtest.h>

#include <weir/client.hpp>

#include "tests/support/virtual_nodes.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using weir::testing::network;

/// Offers large items as fast as it may.
class hauler : public weir::actor {
public:
  hauler(caf::actor_config& c, const ref<Item>& to, unsigned bytes, uint64_t items, uint64_t* built,
         uint64_t* ended)
      : actor(c), out_(this, to), bytes_(bytes), items_(items), built_(built), ended_(ended) {}
  caf::behavior make_behavior() override {
    out_.on_credit([this] { haul(); });
    return actor::make_behavior();
  }

private:
  void haul() {
    while (offered_ < items_ && out_.offer([this](Item::Builder b) { b.initData(bytes_); }))
      ++offered_, ++*built_;
    if (offered_ == items_ && !std::exchange(closed_, true))
      out_.close().then([this](uint64_t consumed) { *ended_ += consumed == items_; }, [](auto&) {});
  }

  weir::outlet<Item> out_;
  unsigned bytes_;
  uint64_t items_, offered_ = 0;
  uint64_t *built_, *ended_;
  bool closed_ = false;
};

class Outbound : public ::testing::Test {
protected:
  static constexpr uint64_t outbound_bytes = 1 << 20;
  static constexpr unsigned large = 200 << 10;

  Outbound() : system_(*config_) {
    auto& server = net_.add_node("server", {.reply_room = 8 << 10});
    EXPECT_TRUE(server.serve<Item>("shelf", server.spawn<shelf>(&goods_)));
    EXPECT_TRUE(server.serve<Shop>("shop", server.spawn<shop>(&shop_)));
    net_.add_node("client", bounded());
  }
  static node_options bounded() {
    return {.outbound_bytes = outbound_bytes, .message_max = 512 << 10, .send_buffer = 256 << 10};
  }
  weir::node& client() { return net_["client"]; }
  template <class T>
  ref<T> lookup(const std::string& name) {
    return client().lookup<T>(name, "tcp://server:7000");
  }
  void stall() { net_.between("client", "server").stall(); }
  /// Nothing leaves the client any more, and calls wait on sessions that cannot open.
  void use_up(const caf::actor& who) {
    net_.from("client", "server").capacity(0);
    put(who, nullptr, job{[this](customer& c) {
          for (int i = 0; i < 10; ++i)
            c.call<later>(lookup<Shop>("shop"), {.timeout = 1h}, [](later::args a) {
               a.initData(large);
             }).then([](later::result) {}, [](const failure&) {});
        }});
    net_.advance(10ms);
    ASSERT_GE(client().stats().outbound, outbound_bytes);
  }
  void leave_again() { net_.from("client", "server").capacity(64 << 10); }
  void expect_nothing_left() {
    net_.advance(200ms);
    EXPECT_EQ(net_.leftovers(), "");
  }

  std::unique_ptr<caf::actor_system_config> config_ = [] {
    init_types<caf::id_block::weir_test>();
    auto c = std::make_unique<caf::actor_system_config>();
    c->set(caf_key("scheduler.max-threads"), 1);
    return c;
  }();
  caf::actor_system system_;
  shelf_state goods_;
  shop_state shop_;
  network net_{system_};
};

TEST_F(Outbound, OfManyStreamsTogetherIsBoundedAndAllOfThemGetOn) {
  constexpr uint64_t streams = 50, items = 4;
  uint64_t built = 0, ended = 0;
  for (uint64_t i = 0; i < streams; ++i)
    client().spawn<hauler>(lookup<Item>("shelf"), large, items, &built, &ended);
  net_.between("client", "server").delay(1ms);
  ASSERT_TRUE(net_.run_until([&] { return built > 0; }, 1s));
  stall();
  net_.advance(1s);
  EXPECT_LE(client().stats().outbound, outbound_bytes + large);
  EXPECT_LE(built, outbound_bytes / large + 4); // the others may be in the connection
  net_.between("client", "server").resume();
  EXPECT_TRUE(net_.run_until([&] { return ended == streams; }, 60s)) << ended << " of " << streams;
  EXPECT_EQ(goods_.numbers.size(), streams * items);
  expect_nothing_left();
}

TEST_F(Outbound, OfSessionsThatAreNotOpenIsBounded) {
  stall();
  auto who = client().spawn<customer>();
  std::vector<failure> refused;
  constexpr int calls = 50;
  for (int i = 0; i < calls; ++i)
    put(who, nullptr, job{[&](customer& c) { // each on a session of its own
          c.call<later>(lookup<Shop>("shop"), {.timeout = 1s}, [](later::args a) {
             a.initData(large);
           }).then([](later::result) {}, [&](const failure& why) { refused.push_back(why); });
        }});
  net_.advance(100ms);
  EXPECT_LE(client().stats().outbound, outbound_bytes + large);
  EXPECT_GE(refused.size(), calls - outbound_bytes / large - 2);
  for (auto& why : refused) {
    EXPECT_EQ(why.code, errc::overloaded) << to_string(why);
    EXPECT_EQ(why.what, outcome::not_executed);
    EXPECT_NE(why.text.find("outbound-bytes"), std::string::npos) << why.text;
  }
  net_.advance(10s);
  EXPECT_EQ(refused.size(), size_t{calls});
  net_.between("client", "server").resume();
  expect_nothing_left();
}

TEST_F(Outbound, ThatIsUsedUpBySessionsThatAreNotOpenStopsNobodyWhoSendsLittle) {
  auto to = lookup<Shop>("shop");
  auto who = client().spawn<customer>();
  std::vector<failure> seen;
  auto call_a_little = [&] {
    put(who, nullptr, job{[&](customer& c) {
          c.call<add>(to, {.timeout = 10s}, [](add::args) {})
              .then([&](add::result) { seen.emplace_back(); },
                    [&](const failure& why) { seen.push_back(why); });
        }});
  };
  call_a_little();
  net_.advance(10ms);
  use_up(who);
  call_a_little();
  net_.advance(100ms);
  EXPECT_EQ(seen.size(), 1u);
  leave_again();
  net_.advance(1s);
  EXPECT_EQ(seen, (std::vector<failure>(2)));
}

TEST_F(Outbound, IsWaitedForByThreadsThatStream) {
  auto who = client().spawn<customer>();
  weir::client threads{client()};
  weir::blocking_outlet<Item> out{threads, lookup<Item>("shelf")};
  auto fill = [](Item::Builder b) { b.initData(1000); };
  ASSERT_TRUE(out.push(fill, 1s));
  use_up(who);
  EXPECT_EQ(out.push(fill, 500ms).error().code, errc::deadline_exceeded); // though its session is empty
  leave_again();
  EXPECT_TRUE(out.push(fill, 10s));
  EXPECT_TRUE(out.close());
  EXPECT_EQ(goods_.numbers.size(), 2u);
}

TEST_F(Outbound, OfAnswersIsBoundedWhateverTheyAnswer) {
  auto& small = net_.add_node("small", bounded());
  ASSERT_TRUE(small.serve<Shop>("shop", small.spawn<shop>(&shop_)));
  auto to = std::make_unique<ref<Shop>>(client().lookup<Shop>("shop", "tcp://small:7000"));
  auto who = client().spawn<customer>();
  net_.from("small", "client").delay(10ms); // it hears late that its answers are funded
  constexpr uint64_t calls = 50;
  uint64_t answered = 0;
  std::vector<failure> refused;
  put(who, nullptr, job{[&](customer& c) {
        for (uint64_t i = 0; i < calls; ++i)
          c.call<give>(*to, [](give::args a) { a.setSize(large); })
              .then([&](give::result r) { answered += r.getData().size() == large; },
                    [&](const failure& why) { refused.push_back(why); });
      }});
  net_.advance(15ms);
  EXPECT_LE(small.stats().outbound, outbound_bytes + calls * 2000);
  net_.advance(1s);
  EXPECT_GE(answered, outbound_bytes / large);
  EXPECT_EQ(answered + refused.size(), calls);
  for (auto& why : refused) {
    EXPECT_EQ(why.code, errc::overloaded) << to_string(why);
    EXPECT_EQ(why.what, outcome::done);
  }
  to.reset();
  expect_nothing_left();
}

} // namespace
} // namespace weir::test
