/// How a mode that measures weir runs: the command line, the roles of its processes, one run for each
/// placement of the actors, raw beside them, and the report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/harness.hpp"
#include "bench/nodes.hpp"
#include "bench/shapes.hpp"

namespace weir::bench {

template <class Shape, class Result>
struct weir_mode {
  const char *name, *summary;
  Result (*run)(const process_plan&, const Shape&);
  Result (*raw)(const Shape&); ///< null: raw has no such mode
  /// What a client process does, from connecting to `finish`.
  void (*client)(client_node&, const std::string& address, const Shape&, shared_state&);
  /// What its server serves besides the services of `weir node`; null: nothing.
  void (*serve)(client_node&) = nullptr;
};

/// `own_server`: the mode has a server of its own, which is not `weir node`.
template <class Shape>
process_plan plan_of(const char* mode, const Shape& shape, const weir_setup& setup,
                     const std::string& placement, bool own_server = false) {
  process_plan plan;
  plan.label = fmt::format("{} {}", mode, placement);
  auto uri = own_address(shape.transport, placement);
  if (!setup.connect.empty())
    plan.address = setup.connect;
  else if (!own_server)
    plan.server = server_arguments(setup, placement, uri);
  else
    plan.server = {"bench", mode, "--as", "server", "--placement", placement, "--address", uri};
  if (own_server)
    for (const auto& more : arguments_of(setup))
      plan.server.push_back(more);
  plan.client = {"bench", mode, "--as", "client", "--placement", placement};
  for (const auto& more : {arguments_of(shape), arguments_of(setup)})
    plan.client.insert(plan.client.end(), more.begin(), more.end());
  return plan;
}

inline double main_figure(const rpc_result& r) { return r.tps; }
inline double main_figure(const stream_result& r) { return r.msgs_per_s; }

/// Runs weir and raw and reports. The first column is the result; the exit status.
template <class Shape, class Result>
int measure(const weir_mode<Shape, Result>& mode, const Shape& shape, const weir_setup& setup,
            const std::string& json) {
  json_output output(json);
  std::vector<std::string> placements{"loop", "scheduler"};
  if (!setup.placement.empty())
    placements = {setup.placement};
  std::vector<std::pair<std::string, Result>> results;
  for (const auto& placement : placements)
    results.emplace_back(placement,
                         mode.run(plan_of(mode.name, shape, setup, placement, mode.serve != nullptr), shape));
  std::vector<std::pair<std::string, figures>> columns;
  std::optional<std::pair<std::string, figures>> beside;
  if constexpr (requires(Result r) { r.ratio_to_raw; })
    if (mode.raw != nullptr && setup.with_raw == "yes" && setup.connect.empty()) {
      auto limit = mode.raw(shape);
      for (auto& [name, result] : results)
        result.ratio_to_raw = main_figure(result) / main_figure(limit);
      limit.ratio_to_raw = 1;
      beside.emplace("raw", to_figures(limit));
    }
  for (auto& [name, result] : results)
    columns.emplace_back(name, to_figures(result));
  auto first = columns.front().second;
  if (beside)
    columns.push_back(std::move(*beside));
  print_table(fmt::format("weir bench {}", mode.name), columns);
  output.write(first);
  return 0;
}

/// The `main` of a mode. `rule(line, shape)`: an exit status when the options do not fit together.
template <class Shape, class Result, class Rule>
int run_weir_mode(const weir_mode<Shape, Result>& mode, int argc, char** argv, Rule rule) {
  Shape shape;
  weir_setup setup;
  role part;
  std::string json;
  options line(fmt::format("weir bench {}", mode.name), mode.summary);
  add_options(line, shape);
  add_options(line, setup);
  add_json_option(line, json);
  add_options(line, part);
  if (auto status = line.parse(argc, argv))
    return *status;
  if (std::optional<int> status = rule(line, shape))
    return *status;
  if (!setup.serve.empty() && !setup.connect.empty())
    return line.refuse("--serve", "not together with --connect");
  if (auto wrong = complaint_about(setup); !wrong.empty()) {
    fmt::print(stderr, "weir bench {}: {}\n", mode.name, wrong);
    return 2;
  }
  if (mode.serve != nullptr && (!setup.serve.empty() || part.as == "server"))
    return serve_more(setup, setup.serve.empty() ? part.address : setup.serve, mode.serve);
  if (!setup.serve.empty())
    return serve(setup);
  if (part.as == "client") {
    shared_page page(shared_page::inherited{});
    client_node node(setup);
    mode.client(node, part.address, shape, page.state());
    check_wait_cycles(node, part.address);
    return 0;
  }
  return measure(mode, shape, setup, json);
}

} // namespace weir::bench
