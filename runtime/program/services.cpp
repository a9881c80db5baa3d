#include "runtime/program/services.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <type_traits>

namespace weir::program {

namespace {
constexpr size_t checked_bytes = 64; // at each end
constexpr size_t source_bytes_max = 64 << 20;
constexpr std::chrono::milliseconds oversleep_max{5}; // what a sleep that was too long may be made up for

uint64_t mix(uint64_t sum, const kj::byte* at, size_t n) {
  for (; n >= 8; at += 8, n -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;
  }
  for (; n > 0; ++at, --n)
    sum = (sum ^ *at) * 0x100000001b3;
  return sum;
}
} // namespace

uint64_t check_of(uint64_t sequence, capnp::Data::Reader data) {
  auto n = data.size();
  auto sum = mix(sequence + n, data.begin(), std::min(n, checked_bytes));
  return n > checked_bytes ? mix(sum, data.end() - std::min(n - checked_bytes, checked_bytes),
                                 std::min(n - checked_bytes, checked_bytes))
                           : sum;
}

void fill_blob(Blob::Builder to, uint64_t sequence, std::span<const std::byte> pattern, size_t bytes) {
  auto data = to.initData(static_cast<unsigned>(bytes));
  if (bytes > 0)
    std::memcpy(data.begin(), pattern.data(), bytes);
  to.setSequence(sequence);
  to.setCheck(check_of(sequence, data));
}

void tally::count(uint64_t bytes, bool right) {
  auto add = [](std::atomic<uint64_t>& to, uint64_t n) { // one writer: cheaper than an atomic addition
    to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  };
  add(messages_, 1);
  add(bytes_, bytes);
  if (!right)
    add(wrong_, 1);
}

void tally::take_time() {
  std::chrono::nanoseconds delay{delay_ns_.load(std::memory_order_relaxed)};
  if (delay.count() == 0)
    return;
  auto now = std::chrono::steady_clock::now();
  if (free_at_ + oversleep_max < now)
    free_at_ = now; // it had nothing to do
  free_at_ += delay;
  if (free_at_ > now)
    std::this_thread::sleep_until(free_at_);
}

tally::figures tally::seen() const {
  return {messages_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed),
          wrong_.load(std::memory_order_relaxed)};
}

handlers echo_service::make_handlers() {
  return {on<echo_method>([](echo_method::in in, echo_method::out out) {
            out.setSequence(in.getSequence());
            out.setCheck(in.getCheck());
            out.setData(in.getData());
          }),
          on<pass_method>([this](pass_method::in in, pass_method::out) {
            passed_->count(in.getData().size(), in.getCheck() == check_of(in.getSequence(), in.getData()));
            passed_->take_time();
          })};
}

void sink_service::on_message(inlet<Blob> from, Blob::Reader message) {
  auto data = message.getData();
  auto sequence = message.getSequence();
  tally_->count(data.size(),
                sequence + 1 == from.messages() && message.getCheck() == check_of(sequence, data));
  tally_->take_time();
}

tally::figures report_service::sum() const {
  tally::figures all;
  for (auto& t : of_) {
    auto one = t->seen();
    all.messages += one.messages;
    all.bytes += one.bytes;
    all.wrong += one.wrong;
  }
  return all;
}

handlers report_service::make_handlers() {
  return {on<read_method>([this](read_method::in, read_method::out out) {
            auto now = sum();
            out.setMessages(now.messages - before_.messages);
            out.setBytes(now.bytes - before_.bytes);
            out.setWrong(now.wrong - before_.wrong);
          }),
          on<reset_method>([this](reset_method::in in, reset_method::out) {
            before_ = sum();
            for (auto& t : of_)
              t->be_slow(std::chrono::nanoseconds{in.getDelayNanos()});
          })};
}

handlers source_service::make_handlers() {
  return {on<start_method>([this](const weir::request<start_method>& rq) { begin(rq); })};
}

source_service::stream::stream(source_service& self, const ref<Blob>& to, weir::request<start_method> rq)
    : asked(std::move(rq)),
      out(&self, to),
      left(asked.params().getMessages()),
      pattern(asked.params().getBytes()) {}

void source_service::begin(weir::request<start_method> rq) {
  auto p = rq.params();
  if (p.getBytes() > source_bytes_max)
    return rq.fail(
        {errc::message_too_large, outcome::not_executed, "bytes: the source makes blobs of at most 64 MiB"});
  try {
    std::string at = p.getUri().cStr(), name = p.getTo().cStr();
    auto to = at.empty() ? node_.lookup<Blob>(name) : node_.lookup<Blob>(name, at);
    auto id = ++last_;
    auto& s = *(streams_[id] = std::make_unique<stream>(*this, to, std::move(rq)));
    s.out.on_credit([this, &s] { pump(s); });
    s.out.on_failure([this, id](const failure& why) {
      streams_.at(id)->asked.fail(why);
      streams_.erase(id);
    });
  } catch (const std::invalid_argument& e) {
    rq.fail({errc::bad_uri, outcome::not_executed, e.what()});
  }
}

void source_service::pump(stream& s) {
  while (s.left > 0 &&
         s.out.offer([&](Blob::Builder b) { fill_blob(b, s.next, s.pattern, s.pattern.size()); }))
    --s.left, ++s.next;
  if (s.left > 0 || std::exchange(s.closed, true))
    return;
  auto id = std::find_if(streams_.begin(), streams_.end(), [&](auto& x) {
              return x.second.get() == &s;
            })->first;
  s.out.close().then(
      [this, id](uint64_t consumed) {
        streams_.at(id)->asked.reply([&](start_method::out out) { out.setConsumed(consumed); });
        streams_.erase(id);
      },
      [this, id](const failure& why) {
        streams_.at(id)->asked.fail(why);
        streams_.erase(id);
      });
}

result<void> serve_all(node& n, placement where) {
  auto on_loop = where == placement::loop;
  auto spawn = [&]<class T>(std::type_identity<T>, auto... xs) {
    return on_loop ? n.spawn<T>(std::move(xs)...) : caf::actor{n.system().spawn<T>(std::move(xs)...)};
  };
  auto passed = std::make_shared<tally>(), sunk = std::make_shared<tally>();
  std::vector both{passed, sunk};
  if (auto r = n.serve<Echo>("echo", spawn(std::type_identity<echo_service>{}, passed)); !r)
    return r;
  if (auto r = n.serve<Blob>("sink", spawn(std::type_identity<sink_service>{}, sunk)); !r)
    return r;
  if (auto r = n.serve<Report>("report", spawn(std::type_identity<report_service>{}, both)); !r)
    return r;
  return n.serve<Source>("source", n.spawn<source_service>(std::ref(n)));
}

} // namespace weir::program
