// Case C1, the part about credit: what a peer was granted is lost on its way, and the flow goes on all the
// same.
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <weir/task.hpp>
#include <weir/testing.hpp>

#include "net/control.hpp"
#include "runtime/ground.hpp"
#include "runtime/testing/world.hpp"
#include "tests/support/shop.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using weir::testing::network;

/// What becomes of the grants of one direction.
struct theft {
  enum class kind : uint8_t {
    none,
    lost, ///< they do not arrive
    old,  ///< an old one arrives instead
  };
  kind now = kind::none;
  net::position first; ///< what the peer was granted at first
  uint64_t grants = 0; ///< that were not what had been said
};

/// Takes the grants out of the control frames that it reads.
class robbed_stream final : public net::stream {
public:
  robbed_stream(std::unique_ptr<net::stream> from, net::loop& l, std::shared_ptr<theft> t)
      : from_(std::move(from)), loop_(static_cast<actors::loop&>(l)), theft_(std::move(t)) {}

  net::io_count read(std::byte* to, size_t n) override {
    std::byte space[16 << 10];
    auto r = from_->read(space, sizeof space);
    if (r.what == net::io_count::state::ok)
      raw_.insert(raw_.end(), space, space + r.bytes);
    pass_frames();
    if (out_.empty())
      return r.what == net::io_count::state::ok ? net::io_count{net::io_count::state::would_block, 0, {}} : r;
    auto some = std::min(n, out_.size());
    std::memcpy(to, out_.data(), some);
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(some));
    return {net::io_count::state::ok, some, {}};
  }
  net::io_count write(const iovec* v, int n) override { return from_->write(v, n); }
  void when_readable(std::function<void()> f) override {
    out_.empty() ? from_->when_readable(std::move(f)) : loop_.post(std::move(f));
  }
  void when_writable(std::function<void()> f) override { from_->when_writable(std::move(f)); }
  void close() override { from_->close(); }
  std::string describe() const override { return from_->describe(); }

private:
  void pass(size_t n) {
    out_.insert(out_.end(), raw_.begin(), raw_.begin() + static_cast<std::ptrdiff_t>(n));
    raw_.erase(raw_.begin(), raw_.begin() + static_cast<std::ptrdiff_t>(n));
  }
  void pass_frames() {
    if (!std::exchange(begun_, begun_ || raw_.size() >= net::preamble_bytes) && begun_)
      pass(net::preamble_bytes);
    while (begun_ && raw_.size() >= net::header_bytes) {
      auto h = net::load_header(raw_.data());
      auto size = net::header_bytes + h.length;
      if (raw_.size() < size)
        return;
      if (h.kind == net::frame_kind::control)
        rob(h);
      else
        pass(size);
    }
  }
  void rob(const net::frame_header& h) {
    std::vector<uint64_t> words(h.length / 8);
    std::memcpy(words.data(), raw_.data() + net::header_bytes, h.length);
    net::say::control c;
    std::string why;
    EXPECT_EQ(net::say::decode({words.data(), h.length / 8}, c, why), errc::none) << why;
    for (auto& o : c.openeds)
      theft_->first = o.limit;
    if (theft_->now == theft::kind::none || c.grants.empty())
      return pass(net::header_bytes + h.length);
    theft_->grants += c.grants.size();
    if (theft_->now == theft::kind::lost)
      c.grants.clear();
    for (auto& g : c.grants)
      g.limit = theft_->first;
    raw_.erase(raw_.begin(), raw_.begin() + static_cast<std::ptrdiff_t>(net::header_bytes + h.length));
    if (c.empty())
      return;
    auto m = net::copy_of(net::say::encode(c));
    net::store_header(m.at, {.length = m.body_bytes});
    out_.insert(out_.end(), m.at, m.at + m.size);
  }

  std::unique_ptr<net::stream> from_;
  actors::loop& loop_;
  std::shared_ptr<theft> theft_;
  std::vector<std::byte> raw_, out_; // come and not looked at; looked at and not read
  bool begun_ = false;
};

