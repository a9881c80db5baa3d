#pragma once
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace wordcount {

/// What this process was started with.
inline std::vector<std::string> own_arguments() {
  std::ifstream in{"/proc/self/cmdline"};
  std::vector<std::string> all;
  for (std::string word; std::getline(in, word, '\0');)
    all.push_back(std::move(word));
  return all;
}

/// A child that runs this program with other arguments, in a process of its own. It ends when this object or
/// the thread that made it does.
class worker_process {
public:
  explicit worker_process(const std::vector<std::string>& arguments) {
    std::vector<char*> argv;
    for (auto& a : arguments)
      argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw std::runtime_error{std::string{"pipe: "} + std::strerror(errno)};
    auto parent = getpid();
    pid_ = fork();
    if (pid_ == 0) { // only what is allowed between fork and exec
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() == parent && dup2(ends[1], STDOUT_FILENO) >= 0)
        execv("/proc/self/exe", argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
    if (pid_ < 0)
      throw std::runtime_error{std::string{"fork: "} + std::strerror(errno)};
  }
  ~worker_process() {
    close(output_);
    if (pid_ > 0)
      end();
  }
  worker_process(const worker_process&) = delete;
  worker_process& operator=(const worker_process&) = delete;

  pid_t pid() const { return pid_; }

  /// Where it listens: what stands behind READY on its first line. Throws std::runtime_error when that does
  /// not come.
  std::string address(std::chrono::milliseconds limit) {
    std::string line;
    auto until = std::chrono::steady_clock::now() + limit;
    while (line.empty() || line.back() != '\n') {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until -
                                                                        std::chrono::steady_clock::now());
      pollfd wait{output_, POLLIN, 0};
      char c = 0;
      if (left.count() <= 0 || poll(&wait, 1, static_cast<int>(left.count())) == 0)
        throw std::runtime_error{"worker " + std::to_string(pid_) + " does not start"};
      if (auto n = read(output_, &c, 1); n == 0 || (n < 0 && errno != EINTR))
        throw std::runtime_error{"worker " + std::to_string(pid_) + " ended instead of starting"};
      else if (n > 0)
        line += c;
    }
    constexpr std::string_view ready = "READY ";
    if (line.compare(0, ready.size(), ready) != 0)
      throw std::runtime_error{"worker " + std::to_string(pid_) + " says: " + line};
    return line.substr(ready.size(), line.size() - ready.size() - 1);
  }

private:
  void end() {
    kill(pid_, SIGTERM);
    for (auto until = std::chrono::steady_clock::now() + std::chrono::seconds{5};;) {
      if (waitpid(pid_, nullptr, WNOHANG) != 0)
        return;
      if (std::chrono::steady_clock::now() > until)
        break;
      usleep(2000);
    }
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid_ = -1;
  int output_ = -1;
};

/// The most memory that this process has had: VmHWM of /proc/self/status. 0 when the system does not say.
inline uint64_t peak_bytes() {
  std::ifstream in{"/proc/self/status"};
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, 6, "VmHWM:") == 0)
      return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

} // namespace wordcount
