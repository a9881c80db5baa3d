#include "runtime/testing/wire.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

namespace weir::testing::detail {

namespace {
using io = net::io_count::state;

void wake(std::function<void()>& f, const std::weak_ptr<actors::loop>& on) {
  auto g = std::exchange(f, nullptr);
  if (auto l = on.lock(); l && g)
    l->post(std::move(g));
}

/// FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/
uint32_t digest(std::span<const std::byte> bytes) {
  uint32_t h = 2166136261;
  for (auto b : bytes)
    h = (h ^ static_cast<uint32_t>(b)) * 16777619;
  return h;
}
} // namespace

/// One of the two streams of a wire.
class wire::end final : public net::stream {
public:
  end(std::shared_ptr<wire> w, flow& in, flow& out) : wire_(std::move(w)), in_(in), out_(out) {}
  ~end() override { close(); }

  net::io_count read(std::byte* to, size_t n) override { return wire_->read(in_, to, n); }
  net::io_count write(const iovec* from, int count) override { return wire_->write(out_, from, count); }
  void when_readable(std::function<void()> f) override { wire_->when_readable(in_, std::move(f)); }
  void when_writable(std::function<void()> f) override { wire_->when_writable(out_, std::move(f)); }
  void close() override { wire_->close(in_, out_); }
  std::string describe() const override { return wire_->describe(); }

private:
  std::shared_ptr<wire> wire_;
  flow& in_;
  flow& out_;
};

wire::wire(std::shared_ptr<world> w, uint64_t number, path& there, path& back)
    : world_(std::move(w)), number_(number) {
  there_.over = &there;
  back_.over = &back;
  there_.last = back_.last = world_->now();
}

std::unique_ptr<net::stream> wire::dialled_end(net::loop& l) {
  there_.writes = back_.reads = static_cast<actors::loop&>(l).weak_from_this();
  return std::make_unique<end>(shared_from_this(), back_, there_);
}

std::unique_ptr<net::stream> wire::accepted_end(net::loop& l) {
  back_.writes = there_.reads = static_cast<actors::loop&>(l).weak_from_this();
  return std::make_unique<end>(shared_from_this(), there_, back_);
}

bool wire::is_between(const std::string& a, const std::string& b) const {
  auto& p = *there_.over;
  return (p.from == a && p.to == b) || (p.from == b && p.to == a);
}

size_t wire::bytes_from(const std::string& from) const {
  return (there_.over->from == from ? there_.bytes : 0) + (back_.over->from == from ? back_.bytes : 0);
}

std::string wire::describe() const {
  return fmt::format("test connection {} from {} to {}", number_, there_.over->from, there_.over->to);
}

void wire::trace(const flow& f, const std::string& what) const {
  if (world_->traces())
    world_->trace(fmt::format("{} -> {} #{}: {}", f.over->from, f.over->to, number_, what));
}

void wire::cut() {
  if (cut_)
    return;
  cut_ = true;
  trace(there_, "cut");
  for (auto* f : {&there_, &back_}) {
    f->pieces.clear();
    f->bytes = 0;
  }
  stir();
}

void wire::stir() {
  look(there_);
  look(back_);
}

/// When its reader has something to do; `max`: not before something else happens.
net::time_point wire::readable_at(const flow& f) const {
  if (cut_)
    return world_->now();
  if (f.over->stalled)
    return net::time_point::max();
  if (!f.pieces.empty())
    return f.pieces.front().arrives;
  return f.closed ? f.last : net::time_point::max();
}

void wire::look(flow& f) {
  if (f.writer && (cut_ || has_room(f)))
    wake(f.writer, f.writes);
  if (!f.reader)
    return;
  auto t = readable_at(f);
  if (t <= world_->now())
    return wake(f.reader, f.reads);
  if (t == net::time_point::max() || std::exchange(f.planned, true))
    return;
  world_->plan(t, [self = weak_from_this(), &f] {
    if (auto alive = self.lock()) {
      f.planned = false;
      alive->look(f);
    }
  });
}

net::io_count wire::read(flow& f, std::byte* to, size_t n) {
  if (cut_)
    return {io::failed, 0, "the connection was cut"};
  if (readable_at(f) > world_->now())
    return {io::would_block, 0, {}};
  if (f.pieces.empty()) {
    f.end_seen = true;
    return {io::end, 0, {}};
  }
  if (world_->chance.pieces)
    n = 1 + world_->draw(std::min(n, f.bytes) - 1);
  size_t done = 0;
  while (done < n && !f.pieces.empty() && f.pieces.front().arrives <= world_->now()) {
    auto& p = f.pieces.front();
    auto some = std::min(n - done, p.bytes.size() - p.read);
    std::memcpy(to + done, p.bytes.data() + p.read, some);
    done += some;
    p.read += some;
    if (p.read == p.bytes.size())
      f.pieces.pop_front();
  }
  f.bytes -= done;
  look(f);
  return {io::ok, done, {}};
}

/// True: the connection is lost by chance, instead of a write.
bool wire::breaks(flow& f) {
  if (!world_->one_in(world_->chance.cut_one_in))
    return false;
  trace(f, "lost by chance");
  cut();
  return true;
}

/// Of what is written now: never before what was written earlier.
net::time_point wire::arrival(flow& f) {
  auto& c = world_->chance;
  auto up_to = [&](duration most) { return duration(world_->draw(static_cast<uint64_t>(most.count()))); };
  auto at = world_->now() + f.over->delay;
  if (c.delay_max > duration{0})
    at += up_to(c.delay_max);
  if (world_->one_in(c.stall_one_in))
    at += up_to(c.stall_max);
  return f.last = std::max(f.last, at);
}

net::io_count wire::write(flow& f, const iovec* from, int count) {
  if (cut_ || f.closed || opposite(f).end_seen)
    return {io::failed, 0, cut_ ? "the connection was cut" : "the connection is closed"};
  if (!has_room(f))
    return {io::would_block, 0, {}};
  if (breaks(f))
    return {io::failed, 0, "the connection was cut"};
  std::vector<std::byte> bytes;
  for (int i = 0; i < count; ++i) {
    auto n = std::min(from[i].iov_len, f.over->capacity - f.bytes - bytes.size());
    auto* at = static_cast<const std::byte*>(from[i].iov_base);
    bytes.insert(bytes.end(), at, at + n);
    if (n < from[i].iov_len)
      break;
  }
  auto done = bytes.size();
  if (done == 0)
    return {io::ok, 0, {}};
  trace(f, fmt::format("{} bytes, {:08x}", done, digest(bytes)));
  if (!f.reader_gone) {
    f.pieces.push_back({arrival(f), std::move(bytes)});
    f.bytes += done;
  }
  look(f);
  return {io::ok, done, {}};
}

void wire::when_readable(flow& f, std::function<void()> g) {
  f.reader = std::move(g);
  look(f);
}

void wire::when_writable(flow& f, std::function<void()> g) {
  f.writer = std::move(g);
  look(f);
}

void wire::close(flow& in, flow& out) {
  if (out.closed)
    return;
  if (!cut_)
    trace(out, "closed");
  in.reader = nullptr;
  out.writer = nullptr;
  out.closed = in.reader_gone = true;
  out.last = std::max(out.last, world_->now() + out.over->delay);
  in.pieces.clear();
  in.bytes = 0;
  stir();
}

} // namespace weir::testing::detail
