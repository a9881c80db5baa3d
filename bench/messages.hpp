/// What the actors of the benchmarks are told. None of it leaves its process.
#pragma once

#include <caf/type_id.hpp>

#include <weir/caf.hpp>

namespace weir::bench {

struct begin_work {}; ///< to a client's actor; to a caller on schedule: one more call is due
struct more_work {};  ///< from an actor to itself, so that what else it got has its turn
struct end_work {};   ///< no more is begun, what is under way ends

} // namespace weir::bench

CAF_BEGIN_TYPE_ID_BLOCK(weir_bench, caf::first_custom_type_id + 20200)
CAF_ADD_TYPE_ID(weir_bench, (weir::bench::begin_work))
CAF_ADD_TYPE_ID(weir_bench, (weir::bench::more_work))
CAF_ADD_TYPE_ID(weir_bench, (weir::bench::end_work))
CAF_END_TYPE_ID_BLOCK(weir_bench)

WEIR_LOCAL_MESSAGE(weir::bench::begin_work)
WEIR_LOCAL_MESSAGE(weir::bench::more_work)
WEIR_LOCAL_MESSAGE(weir::bench::end_work)
