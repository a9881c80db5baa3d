// Counts lines, words and bytes as `LC_ALL=C wc` does, and how often each word occurs, with other processes
// doing the counting:
//
//     wordcount --workers 4 /usr/share/common-licenses
//
// The program starts its workers itself (the same program with --worker), each of them a node with two
// services. It reads the files and streams them to the workers under credit: what it reads ahead is bounded
// by their rations, however large the files are.

#include <chrono>

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>

#include "coordinator.hpp"
#include "processes.hpp"
#include "worker.hpp"

namespace wordcount {

using clock = std::chrono::steady_clock;
constexpr auto start_limit = std::chrono::seconds{20};

struct config : weir::config {
  uint32_t workers = 2;
  uint32_t top = 10;
  weir::byte_size chunk{32 << 10};
  bool worker = false;
  bool json = false;
  config() {
    about("Counts lines, words and bytes of files and directories in several processes.");
    defaults().log_level = weir::log_level::error; // it says itself what went wrong
    add_option("workers", "processes that count", workers, 1, 64);
    add_option("top", "how many of the most frequent words are shown", top, 0, 1000);
    add_option("chunk", "how much text goes into one message", chunk, {1 << 10}, {1 << 20});
    add_option("worker", "be a worker: serve until told to stop", worker);
    add_option("json", "print one JSON object instead of tables", json);
  }
};

int run_worker(caf::actor_system& sys, const config& cfg) {
  weir::stop_signal stop;
  auto o = cfg.options();
  o.listen = {"tcp://127.0.0.1:0"};
  o.connect = {};
  weir::node node{sys, o};
  auto counts = std::make_shared<tally>();
  for (auto& r : {node.serve<Chunk>("counting", sys.spawn<counting_service>(counts)),
                  node.serve<Totals>("totals", node.spawn<totals_service>(counts))})
    if (!r) {
      fmt::print(stderr, "wordcount: {}\n", r.error().text);
      return weir::exit_bad_options;
    }
  fmt::print("READY {}\n", node.addresses().front());
  std::fflush(stdout);
  stop.wait();
  return EXIT_SUCCESS;
}

/// "42 %" on a terminal, ten times a second at most.
class progress_line {
public:
  explicit progress_line(uint64_t all) : all_(all), on_(isatty(STDERR_FILENO) && all > 0) {}
  ~progress_line() {
    if (shown_)
      fmt::print(stderr, "\r\033[K");
  }
  void show(uint64_t bytes) {
    auto now = clock::now();
    if (!on_ || now - last_ < std::chrono::milliseconds{100})
      return;
    last_ = now;
    shown_ = true;
    fmt::print(stderr, "\r{:3} % of {} MB", bytes * 100 / all_, all_ / 1'000'000);
    std::fflush(stderr);
  }

private:
  uint64_t all_;
  bool on_, shown_ = false;
  clock::time_point last_;
};

struct report {
  const outcome& of;
  size_t files;
  std::chrono::duration<double> time;
  size_t top;

  double mb_per_s() const { return of.sum.bytes / 1e6 / std::max(time.count(), 1e-9); }

  void print_tables() const {
    fmt::print("{:>12} {:>12} {:>14} {:>8}\n", "lines", "words", "bytes", "files");
    fmt::print("{:>12} {:>12} {:>14} {:>8}\n\n", of.sum.lines, of.sum.words, of.sum.bytes, files);
    fmt::print("{:>12} {:>12} {:>14} {:>8}\n", "worker", "chunks", "bytes", "peak MB");
    for (size_t i = 0; i < of.parts.size(); ++i)
      fmt::print("{:>12} {:>12} {:>14} {:>8.1f}\n", i + 1, of.parts[i].chunks_counted, of.parts[i].sum.bytes,
                 of.parts[i].peak_bytes / 1e6);
    fmt::print("{:>12} {:>12} {:>14} {:>8.1f}\n\n", "coordinator", "", of.bytes_read, peak_bytes() / 1e6);
    if (top > 0)
      fmt::print("{:>12} word, of {} different ones\n", "count", of.words.size());
    for (auto& [word, count] : of.words.most_frequent(top))
      fmt::print("{:>12} {}\n", count, word);
    if (of.long_words > 0)
      fmt::print("{:>12} of more than {} letters, left out here\n", of.long_words, counter::letters_max);
    fmt::print("{}{:.3f} s, {:.0f} MB/s\n", top > 0 ? "\n" : "", time.count(), mb_per_s());
  }

