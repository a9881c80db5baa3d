/// The modes of `weir bench`. `argv[0]` is the name of the mode; each returns the exit status and may throw
/// bench_error.
#pragma once

namespace weir::bench {

int rpc_main(int argc, char** argv);
int stream_main(int argc, char** argv);
int slow_main(int argc, char** argv);
int raw_main(int argc, char** argv);
int mix_main(int argc, char** argv);
int stall_main(int argc, char** argv);
int latency_main(int argc, char** argv);
int idle_main(int argc, char** argv);
int compare_main(int argc, char** argv);

} // namespace weir::bench
