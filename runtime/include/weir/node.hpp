#pragma once
// Start here: a node, what it serves, and how others are found. Then actor.hpp (calls), service.hpp,
// task.hpp (handlers that wait), stream.hpp, rows.hpp (streams that a service sends back), relay.hpp
// (forwarders), client.hpp (threads outside CAF), options.hpp, testing.hpp (your own tests).

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <caf/actor_system.hpp>

#include <weir/actor.hpp>
#include <weir/options.hpp>
#include <weir/ref.hpp>
#include <weir/rows.hpp>
#include <weir/service.hpp>
#include <weir/stream.hpp>

namespace weir {

class config;
namespace detail {
struct ground;
struct node_on_ground;
} // namespace detail

struct serve_options {
  /// Most messages of all sessions together that may wait in the service's mailbox; 0: `mailbox-messages` of
  /// the node.
  uint64_t mailbox_messages = 0;
  /// What becomes of a call when that mailbox is full; not set: `when-full` of the node. Sinks always wait.
  std::optional<weir::when_full> when_full = {};
  /// What the service may keep (`hold`, `request`, coroutines); 0: `held-bytes`, `held-messages` of the node.
  uint64_t held_bytes = 0, held_messages = 0;
  /// What the peer of each of its sessions may have under way; 0: `ration` of the node.
  uint64_t ration = 0;
};

/// What a node does and owes at this moment. Bytes unless the name says otherwise.
struct node_stats {
  uint64_t links = 0, sessions = 0;
  uint64_t budget = 0;    ///< inbound: may be owed
  uint64_t liability = 0; ///< inbound: is owed, the reserve included
  uint64_t base_line = 0; ///< what `liability` is with no session at all: the reserve and the services' held
                          ///< allowances
  uint64_t pinned = 0;    ///< slab memory kept alive beyond what is charged in it
  uint64_t outbound = 0;  ///< queued for others
  uint64_t refused = 0;   ///< requests for budget that were refused

  // ---- since the node was made
  uint64_t links_accepted = 0, links_dialled = 0, sessions_accepted = 0, sessions_refused = 0;
  uint64_t links_refused = 0; ///< accepted and closed at once: `links-max`, or the node stops
  uint64_t late_frames = 0;   ///< for sessions that were over: ignored, as they must be
  struct reason {
    errc code = errc::none;
    uint64_t times = 0;
  };
  /// Why links, sessions, calls and messages have ended or were refused, here or by a peer; by number, those
  /// that never occurred left out.
  std::vector<reason> reasons;
  /// How often `why` was the reason.
  uint64_t times(errc why) const {
    for (auto& r : reasons)
      if (r.code == why)
        return r.times;
    return 0;
  }
};

/// What `node::tune` changes; what is not set stays as it is. As the fields of node_options with those names.
struct tuning {
  std::optional<uint64_t> ration = {}; ///< ration_messages goes with it, unless it is set here, too
  std::optional<uint64_t> ration_messages = {}, budget_bytes = {};
  std::optional<uint32_t> fragment = {};
};

/// Thrown by the constructor: an option is wrong, or an address cannot be listened on.
class start_error : public std::runtime_error {
public:
  explicit start_error(failure f) : std::runtime_error(f.text), why(std::move(f)) {}
  failure why;
};

/// One member of the system: loops, links, ledgers and the services of this process. Make it before the
/// actors that use it, on any thread outside CAF; destroying it ends every session, at the latest after
/// `drain-timeout`.
class node {
public:
  /// Listens on every `listen` and dials every `connect` of the options. Throws start_error.
  node(caf::actor_system& sys, const config& cfg);
  node(caf::actor_system& sys, node_options o);
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  /// Puts an actor on a loop of this node: short handlers, no thread switch. For handlers that compute use
  /// `sys.spawn<T>`. It ends with the node.
  template <class T, class... Ts>
  caf::actor spawn(Ts&&... xs) {
    pin_scope pin{next_loop()};
    auto made = system().spawn<T>(std::forward<Ts>(xs)...);
    remember(made);
    return made;
  }

