#include "tests/support/process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

extern char** environ;

namespace weir::test {

using clock = std::chrono::steady_clock;

namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& w : words)
    all.push_back(w.data());
  all.push_back(nullptr);
  return all;
}

/// Where a program is started from: MUTATED_PROGRAMS when it is there (tests/mutations), else where it
/// says.
std::string found(const std::string& program) {
  auto* others = getenv("MUTATED_PROGRAMS");
  if (!others)
    return program;
  auto there = std::filesystem::path{others} / std::filesystem::path{program}.filename();
  return exists(there) ? there.string() : program;
}

constexpr const char* stall_limit = "WEIR_STALL_LIMIT";

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (auto& [name, value] : variables)
    all.push_back(name + "=" + value);
  auto has = [&](std::string_view name) {
    return std::any_of(variables.begin(), variables.end(), [&](auto& v) { return v.first == name; });
  };
  if (!has(stall_limit) && !getenv(stall_limit))
    all.push_back(stall_limit + std::string{"=1s"});
  for (char** e = environ; *e; ++e) {
    std::string_view entry{*e};
    auto name = entry.substr(0, entry.find('='));
    if (!has(name))
      all.emplace_back(entry);
  }
  return all;
}

/// False: nothing more will come.
bool read_some(int& fd, std::string& to) {
  char space[16 << 10];
  auto n = read(fd, space, sizeof space);
  if (n > 0)
    to.append(space, static_cast<size_t>(n));
  if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
    return true;
  close(std::exchange(fd, -1));
  return false;
}

} // namespace

process::process(std::vector<std::string> words,
                 const std::vector<std::pair<std::string, std::string>>& variables,
                 const resource_limits& limits)
    : name_(words.at(0)) {
  words[0] = found(words[0]);
  auto argv = pointers(words);
  auto environment = environment_with(variables);
  auto envp = pointers(environment);
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
    throw std::runtime_error{std::strerror(errno)};
  auto parent = getpid();
  pid_ = fork();
  if (pid_ == 0) { // only what is allowed between fork and exec of a process with threads
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (auto& [resource, most] : limits) {
      rlimit r{most, most};
      if (setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &r) != 0)
        _exit(126);
    }
    int nothing = open("/dev/null", O_RDONLY);
    if (getppid() == parent && dup2(nothing, STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0 &&
        dup2(err[1], STDERR_FILENO) >= 0)
      execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

process::~process() {
  if (pid_ > 0 && !status_) {
    kill(pid_, SIGKILL);
    reap(0);
  }
  for (int fd : {out_, err_})
    if (fd >= 0)
      close(fd);
}

bool process::pump(clock::time_point until) {
  auto left = std::chrono::duration_cast<limit>(until - clock::now());
  if (left.count() <= 0 || (out_ < 0 && err_ < 0))
    return false;
  pollfd wait[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if (poll(wait, 2, static_cast<int>(left.count())) < 0)
    return errno == EINTR;
  if (wait[0].revents)
    read_some(out_, out_text_);
  if (wait[1].revents)
    read_some(err_, err_text_);
  return true;
}

std::optional<std::string> process::line(limit within) {
  auto until = clock::now() + within;
  size_t end = 0;
  while ((end = out_text_.find('\n')) == std::string::npos)
    if (out_ < 0 || !pump(until))
      return {};
  auto text = out_text_.substr(0, end);
  out_text_.erase(0, end + 1);
  return text;
}

std::string process::ready(limit within) {
  constexpr std::string_view word = "READY ";
  auto said = line(within);
  if (said && said->compare(0, word.size(), word) == 0)
    return said->substr(word.size());
  ADD_FAILURE() << name_ << " is not ready, it says: " << said.value_or("nothing") << "\n" << err_text_;
  return {};
}

void process::reap(int options) {
  int raw = 0;
  rusage used{};
  if (status_ || wait4(pid_, &raw, options, &used) != pid_)
    return;
  status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  for (auto& t : {used.ru_utime, used.ru_stime})
    cpu_time_ += std::chrono::duration_cast<limit>(std::chrono::seconds{t.tv_sec} +
                                                   std::chrono::microseconds{t.tv_usec});
}

std::chrono::milliseconds process::cpu_time() const {
  if (status_)
    return cpu_time_;
  std::ifstream in{"/proc/" + std::to_string(pid_) + "/stat"};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  std::istringstream fields{text.substr(text.rfind(')') + 1)}; // the name may hold anything
  for (int i = 3; i < 14; ++i)
    fields >> text;
  int64_t user = 0, system = 0;
  fields >> user >> system;
  return limit{(user + system) * 1000 / sysconf(_SC_CLK_TCK)};
}

process::ending process::end(limit within) {
  auto until = clock::now() + within;
  while (pump(until))
    continue; // until it has closed both, or the limit
  while (!status_ && clock::now() < until) {
    reap(WNOHANG);
    if (!status_)
      short_pause();
  }
  if (!status_) {
    kill(pid_, SIGKILL);
    reap(0);
    status_ = -1;
    ADD_FAILURE() << name_ << " did not end within " << within.count() << " ms";
  }
  if (!cycle_on_purpose && err_text_.find("wait_cycle") != std::string::npos)
    ADD_FAILURE() << name_ << " says: " << err_text_;
  return {*status_, std::exchange(out_text_, {}), std::exchange(err_text_, {})};
}

process::ending process::stop(limit within) {
  send(SIGTERM);
  return end(within);
}

void process::send(int signal) const {
  if (!status_)
    kill(pid_, signal);
}

void process::pause() const {
  send(SIGSTOP);
  int raw = 0;
  if (waitpid(pid_, &raw, WUNTRACED) != pid_ || !WIFSTOPPED(raw))
    ADD_FAILURE() << name_ << " does not stop";
}

bool process::running() {
  reap(WNOHANG);
  return !status_;
}

uint64_t process::peak_bytes() const { return memory_bytes(pid_); }

process::ending run(std::vector<std::string> words,
                    const std::vector<std::pair<std::string, std::string>>& variables) {
  return process{std::move(words), variables}.end();
}

uint64_t memory_bytes(pid_t pid, const std::string& what) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/status"};
  for (std::string text; std::getline(in, text);)
    if (text.compare(0, what.size() + 1, what + ":") == 0)
      return std::strtoull(text.c_str() + what.size() + 1, nullptr, 10) * 1024;
  return 0;
}

scratch::scratch() {
  std::string made = std::filesystem::temp_directory_path().string() + "/weir-test-XXXXXX";
  if (!mkdtemp(made.data()))
    throw std::runtime_error{std::strerror(errno)};
  path_ = made;
}

scratch::~scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string scratch::file(const std::string& name, std::string_view text) const {
  auto at = path(name);
  std::filesystem::create_directories(std::filesystem::path{at}.parent_path());
  std::ofstream{at, std::ios::binary} << text;
  return at;
}

void short_pause() { std::this_thread::sleep_for(std::chrono::milliseconds{2}); }

} // namespace weir::test
