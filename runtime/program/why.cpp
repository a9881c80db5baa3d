// `weir why SERVICE --at URI`: follows what a service waits for, from node to node, to the one that does not
// get on.
#include <algorithm>
#include <optional>
#include <set>

#include <boost/json.hpp>
#include <fmt/format.h>

#include <weir/main.hpp>

#include "runtime/program/commands.hpp"
#include "runtime/program/prober.hpp"

namespace weir::program {

namespace {

namespace json = boost::json;

constexpr size_t hops_max = 64;
constexpr uint64_t busy_nanos_min = 100'000'000; ///< a handler that runs for so long is worth naming

struct why_config : config {
  bool json = false;
  std::string at;

  why_config() {
    about("weir why SERVICE --at URI: what the service at the node that listens at URI waits for, down to "
          "the root");
    add_option("why.at", "a node that serves it, or has sessions to it", at);
    add_option("why.json", "print one line of JSON", json);
    set_defaults(defaults());
  }
};

/// One service on the way, and what is known there.
struct hop {
  std::string service, uri, node, node_id;
  uint64_t sessions = 0, waiting = 0,
           waiting_nanos = 0; ///< sessions to it; of them, those that wait; the longest
  std::string
      cause; ///< waits-for, handler, kept, held, budget, link, opening, outbound, elsewhere, nothing, cycle
  std::string words;                  ///< the same for people
  std::string next_service, next_uri; ///< of waits-for and elsewhere
  bool goes_on() const { return !next_uri.empty(); }
};

std::string text(capnp::Text::Reader t) { return {t.begin(), t.size()}; }

using session = snapshot::Session::Reader;

uint64_t waits_for(const session& s) { return std::max(s.getBlockedNanos(), s.getOldestCallNanos()); }

bool is_used_by(const session& s, const std::string& service) {
  for (auto u : s.getUsedBy())
    if (text(u) == service)
      return true;
  return false;
}

/// Somebody waits for what the service has of this session.
bool waits_on_service(const session& s) {
  auto used_up = s.getReceived().getMessages() >= s.getGranted().getMessages() ||
                 s.getReceived().getBytes() >= s.getGranted().getBytes();
  return s.getBlocked() || s.getPeerBlocked() || s.getAnswersOwed() > 0 || (s.getStream() && used_up);
}

/// The funds are missing, not the service: it has given everything back.
bool lacks_budget(const session& s) {
  return s.getPeerBlocked() && s.getPeerNeed() > s.getGranted().getBytes() &&
         s.getReceived().getBytes() == s.getConsumed().getBytes();
}

/// Reads one node's snapshot for one service.
class examination {
public:
  examination(snapshot::Snapshot::Reader of, const std::string& uri, const std::string& service) : of_(of) {
    h_.service = service;
    h_.uri = uri;
    h_.node = text(of.getName());
    h_.node_id = text(of.getNode());
  }

  result<hop> run() {
    for (auto s : of_.getServices())
      if (text(s.getName()) == h_.service)
        return examine(s), h_;
    if (follow(longest([&](const session& s) { return text(s.getService()) == h_.service; }), "elsewhere"))
      return h_;
    std::string names;
    for (auto s : of_.getServices())
      names += (names.empty() ? "" : ", ") + text(s.getName());
    return {errc::no_such_service,
            fmt::format("{}: it neither serves '{}' nor has a session to it; it serves {}", h_.uri,
                        h_.service, names)};
  }

private:
  template <class F>
  std::optional<session> longest(F wanted) const {
    std::optional<session> found;
    for (auto loop : of_.getLoops())
      for (auto s : loop.getSessions())
        if (wanted(s) && (!found || waits_for(s) > waits_for(*found)))
          found = s;
    return found;
  }

  /// Sessions to the service. True: the budget of this node keeps one of them waiting.
  bool count_waiting(uint64_t actor) {
    bool budget = false;
    for (auto loop : of_.getLoops())
      for (auto s : loop.getSessions()) {
        if (s.getServiceActor() != actor)
          continue;
        ++h_.sessions;
        budget = budget || lacks_budget(s);
        if (!waits_on_service(s))
          continue;
        ++h_.waiting;
        h_.waiting_nanos = std::max({h_.waiting_nanos, waits_for(s), s.getStalledNanos()});
      }
    return budget;
  }

  void examine(snapshot::Service::Reader s) {
    auto budget = count_waiting(s.getActor());
    auto out = longest([&](const session& x) {
      return is_used_by(x, h_.service) && (x.getBlocked() || x.getOpenCalls() > 0);
    });
    auto busy = s.getBusyNanos();
    auto in_handler = busy >= busy_nanos_min && (!out || busy >= waits_for(*out));
    auto has = fmt::format("{} messages wait, nothing was given back for {}", s.getWaitingMessages(),
                           show_time(s.getStalledNanos()));
    if (h_.waiting == 0 && s.getWaitingMessages() == 0 && s.getHeldMessages() == 0)
      return root("nothing", "nothing waits for it");
    if (in_handler)
      return root("handler",
                  fmt::format("its handler has been at work on one batch for {}; {}", show_time(busy), has));
    if (follow(out, "waits-for"))
      return;
    if (s.getHeldMessages() > 0 && (s.getHeldMessages() >= s.getHeldMessagesMax() ||
                                    s.getHeldBytes() + s.getHeldBytes() / 16 >= s.getHeldBytesMax()))
      return root("held", fmt::format("it holds all it may: {} messages, {} (held-messages, held-bytes)",
                                      s.getHeldMessages(), show_size(s.getHeldBytes())));
    if (budget)
      return root("budget", "the budget of this node cannot fund what its peers want to send (budget-bytes)");
    if (s.getHeldMessages() > 0)
      return root("held",
                  fmt::format("it keeps {} requests or messages and waits for nothing that weir knows of",
                              s.getHeldMessages()));
    root("kept", "it does not get on: " + has);
  }

