/// Sockets of the raw benchmark: thin, blocking unless said, errors are bench_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <sys/uio.h>

namespace weir::bench {

enum class raw_kind : std::uint32_t {
  echo,    ///< comes back as it is
  one_way, ///< is counted and skipped
  end,     ///< is answered with a `raw_receipt`, which starts counting anew
};

/// Before every body, in the byte order of the machine: both ends are on it.
struct raw_header {
  std::uint32_t length = 0; ///< of the body
  raw_kind kind = raw_kind::echo;
};

struct raw_receipt {
  std::uint64_t messages = 0, bytes = 0;
};

/// A descriptor, closed when destroyed.
class raw_socket {
public:
  raw_socket() = default;
  explicit raw_socket(int descriptor) : descriptor_(descriptor) {}
  ~raw_socket();
  raw_socket(raw_socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  raw_socket& operator=(raw_socket&&) = delete;

  int descriptor() const { return descriptor_; }

  void send_all(std::span<const char> bytes);
  void receive_all(std::span<char> bytes);

  /// At least one byte.
  std::size_t receive_some(std::span<char> bytes);

  /// Sends everything the parts point to; they are used up.
  void send_all(std::span<iovec> parts);

private:
  int descriptor_ = -1;
};

/// Lets this process open as many sockets as the system allows it (RLIMIT_NOFILE), not the usual 1024.
void allow_many_sockets();

/// `tcp://127.0.0.1:PORT` or `unix:@NAME` (the abstract namespace: no file, nothing to clean up).
raw_socket dial(std::string_view address);

/// A listener on a port or name that the system picks, non-blocking unless said.
struct raw_listener {
  raw_socket socket;
  std::string address;
};
raw_listener listen_on(std::string_view transport, bool blocking = false);

/// Serves echo and one_way on one thread until the process is killed. `room`: bytes for one receive of a
/// connection, which each has for itself.
void serve_raw(raw_listener& listener, std::size_t room = 256 << 10);

/// Serves echo on a thread for each connection, at a blocking listener. bench_error when there are no more.
[[noreturn]] void serve_raw_threads(raw_listener& listener);

} // namespace weir::bench
