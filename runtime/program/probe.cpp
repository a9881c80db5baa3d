// `weir probe URI`: what a running node does, owes and waits for.
#include <algorithm>

#include <capnp/compat/json.h>
#include <fmt/format.h>

#include <weir/main.hpp>

#include "runtime/program/commands.hpp"
#include "runtime/program/prober.hpp"

namespace weir::program {

namespace {

using rows = std::vector<std::vector<std::string>>;

struct probe_config : config {
  bool json = false;

  probe_config() {
    about("weir probe URI: what the node that listens at URI does, owes and waits for");
    add_option("probe.json", "print one line of JSON instead of tables", json);
    set_defaults(defaults());
  }
};

/// Numbers as numbers; Cap'n Proto's own choice for 64 bits is text.
class number_handler final : public capnp::JsonCodec::Handler<uint64_t> {
public:
  void encode(const capnp::JsonCodec&, uint64_t input, capnp::JsonValue::Builder output) const override {
    output.setNumber(static_cast<double>(input));
  }
  uint64_t decode(const capnp::JsonCodec&, capnp::JsonValue::Reader input) const override {
    return static_cast<uint64_t>(input.getNumber());
  }
};

std::string to_json(snapshot::Snapshot::Reader of) {
  capnp::JsonCodec codec;
  number_handler numbers;
  codec.addTypeHandler(numbers);
  return codec.encode(of).cStr();
}

std::string text(capnp::Text::Reader t) { return {t.begin(), t.size()}; }
std::string show(snapshot::Position::Reader p) {
  return fmt::format("{}/{}", show_size(p.getBytes()), p.getMessages());
}
std::string since(uint64_t nanos) { return nanos == 0 ? "-" : show_time(nanos); }

void print_section(const char* title, const rows& table_rows) {
  if (table_rows.size() > 1)
    fmt::print("\n{}\n{}", title, table(table_rows));
}

void print_head(snapshot::Snapshot::Reader of) {
  fmt::print("node '{}'  {}  cluster {}  up for {}\n", text(of.getName()), text(of.getNode()),
             text(of.getCluster()), show_time(of.getUptimeNanos()));
  for (auto a : of.getAddresses())
    fmt::print("  listens at {}\n", text(a));
  std::string options;
  for (auto o : of.getOptions())
    for (const char* name : {"io-threads", "budget-bytes", "outbound-bytes", "message-max", "ration",
                             "ration-messages", "send-buffer", "held-bytes"})
      if (text(o.getName()) == name)
        options += fmt::format("  {} {}", name, text(o.getValue()));
  fmt::print("{}\n", options);
}

void print_ledgers(snapshot::Snapshot::Reader of) {
  rows in{{"loop", "budget", "free", "reserve", "session", "large", "held", "replies", "pinned", "refused",
           "outbound", "of"}};
  size_t i = 0;
  for (auto l : of.getLoops()) {
    auto b = l.getInbound();
    if (l.getAnswered())
      in.push_back({std::to_string(i), show_size(b.getBudget()), show_size(b.getFree()),
                    show_size(b.getReserve()), show_size(b.getSession()), show_size(b.getLarge()),
                    show_size(b.getHeld()), show_size(b.getReplyRoom()), show_size(b.getPinned()),
                    std::to_string(b.getRefused()), show_size(l.getOutbound().getBytes()),
                    show_size(l.getOutbound().getBytesMax())});
    else
      in.push_back({std::to_string(i), "does not answer: one of its handlers takes too long"});
    ++i;
  }
  print_section("ledgers (what it owes to peers, and keeps for them)", in);
}

void print_links(snapshot::Snapshot::Reader of) {
  rows all{{"peer", "address", "side", "state", "age", "rtt", "in", "out", "messages in", "out", "sessions"}};
  for (auto loop : of.getLoops())
    for (auto l : loop.getLinks())
      all.push_back({text(l.getPeer()), text(l.getAddress()), l.getDialled() ? "dialled" : "accepted",
                     text(l.getState()) + (l.getWriteBlocked() ? ", peer does not read" : ""),
                     show_time(l.getAgeNanos()), show_time(l.getRoundTripNanos()), show_size(l.getBytesIn()),
                     show_size(l.getBytesOut()), std::to_string(l.getMessagesIn()),
                     std::to_string(l.getMessagesOut()), std::to_string(l.getSessions())});
  print_section("links", all);
}

void print_sessions(snapshot::Snapshot::Reader of) {
  rows all{{"service", "id", "kind", "direction", "peer", "sent", "limit", "received", "consumed", "calls",
            "queued", "blocked by", "since", "stalled", "used by"}};
  uint64_t total = 0;
  for (auto loop : of.getLoops()) {
    total += loop.getSessionsTotal();
    for (auto s : loop.getSessions()) {
      auto at = text(s.getUri()).empty() ? text(s.getPeer()) : text(s.getUri());
      std::string users;
      for (auto u : s.getUsedBy())
        users += (users.empty() ? "" : ", ") + text(u);
      auto waits = s.getBlocked() || s.getPeerBlocked();
      all.push_back({text(s.getService()), std::to_string(s.getId()), s.getStream() ? "stream" : "calls",
                     text(s.getDirection()), at, show(s.getSent()), show(s.getLimit()), show(s.getReceived()),
                     show(s.getConsumed()), std::to_string(s.getOpenCalls() + s.getAnswersOwed()),
                     show_size(s.getQueuedBytes()),
                     s.getBlocked()       ? text(s.getBlockedBy())
                     : s.getPeerBlocked() ? "peer waits for us"
                                          : "-",
                     waits ? since(std::max(s.getBlockedNanos(), s.getStalledNanos())) : "-",
                     since(s.getStalledNanos()), users});
    }
  }
  print_section("sessions (bytes/messages; who waits longest first)", all);
  if (total + 1 > all.size())
    fmt::print("  {} of {} sessions\n", all.size() - 1, total);
}

void print_services(snapshot::Snapshot::Reader of) {
  rows all{
      {"service", "kind", "sessions", "waiting", "bytes", "stalled", "busy", "held", "of", "messages", "of"}};
  for (auto s : of.getServices())
    all.push_back({text(s.getName()), s.getStream() ? "stream" : "calls", std::to_string(s.getSessions()),
                   std::to_string(s.getWaitingMessages()), show_size(s.getWaitingBytes()),
                   since(s.getStalledNanos()), since(s.getBusyNanos()), show_size(s.getHeldBytes()),
                   show_size(s.getHeldBytesMax()), std::to_string(s.getHeldMessages()),
                   std::to_string(s.getHeldMessagesMax())});
  print_section("services", all);
}

void print_reasons(snapshot::Snapshot::Reader of) {
  rows all{{"reason", "times"}};
  for (auto r : of.getReasons())
    all.push_back({text(r.getReason()), std::to_string(r.getTimes())});
  if (of.getLateFrames() > 0)
    all.push_back({"late frames, ignored", std::to_string(of.getLateFrames())});
  print_section("reasons counted since the start", all);
}

} // namespace

int probe_main(int argc, char** argv) {
  init_types<>();
  probe_config cfg;
  if (auto p = parse_command(cfg, "weir probe", "URI", argc, argv); !p.go_on)
    return p.status;
  caf::actor_system system{cfg};
  prober ask{system, cfg};
  auto& uri = cfg.arguments().front();
  auto seen = ask.look(uri);
  if (!seen) {
    fmt::print(stderr, "weir probe: {}\n", advice(uri, seen.error()));
    return seen.error().code == errc::bad_uri ? exit_bad_options : EXIT_FAILURE;
  }
  auto of = seen->get();
  if (cfg.json) {
    fmt::print("{}\n", to_json(of));
    return EXIT_SUCCESS;
  }
  print_head(of);
  print_ledgers(of);
  print_links(of);
  print_sessions(of);
  print_services(of);
  print_reasons(of);
  return EXIT_SUCCESS;
}

} // namespace weir::program
