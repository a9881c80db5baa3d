#include <stdexcept>

#include <weir/task.hpp>

#include "runtime/actor_core.hpp"

namespace weir {
namespace detail {

task_frame::task_frame(actor* owner, std::coroutine_handle<> h)
    : owner_(owner ? owner : running_actor()), handle_(h) {
  if (!owner_)
    throw std::logic_error{"a weir::task is begun by an actor: in one of its handlers, or with the actor as "
                           "its first argument"};
  at_ = &owner_->core().tasks;
  next_ = *at_;
  if (next_)
    next_->at_ = &next_;
  *at_ = this;
}

task_frame::~task_frame() {
  *at_ = next_;
  if (next_)
    next_->at_ = at_;
}

void task_frame::failed() {
  auto why = failure_of_exception();
  if (rows_)
    rows_->abort(why);
  else if (!request_)
    owner_->on_task_failed(why);
  else if (!request_->answered())
    request_->fail(std::move(why));
}

uint64_t actor_core::sleep(std::chrono::nanoseconds d, std::coroutine_handle<> who) {
  auto id = ++last_sleeper_;
  sleepers_.emplace(id, who);
  if (loop_)
    loop_->at(loop_->now() + d, [to = caf::weak_actor_ptr{self_.ctrl()}, id] {
      put(caf::actor_cast<caf::strong_actor_ptr>(to), nullptr, actors::wake_up{id});
    });
  else
    put_at(self_.system(), std::chrono::steady_clock::now() + d, self_ptr(), actors::wake_up{id});
  return id;
}

void actor_core::on_wake_up(uint64_t sleeper) {
  auto i = sleepers_.find(sleeper);
  if (i == sleepers_.end())
    return;
  auto who = i->second;
  sleepers_.erase(i);
  who.resume();
}

} // namespace detail

void sleep_awaiter::await_suspend(std::coroutine_handle<task::promise_type> h) {
  self_ = &h.promise().owner();
  id_ = self_->core().sleep(duration_, h);
}

sleep_awaiter::~sleep_awaiter() {
  if (self_)
    self_->core().wake(id_);
}

} // namespace weir
