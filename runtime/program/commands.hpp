/// The commands of the `weir` program. `main` looks at its first argument and hands the rest over.
#pragma once

namespace weir::program {

/// `weir bench ...`: the benchmarks (bench/README.md). `argv[0]` is the word "bench". Returns the exit
/// status: 0 done, 1 a run failed, 2 wrong command line.
int bench_main(int argc, char** argv);

/// `weir node ...`: one node of a cluster. `argv[0]` is the word "node". Returns the exit status.
int node_main(int argc, char** argv);

} // namespace weir::program
