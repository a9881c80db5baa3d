#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include <caf/actor.hpp>

#include "actors/log.hpp"
#include "actors/rationing.hpp"
#include "net/mux.hpp"
#include "net/stream.hpp"

namespace weir::actors {

class cycle_watch;
class loop;

result<std::unique_ptr<net::listener>> listen_on_socket(
    net::loop& l, const net::uri& at,
    const std::function<void(std::function<std::unique_ptr<net::stream>(net::loop&)>)>& accepted);

/// What all actors of one node share; made once by the node, constant afterwards.
struct environment {
  /// Makes the stream of a new connection, on the loop that it gets.
  using stream_maker = std::function<std::unique_ptr<net::stream>(net::loop&)>;

  net::link_options link;
  rationing rations; ///< of every loop at first
  uint64_t send_buffer_bytes = 1 << 20;
  uint64_t send_buffer_messages = 4096;
  net::duration call_timeout = std::chrono::seconds{30};
  net::duration connect_timeout = std::chrono::seconds{5};
  net::duration drain_timeout = std::chrono::seconds{5};
  uint64_t links_max = 1024; ///< accepted
  net::duration idle_timeout = std::chrono::seconds{60};
  net::duration reconnect_base = std::chrono::milliseconds{50};
  net::duration reconnect_cap = std::chrono::seconds{5};
  /// How endpoints dial: `net::connect`, or a pipe of a test.
  std::function<std::unique_ptr<net::dial>(net::loop&, const net::uri&, net::duration, net::dial::on_result)>
      connect = net::connect;
  /// How acceptors listen: on a socket, or in a network of a test.
  std::function<result<std::unique_ptr<net::listener>>(net::loop&, const net::uri&,
                                                       std::function<void(stream_maker)>)>
      listen = listen_on_socket;
  caf::actor dispatcher;
  std::vector<std::shared_ptr<loop>> loops; ///< kept while anybody could still enqueue an actor of theirs

  /// Why things went wrong; without a word unless the node says otherwise.
  std::shared_ptr<journal> log = std::make_shared<journal>();
  /// Looks for actors that wait in a circle; null: nobody does (`stall-limit` 0).
  std::shared_ptr<cycle_watch> cycles;

  /// Counters for people, any thread. `node_stats` has them.
  struct counters {
    std::atomic<uint64_t> links_accepted{0}, links_dialled{0}, links_refused{0}, sessions_accepted{0},
        sessions_refused{0}, late_frames{0}; ///< late frames: of links that are gone
    std::atomic<uint64_t> links_open{0};     ///< of those accepted, also before hello
  };
  mutable counters count;
};
using environment_ptr = std::shared_ptr<const environment>;

} // namespace weir::actors
