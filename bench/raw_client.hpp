/// The clients of the raw benchmark; each runs in a process of its own and is told what to do by a shared
/// page.
#pragma once

#include <string_view>

#include "bench/processes.hpp"
#include "bench/shapes.hpp"

namespace weir::bench {

void run_raw_client(std::string_view address, const rpc_shape& shape, shared_state& state);
void run_raw_client(std::string_view address, const stream_shape& shape, shared_state& state);

/// `shape.callers` connections, each with one call open, on one thread.
void run_raw_connections(std::string_view address, const rpc_shape& shape, shared_state& state);

} // namespace weir::bench
