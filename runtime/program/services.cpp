#include "runtime/program/services.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace weir::program {

namespace {
constexpr size_t checked_bytes = 64; // at each end
constexpr size_t source_bytes_max = 64 << 20;

uint64_t mix(uint64_t sum, const kj::byte* at, size_t n) {
  for (; n >= 8; at += 8, n -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;
  }
  for (; n > 0; ++at, --n) sum = (sum ^ *at) * 0x100000001b3;
  return sum;
}

void take_time(std::chrono::microseconds t) {
  if (t.count() > 0) std::this_thread::sleep_for(t);
}
} // namespace

uint64_t check_of(uint64_t sequence, capnp::Data::Reader data) {
  auto n = data.size();
  auto sum = mix(sequence + n, data.begin(), std::min(n, checked_bytes));
  return n > checked_bytes ? mix(sum, data.end() - std::min(n - checked_bytes, checked_bytes), std::min(n - checked_bytes, checked_bytes)) : sum;
}

void fill_blob(Blob::Builder to, uint64_t sequence, std::span<const std::byte> pattern, size_t bytes) {
  auto data = to.initData(static_cast<unsigned>(bytes));
  std::memcpy(data.begin(), pattern.data(), bytes);
  to.setSequence(sequence);
  to.setCheck(check_of(sequence, data));
}

handlers echo_service::make_handlers() {
  return {on<echo_method>([](echo_method::in in, echo_method::out out) {
            out.setSequence(in.getSequence());
            out.setCheck(in.getCheck());
            out.setData(in.getData());
          }),
          on<pass_method>([this](pass_method::in in, pass_method::out) {
            ++tally_->messages;
            tally_->bytes += in.getData().size();
            take_time(tally_->delay);
          })};
}

void sink_service::on_message(inlet<Blob> from, Blob::Reader message) {
  auto data = message.getData();
  if (message.getSequence() + 1 != from.messages() || message.getCheck() != check_of(message.getSequence(), data)) ++tally_->wrong;
  ++tally_->messages;
  tally_->bytes += data.size();
  take_time(tally_->delay);
}

handlers report_service::make_handlers() {
  return {on<read_method>([this](read_method::in, read_method::out out) {
            out.setMessages(tally_->messages);
            out.setBytes(tally_->bytes);
            out.setWrong(tally_->wrong);
          }),
          on<reset_method>([this](reset_method::in in, reset_method::out) {
            *tally_ = {};
            tally_->delay = std::chrono::microseconds{in.getDelayMicros()};
          })};
}

handlers source_service::make_handlers() {
  return {on<start_method>([this](const weir::request<start_method>& rq) { begin(rq); })};
}

source_service::stream::stream(source_service& self, const ref<Blob>& to, weir::request<start_method> rq)
    : asked(std::move(rq)), out(&self, to), left(asked.params().getMessages()), pattern(asked.params().getBytes()) {}

void source_service::begin(weir::request<start_method> rq) {
  auto p = rq.params();
  if (p.getBytes() > source_bytes_max)
    return rq.fail({errc::message_too_large, outcome::not_executed, "bytes: the source makes blobs of at most 64 MiB"});
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
  while (s.left > 0 && s.out.offer([&](Blob::Builder b) { fill_blob(b, s.next, s.pattern, s.pattern.size()); })) --s.left, ++s.next;
  if (s.left > 0 || std::exchange(s.closed, true)) return;
  auto id = std::find_if(streams_.begin(), streams_.end(), [&](auto& x) { return x.second.get() == &s; })->first;
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

} // namespace weir::program
