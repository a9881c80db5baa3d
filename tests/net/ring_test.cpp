#include <deque>
#include <map>
#include <memory>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "net/ring.hpp"
#include "net/session_table.hpp"

namespace weir::net {
namespace {

RC_GTEST_PROP(Ring, BehavesLikeADeque, ()) {
  ring<std::shared_ptr<int>> r;
  std::deque<int> model;
  auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
  for (auto step : steps) {
    if (step % 3 != 0)
      r.push_back(std::make_shared<int>(step)), model.push_back(step);
    else if (!model.empty())
      r.pop_front(), model.pop_front();
    if (step % 50 == 1) {
      auto odd = [](int x) { return x % 2 != 0; };
      r.erase_if([&](auto& x) { return odd(*x); });
      std::erase_if(model, odd);
    }
    RC_ASSERT(r.size() == model.size());
    for (size_t i = 0; i < model.size(); ++i)
      RC_ASSERT(*r[i] == model[i]);
  }
}

TEST(Ring, LetsGoOfWhatWasPopped) {
  auto x = std::make_shared<int>(1);
  ring<std::shared_ptr<int>> r;
  r.push_back(x);
  r.push_back(x);
  r.pop_front();
  EXPECT_EQ(x.use_count(), 2);
  r.erase_if([](auto&) { return true; });
  EXPECT_EQ(x.use_count(), 1);
}

RC_GTEST_PROP(SessionTable, BehavesLikeAMap, ()) {
  session_table t;
  std::map<uint32_t, session*> model;
  auto steps = *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange<uint32_t>(1, 200));
  for (auto id : steps) {
    auto* any = reinterpret_cast<session*>(uintptr_t{id} * 64);
    if (model.contains(id))
      t.erase(id), model.erase(id);
    else
      t.insert(id, any), model[id] = any;
    for (uint32_t i = 1; i < 200; ++i)
      RC_ASSERT(t.find(i) == (model.contains(i) ? model[i] : nullptr));
    RC_ASSERT(t.size() == model.size());
  }
}

} // namespace
} // namespace weir::net