  void root(const char* cause, std::string words) {
    h_.cause = cause;
    h_.words = std::move(words);
  }

  /// Goes on to what the session `s` leads to, or names what keeps the session itself.
  bool follow(const std::optional<session>& s, const char* cause) {
    if (!s)
      return false;
    auto to = text(s->getService()), at = text(s->getUri()), by = text(s->getBlockedBy());
    if (text(s->getDirection()) == "local")
      at = h_.uri;
    auto what = fmt::format("its {} to '{}' at {}", s->getStream() ? "stream" : "session", to, at);
    if (by == "opening")
      return root("opening",
                  fmt::format("{} is not open yet, for {}: no link", what, show_time(s->getBlockedNanos()))),
             true;
    if (by == "link")
      return root("link", fmt::format("{}: the peer's socket has taken nothing for {}", what,
                                      show_time(s->getBlockedNanos()))),
             true;
    if (by == "outbound")
      return root("outbound",
                  fmt::format("{}: too much waits to be sent from this node (outbound-bytes)", what)),
             true;
    h_.cause = cause;
    h_.next_service = to;
    h_.next_uri = at;
    if (s->getBlocked())
      h_.words = fmt::format("{} has been blocked for {}, {} wait{}", what, show_time(s->getBlockedNanos()),
                             show_size(std::max(s->getBacklog(), s->getQueuedBytes())),
                             by == "budget" ? ": the peer has no budget for it" : "");
    else
      h_.words = fmt::format("{}: {} calls wait for an answer, the oldest for {}", what, s->getOpenCalls(),
                             show_time(s->getOldestCallNanos()));
    return true;
  }

  snapshot::Snapshot::Reader of_;
  hop h_;
};

struct chain {
  std::vector<hop> hops;
  std::optional<failure> broken; ///< why it could not be followed to its end
};

chain follow(prober& ask, std::string service, std::string uri) {
  chain c;
  std::set<std::pair<std::string, std::string>> been;
  while (c.hops.size() < hops_max) {
    auto seen = ask.look(uri);
    auto next = seen ? examination{seen->get(), uri, service}.run()
                     : result<hop>{failure{seen.error().code, seen.error().what, advice(uri, seen.error())}};
    if (!next) {
      c.broken = next.error();
      return c;
    }
    if (!been.emplace(next->node_id, service).second) {
      next->cause = "cycle";
      next->words = "it stands further up already: they wait for each other";
      next->next_uri.clear();
    }
    c.hops.push_back(*next);
    if (!next->goes_on())
      return c;
    service = next->next_service;
    uri = next->next_uri;
  }
  c.broken = failure{errc::not_supported, outcome::done, fmt::format("more than {} steps", hops_max)};
  return c;
}

std::string to_json(const chain& c) {
  json::array hops;
  for (auto& h : c.hops)
    hops.push_back(json::object{{"service", h.service},
                                {"uri", h.uri},
                                {"node", h.node},
                                {"sessions", h.sessions},
                                {"waiting", h.waiting},
                                {"waitingNanos", h.waiting_nanos},
                                {"cause", h.cause},
                                {"words", h.words}});
  json::object all{{"chain", hops}, {"root", nullptr}, {"cycle", false}, {"error", nullptr}};
  if (!c.hops.empty() && !c.hops.back().goes_on()) {
    all["root"] = json::object{
        {"service", c.hops.back().service}, {"uri", c.hops.back().uri}, {"cause", c.hops.back().cause}};
    all["cycle"] = c.hops.back().cause == "cycle";
  }
  if (c.broken)
    all["error"] = c.broken->text;
  return json::serialize(all);
}

void print(const chain& c) {
  std::string indent;
  for (auto& h : c.hops) {
    fmt::print("{}'{}' at {} (node '{}')", indent, h.service, h.uri, h.node);
    if (h.waiting > 0)
      fmt::print(": {} of {} sessions wait for it, the longest for {}", h.waiting, h.sessions,
                 show_time(h.waiting_nanos));
    fmt::print("\n{}  {}{}\n", indent, h.goes_on() ? "" : h.cause == "cycle" ? "CYCLE: " : "ROOT: ", h.words);
    indent += "  ";
  }
}

} // namespace

int why_main(int argc, char** argv) {
  init_types<>();
  why_config cfg;
  if (auto p = parse_command(cfg, "weir why", "SERVICE", argc, argv); !p.go_on)
    return p.status;
  if (cfg.at.empty()) {
    fmt::print(stderr, "weir why: --at is missing: the address of a node that serves it or uses it\n");
    return exit_bad_options;
  }
  caf::actor_system system{cfg};
  prober ask{system, cfg};
  auto found = follow(ask, cfg.arguments().front(), cfg.at);
  if (cfg.json)
    fmt::print("{}\n", to_json(found));
  else
    print(found);
  if (!found.broken)
    return EXIT_SUCCESS;
  fmt::print(stderr, "weir why: {}\n", found.broken->text);
  return found.broken->code == errc::bad_uri ? exit_bad_options : EXIT_FAILURE;
}

} // namespace weir::program
