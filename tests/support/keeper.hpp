#pragma once
// A sink that gives nothing back by itself.
#include <deque>

#include <weir/stream.hpp>

#include "tests/support/shop.capnp.h"

namespace weir::test {

/// Keeps all that comes; the test takes away what it wants to have given back.
class keeper : public weir::sink<Item> {
public:
  using leases = std::deque<weir::held<Item>>;
  keeper(caf::actor_config& c, leases* l) : sink(c), leases_(l) {}
  void on_message(weir::inlet<Item> from, Item::Reader) override { leases_->push_back(from.lease()); }

private:
  leases* leases_;
};

} // namespace weir::test
