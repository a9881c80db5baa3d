#include <array>
#include <thread>

#include "bench/contender.hpp"
#include "bench/modes.hpp"
#include "bench/running.hpp"
#include "bench/weir_mode.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

namespace {

using namespace std::chrono_literals;
using program::Echo;
using program::echo_method;

constexpr auto settle = 300ms; // until what was under way has ended and its memory is back
constexpr auto step_limit = 120s;
constexpr std::uint64_t warm_up_calls = 100; // so that pools and caches are as they will be

/// Sessions on one link, or links, that do nothing.
struct idle_shape {
  std::uint64_t sessions = 1000, links = 100, bytes = 512;
  std::string what = "sessions"; ///< or links: of the client at hand
};

std::vector<std::string> arguments_of(const idle_shape& shape) {
  return {"--sessions", fmt::to_string(shape.sessions), "--links", fmt::to_string(shape.links),
          "--bytes",    fmt::to_string(shape.bytes),    "--what",  shape.what};
}

/// Of one side; bytes of RSS.
struct cost {
  double idle_session = 0, active_session = 0, idle_link = 0;
};

// ---- the client

/// Steps of a run: before there is any, when all are there, and (sessions) when each has done a call.
enum step : std::uint32_t { base = 1, there = 2, active = 3 };

void make_call(client_node& node, const ref<Echo>& to, std::uint64_t bytes) {
  std::vector<std::byte> pattern(bytes, std::byte{'x'});
  ask<echo_method>(
      node, to, [&](echo_method::args args) { program::fill_blob(args, 1, pattern, bytes); },
      [](echo_method::result) {});
}

void wait_for_stats(client_node& node, std::uint64_t node_stats::*what, std::uint64_t wanted) {
  for (auto until = clock::now() + step_limit / 2; node.node().stats().*what < wanted;
       std::this_thread::sleep_for(5ms))
    if (clock::now() > until)
      throw bench_error(fmt::format("only {} of {} came up", node.node().stats().*what, wanted));
}

class idle_client {
public:
  idle_client(client_node& node, const std::string& address, const idle_shape& shape)
      : node_(node), shape_(shape), addresses_(split(address)) {
    first_ = node.node().lookup<Echo>("echo", addresses_.front());
    for (std::uint64_t i = 0; i < warm_up_calls; ++i)
      make_call(node, first_, shape.bytes);
  }

