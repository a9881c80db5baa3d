#include "bench/raw_models.hpp"

#include <charconv>
#include <functional>
#include <future>
#include <map>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "bench/contender.hpp"
#include "bench/messages.hpp"
#include "bench/nodes.hpp"
#include "bench/raw_client.hpp"
#include "bench/raw_socket.hpp"
#include "bench/weir_mode.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

namespace {

using program::Echo;
using program::echo_method;

constexpr std::uint64_t connections_max = 1000;  // within links-max and sessions-max of a node
constexpr std::uint64_t descriptors_beside = 64; // that a process has open besides its connections

/// Request and reply on many connections.
struct models_shape {
  std::string model = "both"; ///< or threads, or epoll
  std::string connections = "1,10,100,1000", loops = "1,2";
  std::uint64_t bytes = 512, rounds = 3;
  seconds length{1};
};

/// Roles of our children.
struct child_role {
  role part;
  std::string of = "raw";  ///< or weir
  std::uint64_t count = 1; ///< connections
};

// ---- weir: a link for each connection

/// What the callers of a process share. They live on one loop.
struct link_run {
  link_run(const rpc_shape& shape, shared_state& s)
      : state(s), record(s), pattern(shape.bytes, std::byte{'x'}), working(shape.callers) {}

  shared_state& state;
  recorder record;
  std::vector<std::byte> pattern;
  std::uint64_t working; ///< callers that have not ended
  std::promise<void> ended;
};

class link_caller final : public weir::actor {
public:
  link_caller(caf::actor_config& cfg, link_run& run, ref<Echo> echo)
      : actor(cfg), run_(run), echo_(std::move(echo)) {}

  caf::behavior make_behavior() override {
    return {[this](begin_work) { next(); }};
  }

private:
  void next() {
    if (!run_.record.running())
      return leave();
    const auto from = clock::now();
    call<echo_method>(
        echo_,
        [&](echo_method::args to) { program::fill_blob(to, ++calls_, run_.pattern, run_.pattern.size()); })
        .then(
            [this, from](echo_method::result answer) {
              if (answer.getSequence() != calls_ || answer.getData().size() != run_.pattern.size())
                ++run_.state.errors;
              else
                run_.record.record(from, clock::now());
              next();
            },
            [this](const failure&) {
              ++run_.state.errors;
              leave();
            });
  }

  void leave() {
    echo_ = {};
    quit();
    if (--run_.working == 0)
      run_.ended.set_value();
  }

