#include "liar.hpp"

#include <algorithm>

namespace weir::fuzz {

using namespace net;

namespace {
/// Calls `f` with every list of `c`.
template <class F>
void for_each_list(say::control& c, F f) {
  f(c.opens), f(c.openeds), f(c.refuseds), f(c.grants), f(c.blockeds), f(c.reclaims), f(c.reclaimeds);
  f(c.aborts), f(c.closes), f(c.closeds), f(c.cancels), f(c.cancelleds), f(c.needs), f(c.funds);
  f(c.unfundeds);
}

bool decode(const frame& f, say::control& c) {
  std::string why;
  return say::decode(f.body(), c, why) == errc::none;
}
} // namespace

// ---- what is drawn

bool liar::knows_any() const {
  auto any = false;
  victim_.link.for_each_session([&](const session& s) { any = any || s.now() != session::state::opening; });
  return any;
}

/// One that the victim knows, and seldom one of which its peer may not know yet.
const session* liar::draw_known() {
  std::vector<const session*> all;
  auto any = d_.chance(10);
  victim_.link.for_each_session([&](const session& s) {
    if (any || s.now() != session::state::opening)
      all.push_back(&s);
  });
  return all.empty() ? nullptr : all[d_.below(all.size())];
}

/// Nearly always a known one: another is the end of the link.
uint32_t liar::id_of(const session* s) {
  auto id = s && d_.below(250) != 0 ? s->id() : static_cast<uint32_t>(d_.below(20));
  touched_.insert(id);
  if (!s || id != s->id())
    touched_link_ = true;
  return id;
}

uint32_t liar::draw_new_session() {
  victim_.link.for_each_session([&](const session& s) {
    if (!s.opened_here())
      last_forged_ = std::max(last_forged_, s.id());
  });
  auto first = victim_.with.link.node.low == 1 ? 2u : 1u; // of the other side
  auto id = last_forged_ == 0 ? first : last_forged_ + 2;
  if (d_.below(250) == 0)
    id += static_cast<uint32_t>(d_.below(20));
  touched_.insert(id);
  if ((id & 1) != (first & 1))
    return id; // the victim's: the end of the link
  last_forged_ = id;
  forged_.insert(id);
  return id;
}

uint64_t liar::draw_number() {
  switch (d_.below(4)) {
  case 0:
    return d_.below(256);
  case 1:
    return d_.below(64 << 10);
  case 2:
    return uint64_t{1} << d_.below(64);
  default:
    return ~uint64_t{0} >> d_.below(64);
  }
}

/// What would be true of `s`, or near it, or anything.
position liar::draw_position(const session* s) {
  if (!s || d_.chance(20))
    return {draw_number(), draw_number()};
  auto p = d_.pick({s->in().received(), s->in().granted(), s->out().limit(), s->out().sent()});
  if (d_.chance(60))
    return p;
  return {p.bytes + d_.below(512) - 255, p.messages + d_.below(4) - 1};
}

/// Others than the true ones are often the end of the link.
position liar::draw_final(const session* s) {
  return s && d_.chance(80) ? s->in().received() : draw_position(s);
}

uint32_t liar::draw_call(uint32_t session) {
  std::vector<uint32_t> open;
  for (auto& [on, id] : calls_)
    if (on == session)
      open.push_back(id);
  if (!open.empty() && d_.chance(80))
    return open[open.size() - 1 - d_.below(std::min<size_t>(open.size(), 8))];
  return static_cast<uint32_t>(d_.below(4) << 16 | d_.below(10));
}

// ---- control

void liar::add_session_word(say::control& c) {
  auto* s = draw_known();
  switch (d_.below(7)) {
  case 0:
  case 1:
    if (forges_ || !s)
      c.opens.push_back({draw_new_session(), "echo", 0, d_.chance(30), static_cast<uint32_t>(draw_number()),
                         draw_position(s)});
    return;
  case 2:
    c.openeds.push_back({id_of(s), draw_position(s), draw_number()});
    return;
  case 3:
    c.refuseds.push_back({id_of(s), draw_reason(), "no", d_.chance(50)});
    return;
  case 4:
    c.aborts.push_back({id_of(s), draw_reason(), "no", draw_final(s)});
    return;
  case 5:
    c.closes.push_back({id_of(s), draw_final(s)});
    return;
  default:
    c.closeds.push_back({id_of(s), draw_number(), draw_final(s)});
  }
}

void liar::add_credit_word(say::control& c) {
  auto* s = draw_known();
  auto epoch = static_cast<uint32_t>(d_.below(6));
  switch (d_.below(5)) {
  case 0:
    c.grants.push_back({id_of(s), s && d_.chance(70) ? s->out().epoch() : epoch, draw_position(s),
                        draw_number(), draw_reason()});
    return;
  case 1: {
    auto need = s && d_.chance(70) ? s->in().received().bytes + d_.by_magnitude(1, 128 << 10) : draw_number();
    c.blockeds.push_back({id_of(s), {s ? s->in().epoch() : epoch, draw_position(s), need, draw_number()}});
    return;
  }
  case 2:
    c.reclaims.push_back({id_of(s), s && d_.chance(70) ? s->out().epoch() + 1 : epoch});
    return;
  case 3:
    c.reclaimeds.push_back({id_of(s), s ? s->in().epoch() : epoch, draw_position(s)});
    return;
  default:
    c.unfundeds.push_back(
        {id_of(s), s && d_.chance(70) ? s->out().state().need : draw_number(), draw_reason()});
  }
}

void liar::add_call_word(say::control& c) {
  auto s = id_of(draw_known());
  switch (d_.below(4)) {
  case 0:
    c.cancels.push_back({s, draw_call(s)});
    return;
  case 1:
    c.cancelleds.push_back({s, draw_call(s)});
    return;
  case 2:
    c.needs.push_back({s, draw_call(s), d_.chance(70) ? d_.by_magnitude(1, 128 << 10) : draw_number()});
    return;
  default:
    c.funds.push_back({s, draw_call(s), d_.chance(70) ? d_.by_magnitude(1, 128 << 10) : draw_number()});
  }
}

void liar::add_link_word(say::control& c) {
  touched_link_ = true;
  switch (d_.below(6)) {
  case 0:
    c.ping = draw_number();
    return;
  case 1:
    c.pong = draw_number();
    return;
  case 2:
    c.goaway = say::goaway{draw_reason(), "bye", static_cast<uint32_t>(draw_number())};
    return;
  case 3:
    c.fin = true;
    return;
  case 4:
    c.fault = say::fault{draw_reason(), "no"};
    return;
  default:
    c.hello = say::hello{1, 1, "weir", "liar", draw_number(), 1, 0, draw_number(), 16384u << d_.below(8),
                         8, 8};
  }
}

frame liar::control() {
  say::control c;
  for (auto n = d_.between(1, 4); n > 0; --n) {
    auto what = d_.below(256);
    if (what < 80)
      add_session_word(c);
    else if (what < 170)
      add_credit_word(c);
    else if (what < 255)
      add_call_word(c);
    else
      add_link_word(c);
  }
  return frame_of(c);
}

// ---- data

/// The next fragment of what it has begun in this lane, or a first one; nearly always as it should be.
frame liar::fragment(uint32_t session, lane in_lane) {
  auto& p = parts_[{session, in_lane}];
  frame_header h;
  h.kind = frame_kind::fragment;
  h.session = session;
  h.flags = static_cast<uint8_t>(in_lane);
  auto first = p.left == 0 || d_.chance(5);
  if (first) {
    p.id = d_.chance(in_lane == lane::reply ? 95 : 50) ? draw_call(session) : 0;
    auto m = test::build_message(std::string(d_.by_magnitude(0, 16 << 10), 'l'));
    p.left = d_.chance(90) ? m.body_bytes : draw_number();
  }
  h.id = d_.chance(97) ? p.id : draw_call(session);
  if (!first && d_.chance(10)) {
    h.flags |= flag::last | flag::void_;
    p.left = 0;
    return {{std::bit_cast<std::array<uint64_t, 2>>(h)[0], std::bit_cast<std::array<uint64_t, 2>>(h)[1]}};
  }
  auto slice = d_.chance(60) ? std::min<uint64_t>(p.left, 4 << 10) : d_.between(1, 512) * 8;
  slice = std::max<uint64_t>(slice / 8 * 8, 8);
  auto last = slice == p.left;
  if (last != d_.chance(3))
    h.flags |= flag::last;
  std::vector<uint64_t> body;
  if (first)
    body.push_back(p.left);
  body.resize(body.size() + slice / 8);
  if (first && body.size() > 1) // one segment, as long as it says: often a message when it is put together
    body[1] = (p.left / 8 - 1) << 32;
  p.left -= std::min(p.left, slice);
  h.length = static_cast<uint32_t>(body.size() * 8);
  frame f;
  f.words.resize(header_bytes / 8);
  f.words.insert(f.words.end(), body.begin(), body.end());
  store_header(f.at(), h);
  return f;
}

frame liar::data() {
  auto session = id_of(draw_known());
  auto in_lane = static_cast<lane>(d_.below(3));
  if (d_.chance(50))
    return fragment(session, in_lane);
  auto m = test::build_message(std::string(d_.by_magnitude(0, 4 << 10), 'l'),
                               static_cast<uint32_t>(d_.below(8192)));
  frame_header h;
  h.kind = frame_kind::message;
  h.length = m.body_bytes;
  h.session = session;
  h.flags = static_cast<uint8_t>(d_.chance(95) ? static_cast<unsigned>(in_lane) : d_.below(64));
  h.ttl = static_cast<uint16_t>(d_.chance(50) ? 0 : d_.below(65536));
  h.id = in_lane == lane::reply || d_.chance(50) ? draw_call(session) : 0;
  auto f = frame_of(h, m);
  if (d_.chance(5) && f.words.size() > 3)
    f.words[2 + d_.below(f.words.size() - 2)] = draw_number();
  return f;
}

// ---- what the peer did say, changed

template <class Entry>
void liar::bend(Entry& e) {
  auto other = [&](auto& n) {
    using number = std::remove_reference_t<decltype(n)>;
    n = d_.chance(70) ? static_cast<number>(n + d_.below(256) - 128) : static_cast<number>(draw_number());
  };
  auto place = [&](position& p) { d_.chance(50) ? other(p.bytes) : other(p.messages); };
  if constexpr (requires { e.limit; })
    return place(e.limit);
  if constexpr (requires { e.final; })
    return place(e.final);
  if constexpr (requires { e.state; })
    return other(e.state.need);
  if constexpr (requires { e.bytes; })
    return other(e.bytes);
  if constexpr (requires { e.epoch; })
    return other(e.epoch);
  if constexpr (requires { e.id; })
    return other(e.id);
}

std::vector<frame> liar::change_control(frame f) {
  say::control c;
  if (!decode(f, c))
    return {f};
  size_t entries = 0;
  for_each_list(c, [&](auto& list) { entries += list.size(); });
  if (entries == 0 || c.hello) {
    touched_link_ = true;
    return {f, f};
  }
  auto at = d_.below(entries);
  auto how = d_.below(4);
  for_each_list(c, [&](auto& list) {
    if (at >= list.size()) {
      at -= list.size();
      return;
    }
    auto one = list.begin() + static_cast<std::ptrdiff_t>(at);
    touched_.insert(one->session);
    if (how == 0)
      list.erase(one);
    else if (how == 1)
      list.push_back(typename std::remove_reference_t<decltype(list)>::value_type{*one});
    else
      bend(*one);
    at = SIZE_MAX; // no other list is as long
  });
  return {frame_of(c)};
}

std::vector<frame> liar::change(frame f) {
  if (f.bytes() < header_bytes) // the preamble
    return {f};
  if (f.is_control())
    return change_control(std::move(f));
  auto h = f.header();
  touched_.insert(h.session);
  switch (d_.below(5)) {
  case 0:
    return {};
  case 1:
    return {f, f};
  case 2:
    h.id = draw_call(h.session);
    break;
  case 3:
    h.session = id_of(draw_known());
    break;
  default:
    h.flags ^= static_cast<uint8_t>(1u << d_.below(6));
  }
  store_header(f.at(), h);
  return {f};
}

// ---- the sessions that it opened

std::vector<frame> liar::without_forged(frame f) const {
  if (forged_.empty() || f.bytes() < header_bytes)
    return {f};
  if (!f.is_control())
    return forged(f.header().session) ? std::vector<frame>{} : std::vector<frame>{f};
  say::control c;
  if (!decode(f, c))
    return {f};
  for_each_list(c, [&](auto& list) { std::erase_if(list, [&](auto& e) { return forged(e.session); }); });
  return c.empty() ? std::vector<frame>{} : std::vector<frame>{frame_of(c)};
}

std::vector<frame> liar::last_words() const {
  say::control c;
  victim_.link.for_each_session([&](const session& s) {
    if (!forged(s.id()))
      return;
    if (s.now() == session::state::tombstone)
      c.closeds.push_back({s.id(), 0, s.in().received()});
    else
      c.aborts.push_back({s.id(), errc::cancelled, "", s.in().received()});
  });
  return c.empty() ? std::vector<frame>{} : std::vector<frame>{frame_of(c)};
}

} // namespace weir::fuzz
