#pragma once
// Services and callers for tests of actors.
#include <deque>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <weir/node.hpp>

#include "tests/support/shop.capnp.h"

namespace weir::test {

using add = weir::method<&Shop::Client::addRequest>;
using later = weir::method<&Shop::Client::laterRequest>;
using fail = weir::method<&Shop::Client::failRequest>;
using give = weir::method<&Shop::Client::giveRequest>;

struct shop_state {
  std::deque<weir::request<later>> kept;
  uint64_t runs = 0;
  bool dies = false; ///< who runs `add` ends when it is done with its batch, as if it was killed
};

class shop : public weir::service<Shop> {
public:
  shop(caf::actor_config& cfg, shop_state* s) : service(cfg), state_(s) {}
  weir::handlers make_handlers() override {
    return {on<add>([this](add::in in, add::out out) {
              ++state_->runs;
              out.setSum(in.getA() + in.getB());
              if (std::exchange(state_->dies, false))
                quit(caf::exit_reason::kill);
            }),
            on<later>([this](const weir::request<later>& rq) {
              ++state_->runs;
              state_->kept.push_back(rq);
            }),
            on<fail>([this](fail::in, fail::out) {
              ++state_->runs;
              throw std::runtime_error("no luck today");
            }),
            on<give>([this](give::in in, give::out out) {
              ++state_->runs;
              out.initData(static_cast<unsigned>(in.getSize()));
            })};
  }

private:
  shop_state* state_;
};

struct shelf_state {
  std::vector<uint64_t> numbers;
  std::vector<weir::held<Item>> held;
  bool hold = false;
  uint64_t refused = 0, opened = 0, finished = 0;
  std::vector<failure> ended;
};

class shelf : public weir::sink<Item> {
public:
  shelf(caf::actor_config& cfg, shelf_state* s) : sink(cfg), state_(s) {}
  void on_open(weir::inlet<Item>) override { ++state_->opened; }
  void on_message(weir::inlet<Item> from, Item::Reader item) override {
    state_->numbers.push_back(item.getNumber());
    if (!state_->hold)
      return;
    if (auto kept = from.hold())
      state_->held.push_back(std::move(kept));
    else
      ++state_->refused;
  }
  void on_finished(weir::inlet<Item>) override { ++state_->finished; }
  void on_ended(weir::inlet<Item>, const failure& why) override { state_->ended.push_back(why); }

private:
  shelf_state* state_;
};

class customer;
struct job {
  std::function<void(customer&)> run;
};

/// Does what the test tells it, as an actor.
class customer : public weir::actor {
public:
  using actor::actor;
  caf::behavior make_behavior() override {
    return {[this](job& j) { j.run(*this); }};
  }
  void on_undelivered(const undelivered& u) override { undelivered_seen.push_back(u.count); }

  std::vector<uint64_t> undelivered_seen;
  std::vector<std::unique_ptr<weir::outlet<Item>>> outlets;
};

/// How one call ended.
struct ending {
  std::optional<int64_t> value;
  std::optional<failure> why;
  bool done() const { return value || why; }
};

} // namespace weir::test

CAF_BEGIN_TYPE_ID_BLOCK(weir_test, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(weir_test, (weir::test::job))
CAF_END_TYPE_ID_BLOCK(weir_test)
WEIR_LOCAL_MESSAGE(weir::test::job)
