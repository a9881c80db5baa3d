/// `weir bench raw --model`: a thread for each connection against epoll, beside weir.
#pragma once

namespace weir::bench {

/// The exit status; throws bench_error.
int raw_models_main(int argc, char** argv);

} // namespace weir::bench
