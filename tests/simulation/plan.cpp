#include "plan.hpp"

namespace weir::net::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

const char* to_string(action a) {
  static constexpr const char* names[] = {"write",     "deliver",    "time",   "handle", "finish",
                                          "drop kept", "drop reply", "open",   "call",   "post",
                                          "run",       "offer",      "cancel", "close",  "abort",
                                          "reclaim",   "ration",     "stall",  "cut",    "go away"};
  static_assert(std::size(names) == actions);
  return names[static_cast<size_t>(a)];
}

plan quiet_plan(unsigned nodes) {
  plan p;
  for (unsigned i = 0; i < nodes; ++i) {
    auto& n = p.nodes.emplace_back();
    n.link.node = {i + 1, i + 1};
    n.link.node_name = "node " + std::to_string(i);
    n.link.message_bytes_max = 1 << 20;
    if (i != 0)
      p.links.emplace_back(i - 1, i);
  }
  return p;
}

namespace {
void draw_link(dice& d, link_options& l) {
  l.fragment_bytes = static_cast<uint32_t>(d.by_magnitude(64, 64 << 10));
  l.message_bytes_max = d.by_magnitude(4 << 10, 256 << 10) / 8 * 8;
  l.calls_max = static_cast<uint32_t>(d.by_magnitude(1, 64));
  l.sessions_max = static_cast<uint32_t>(d.by_magnitude(2, 64));
  l.reply_room_bytes = static_cast<uint32_t>(d.by_magnitude(64, 8 << 10));
}

habits draw_habits(dice& d) {
  auto some = [&](unsigned most) { return d.chance(40) ? 0u : static_cast<unsigned>(d.between(1, most)); };
  habits h;
  h.body_bytes = static_cast<uint32_t>(d.by_magnitude(8, 4 << 10));
  h.large_percent = some(20);
  h.large_bytes = static_cast<uint32_t>(d.by_magnitude(2 << 10, 280 << 10));
  h.refuse_percent = some(20);
  h.late_accept_percent = some(80);
  h.spurn_percent = some(10);
  h.unread_percent = some(30);
  h.late_percent = some(60);
  h.held_percent = some(40);
  h.fail_percent = some(20);
  h.nest_percent = some(60);
  h.answer_first_percent = static_cast<unsigned>(d.below(101));
  h.answer_bytes = static_cast<uint32_t>(d.by_magnitude(8, 4 << 10));
  h.large_answer_percent = some(20);
  h.depth_max = d.chance(20) ? 64 : some(8);
  h.deadline_percent = some(80);
  h.sessions_max = static_cast<unsigned>(d.between(1, 8));
  h.unread_reply_percent = some(60);
  return h;
}

void draw_node(dice& d, node_plan& n) {
  draw_link(d, n.link);
  n.inbound.reserve_bytes = 2 * d.by_magnitude(n.link.message_bytes_max + 256, 2 * n.link.message_bytes_max);
  if (d.chance(20))
    n.inbound.reserve_bytes = d.by_magnitude(1 << 10, n.link.message_bytes_max); // less than it should be
  n.inbound.bytes = n.inbound.reserve_bytes + d.by_magnitude(32 << 10, 4 << 20);
  n.outbound_bytes = d.by_magnitude(16 << 10, 1 << 20);
  n.held_bytes_max = d.chance(20) ? 0 : d.by_magnitude(1 << 10, 512 << 10);
  n.ration = {d.by_magnitude(256, 64 << 10), d.by_magnitude(1, 128), d.pick({1u, 2u, 4u, 8u})};
  n.back = d.chance(30) ? ration_options{0, 0, 4}
                        : ration_options{d.by_magnitude(256, 16 << 10), d.by_magnitude(1, 64), 4};
  n.service_message_bytes_max = d.chance(60) ? 0 : d.by_magnitude(256, n.link.message_bytes_max) / 8 * 8;
  n.mixed_rations = d.chance(50);
  n.users = draw_habits(d);
  n.receive_slab_bytes = d.by_magnitude(1 << 10, 64 << 10);
  n.read_bytes = d.by_magnitude(1, 64 << 10);
  n.write_bytes = d.chance(50) ? SIZE_MAX : d.by_magnitude(8, 16 << 10);
  n.iovecs = d.by_magnitude(1, 64);
  n.tuned_rations = d.chance(50);
}
} // namespace

plan random_plan(dice& d) {
  auto p = quiet_plan(2);
  for (auto& n : p.nodes)
    draw_node(d, n);
  if (d.chance(15))
    p.links.emplace_back(1, 0);
  p.pipe_bytes = d.by_magnitude(64, 256 << 10);
  if (d.chance(30))
    p.with_grants = {unsigned(d.below(50)), unsigned(d.below(50)), unsigned(d.below(50))};
  constexpr std::array<unsigned, actions> usual{30, 30, 20, 20, 12, 6, 6, 4, 14, 8,
                                                3,  6,  3,  1,  1,  1, 1, 1, 0,  0};
  for (size_t i = 0; i < actions; ++i)
    p.weights[i] = usual[i] * 10 * d.pick({1u, 1u, 1u, 3u}) / d.pick({1u, 1u, 1u, 3u});
  for (auto a :
       {action::cancel, action::close, action::abort, action::reclaim, action::ration, action::stall})
    if (d.chance(30))
      p.weights[static_cast<size_t>(a)] = 0;
  if (d.chance(10))
    p.weights[static_cast<size_t>(action::cut)] = 2;
  if (d.chance(10))
    p.weights[static_cast<size_t>(action::go_away)] = 2;
  p.steps = static_cast<unsigned>(d.between(200, 2000));
  p.step_max = d.pick<duration>({microseconds{50}, microseconds{500}, milliseconds{5}, milliseconds{50}});
  p.late_tick_percent = d.chance(50) ? 0 : 50;
  p.stall_max = d.chance(5) ? duration{seconds{20}} : duration{milliseconds{d.by_magnitude(1, 4000)}};
  return p;
}

} // namespace weir::net::sim
