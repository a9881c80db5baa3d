#include "actors/credit.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/format.h>

namespace weir::actors {

void credit_port::post(account* a, bool urgent) {
  {
    std::lock_guard guard{mutex_};
    if (loop_) {
      posted_.push_back(a);
      if (urgent)
        loop_->wake();
      else
        loop_->remind();
      return;
    }
  }
  a->drop();
}

void credit_port::wake() {
  std::lock_guard guard{mutex_};
  if (loop_)
    loop_->wake();
}

void credit_port::take(std::vector<account*>& out) {
  std::lock_guard guard{mutex_};
  out.swap(posted_);
}

void credit_port::close() {
  std::vector<account*> left;
  {
    std::lock_guard guard{mutex_};
    loop_ = nullptr;
    left.swap(posted_);
  }
  for (auto* a : left)
    a->drop();
}

void account::give_back(uint64_t bytes, uint64_t messages) {
  auto m = messages_.fetch_add(messages, std::memory_order_relaxed) + messages;
  auto b = bytes_.fetch_add(bytes, std::memory_order_seq_cst) + bytes;
  if (b >= wake_bytes_.load(std::memory_order_seq_cst) || m >= wake_messages_.load(std::memory_order_relaxed))
    notify(true);
}

void account::give_back_reply(uint64_t bytes) {
  auto all = reply_bytes_.fetch_add(bytes, std::memory_order_seq_cst) + bytes;
  notify(all >= reply_wake_bytes || wake_bytes_.load(std::memory_order_relaxed) <= 1);
}

void account::notify(bool urgent) {
  uint8_t wanted = urgent ? is_listed | is_urgent : is_listed;
  if ((listed_.load(std::memory_order_relaxed) & wanted) == wanted)
    return;
  auto before = listed_.fetch_or(wanted, std::memory_order_seq_cst);
  if (!(before & is_listed)) {
    hold();
    port_->post(this, urgent);
  } else if (urgent && !(before & is_urgent)) {
    port_->wake();
  }
}

void account::cancel(uint32_t call, uint32_t calls_max) {
  auto* c = cancelled_.load(std::memory_order_relaxed);
  if (!c) {
    c = new std::atomic<uint16_t>[calls_max] {};
    cancelled_.store(c, std::memory_order_release);
  }
  if (auto slot = call & 0xffff; slot < calls_max)
    c[slot].store(static_cast<uint16_t>(call >> 16), std::memory_order_relaxed);
}

account::returned account::take() {
  return {bytes_.exchange(0, std::memory_order_acq_rel), messages_.exchange(0, std::memory_order_acq_rel),
          reply_bytes_.exchange(0, std::memory_order_acq_rel)};
}

failure mailbox_limit::refusal() const {
  return {errc::overloaded, outcome::not_executed,
          fmt::format("{} calls wait in the service's mailbox (mailbox-messages, when-full {})", messages_,
                      to_string(what_))};
}

bool held_allowance::take(uint64_t bytes) {
  auto b = bytes_.fetch_add(bytes, std::memory_order_relaxed);
  auto m = messages_.fetch_add(1, std::memory_order_relaxed);
  if (b + bytes <= bytes_max_ && m + 1 <= messages_max_)
    return true;
  give(bytes);
  return false;
}

void held_allowance::give(uint64_t bytes) {
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  messages_.fetch_sub(1, std::memory_order_relaxed);
}

std::pair<net::message_view, net::slab_ref> held_allowance::copy(const net::message_view& v) {
  auto n = static_cast<uint32_t>(v.bytes());
  if (!copies_ || copies_->size - copies_->used < n)
    copies_ = net::slab_pool::build_pool().take(n);
  auto* to = copies_->data() + copies_->used;
  std::memcpy(to, v.words, n);
  copies_->used += n;
  return {{reinterpret_cast<const uint64_t*>(to), v.count}, copies_};
}

delivery::~delivery() {
  memory_.reset(); // the memory first: credit must not return before it
  if (held_)
    held_->give(cost_);
  if (!account_)
    return;
  if (reply_)
    account_->give_back_reply(cost_);
  else
    account_->give_back(cost_, 1);
  account_->drop();
}

void delivery::swap(delivery& other) noexcept {
  std::swap(view_, other.view_);
  std::swap(memory_, other.memory_);
  std::swap(account_, other.account_);
  std::swap(held_, other.held_);
  std::swap(cost_, other.cost_);
  std::swap(reply_, other.reply_);
}

void arrivals::add(account* from, const arrival& a, const net::slab_ref& memory) {
  if (memory_.empty() || !(memory_.back() == memory))
    memory_.push_back(memory);
  size_t s = shares_.size();
  while (s > 0 && shares_[s - 1].from != from)
    --s;
  if (s == 0) {
    from->hold();
    shares_.push_back({from});
    s = shares_.size();
  }
  auto& of = shares_[s - 1];
  of.total_bytes += a.cost;
  of.total_messages += 1;
  items_.push_back(a);
  items_.back().share = static_cast<uint32_t>(s - 1);
}

net::slab_ref arrivals::memory_of(size_t i) const {
  auto* at = reinterpret_cast<const std::byte*>(items_[i].message.words);
  for (auto& m : memory_)
    if (at >= m->data() && at < m->data() + m->size)
      return m;
  assert(!"a message outside of its batch's memory");
  return {};
}

void arrivals::release(size_t i) {
  if (items_[i].cost == 0)
    return;
  auto& s = shares_[items_[i].share];
  s.ready_bytes += items_[i].cost;
  s.ready_messages += 1;
  if (s.ready_bytes < s.from->wake_bytes() && s.ready_messages < s.from->wake_messages())
    return;
  s.total_bytes -= s.ready_bytes;
  s.total_messages -= s.ready_messages;
  s.from->give_back(std::exchange(s.ready_bytes, 0), std::exchange(s.ready_messages, 0));
}

delivery arrivals::hold(size_t i, const std::shared_ptr<held_allowance>& h) {
  auto& item = items_[i];
  if (!h->take(item.cost))
    return {};
  std::pair<net::message_view, net::slab_ref> kept{item.message, memory_of(i)};
  if (item.message.bytes() < kept.second->size / 4)
    kept = h->copy(item.message); // it would pin far more than it is charged for
  return delivery::held(kept.first, std::move(kept.second), h, item.cost);
}

delivery arrivals::lease(size_t i) {
  auto& item = items_[i];
  auto& s = shares_[item.share];
  auto cost = std::exchange(item.cost, 0);
  assert(cost > 0);
  s.total_bytes -= cost;
  s.total_messages -= 1;
  s.from->hold();
  return delivery::message(item.message, memory_of(i), s.from, cost);
}

void arrivals::give_back_all() noexcept {
  items_.clear();
  memory_.clear(); // the memory first
  for (auto& s : shares_) {
    if (s.total_messages > 0)
      s.from->give_back(s.total_bytes, s.total_messages);
    s.from->drop();
  }
  shares_.clear();
}

} // namespace weir::actors
