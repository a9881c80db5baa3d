/// The commands of the `weir` program. `main` looks at its first argument and hands the rest over.
#pragma once

namespace weir::program {

/// `weir bench ...`: the benchmarks (bench/README.md). `argv[0]` is the word "bench". Returns the exit
/// status: 0 done, 1 a run failed, 2 wrong command line.
int bench_main(int argc, char** argv);

/// `weir node ...`: one node of a cluster. `argv[0]` is the word "node". Returns the exit status.
int node_main(int argc, char** argv);

/// `weir probe URI` and `weir why SERVICE --at URI` (runtime/program/README.md). Return the exit status: 0, 1
/// the node could not be asked, 2 wrong command line.
int probe_main(int argc, char** argv);
int why_main(int argc, char** argv);

} // namespace weir::program