  link_run& run_;
  ref<Echo> echo_;
  std::uint64_t calls_ = 0;
};

void run_weir_client(const weir_setup& setup, const std::string& address, const rpc_shape& shape,
                     shared_state& state) {
  client_node node(setup);
  {
    link_run run(shape, state);
    std::vector<caf::actor> callers;
    for (const auto& at : split(address)) {
      auto echo = node.node().lookup<Echo>("echo", at);
      ask<echo_method>(
          node, echo, [](echo_method::args) {}, [](echo_method::result) {}); // now the link is there
      callers.push_back(node.spawn<link_caller>(std::ref(run), echo));
    }
    ++state.ready;
    for (const auto& one : callers)
      put(one, nullptr, begin_work{});
    run.ended.get_future().wait();
  }
  finish(state);
}

// ---- the systems

struct contestant {
  std::string name;
  std::function<rpc_result(std::uint64_t connections)> run;
  std::uint64_t descriptors_each; ///< of a process for each connection; 0: its connections share one link
  std::map<std::uint64_t, std::vector<rpc_result>> samples = {};
};

rpc_shape shape_of(const models_shape& from, std::uint64_t connections) {
  rpc_shape shape;
  shape.callers = connections;
  shape.bytes = from.bytes;
  shape.length = from.length;
  return shape;
}

std::vector<std::string> child_arguments(const models_shape& shape, std::string_view of,
                                         std::uint64_t count) {
  return {"--of",      std::string(of),
          "--bytes",   fmt::to_string(shape.bytes),
          "--seconds", fmt::to_string(shape.length.count()),
          "--count",   fmt::to_string(count)};
}

contestant raw_model(const models_shape& shape, const std::string& model) {
  auto run = [&shape, model](std::uint64_t connections) {
    process_plan plan;
    plan.label = fmt::format("{} with {} connections", model, connections);
    plan.server = {"bench", "raw", "--model", model, "--as", "server"};
    plan.client = {"bench", "raw", "--model", model, "--as", "client"};
    append(plan.client, child_arguments(shape, "raw", connections));
    return run_rpc(plan, shape_of(shape, connections));
  };
  return {model, run, 1};
}

contestant weir_loops(const models_shape& shape, const std::string& loops) {
  auto run = [&shape, loops](std::uint64_t connections) {
    process_plan plan;
    plan.label = fmt::format("weir, {} loops, with {} links", loops, connections);
    plan.server = {"bench", "raw", "--model", "both", "--as", "server", "--loops", loops};
    plan.client = {"bench", "raw", "--model", "both", "--as", "client"};
    append(plan.server, child_arguments(shape, "weir", connections));
    append(plan.client, child_arguments(shape, "weir", connections));
    return run_rpc(plan, shape_of(shape, connections));
  };
  return {fmt::format("weir_{}_loop{}", loops, loops == "1" ? "" : "s"), run, 2}; // it listens once for each
}

contestant weir_one_link(const models_shape& shape) {
  auto run = [&shape](std::uint64_t connections) {
    weir_setup setup;
    choose(setup, "io-threads", "1");
    auto calls = shape_of(shape, connections);
    return run_rpc(plan_of("rpc", calls, setup, "loop"), calls);
  };
  return {"weir_one_link", run, 0};
}

/// Why this machine cannot run it; empty: it can.
std::string reason_to_skip(const contestant& one, std::uint64_t connections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  auto needed = one.descriptors_each * connections + descriptors_beside;
  if (needed <= limit.rlim_max)
    return {};
  return fmt::format("{} at {} connections: it needs {} descriptors, and the system allows a process {} "
                     "(ulimit -Hn)",
                     one.name, connections, needed, limit.rlim_max);
}

double median_of(const std::vector<rpc_result>& samples, const std::function<double(const rpc_result&)>& of) {
  std::vector<double> values;
  for (const auto& sample : samples)
    values.push_back(of(sample));
  return spread_of(std::move(values)).median;
}

figures figures_of(const contestant& one, std::uint64_t connections) {
  const auto& samples = one.samples.at(connections);
  figures to;
  auto add = [&](const char* key, int decimals, const std::function<double(const rpc_result&)>& of) {
    to.add_rounded(key, median_of(samples, of), decimals);
  };
  add("calls_per_s", 0, [](auto& r) { return r.tps; });
  add("cpu_us_per_call", 2, [](auto& r) { return r.cpu_us_per_call.value_or(0); });
  add("p50_us", 1, [](auto& r) { return r.p50_us; });
  add("p99_us", 1, [](auto& r) { return r.p99_us; });
  add("server_rss_mb", 1, [](auto& r) { return r.server_rss_mb.value_or(0); });
  to.add_count("links", static_cast<std::int64_t>(one.descriptors_each == 0 ? 1 : connections));
  return to;
}

std::string run_rounds(std::vector<contestant>& all, const std::vector<std::uint64_t>& connections,
                       std::uint64_t rounds) {
  progress shown("raw --model");
  std::string skipped;
  double done = 0;
  auto runs = static_cast<double>(rounds * all.size() * connections.size());
  for (std::uint64_t round = 1; round <= rounds; ++round)
    for (auto count : connections)
      for (auto& one : all) {
        shown.update(done++ / runs, fmt::format("round {} of {}, {} at {}", round, rounds, one.name, count));
        if (auto why = reason_to_skip(one, count); why.empty())
          one.samples[count].push_back(one.run(count));
        else if (round == 1)
          skipped += (skipped.empty() ? "" : "; ") + why;
      }
  return skipped;
}

void show(const std::vector<contestant>& all, const std::vector<std::uint64_t>& connections,
          const models_shape& shape, const std::string& skipped, json_output& output) {
  std::vector<std::pair<std::string, figures>> columns;
  figures result;
  for (const auto& one : all) {
    figures column, inside;
    for (auto count : connections) {
      if (one.samples.count(count) == 0)
        continue;
      auto row = figures_of(one, count);
      for (const auto& entry : row.entries())
        column.add_rounded(fmt::format("{:>4} {}", count, entry.key), row.number(entry.key), 2);
      inside.add_inside(fmt::to_string(count), std::move(row));
    }
    columns.emplace_back(one.name, std::move(column));
    result.add_inside(one.name, std::move(inside));
  }
  result.add_word("skipped", skipped);
  print_table(
      fmt::format("weir bench raw --model {}: {} bytes there and back on 1 to {} connections, each with one "
                  "call open; medians of {} rounds",
                  shape.model, shape.bytes, connections.back(), shape.rounds),
      columns);
  if (!skipped.empty())
    fmt::print("  skipped: {}\n", skipped);
  output.write(result);
}

// ---- the command line

/// Numbers between commas; empty when one is not from `least` to `most`.
std::vector<std::uint64_t> numbers_in(const std::string& list, std::uint64_t least, std::uint64_t most) {
  std::vector<std::uint64_t> all;
  for (const auto& word : split(list)) {
    std::uint64_t number = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size() || number < least || number > most)
      return {};
    all.push_back(number);
  }
  return all;
}

