#pragma once
#include <cstdint>
#include <string>

#include <weir/node.hpp>

namespace weir::program {

/// How often `why` was the reason at the node at `uri`, asked through `by`. Waits for the answer as
/// `prober::look` does. Any thread but an actor's.
result<uint64_t> times_at(node& by, const std::string& uri, errc why);

} // namespace weir::program