  void print_json() const {
    fmt::print(R"({{"files":{},"lines":{},"words":{},"bytes":{},"distinct":{},"long_words":{},)", files,
               of.sum.lines, of.sum.words, of.sum.bytes, of.words.size(), of.long_words);
    fmt::print(R"("seconds":{:.3f},"mb_per_s":{:.1f},"peak_rss_mb":{:.1f},"workers":[)", time.count(),
               mb_per_s(), peak_bytes() / 1e6);
    for (size_t i = 0; i < of.parts.size(); ++i)
      fmt::print(R"({}{{"chunks":{},"bytes":{},"peak_rss_mb":{:.1f}}})", i ? "," : "",
                 of.parts[i].chunks_counted, of.parts[i].sum.bytes, of.parts[i].peak_bytes / 1e6);
    fmt::print(R"(],"top":[)");
    const char* comma = "";
    for (auto& [word, count] : of.words.most_frequent(top)) {
      fmt::print(R"({}{{"word":"{}","count":{}}})", comma, word, count); // letters only: nothing to escape
      comma = ",";
    }
    fmt::print("]}}\n");
  }
};

/// Starts the workers, runs the coordinator and waits for it.
outcome count(caf::actor_system& sys, const config& cfg, std::vector<input_file> files) {
  uint64_t all = 0;
  for (auto& f : files)
    all += f.bytes;
  std::vector<std::unique_ptr<worker_process>> processes;
  auto arguments = own_arguments(); // with the same options, only as a worker
  arguments.insert(arguments.begin() + 1, "--worker");
  for (uint32_t i = 0; i < cfg.workers; ++i)
    processes.push_back(std::make_unique<worker_process>(arguments));
  auto o = cfg.options();
  o.listen = o.connect = {};
  weir::node node{sys, o};
  std::vector<coordinator::worker> workers;
  for (auto& p : processes) {
    auto at = p->address(start_limit);
    workers.push_back({node.lookup<Chunk>("counting", at), node.lookup<Totals>("totals", at)});
  }
  outcome result;
  progress_line line{all};
  auto who = sys.spawn<coordinator, caf::detached>(
      workers, piece_reader{std::move(files), cfg.chunk.value}, [&line](uint64_t n) { line.show(n); },
      &result);
  workers.clear();
  caf::scoped_actor { sys } -> wait_for(who);
  return result;
}

int run(caf::actor_system& sys, const config& cfg) {
  auto start = clock::now();
  std::vector<input_file> files;
  for (auto& path : cfg.arguments())
    list_files(path, files);
  auto n = files.size();
  auto result = count(sys, cfg, std::move(files));
  if (!result.failed.empty())
    throw std::runtime_error{result.failed};
  report r{result, n, clock::now() - start, cfg.top};
  cfg.json ? r.print_json() : r.print_tables();
  if (!result.lost())
    return EXIT_SUCCESS;
  fmt::print(stderr, "wordcount: lost: {} bytes were read, {} counted\n", result.bytes_read,
             result.sum.bytes);
  return EXIT_FAILURE;
}

} // namespace wordcount

int caf_main(caf::actor_system& sys, const wordcount::config& cfg) {
  auto end = [](const char* why, int status) {
    fmt::print(stderr, "wordcount: {}\n", why);
    return status;
  };
  if (cfg.worker)
    return wordcount::run_worker(sys, cfg);
  if (cfg.arguments().empty())
    return end("name a file or a directory; --help says more", weir::exit_bad_options);
  if (2 * cfg.chunk.value > cfg.options().message_max)
    return end("--chunk: more than half of message-max", weir::exit_bad_options);
  try {
    return wordcount::run(sys, cfg);
  } catch (const wordcount::input_error& e) {
    return end(e.what(), weir::exit_bad_options);
  } catch (const std::runtime_error& e) {
    return end(e.what(), EXIT_FAILURE);
  }
}

WEIR_MAIN()