int run_child(const child_role& child, const models_shape& shape) {
  allow_many_sockets();
  if (child.of == "weir") {
    weir_setup setup;
    choose(setup, "io-threads", child.part.as == "server" ? shape.loops : "1");
    if (child.part.as == "server")
      return serve_more(setup, "tcp://127.0.0.1:0",
                        [&](client_node& node) { listen_more(node, child.count - 1); });
    shared_page page(shared_page::inherited{});
    run_weir_client(setup, child.part.address, shape_of(shape, child.count), page.state());
    return 0;
  }
  if (child.part.as == "client") {
    shared_page page(shared_page::inherited{});
    run_raw_connections(child.part.address, shape_of(shape, child.count), page.state());
    return 0;
  }
  const bool threads = shape.model == "threads";
  auto listener = listen_on("tcp", threads);
  say_ready(listener.address);
  if (threads)
    serve_raw_threads(listener);
  else
    serve_raw(listener, sizeof(raw_header) + shape.bytes + (16 << 10));
  return 0;
}

} // namespace

int raw_models_main(int argc, char** argv) {
  models_shape shape;
  child_role child;
  std::string json;
  options line("weir bench raw --model", "a thread for each connection against epoll, beside weir");
  line.choice("model", shape.model, {"threads", "epoll", "both"},
              "of the hand-written server; its client is one thread with epoll")
      .text("connections", shape.connections, "N,...",
            "how many, each with one call open; weir has a link for each")
      .text("loops", shape.loops, "N,...", "weir's server with so many loops; its client has one")
      .bytes("bytes", shape.bytes, 0, 1 << 20, "payload of a call and of its answer")
      .duration("seconds", shape.length, seconds(0.05), seconds(3600), "time to measure in each run")
      .count("rounds", shape.rounds, 1, 1000, "how often each runs; medians are given")
      .choice("of", child.of, {"raw", "weir"}, "")
      .count("count", child.count, 1, connections_max, "");
  add_json_option(line, json);
  add_options(line, child.part);
  if (auto status = line.parse(argc, argv))
    return *status;
  if (!child.part.as.empty())
    return run_child(child, shape);
  auto connections = numbers_in(shape.connections, 1, connections_max);
  if (connections.empty())
    return line.refuse("--connections",
                       fmt::format("'{}' is not a list of numbers from 1 to {} with commas between",
                                   shape.connections, connections_max));
  if (numbers_in(shape.loops, 1, 256).empty())
    return line.refuse(
        "--loops",
        fmt::format("'{}' is not a list of numbers from 1 to 256 with commas between", shape.loops));
  json_output output(json);
  std::vector<contestant> all;
  for (const auto* model : {"threads", "epoll"})
    if (shape.model == model || shape.model == "both")
      all.push_back(raw_model(shape, model));
  for (const auto& loops : split(shape.loops))
    all.push_back(weir_loops(shape, loops));
  all.push_back(weir_one_link(shape));
  auto skipped = run_rounds(all, connections, shape.rounds);
  show(all, connections, shape, skipped, output);
  return 0;
}

} // namespace weir::bench
