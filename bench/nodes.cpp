#include "bench/nodes.hpp"

#include <filesystem>

#include <unistd.h>

#include <fmt/format.h>

#include <weir/main.hpp>

#include "bench/messages.hpp"
#include "runtime/program/commands.hpp"
#include "runtime/program/reasons.hpp"
#include "runtime/program/services.hpp"

namespace weir::bench {

namespace {

struct node_setting {
  const char *name, *shape, *help;
  const char* standard = ""; ///< where it is not the node's own default
};

/// Options of a node that change what is measured.
constexpr std::array<node_setting, weir_setup::setting_count> node_settings{{
    {"ration", "BYTES", "what the peer of a session may have under way"},
    {"ration-messages", "N", "the same in messages"},
    {"grant-at", "N", "a grant leaves when ration / N has come back"},
    {"fragment", "BYTES", "slices in which a larger message leaves"},
    {"send-buffer", "BYTES", "what may wait in one session"},
    {"send-buffer-messages", "N", "the same in messages"},
    {"reply-room", "BYTES", "set aside for the answer of a call"},
    {"calls-max", "N", "calls that may be open on a session"},
    {"message-max", "BYTES", "the largest message that is taken"},
    {"budget-bytes", "BYTES", "what a node may owe in all"},
    {"spin", "TIME", "how long an idle loop looks for work before it sleeps"},
    {"io-threads", "N", "loops"},
    {"caf.scheduler.max-threads", "N", "threads of CAF's scheduler"},
    {"stall-limit", "TIME", "actors that wait in a circle for credit for so long fail the run", "1s"},
}};

/// As the command line of a node.
std::vector<std::string> node_words(const weir_setup& setup) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < node_settings.size(); ++i) {
    const auto& s = node_settings.at(i);
    if (std::string value = setup.settings.at(i).empty() ? s.standard : setup.settings.at(i); !value.empty())
      words.push_back(fmt::format("--{}={}", s.name, value));
  }
  return words;
}

result<config::action> load(config& to, std::vector<std::string> words) {
  std::vector<const char*> pointers{"weir bench"};
  for (const auto& word : words)
    pointers.push_back(word.c_str());
  return to.load(static_cast<int>(pointers.size()), pointers.data());
}

std::unique_ptr<config> load(const weir_setup& setup) {
  init_types<caf::id_block::weir_bench>();
  auto made = std::make_unique<config>();
  if (auto done = load(*made, node_words(setup)); !done)
    throw bench_error(done.error().text);
  return made;
}

/// It listens where it is told to and dials who it is told to, whatever the environment says.
node_options own_options(const config& from, const std::string& listen) {
  auto o = from.options();
  o.listen.clear();
  if (!listen.empty())
    o.listen.push_back(listen);
  o.connect.clear();
  return o;
}

} // namespace

static void add_settings(options& line, weir_setup& to) {
  for (std::size_t i = 0; i < node_settings.size(); ++i) {
    const auto& s = node_settings.at(i);
    line.text(s.name, to.settings.at(i), s.shape, fmt::format("of the nodes: {}", s.help));
  }
}

void add_node_options(options& line, weir_setup& to) {
  line.choice("placement", to.placement, {"loop", "scheduler"}, "where the actors run");
  add_settings(line, to);
}

void add_options(options& line, weir_setup& to) {
  line.choice("placement", to.placement, {"loop", "scheduler"},
              "where the actors run; without it both are run, and loop is the result")
      .text("serve", to.serve, "URI", "be the server of another host's --connect, until SIGTERM")
      .text("connect", to.connect, "URI", "use the server that --serve started on another host")
      .choice("raw", to.with_raw, {"yes", "no"}, "run hand-written sockets, too, for ratio_to_raw");
  add_settings(line, to);
}

void choose(weir_setup& setup, std::string_view option, const std::string& value) {
  for (std::size_t i = 0; i < node_settings.size(); ++i)
    if (node_settings.at(i).name == option && setup.settings.at(i).empty())
      setup.settings.at(i) = value;
}

std::vector<std::string> arguments_of(const weir_setup& setup) { return node_words(setup); }

std::string complaint_about(const weir_setup& setup) {
  auto words = node_words(setup);
  if (!setup.connect.empty())
    words.push_back("--connect=" + setup.connect);
  config tried;
  if (auto done = load(tried, words); !done)
    return done.error().text;
  config listening;
  static constexpr std::string_view option = "--listen";
  auto done = setup.serve.empty() ? config::action::run
                                  : load(listening, {fmt::format("{}={}", option, setup.serve)});
  return done ? std::string{} : "--serve" + done.error().text.substr(option.size());
}

std::vector<std::string> server_arguments(const weir_setup& setup, std::string_view placement,
                                          const std::string& uri) {
  std::vector<std::string> words{"node", "--weir.listen=" + uri,
                                 fmt::format("--node.placement={}", placement)};
  auto more = node_words(setup);
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int serve(const weir_setup& setup) {
  auto words = server_arguments(setup, setup.placement.empty() ? "loop" : setup.placement, setup.serve);
  std::vector<char*> pointers;
  for (auto& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return program::node_main(static_cast<int>(words.size()), pointers.data());
}

std::string own_address(std::string_view transport, std::string_view placement) {
  if (transport == "tcp")
    return "tcp://127.0.0.1:0";
  auto folder = std::filesystem::temp_directory_path().string();
  return fmt::format("unix://{}/weir-bench-{}-{}", folder, getpid(), placement);
}

client_node::client_node(const weir_setup& setup, const std::string& listen)
    : config_(load(setup)),
      on_loop_(setup.placement != "scheduler"),
      system_(*config_),
      node_(system_, own_options(*config_, listen)) {}

int serve_more(const weir_setup& setup, const std::string& uri,
               const std::function<void(client_node&)>& more) {
  stop_signal stop;
  client_node node(setup, uri);
  auto where = setup.placement == "scheduler" ? program::placement::scheduler : program::placement::loop;
  if (auto served = program::serve_all(node.node(), where); !served)
    throw bench_error(served.error().text);
  more(node);
  say_ready(fmt::to_string(fmt::join(node.node().addresses(), ",")));
  stop.wait();
  node.node().stop();
  return 0;
}

void listen_more(client_node& node, std::uint64_t ports) {
  for (std::uint64_t i = 0; i < ports; ++i)
    if (auto listening = node.node().listen("tcp://127.0.0.1:0"); !listening)
      throw bench_error(listening.error().text);
}

void check_wait_cycles(client_node& client, const std::string& server) {
  const auto here = client.node().stats().times(errc::wait_cycle);
  const auto there = program::times_at(client.node(), server, errc::wait_cycle);
  if (!there)
    throw bench_error(
        fmt::format("the server does not say what it has counted: {}", to_string(there.error())));
  if (here + *there > 0)
    throw bench_error(
        fmt::format("{}: actors have waited for each other's credit in a circle, found {} times at "
                    "the client and {} times at the server; stderr has their names",
                    to_string(errc::wait_cycle), here, *there));
}

} // namespace weir::bench
