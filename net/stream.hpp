#pragma once
#include <functional>
#include <memory>
#include <string>

#include <sys/uio.h>

#include "net/errc.hpp"
#include "net/loop.hpp"
#include "net/uri.hpp"

namespace weir::net {

/// What one read or write did.
struct io_count {
  enum class state : uint8_t { ok, would_block, end, failed };
  state what = state::ok;
  size_t bytes = 0;
  std::string text; ///< when failed
};

/// One connection: a socket, or a pipe of a test. Non-blocking. Owner: a link; its loop only.
class stream {
public:
  virtual ~stream() = default;
  virtual io_count read(std::byte* to, size_t n) = 0;
  virtual io_count write(const iovec* from, int n) = 0;
  /// Calls `f` once, on the loop, when a read (write) would do something. One of each at a time; `close`
  /// drops it.
  virtual void when_readable(std::function<void()> f) = 0;
  virtual void when_writable(std::function<void()> f) = 0;
  virtual void close() = 0;
  /// For people: "tcp 127.0.0.1:7000 from 127.0.0.1:51234".
  virtual std::string describe() const = 0;
};

/// A listening socket. Destroyed on its loop.
class listener {
public:
  /// Gets the descriptor of each new connection, non-blocking, to be adopted by any loop.
  using on_accept = std::function<void(int descriptor)>;
  virtual ~listener() = default;
  /// Where it really listens: the port is never 0.
  virtual uri address() const = 0;
};

/// Listens on `u`; of a port range the first that is free. Errors: address_in_use (names the range),
/// io_error.
result<std::unique_ptr<listener>> listen(loop& l, const uri& u, listener::on_accept f);
/// Takes over a descriptor from `on_accept`.
std::unique_ptr<stream> adopt(loop& l, int descriptor, const uri& local);

/// A dial under way; destroying it gives it up.
class dial {
public:
  using on_result = std::function<void(result<std::unique_ptr<stream>>)>;
  virtual ~dial() = default;
};
/// Connects to `u` (every address of a host name in turn). `f` is called once, on the loop: connect_failed or
/// connect_timeout.
std::unique_ptr<dial> connect(loop& l, const uri& u, duration timeout, dial::on_result f);

} // namespace weir::net