/// Sends 1 KiB per millisecond for as long as it is told to.
class drip : public weir::actor {
public:
  struct view {
    bool stop = false, waits = false;
    uint64_t sent = 0, consumed = 0;
  };
  drip(caf::actor_config& c, const ref<Item>& to, view* v) : actor(c), out_(this, to), view_(v) {}
  caf::behavior make_behavior() override {
    run();
    return actor::make_behavior();
  }

private:
  weir::task run() {
    for (; !view_->stop; ++view_->sent) {
      co_await weir::sleep_for(1ms);
      while (!out_.offer([this](Item::Builder b) { b.setNumber(view_->sent), b.initData(1024); })) {
        view_->waits = true;
        if (!co_await weir::credit(out_))
          co_return;
      }
      view_->waits = false;
    }
    if (auto consumed = co_await out_.close())
      view_->consumed = *consumed;
  }

  weir::outlet<Item> out_;
  view* view_;
};

class LostGrants : public ::testing::TestWithParam<theft::kind> {
protected:
  LostGrants() : system_(*config_) {
    auto& server = net_.add_node("server", {.ration = 64 << 10});
    EXPECT_TRUE(server.serve<Item>("shelf", server.spawn<shelf>(&goods_)));
    weir::testing::detail::insides::add(net_, "client", {}, [this](auto& g) {
      g.adjust = [this, usual = g.adjust](actors::environment& e) {
        usual(e);
        e.connect = [this, dial = e.connect](auto& l, auto& to, auto timeout, net::dial::on_result f) {
          return dial(l, to, timeout, [this, &l, f = std::move(f)](auto r) {
            f(r ? result<std::unique_ptr<net::stream>>{std::make_unique<robbed_stream>(std::move(*r), l,
                                                                                       theft_)}
                : std::move(r));
          });
        };
      };
    });
    net_.between("client", "server").delay(1ms);
  }
  uint64_t arrived() const { return goods_.numbers.size(); }

  std::unique_ptr<caf::actor_system_config> config_ = [] {
    init_types<caf::id_block::weir_test>();
    auto c = std::make_unique<caf::actor_system_config>();
    c->set(caf_key("scheduler.max-threads"), 1);
    return c;
  }();
  caf::actor_system system_;
  shelf_state goods_;
  drip::view producer_;
  std::shared_ptr<theft> theft_ = std::make_shared<theft>();
  network net_{system_};
};

TEST_P(LostGrants, C1_ASenderThatHasLostItsCreditGoesOnWithinASecond) {
  auto& client = net_["client"];
  client.spawn<drip>(client.lookup<Item>("shelf", "tcp://server:7000"), &producer_);
  net_.advance(1s);
  EXPECT_GT(arrived(), 900u);
  EXPECT_FALSE(producer_.waits);

  theft_->now = GetParam();
  ASSERT_TRUE(net_.run_until([&] { return producer_.waits; }, 1s));
  auto stolen = theft_->grants;
  net_.advance(100ms);
  EXPECT_GT(theft_->grants, stolen); // it has said that it is blocked, and the answer was lost as well
  EXPECT_TRUE(producer_.waits);

  theft_->now = theft::kind::none;
  auto before = arrived();
  EXPECT_TRUE(net_.run_until([&] { return !producer_.waits && arrived() > before + 100; }, 1s));
  net_.advance(1s);
  EXPECT_GT(arrived(), before + 1000u); // as fast as before

  producer_.stop = true;
  ASSERT_TRUE(net_.run_until([&] { return producer_.consumed > 0; }, 1s));
  EXPECT_EQ(producer_.consumed, producer_.sent);
  for (uint64_t i = 0; i < arrived(); ++i)
    ASSERT_EQ(goods_.numbers[i], i);
  net_.advance(100ms);
  EXPECT_EQ(net_.leftovers(), "");
}

INSTANTIATE_TEST_SUITE_P(Ways, LostGrants, ::testing::Values(theft::kind::lost, theft::kind::old),
                         [](auto& i) { return i.param == theft::kind::lost ? "Lost" : "Old"; });

} // namespace
} // namespace weir::test
