/// Runs the processes of one benchmark through its phases and measures them from outside. A mode writes only
/// what its server and its client do; weir, raw and the ZeroMQ peer are all measured by this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/processes.hpp"
#include "bench/shapes.hpp"

namespace weir::bench {

/// The children of a run: this program again, with these arguments. Each finds the shared page at
/// `shared_page(inherited{})`.
///
/// *server*: binds port 0 on loopback, `say_ready(address)`, serves until it gets SIGTERM.
/// *client* (gets `--address A` behind its arguments): connects, `++state.ready`, works through the phases,
/// publishes (recorders, counters), `finish(state)`, ends with status 0.
struct process_plan {
  std::vector<std::string> server; ///< empty: the server runs elsewhere, at `address`, and is not measured
  std::vector<std::string> client;
  std::optional<std::string> address;
  std::string label; ///< names the run in progress and errors, as in "rpc loop"
};

/// Starts the server and `shape.processes` clients. Clients record each call in a `recorder`, failed ones in
/// `state.errors`. All run functions throw bench_error, and are for the main thread.
rpc_result run_rpc(const process_plan& plan, const rpc_shape& shape);

/// The client waits for `phase::measure`, stores `state.started`, sends, adds to `state.sent` as it goes,
/// waits for the confirmed end, stores `state.ended` and `state.received` (what the receiver counted), and
/// finishes.
stream_result run_stream(const process_plan& plan, const stream_shape& shape);

/// The client offers until `phase::over`, waits until the fate of each message is known, stores `offered`,
/// `undelivered`, `refused` and (from the service, or the service itself does) `handled`, and finishes.
slow_result run_slow(const process_plan& plan, const slow_shape& shape);

} // namespace weir::bench