  /// Where it listens: the port is the real one. Errors: bad_uri, address_in_use, io_error.
  result<std::string> listen(std::string_view uri);
  std::vector<std::string> addresses() const;
  /// Dials `uri` now and whenever the link is lost or its peer goes away, with growing delays
  /// (`reconnect-base`, `reconnect-cap`), until it is there; `lookup` asks it for services. Errors: bad_uri,
  /// shutting_down.
  result<void> connect(std::string_view uri);

  /// Serves `T` under a name: an interface by a `service<T>`, or a struct by a `sink<T>`. Waits up to a
  /// second for the service to start; in an actor of this node it never waits, and one that cannot start is
  /// found out when it is called (service_down, no_such_service). Errors: bad_option (not a service of that
  /// type, a method without a handler, make_handlers threw, a name longer than 255 bytes or one of weir's
  /// own, which begin with `weir.`), no_budget (held-bytes), shutting_down. Any thread.
  template <class T>
  result<void> serve(std::string name, const caf::actor& by, const serve_options& o = {}) {
    return serve_typed(std::move(name), detail::type_id<T>(), is_stream<T>(), by, o);
  }

  /// A ref to the service of this name: of this node, else of the connected ones in the order of `connect`.
  /// Returns at once; calls wait for the session to open. A wrong name or interface fails them,
  /// `not_executed`, and so does a peer that is not there: after `connect-timeout`, for a peer of `connect`
  /// may be starting. Any thread.
  template <class T>
  ref<T> lookup(std::string name) {
    return ref<T>{find(std::move(name), detail::type_id<T>(), is_stream<T>(), {})};
  }
  /// The same at one address. An address that is not one of `connect` must be there: calls fail as soon as
  /// one attempt to connect has (connection refused, no such file, no route, another cluster), with its
  /// reason. Throws std::invalid_argument for a bad uri.
  template <class T>
  ref<T> lookup(std::string name, std::string_view uri) {
    return ref<T>{find(std::move(name), detail::type_id<T>(), is_stream<T>(), uri)};
  }

  /// Any thread; also while the node stops and afterwards.
  node_stats stats() const;
  caf::actor_system& system();
  /// As they are now (`tune`). Any thread.
  node_options options() const;
  /// Changes limits while the node runs: for the sessions that are there and for those to come, on all its
  /// loops, before it returns; in an actor of this node it returns at once and the other loops follow. A
  /// smaller ration is asked back from peers that have not used it; a smaller budget takes nothing from
  /// anybody, but gives nothing new until what is owed fits. Sessions of a service with a ration of its own
  /// keep that. Errors: bad_option (as at start, names the option), and then nothing was changed. Any thread.
  result<void> tune(const tuning& t);
  /// Takes nothing new, lets calls that are under way end, on links and on this node (at most
  /// `drain-timeout`), closes the links, ends the actors of `spawn` (those that do not end have half a second
  /// when nothing is left of `drain-timeout`). Returns when it is done. Idempotent. Any thread but an actor's
  /// of this node. Afterwards `listen`, `connect` and `serve` return shutting_down, and what `lookup` gives
  /// fails its calls with it, `not_executed`.
  void stop();

private:
  friend class client;
  friend struct detail::node_on_ground;
  /// `g`: what it stands on in a test; nullptr: threads and sockets.
  node(caf::actor_system& sys, node_options o, detail::ground* g);
  template <class T>
  static constexpr bool is_stream() {
    return capnp::kind<T>() == capnp::Kind::STRUCT;
  }
  caf_context* next_loop();
  void remember(const caf::actor& a);
  void drain(std::chrono::steady_clock::time_point until);
  std::vector<caf::actor> open_desks();
  void stop_spawned(std::chrono::steady_clock::time_point until);
  result<void> serve_typed(std::string name, uint64_t type, bool stream, const caf::actor& by,
                           const serve_options& o);
  std::shared_ptr<detail::session_guard> find(std::string name, uint64_t type, bool stream,
                                              std::string_view uri);
  result<void> serve_probe();

  struct state;
  std::unique_ptr<state> state_;
};

} // namespace weir
