/// The limit of the machine: hand-written sockets, no library. One epoll server thread in its own process and
/// clients that do as little as possible, in the shapes of `rpc` and `stream`. Their figures stand beside
/// every result.
#pragma once

#include "bench/shapes.hpp"

namespace weir::bench {

/// One run; throws bench_error. `ratio_to_raw` is left empty. Call it on the main thread.
rpc_result raw_rpc(const rpc_shape& shape);
stream_result raw_stream(const stream_shape& shape);

} // namespace weir::bench
