#pragma once
#include <array>

#include "net/mux.hpp"
#include "wire.hpp"

namespace weir::net::sim {

/// What the users of one node do, in percent and in weights; 0 switches a habit off.
struct habits {
  // sizes of bodies
  uint32_t body_bytes = 200;
  unsigned large_percent = 0; ///< bodies up to `large_bytes`
  uint32_t large_bytes = 0;
  // services
  unsigned refuse_percent = 0;
  unsigned late_accept_percent = 0;
  unsigned spurn_percent = 0;  ///< sessions that are closed or aborted instead of an answer
  unsigned unread_percent = 0; ///< sessions that nobody reads before the end
  unsigned
      late_percent = 0; ///< requests that are answered later, and stay in their session's charge until then
  unsigned held_percent = 0; ///< requests and items that are held
  unsigned fail_percent = 0;
  unsigned nest_percent = 0;          ///< requests whose handler calls back its caller
  unsigned answer_first_percent = 50; ///< answers that leave before their request's memory dies
  uint32_t answer_bytes = 200;
  unsigned large_answer_percent = 0;
  // callers
  unsigned depth_max = 0;
  unsigned deadline_percent = 0;
  unsigned sessions_max = 6;
  unsigned unread_reply_percent = 0; ///< replies whose memory lives on for a while
};

struct node_plan {
  link_options link;
  budget_options inbound{4 << 20, 2 << 20};
  uint64_t outbound_bytes = 1 << 20;
  uint64_t held_bytes_max = 256 << 10;
  ration_options ration{16 << 10, 64, 4}; ///< of a session that is accepted
  ration_options back{4 << 10, 16, 4};    ///< of a session that is opened, for what its acceptor posts
  uint64_t service_message_bytes_max = 0;
  bool mixed_rations = false; ///< each session draws its own, up to the one above
  bool tuned_rations = false; ///< they size themselves
  habits users;
  size_t receive_slab_bytes = 16 << 10;
  size_t read_bytes = 16 << 10;
  size_t write_bytes = SIZE_MAX;
  size_t iovecs = 32;
};

/// What may happen next; the weights of a plan say how often.
enum class action : uint8_t {
  write,
  deliver,
  time,
  handle,
  finish,
  drop_kept,
  drop_reply,
  open,
  call,
  post,
  run,
  offer,
  cancel,
  close,
  abort,
  reclaim,
  ration,
  stall,
  cut,
  go_away,
};
constexpr size_t actions = 20;
const char* to_string(action a);

struct plan {
  std::vector<node_plan> nodes;
  /// Pairs of nodes: the first dials.
  std::vector<std::pair<unsigned, unsigned>> links;
  size_t pipe_bytes = 64 << 10;
  mischief with_grants;
  std::array<unsigned, actions> weights{};
  unsigned steps = 0;
  unsigned late_tick_percent = 0; ///< steps of time without the ticks that are due
  duration step_max = std::chrono::microseconds{500};
  duration stall_max = std::chrono::seconds{1};
  bool redials = true;
};

/// Two nodes that behave, nothing random: what the named scenarios start from.
plan quiet_plan(unsigned nodes = 2);
/// Everything by the seed.
plan random_plan(dice& d);

} // namespace weir::net::sim