  void go_to(std::uint32_t step) {
    if (step == there && shape_.what == "links") {
      for (std::uint64_t i = 1; i <= shape_.links; ++i)
        if (auto dialled = node_.node().connect(addresses_.at(i)); !dialled)
          throw bench_error(dialled.error().text);
      wait_for_stats(node_, &node_stats::links, shape_.links + 1);
    } else if (step == there) {
      for (std::uint64_t i = 0; i < shape_.sessions; ++i)
        sessions_.push_back(node_.node().lookup<Echo>("echo", addresses_.front()));
      wait_for_stats(node_, &node_stats::sessions, shape_.sessions + 1);
    } else if (step == active) {
      for (const auto& session : sessions_)
        make_call(node_, session, shape_.bytes);
    }
    std::this_thread::sleep_for(settle);
  }

private:
  client_node& node_;
  const idle_shape& shape_;
  const std::vector<std::string> addresses_;
  ref<Echo> first_;
  std::vector<ref<Echo>> sessions_;
};

void client(const weir_setup& setup, const std::string& address, const idle_shape& shape) {
  shared_page page(shared_page::inherited{});
  auto& state = page.state();
  client_node node(setup);
  {
    idle_client idle(node, address, shape);
    ++state.ready;
    for (auto step = next_step(state, 0); step != 0; step = next_step(state, step)) {
      idle.go_to(step);
      state.reached = step;
    }
  }
  check_wait_cycles(node, split(address).front());
  finish(state);
}

// ---- the parent

/// What both processes have in RAM.
struct both {
  double server = 0, client = 0;
};

both operator-(const both& a, const both& b) { return {a.server - b.server, a.client - b.client}; }

figures& add_costs(figures& to, std::string_view name, std::optional<both> cost) {
  auto of = [&](double both::*side) { return cost ? std::optional((*cost).*side) : std::nullopt; };
  auto larger = cost ? std::optional(std::max(cost->server, cost->client)) : std::nullopt;
  to.add_rounded(fmt::format("{}_bytes", name), larger, 0);
  to.add_rounded(fmt::format("{}_server_bytes", name), of(&both::server), 0);
  return to.add_rounded(fmt::format("{}_client_bytes", name), of(&both::client), 0);
}

process_plan plan_of(const idle_shape& shape, const weir_setup& setup, std::string_view fragment) {
  process_plan plan;
  plan.label = fmt::format("idle {}, fragment {}", shape.what, fragment);
  plan.server = {"bench",  "idle",    "--as",
                 "server", "--links", fmt::to_string(shape.what == "links" ? shape.links : 0)};
  plan.client = {"bench", "idle", "--as", "client"};
  append(plan.client, arguments_of(shape));
  for (auto* side : {&plan.server, &plan.client}) {
    append(*side, {"--placement", setup.placement});
    append(*side, arguments_of(setup));
    if (fragment != "default")
      append(*side, {"--fragment", std::string(fragment)});
  }
  return plan;
}

/// The memory after each step.
std::vector<both> run_steps(const process_plan& plan, std::uint32_t last) {
  running run(plan, 1);
  std::vector<both> seen;
  run.state().now = phase::measure;
  for (std::uint32_t step = base; step <= last; ++step) {
    run.do_step(step, fmt::format("step {} of {}", step, last), step_limit);
    auto server = run.server_memory().value_or(memory{});
    seen.push_back({static_cast<double>(server.resident_bytes),
                    static_cast<double>(run.client_memory().resident_bytes)});
  }
  run.state().now = phase::over;
  run.wait_finished(step_limit);
  run.leave();
  return seen;
}

both each(const both& all, std::uint64_t count) {
  auto n = static_cast<double>(count);
  return {all.server / n, all.client / n};
}

figures measure(idle_shape shape, const weir_setup& setup, const std::string& fragment) {
  figures to;
  auto sessions = run_steps(plan_of(shape, setup, fragment), active);
  shape.what = "links";
  auto links = run_steps(plan_of(shape, setup, fragment), there);
  add_costs(to, "idle_session", each(sessions[1] - sessions[0], shape.sessions));
  add_costs(to, "active_session", each(sessions[2] - sessions[0], shape.sessions));
  add_costs(to, "idle_link", each(links[1] - links[0], shape.links));
  to.add_rounded("server_rss_mb", mb(static_cast<std::uint64_t>(sessions[2].server)), 1);
  to.add_rounded("client_rss_mb", mb(static_cast<std::uint64_t>(sessions[2].client)), 1);
  return to;
}

int report(const idle_shape& shape, const weir_setup& setup, const std::vector<std::string>& fragments,
           json_output& output) {
  std::vector<std::pair<std::string, figures>> columns;
  for (const auto& fragment : fragments)
    columns.emplace_back(fragment, measure(shape, setup, fragment));
  auto result = columns.front().second;
  figures all;
  for (const auto& [fragment, one] : columns)
    all.add_inside(fragment, one);
  result.add_inside("fragments", std::move(all));
  print_table(fmt::format("weir bench idle: {} sessions on one link, {} links; columns are fragment sizes",
                          shape.sessions, shape.links),
              columns);
  output.write(result);
  return 0;
}

/// What `--fragments` says is wrong with one of its words; empty: nothing.
std::string complaint_about_fragment(const std::string& fragment, std::vector<std::string> node) {
  weir_setup tried;
  if (fragment == "default")
    return {};
  options line("", "");
  add_node_options(line, tried);
  append(node, {"--fragment", fragment});
  std::vector<const char*> words{""};
  for (const auto& word : node)
    words.push_back(word.c_str());
  if (line.parse(static_cast<int>(words.size()), words.data()))
    return "given beside --fragments";
  return complaint_about(tried);
}

} // namespace

int idle_main(int argc, char** argv) {
  idle_shape shape;
  weir_setup setup;
  setup.placement = "loop";
  role part;
  std::string json, fragments = "default,4k,1m";
  options line("weir bench idle", "what a session and a link cost in memory that do nothing");
  line.count("sessions", shape.sessions, 1, 1000, "sessions on one link")
      .count("links", shape.links, 0, 1000, "links of one client to one server")
      .bytes("bytes", shape.bytes, 0, 1 << 20, "payload of the call that makes a session an active one")
      .text("fragments", fragments, "BYTES,...", "fragment sizes to measure; 'default' is the node's own")
      .choice("what", shape.what, {"sessions", "links"}, "");
  add_node_options(line, setup);
  add_json_option(line, json);
  add_options(line, part);
  if (auto status = line.parse(argc, argv))
    return *status;
  if (auto wrong = complaint_about(setup); !wrong.empty()) {
    fmt::print(stderr, "weir bench idle: {}\n", wrong);
    return 2;
  }
  if (part.as == "server")
    return serve_more(setup, "tcp://127.0.0.1:0", [&](client_node& node) { listen_more(node, shape.links); });
  if (part.as == "client") {
    client(setup, part.address, shape);
    return 0;
  }
  if (shape.links == 0)
    return line.refuse("--links", "0 is out of range (1 to 1000)");
  auto sizes = split(fragments);
  if (sizes.empty())
    return line.refuse("--fragments", "needs at least one size");
  for (const auto& size : sizes)
    if (auto wrong = complaint_about_fragment(size, arguments_of(setup)); !wrong.empty())
      return line.refuse("--fragments", wrong);
  json_output output(json);
  return report(shape, setup, sizes, output);
}

} // namespace weir::bench
