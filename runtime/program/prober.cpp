#include "runtime/program/prober.hpp"

#include <algorithm>
#include <future>

#include <fmt/format.h>

#include <weir/main.hpp>

#include "runtime/program/reasons.hpp"

namespace weir::program {

namespace {

using look = method<&snapshot::Prober::Client::lookRequest>;
constexpr uint32_t room_bytes = 1 << 20; // for most nodes it saves the trip that funds a large answer

class asker : public actor {
public:
  asker(caf::actor_config& cfg, ref<snapshot::Prober> to,
        std::shared_ptr<std::promise<result<seen_node>>> tell)
      : actor(cfg), to_(std::move(to)), done_(std::move(tell)) {}

  caf::behavior make_behavior() override {
    call_options o;
    o.reply_room_bytes = room_bytes;
    call<look>(to_, o, [](look::args) {})
        .then([this](look::result r) { end(seen_node{r.getNode()}); },
              [this](const failure& why) { end(why); });
    return actor::make_behavior();
  }

private:
  void end(result<seen_node> r) {
    done_->set_value(std::move(r));
    quit();
  }
  ref<snapshot::Prober> to_;
  std::shared_ptr<std::promise<result<seen_node>>> done_;
};

result<seen_node> look_through(node& by, const std::string& uri) {
  auto done = std::make_shared<std::promise<result<seen_node>>>();
  auto answer = done->get_future();
  try {
    by.spawn<asker>(by.lookup<snapshot::Prober>("weir.probe", uri), done);
  } catch (const std::invalid_argument& e) {
    return {errc::bad_uri, e.what()};
  }
  return answer.get();
}

} // namespace

result<seen_node> prober::look(const std::string& uri) { return look_through(node_, uri); }

result<uint64_t> times_at(node& by, const std::string& uri, errc why) {
  auto seen = look_through(by, uri);
  if (!seen)
    return seen.error();
  uint64_t times = 0;
  for (auto each : seen->get().getReasons())
    times += each.getReason() == to_string(why).c_str() ? each.getTimes() : 0;
  return times;
}

std::string advice(const std::string& uri, const failure& why) {
  switch (why.code) {
  case errc::bad_uri:
    return fmt::format("{}; an address is tcp://host:port or unix:///path", why.text);
  case errc::connect_failed:
    return fmt::format("{}; is the node running, and is this what it printed as READY?", why.text);
  case errc::connect_timeout:
    return fmt::format("{}: {}; is the machine up, and the way to it open? (--connect-timeout)", uri,
                       why.text);
  case errc::wrong_cluster:
    return fmt::format("{}: {}; name its cluster with --cluster", uri, why.text);
  case errc::no_such_service:
    return fmt::format("{}: it does not serve weir.probe; it runs an older weir", uri);
  case errc::deadline_exceeded:
    return fmt::format(
        "{}: connected, but no answer in time: a handler keeps its loop busy, or the process is "
        "stopped (--call-timeout)",
        uri);
  default:
    return fmt::format("{}: {}; is it a node of weir?", uri, to_string(why));
  }
}

void set_defaults(node_options& o) {
  o.log_level = log_level::off;
  o.io_threads = 1;
  o.call_timeout = std::chrono::seconds{5};
}

parsed parse_command(config& cfg, const std::string& command, const std::string& argument, int argc,
                     char** argv) {
  std::vector<const char*> words(argv, argv + argc);
  words.at(0) = command.c_str(); // as `--help` shows it
  auto next = cfg.load(argc, words.data());
  if (next && *next == config::action::exit_ok)
    return {};
  auto& given = cfg.arguments();
  if (next && given.size() == 1)
    return {true, 0};
  auto wrong = !next ? next.error().text
               : given.empty()
                   ? fmt::format("{} is missing; see '{} --help'", argument, command)
                   : fmt::format("{}: one {} is enough; see '{} --help'", given[1], argument, command);
  fmt::print(stderr, "{}: {}\n", command, wrong);
  return {false, exit_bad_options};
}

std::string show_time(uint64_t nanos) {
  auto ns = static_cast<double>(nanos);
  if (nanos < 1'000'000)
    return fmt::format("{:.0f} us", ns / 1e3);
  if (nanos < 1'000'000'000)
    return fmt::format("{:.0f} ms", ns / 1e6);
  if (nanos < 120'000'000'000)
    return fmt::format("{:.1f} s", ns / 1e9);
  if (nanos < 7'200'000'000'000)
    return fmt::format("{:.0f} min", ns / 60e9);
  return fmt::format("{:.1f} h", ns / 3600e9);
}

std::string show_size(uint64_t bytes) {
  auto n = static_cast<double>(bytes);
  if (bytes < 10'000)
    return fmt::format("{} B", bytes);
  if (bytes < (10 << 20))
    return fmt::format("{:.0f} KiB", n / 1024);
  if (bytes < (uint64_t{10} << 30))
    return fmt::format("{:.0f} MiB", n / (1 << 20));
  return fmt::format("{:.0f} GiB", n / (1 << 30));
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      auto number = &row != &rows[0] && !row[i].empty() && row[i][0] >= '0' && row[i][0] <= '9';
      line += number ? fmt::format("  {:>{}}", row[i], widths[i])
                     : fmt::format("  {:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

} // namespace weir::program
