#include "net/ration.hpp"

#include <cassert>

namespace weir::net {

namespace {
bool above_offset_max(const position& p) { return p.bytes > offset_max || p.messages > offset_max; }

position highest(const position& a, const position& b) {
  return {std::max(a.bytes, b.bytes), std::max(a.messages, b.messages)};
}
position lowest(const position& a, const position& b) {
  return {std::min(a.bytes, b.bytes), std::min(a.messages, b.messages)};
}
} // namespace

// ---- the sender's half

bool ration_out::start(position limit) {
  if (above_offset_max(limit))
    return false;
  limit_ = limit;
  return true;
}

void ration_out::charge(uint64_t cost, uint64_t messages) {
  assert(covers(cost, messages));
  sent_ = sent_.plus(cost, messages);
  if (!blocked_ || messages == 0)
    return; // a further fragment is not what waits
  blocked_ = false;
  unblocked_ = true;
}

ration_out::effect ration_out::raise(uint32_t epoch, position limit) {
  if (above_offset_max(limit))
    return effect::overflow;
  if (epoch < epoch_)
    return effect::none;
  auto before = limit_;
  limit_ = highest(limit_, limit); // only `reclaim` lowers it
  epoch_ = epoch;
  return limit_.bytes > before.bytes || limit_.messages > before.messages ? effect::raised : effect::none;
}

position ration_out::reclaim(uint32_t epoch, uint64_t floor_bytes, uint64_t floor_messages) {
  if (epoch <= epoch_)
    return limit_;
  epoch_ = epoch;
  limit_ = lowest(limit_, sent_.plus(floor_bytes, floor_messages));
  return limit_;
}

void ration_out::block(uint64_t cost, uint64_t backlog, time_point now) {
  auto need = sent_.bytes + cost;
  if (!blocked_)
    blocked_since_ = now;
  if (!blocked_ || need != state_.need) {
    report_at_ = now;
    report_every_ = report_first;
  }
  blocked_ = true;
  state_ = {epoch_, limit_, need, backlog};
}

std::optional<blocked_state> ration_out::report(time_point now) {
  if (!blocked_ || now < report_at_)
    return std::nullopt;
  report_at_ = now + report_every_;
  report_every_ = std::min(report_every_ * 2, report_longest);
  state_.epoch = epoch_;
  state_.limit = limit_;
  return state_;
}

// ---- the receiver's half

ration_in::ration_in(const ration_options& o) : options_(o) { granted_ = target(); }

position ration_in::target() const {
  auto add = [](uint64_t a, uint64_t b) { return b > offset_max - a ? offset_max : a + b; };
  return {std::max(add(consumed_.bytes, options_.bytes), funded_bytes_),
          add(consumed_.messages, options_.messages)};
}

bool ration_in::arrive(uint64_t bytes, uint64_t messages) {
  if (bytes > granted_.bytes - received_.bytes || messages > granted_.messages - received_.messages)
    return false;
  received_ = received_.plus(bytes, messages);
  if (messages > 0)
    blocked_.reset(); // what waited has been sent: `blocked` never overtakes data
  return true;
}

void ration_in::consume(uint64_t bytes, uint64_t messages) {
  consumed_ = consumed_.plus(bytes, messages);
  assert(consumed_.within(received_));
}

bool ration_in::peer_blocked(const blocked_state& s) {
  if (settled_ || s.epoch > epoch_ || s.need > offset_max)
    return false;
  blocked_ = s;
  return s.epoch < epoch_ || s.limit.bytes < granted_.bytes || s.limit.messages < granted_.messages;
}

uint64_t ration_in::unfunded_bytes() const {
  if (!blocked_ || blocked_->need <= granted_.bytes || blocked_->need <= received_.bytes)
    return 0;
  if (blocked_->need - received_.bytes <= options_.bytes)
    return 0; // fits W once what came before is consumed
  auto without = consumed_.bytes + options_.bytes;
  return blocked_->need > without ? blocked_->need - without : 0;
}

void ration_in::fund() {
  assert(blocked_);
  funded_bytes_ = std::max(funded_bytes_, blocked_->need);
}

bool ration_in::unadvertised() const {
  if (settled_ || reclaiming_ != 0)
    return false;
  auto t = target();
  return t.bytes > granted_.bytes || t.messages > granted_.messages;
}

bool ration_in::grant_due() const {
  if (!unadvertised())
    return false;
  auto t = target();
  auto due = [&](uint64_t can, uint64_t said, uint64_t w) {
    return can > said && can - said >= std::max<uint64_t>(1, w / options_.grant_at);
  };
  if (due(t.bytes, granted_.bytes, options_.bytes))
    return true;
  if (due(t.messages, granted_.messages, options_.messages))
    return true;
  return blocked_ && t.bytes >= blocked_->need && t.messages > received_.messages;
}

std::optional<position> ration_in::take_grant() {
  if (!unadvertised())
    return std::nullopt;
  granted_ = highest(granted_, target());
  return granted_;
}

uint32_t ration_in::reclaim() {
  reclaiming_ = ++epoch_;
  return epoch_;
}

bool ration_in::reclaimed(uint32_t epoch, position limit) {
  if (reclaiming_ == 0 || epoch != reclaiming_)
    return false;
  if (!received_.within(limit) || !limit.within(granted_))
    return false;
  granted_ = limit;
  funded_bytes_ = 0; // target() must not bring it back
  reclaiming_ = 0;
  return true;
}

bool ration_in::settle(position final) {
  if (!received_.within(final) || !final.within(granted_))
    return false;
  granted_ = final;
  settled_ = true;
  funded_bytes_ = 0;
  reclaiming_ = 0;
  blocked_.reset();
  return true;
}

} // namespace weir::net
