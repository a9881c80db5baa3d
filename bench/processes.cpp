#include "bench/processes.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace weir::bench {

using namespace std::chrono_literals;

void throw_system_error(std::string_view what) {
  throw bench_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

// ---- the shared page

static shared_state* map_state(int descriptor) {
  auto* memory = mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED)
    throw_system_error("mapping the shared page");
  return static_cast<shared_state*>(memory);
}

shared_page::shared_page() : descriptor_(memfd_create("weir-bench", MFD_CLOEXEC)) {
  if (descriptor_ < 0 || ftruncate(descriptor_, sizeof(shared_state)) != 0)
    throw_system_error("creating the shared page");
  state_ = new (map_state(descriptor_)) shared_state;
}

shared_page::shared_page(inherited) : descriptor_(child_descriptor) {
  struct stat found {};
  if (fstat(descriptor_, &found) != 0 || found.st_size != static_cast<off_t>(sizeof(shared_state)))
    throw bench_error("no shared page: this role is started by weir bench itself, leave out --as");
  state_ = map_state(descriptor_);
}

shared_page::~shared_page() {
  munmap(state_, sizeof(shared_state));
  close(descriptor_);
}

void wait_for(const shared_state& state, phase wanted) {
  while (state.now.load() < wanted)
    std::this_thread::sleep_for(1ms);
}

std::uint32_t next_step(const shared_state& state, std::uint32_t last) {
  for (; state.now < phase::over; std::this_thread::sleep_for(1ms))
    if (auto wanted = state.wanted.load(); wanted > last)
      return wanted;
  return 0;
}

void finish(shared_state& state) {
  ++state.finished;
  wait_for(state, phase::leave);
}

void say_ready(std::string_view address) {
  fmt::print("READY {}\n", address);
  std::fflush(stdout);
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

// ---- child processes

namespace {

/// What the child does between fork and exec: only what is allowed after a fork of a process with threads.
struct child_start {
  pid_t parent;
  const char* program;
  char* const* arguments;
  int output, errors, page; // -1: none

  [[noreturn]] void run() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) // it died before the line above
      _exit(127);
    // A descriptor that is already where it belongs would keep its close-on-exec flag: go through a fresh
    // one.
    if (page >= 0 && dup2(fcntl(page, F_DUPFD_CLOEXEC, shared_page::child_descriptor + 1),
                          shared_page::child_descriptor) < 0)
      _exit(127);
    if (dup2(output, STDOUT_FILENO) < 0 || (errors >= 0 && dup2(errors, STDERR_FILENO) < 0))
      _exit(127);
    execv(program, arguments);
    static constexpr char words[] = "weir bench: cannot start a process of the benchmark\n";
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(127);
  }
};

/// Moves a descriptor above the page's place, so that putting the page there cannot close it.
int above_page(int descriptor) {
  auto moved = fcntl(descriptor, F_DUPFD_CLOEXEC, shared_page::child_descriptor + 1);
  close(descriptor);
  return moved;
}

int exit_status(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

} // namespace

child_process::child_process(const std::string& program, const std::vector<std::string>& arguments,
                             settings with) {
  std::vector<char*> pointers{const_cast<char*>(program.c_str())};
  for (const auto& argument : arguments)
    pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw_system_error("making a pipe");
  auto writing = above_page(ends[1]);
  output_ = ends[0];
  if (with.collect_errors)
    errors_ = above_page(memfd_create("errors", MFD_CLOEXEC));
  std::fflush(nullptr);
  child_start start{getpid(), program.c_str(), pointers.data(),
                    writing,  errors_,         with.page ? with.page->descriptor() : -1};
  pid_ = fork();
  if (pid_ == 0)
    start.run();
  close(writing);
  if (pid_ < 0)
    throw_system_error("starting a process");
}

child_process::~child_process() {
  if (!status()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_);
  if (errors_ >= 0)
    close(errors_);
}

std::string child_process::wait_ready(std::chrono::milliseconds limit) {
  static constexpr std::string_view word = "READY ";
  std::string line;
  auto until = clock::now() + limit;
  while (clock::now() < until) {
    pollfd waiting{output_, POLLIN, 0};
    if (poll(&waiting, 1, 50) <= 0)
      continue;
    char c = 0;
    if (read(output_, &c, 1) != 1)
      throw bench_error(fmt::format("the server process ended (status {}) before it was ready", wait(1s)));
    if (c != '\n')
      line += c;
    else if (line.starts_with(word))
      return line.substr(word.size());
    else
      line.clear();
  }
  throw bench_error(fmt::format("the server process was not ready within {} ms", limit.count()));
}

std::string child_process::read_all() {
  std::string all;
  std::array<char, 4096> chunk{};
  for (;;) {
    auto n = read(output_, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return all;
    all.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

std::string child_process::errors() const {
  struct stat found {};
  if (errors_ < 0 || fstat(errors_, &found) != 0)
    return {};
  std::string text(static_cast<std::size_t>(found.st_size), '\0');
  auto n = pread(errors_, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

std::optional<int> child_process::status() {
  int ended = 0;
  if (!status_ && waitpid(pid_, &ended, WNOHANG) == pid_)
    status_ = exit_status(ended);
  return status_;
}

int child_process::wait(std::chrono::milliseconds limit) {
  for (auto until = clock::now() + limit; !status() && clock::now() < until;)
    std::this_thread::sleep_for(1ms);
  if (!status()) {
    kill(pid_, SIGKILL);
    int ended = 0;
    waitpid(pid_, &ended, 0);
    status_ = exit_status(ended);
  }
  return *status_;
}

void child_process::stop() {
  if (!status()) {
    kill(pid_, SIGTERM);
    wait(1s);
  }
}

} // namespace weir::bench
