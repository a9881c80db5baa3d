#include <cstring>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fmt/format.h>

#include "net/loop_io.hpp"
#include "net/stream.hpp"

namespace weir::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;
using generic_socket = asio::generic::stream_protocol::socket;
using generic_endpoint = asio::generic::stream_protocol::endpoint;

namespace {

std::string describe_endpoint(const generic_endpoint& e) {
  if (e.protocol().family() == AF_UNIX) {
    auto* a = reinterpret_cast<const sockaddr_un*>(e.data());
    return e.size() > sizeof(sa_family_t) ? std::string{a->sun_path} : std::string{"(unnamed)"};
  }
  tcp::endpoint t;
  t.resize(e.size());
  std::memcpy(t.data(), e.data(), e.size());
  return t.address().is_v6() ? fmt::format("[{}]:{}", t.address().to_string(), t.port())
                             : fmt::format("{}:{}", t.address().to_string(), t.port());
}

io_count failed(const char* what) {
  return {io_count::state::failed, 0, fmt::format("{}: {}", what, std::strerror(errno))};
}

class socket_stream final : public stream {
public:
  explicit socket_stream(generic_socket s) : socket_(std::move(s)) {
    error_code ignored;
    socket_.non_blocking(true, ignored);
    auto local = socket_.local_endpoint(ignored);
    tcp_ = local.protocol().family() != AF_UNIX;
    if (tcp_)
      socket_.set_option(tcp::no_delay(true), ignored);
    auto remote = socket_.remote_endpoint(ignored);
    description_ = fmt::format("{} {} - {}", tcp_ ? "tcp" : "unix", describe_endpoint(local),
                               describe_endpoint(remote));
  }
  ~socket_stream() override { close(); }

  io_count read(std::byte* to, size_t n) override {
    for (;;) {
      auto r = ::recv(socket_.native_handle(), to, n, 0);
      if (r > 0)
        return {io_count::state::ok, static_cast<size_t>(r), {}};
      if (r == 0)
        return {io_count::state::end, 0, {}};
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        return {io_count::state::would_block, 0, {}};
      if (errno != EINTR)
        return failed("read");
    }
  }
  io_count write(const iovec* from, int n) override {
    for (;;) {
      msghdr m{};
      m.msg_iov = const_cast<iovec*>(from);
      m.msg_iovlen = static_cast<size_t>(n);
      auto w = ::sendmsg(socket_.native_handle(), &m, MSG_NOSIGNAL);
      if (w >= 0)
        return {io_count::state::ok, static_cast<size_t>(w), {}};
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        return {io_count::state::would_block, 0, {}};
      if (errno != EINTR)
        return failed("write");
    }
  }
  void when_readable(std::function<void()> f) override { wait(generic_socket::wait_read, std::move(f)); }
  void when_writable(std::function<void()> f) override { wait(generic_socket::wait_write, std::move(f)); }
  void close() override {
    error_code ignored;
    socket_.close(ignored);
  }
  std::string describe() const override { return description_; }

private:
  void wait(generic_socket::wait_type what, std::function<void()> f) {
    socket_.async_wait(what, [f = std::move(f)](error_code ec) {
      if (!ec)
        f();
    });
  }
  generic_socket socket_;
  bool tcp_ = false;
  std::string description_;
};

template <class Protocol>
class socket_listener final : public listener {
public:
  socket_listener(loop& l, uri u, on_accept f)
      : loop_(l), acceptor_(l.asio().context), uri_(std::move(u)), accepted_(std::move(f)) {}
  ~socket_listener() override {
    if (pause_)
      loop_.cancel(pause_);
    error_code ignored;
    acceptor_.close(ignored);
    if (bound_ && uri_.kind == uri::scheme::unix_)
      ::unlink(uri_.path.c_str());
  }
  error_code open(const typename Protocol::endpoint& e) {
    error_code ec;
    acceptor_.open(e.protocol(), ec);
    if (!ec)
      acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec)
      acceptor_.bind(e, ec);
    bound_ = !ec;
    if (!ec)
      acceptor_.listen(asio::socket_base::max_listen_connections, ec);
    if (ec) {
      error_code ignored;
      acceptor_.close(ignored);
      return ec;
    }
    if constexpr (std::is_same_v<Protocol, tcp>)
      uri_.port = uri_.port_last = acceptor_.local_endpoint().port();
    acceptor_.native_non_blocking(true, ec);
    accept();
    return ec;
  }
  uri address() const override { return uri_; }

private:
  void accept() {
    acceptor_.async_wait(Protocol::acceptor::wait_read, [this](error_code ec) {
      if (ec)
        return;
      for (;;) {
        auto fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
          accepted_(fd);
        else if (errno != EINTR && errno != ECONNABORTED)
          break;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        return accept();
      pause_ = loop_.at(loop_.now() + out_of_descriptors_pause,
                        [this] { // else we would be told at once, for ever
                          pause_ = 0;
                          accept();
                        });
    });
  }
  static constexpr duration out_of_descriptors_pause = std::chrono::milliseconds{100};

  loop& loop_;
  loop::timer_id pause_ = 0;
  typename Protocol::acceptor acceptor_;
  bool bound_ = false; // the file is ours, not that of another listener
  uri uri_;
  on_accept accepted_;
};

result<std::unique_ptr<listener>> listen_unix(loop& l, const uri& u, listener::on_accept f) {
  // A socket file that nobody listens on any more is left over from a process that was killed.
  // One that is busy does not answer at once, and must not be waited for.
  int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::strncpy(a.sun_path, u.path.c_str(), sizeof a.sun_path - 1);
  struct stat st {};
  if (probe >= 0 && ::stat(u.path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode) &&
      ::connect(probe, reinterpret_cast<sockaddr*>(&a), sizeof a) < 0 && errno == ECONNREFUSED)
    ::unlink(u.path.c_str());
  if (probe >= 0)
    ::close(probe);
  auto made = std::make_unique<socket_listener<stream_protocol>>(l, u, std::move(f));
  if (auto ec = made->open(stream_protocol::endpoint{u.path}))
    return failure{ec == asio::error::address_in_use ? errc::address_in_use : errc::io_error,
                   outcome::not_executed, fmt::format("cannot listen on {}: {}", to_string(u), ec.message())};
  return std::unique_ptr<listener>{std::move(made)};
}

} // namespace

