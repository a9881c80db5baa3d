#include "net/control.hpp"

#include <algorithm>

#include "net/wire.capnp.h"

namespace weir::net::say {

namespace {
size_t text_bytes(size_t n, size_t most) { return (std::min(n, most) + 1 + 7) / 8 * 8; }

/// At most `most` bytes, not ending within a UTF-8 sequence.
std::string_view cut(std::string_view text, size_t most) {
  if (text.size() <= most)
    return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
    --most;
  return text.substr(0, most);
}

kj::StringPtr text_of(const std::string& whole, std::string& scratch) {
  scratch = cut(whole, text_bytes_max);
  return {scratch.c_str(), scratch.size()};
}
} // namespace

size_t encoded_bytes(const open& o) { return 6 * word_bytes + text_bytes(o.service.size(), name_bytes_max); }
size_t encoded_bytes(const refused& r) { return 2 * word_bytes + text_bytes(r.text.size(), text_bytes_max); }
size_t encoded_bytes(const abort& a) { return 4 * word_bytes + text_bytes(a.text.size(), text_bytes_max); }
size_t encoded_bytes(const hello& h) {
  return 8 * word_bytes + text_bytes(h.cluster.size(), name_bytes_max) +
         text_bytes(h.name.size(), name_bytes_max);
}
size_t encoded_bytes(const goaway& g) { return 2 * word_bytes + text_bytes(g.text.size(), text_bytes_max); }
size_t encoded_bytes(const fault& f) { return 2 * word_bytes + text_bytes(f.text.size(), text_bytes_max); }

bool control::empty() const {
  return !hello && opens.empty() && openeds.empty() && refuseds.empty() && grants.empty() &&
         blockeds.empty() && reclaims.empty() && reclaimeds.empty() && aborts.empty() && closes.empty() &&
         closeds.empty() && cancels.empty() && cancelleds.empty() && needs.empty() && funds.empty() &&
         unfundeds.empty() && ping == 0 && pong == 0 && !goaway && !fin && !fault;
}

void control::clear() {
  hello.reset(), goaway.reset(), fault.reset();
  opens.clear(), openeds.clear(), refuseds.clear(), grants.clear(), blockeds.clear(), reclaims.clear();
  reclaimeds.clear(), aborts.clear(), closes.clear(), closeds.clear(), cancels.clear(), cancelleds.clear();
  needs.clear(), funds.clear(), unfundeds.clear();
  ping = pong = 0;
  fin = false;
}

// ---- plain structs to Cap'n Proto

namespace {
uint16_t code(errc e) { return static_cast<uint16_t>(e); }

void put(wire::Hello::Builder to, const hello& h) {
  to.setVersionMin(h.version_min);
  to.setVersionMax(h.version_max);
  to.setCluster(h.cluster.c_str());
  to.setNodeHigh(h.node_high);
  to.setNodeLow(h.node_low);
  to.setName(h.name.c_str());
  to.setFeatures(h.features);
  to.setMessageMax(h.message_max);
  to.setFrameMax(h.frame_max);
  to.setSessionsMax(h.sessions_max);
  to.setCallsMax(h.calls_max);
}
void put(wire::Open::Builder to, const open& o) {
  to.setSession(o.session);
  to.setService(o.service.c_str());
  to.setInterface(o.interface);
  to.setStream(o.stream);
  to.setReplyRoom(o.reply_room);
  to.setLimitBytes(o.limit.bytes);
  to.setLimitMessages(o.limit.messages);
}
void put(wire::Opened::Builder to, const opened& o) {
  to.setSession(o.session);
  to.setLimitBytes(o.limit.bytes);
  to.setLimitMessages(o.limit.messages);
  to.setMessageMax(o.message_max);
}
void put(wire::Refused::Builder to, const refused& r) {
  std::string scratch;
  to.setSession(r.session);
  to.setReason(code(r.reason));
  to.setText(text_of(r.text, scratch));
  to.setRetryable(r.retryable);
}
void put(wire::Grant::Builder to, const grant& g) {
  to.setSession(g.session);
  to.setEpoch(g.epoch);
  to.setBytes(g.limit.bytes);
  to.setMessages(g.limit.messages);
  to.setReceived(g.received);
  to.setReason(code(g.reason));
}
void put(wire::Blocked::Builder to, const blocked& b) {
  to.setSession(b.session);
  to.setEpoch(b.state.epoch);
  to.setBytes(b.state.limit.bytes);
  to.setMessages(b.state.limit.messages);
  to.setNeed(b.state.need);
  to.setBacklog(b.state.backlog);
}
void put(wire::Reclaim::Builder to, const reclaim& r) {
  to.setSession(r.session);
  to.setEpoch(r.epoch);
}
void put(wire::Reclaimed::Builder to, const reclaimed& r) {
  to.setSession(r.session);
  to.setEpoch(r.epoch);
  to.setBytes(r.limit.bytes);
  to.setMessages(r.limit.messages);
}
void put(wire::Abort::Builder to, const abort& a) {
  std::string scratch;
  to.setSession(a.session);
  to.setReason(code(a.reason));
  to.setText(text_of(a.text, scratch));
  to.setBytes(a.final.bytes);
  to.setMessages(a.final.messages);
}
void put(wire::Close::Builder to, const close& c) {
  to.setSession(c.session);
  to.setBytes(c.final.bytes);
  to.setMessages(c.final.messages);
}
void put(wire::Closed::Builder to, const closed& c) {
  to.setSession(c.session);
  to.setConsumed(c.consumed);
  to.setBytes(c.final.bytes);
  to.setMessages(c.final.messages);
}
void put(wire::Call::Builder to, const call& c) {
  to.setSession(c.session);
  to.setCall(c.id);
}
template <class Builder> // ReplyNeed, ReplyFund
void put(Builder to, const room& r) {
  to.setSession(r.session);
  to.setCall(r.id);
  to.setBytes(r.bytes);
}
void put(wire::Unfunded::Builder to, const unfunded& u) {
  to.setSession(u.session);
  to.setBytes(u.bytes);
  to.setReason(code(u.reason));
}

/// `init(n)` makes the list of n elements.
template <class Entry, class Init>
void put_all(const std::vector<Entry>& from, Init init) {
  if (from.empty())
    return;
  auto to = init(static_cast<unsigned>(from.size()));
  for (unsigned i = 0; i < to.size(); ++i)
    put(to[i], from[i]);
}

void put_sessions(wire::Control::Builder to, const control& c) {
  put_all(c.opens, [&](unsigned n) { return to.initOpen(n); });
  put_all(c.openeds, [&](unsigned n) { return to.initOpened(n); });
  put_all(c.refuseds, [&](unsigned n) { return to.initRefused(n); });
  put_all(c.aborts, [&](unsigned n) { return to.initAbort(n); });
  put_all(c.closes, [&](unsigned n) { return to.initClose(n); });
  put_all(c.closeds, [&](unsigned n) { return to.initClosed(n); });
}
void put_credit(wire::Control::Builder to, const control& c) {
  put_all(c.grants, [&](unsigned n) { return to.initGrant(n); });
  put_all(c.blockeds, [&](unsigned n) { return to.initBlocked(n); });
  put_all(c.reclaims, [&](unsigned n) { return to.initReclaim(n); });
  put_all(c.reclaimeds, [&](unsigned n) { return to.initReclaimed(n); });
  put_all(c.unfundeds, [&](unsigned n) { return to.initUnfunded(n); });
}
void put_calls(wire::Control::Builder to, const control& c) {
  put_all(c.cancels, [&](unsigned n) { return to.initCancel(n); });
  put_all(c.cancelleds, [&](unsigned n) { return to.initCancelled(n); });
  put_all(c.needs, [&](unsigned n) { return to.initNeed(n); });
  put_all(c.funds, [&](unsigned n) { return to.initFund(n); });
}
void put_link(wire::Control::Builder to, const control& c) {
  std::string scratch;
  if (c.hello)
    put(to.initHello(), *c.hello);
  if (c.ping != 0)
    to.setPing(c.ping);
  if (c.pong != 0)
    to.setPong(c.pong);
  if (c.goaway) {
    auto g = to.initGoaway();
    g.setReason(code(c.goaway->reason));
    g.setText(text_of(c.goaway->text, scratch));
    g.setLastSession(c.goaway->last_session);
  }
  if (c.fin)
    to.setFin(true);
  if (c.fault) {
    auto f = to.initFault();
    f.setReason(code(c.fault->reason));
    f.setText(text_of(c.fault->text, scratch));
  }
}

template <class... Lists>
size_t bytes_of(const Lists&... all) {
  size_t bytes = 0;
  auto add = [&](const auto& list) {
    for (auto& entry : list)
      bytes += encoded_bytes(entry);
  };
  (add(all), ...);
  return bytes;
}

size_t entries_bytes(const control& c) {
  auto bytes = bytes_of(c.opens, c.openeds, c.refuseds, c.grants, c.blockeds, c.reclaims, c.reclaimeds);
  bytes += bytes_of(c.aborts, c.closes, c.closeds, c.cancels, c.cancelleds, c.needs, c.funds, c.unfundeds);
  bytes += c.hello ? encoded_bytes(*c.hello) : 0;
  bytes += c.goaway ? encoded_bytes(*c.goaway) : 0;
  return bytes + (c.fault ? encoded_bytes(*c.fault) : 0);
}
} // namespace

outgoing encode(const control& c) {
  // One segment: in another one each text would cost a word more, and a full frame would be too long.
  message_builder b{entries_bytes(c) + (control_bytes_max - entries_bytes_max)};
  auto to = b.initRoot<wire::Control>();
  put_link(to, c);
  put_sessions(to, c);
  put_credit(to, c);
  put_calls(to, c);
  auto m = b.finish();
  assert(m.body_bytes <= control_bytes_max);
  return m;
}

// ---- Cap'n Proto to plain structs

namespace {
struct malformed {
  const char* what;
};

errc reason(uint16_t n) { return n <= 255 ? static_cast<errc>(n) : static_cast<errc>(255); }

std::string name_from(capnp::Text::Reader t) {
  if (t.size() > name_bytes_max)
    throw malformed{"a name above 255 bytes"};
  return {t.begin(), t.end()};
}
std::string text_from(capnp::Text::Reader t) {
  return std::string{cut({t.begin(), t.size()}, text_bytes_max)};
}

hello get(wire::Hello::Reader h) {
  hello to;
  to.version_min = h.getVersionMin();
  to.version_max = h.getVersionMax();
  to.cluster = name_from(h.getCluster());
  to.name = name_from(h.getName());
  to.node_high = h.getNodeHigh();
  to.node_low = h.getNodeLow();
  to.features = h.getFeatures();
  to.message_max = h.getMessageMax();
  to.frame_max = h.getFrameMax();
  to.sessions_max = h.getSessionsMax();
  to.calls_max = h.getCallsMax();
  return to;
}
void get(wire::Open::Reader o, open& to) {
  to = {o.getSession(), name_from(o.getService()), o.getInterface(),
        o.getStream(),  o.getReplyRoom(),          {o.getLimitBytes(), o.getLimitMessages()}};
}
void get(wire::Opened::Reader o, opened& to) {
  to = {o.getSession(), {o.getLimitBytes(), o.getLimitMessages()}, o.getMessageMax()};
}
void get(wire::Refused::Reader r, refused& to) {
  to = {r.getSession(), reason(r.getReason()), text_from(r.getText()), r.getRetryable()};
}
void get(wire::Grant::Reader g, grant& to) {
  to = {
      g.getSession(), g.getEpoch(), {g.getBytes(), g.getMessages()}, g.getReceived(), reason(g.getReason())};
}
void get(wire::Blocked::Reader b, blocked& to) {
  to = {b.getSession(), {b.getEpoch(), {b.getBytes(), b.getMessages()}, b.getNeed(), b.getBacklog()}};
}
void get(wire::Reclaim::Reader r, reclaim& to) { to = {r.getSession(), r.getEpoch()}; }
void get(wire::Reclaimed::Reader r, reclaimed& to) {
  to = {r.getSession(), r.getEpoch(), {r.getBytes(), r.getMessages()}};
}
void get(wire::Abort::Reader a, abort& to) {
  to = {a.getSession(), reason(a.getReason()), text_from(a.getText()), {a.getBytes(), a.getMessages()}};
}
void get(wire::Close::Reader c, close& to) { to = {c.getSession(), {c.getBytes(), c.getMessages()}}; }
void get(wire::Closed::Reader c, closed& to) {
  to = {c.getSession(), c.getConsumed(), {c.getBytes(), c.getMessages()}};
}
void get(wire::Call::Reader c, call& to) { to = {c.getSession(), c.getCall()}; }
template <class Reader> // ReplyNeed, ReplyFund
void get(Reader r, room& to) {
  to = {r.getSession(), r.getCall(), r.getBytes()};
}
void get(wire::Unfunded::Reader u, unfunded& to) {
  to = {u.getSession(), u.getBytes(), reason(u.getReason())};
}

template <class List, class Entry>
void get_all(List from, std::vector<Entry>& to, size_t& left) {
  if (from.size() > left)
    throw malformed{"more list elements than a frame can hold"};
  left -= from.size();
  to.resize(from.size());
  for (unsigned i = 0; i < from.size(); ++i)
    get(from[i], to[i]);
}

void get_lists(wire::Control::Reader c, control& out) {
  auto left = entries_max;
  get_all(c.getOpen(), out.opens, left);
  get_all(c.getOpened(), out.openeds, left);
  get_all(c.getRefused(), out.refuseds, left);
  get_all(c.getGrant(), out.grants, left);
  get_all(c.getBlocked(), out.blockeds, left);
  get_all(c.getReclaim(), out.reclaims, left);
  get_all(c.getReclaimed(), out.reclaimeds, left);
  get_all(c.getAbort(), out.aborts, left);
  get_all(c.getClose(), out.closes, left);
  get_all(c.getClosed(), out.closeds, left);
  get_all(c.getCancel(), out.cancels, left);
  get_all(c.getCancelled(), out.cancelleds, left);
  get_all(c.getNeed(), out.needs, left);
  get_all(c.getFund(), out.funds, left);
  get_all(c.getUnfunded(), out.unfundeds, left);
}

void get_control(wire::Control::Reader c, control& out) {
  out.clear();
  if (c.hasHello())
    out.hello = get(c.getHello());
  get_lists(c, out);
  out.ping = c.getPing();
  out.pong = c.getPong();
  out.fin = c.getFin();
  if (c.hasGoaway()) {
    auto g = c.getGoaway();
    out.goaway = goaway{reason(g.getReason()), text_from(g.getText()), g.getLastSession()};
  }
  if (c.hasFault()) {
    auto f = c.getFault();
    out.fault = fault{reason(f.getReason()), text_from(f.getText())};
  }
}
} // namespace

errc decode(const message_view& v, control& out, std::string& why) {
  if (!well_formed(v)) {
    why = "not a Cap'n Proto message";
    return errc::malformed_control;
  }
  try {
    capnp::FlatArrayMessageReader reader{kj::arrayPtr(reinterpret_cast<const capnp::word*>(v.words), v.count),
                                         reader_options(v)};
    get_control(reader.getRoot<wire::Control>(), out);
    return errc::none;
  } catch (const malformed& m) {
    why = m.what;
  } catch (const kj::Exception& e) {
    why = e.getDescription().cStr();
  }
  return errc::malformed_control;
}

} // namespace weir::net::say