result<std::unique_ptr<listener>> listen(loop& l, const uri& u, listener::on_accept f) {
  if (u.kind == uri::scheme::unix_)
    return listen_unix(l, u, std::move(f));
  error_code ec;
  tcp::resolver resolver{l.asio().context};
  auto found = resolver.resolve(u.host, "0", tcp::resolver::passive, ec);
  if (ec || found.empty())
    return failure{errc::io_error, outcome::not_executed,
                   fmt::format("cannot listen on {}: host '{}': {}", to_string(u), u.host, ec.message())};
  auto address = found.begin()->endpoint().address();
  for (uint32_t port = u.port; port <= u.port_last; ++port) {
    auto made = std::make_unique<socket_listener<tcp>>(l, u, f);
    ec = made->open({address, static_cast<uint16_t>(port)});
    if (!ec)
      return std::unique_ptr<listener>{std::move(made)};
    if (ec != asio::error::address_in_use)
      break;
  }
  if (ec == asio::error::address_in_use)
    return failure{
        errc::address_in_use, outcome::not_executed,
        fmt::format("cannot listen on {}: {}", to_string(u),
                    u.port == u.port_last ? "the port is in use" : "every port of the range is in use")};
  return failure{errc::io_error, outcome::not_executed,
                 fmt::format("cannot listen on {}: {}", to_string(u), ec.message())};
}

std::unique_ptr<stream> adopt(loop& l, int descriptor, const uri& local) {
  int family = local.kind == uri::scheme::unix_ ? AF_UNIX : AF_INET;
  sockaddr_storage a{};
  socklen_t n = sizeof a;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&a), &n) == 0)
    family = a.ss_family;
  error_code ec;
  generic_socket s{l.asio().context};
  s.assign(asio::generic::stream_protocol{family, family == AF_UNIX ? 0 : IPPROTO_TCP}, descriptor, ec);
  if (ec) {
    ::close(descriptor);
    return nullptr;
  }
  return std::make_unique<socket_stream>(std::move(s));
}

namespace {

/// Resolves, then tries every address in turn, until one answers or the time is over. Lives as long as its
/// handlers: they share it.
struct dialling : std::enable_shared_from_this<dialling> {
  dialling(loop& on, uri u, dial::on_result f)
      : l(on), to(std::move(u)), resolver(on.asio().context), socket(on.asio().context), done(std::move(f)) {}

  void start(duration timeout) {
    timer = l.at(l.fresh_now() + timeout, [self = shared_from_this()] {
      self->timer = 0;
      self->finish(failure{
          errc::connect_timeout, outcome::not_executed,
          fmt::format("cannot connect to {}: no answer within connect-timeout", to_string(self->to))});
    });
    if (to.kind == uri::scheme::unix_) {
      candidates.emplace_back(stream_protocol::endpoint{to.path});
      return next();
    }
    resolver.async_resolve(
        to.host, std::to_string(to.port), [self = shared_from_this()](error_code ec, auto found) {
          if (self->over)
            return;
          if (ec)
            return self->finish(failure{errc::connect_failed, outcome::not_executed,
                                        fmt::format("cannot resolve '{}': {}", self->to.host, ec.message())});
          for (auto& r : found)
            self->candidates.emplace_back(r.endpoint());
          self->next();
        });
  }
  void next() {
    if (tried == candidates.size())
      return finish(failure{errc::connect_failed, outcome::not_executed,
                            fmt::format("cannot connect to {}: {}", to_string(to), last.message())});
    error_code ignored;
    socket.close(ignored);
    socket.async_connect(candidates[tried++], [self = shared_from_this()](error_code ec) {
      if (self->over)
        return;
      self->last = ec;
      if (ec)
        return self->next();
      self->finish(std::unique_ptr<stream>{std::make_unique<socket_stream>(std::move(self->socket))});
    });
  }
  void finish(result<std::unique_ptr<stream>> r) {
    if (over)
      return;
    auto f = std::move(done);
    stop();
    f(std::move(r));
  }
  void stop() {
    over = true;
    done = nullptr;
    if (timer)
      l.cancel(std::exchange(timer, 0));
    error_code ignored;
    resolver.cancel();
    socket.close(ignored);
  }

  loop& l;
  uri to;
  tcp::resolver resolver;
  generic_socket socket;
  dial::on_result done;
  std::vector<generic_endpoint> candidates;
  size_t tried = 0;
  loop::timer_id timer = 0;
  error_code last = asio::error::host_not_found;
  bool over = false;
};

class dial_handle final : public dial {
public:
  explicit dial_handle(std::shared_ptr<dialling> d) : dialling_(std::move(d)) {}
  ~dial_handle() override { dialling_->stop(); }

private:
  std::shared_ptr<dialling> dialling_;
};

} // namespace

std::unique_ptr<dial> connect(loop& l, const uri& u, duration timeout, dial::on_result f) {
  auto d = std::make_shared<dialling>(l, u, std::move(f));
  d->start(timeout);
  return std::make_unique<dial_handle>(std::move(d));
}

} // namespace weir::net
