// Nodes in processes of their own (`weir node`), over TCP and Unix sockets: what works, what is refused, what
// is lost and what is not.
#include <csignal>
#include <fstream>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/program/services.capnp.h"
#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using program::Blob, program::Echo, program::Report, program::Source;
using testing::HasSubstr;

using node_echo = weir::method<&Echo::Client::echoRequest>;
using node_pass = weir::method<&Echo::Client::passRequest>;
using node_read = weir::method<&Report::Client::readRequest>;
using node_reset = weir::method<&Report::Client::resetRequest>;
using node_start = weir::method<&Source::Client::startRequest>;

/// `weir node ...`
class node_process : public process {
public:
  explicit node_process(const std::string& listen, std::vector<std::string> more = {})
      : process(words(listen, std::move(more))) {}

private:
  static std::vector<std::string> words(const std::string& listen, std::vector<std::string> more) {
    more.insert(more.begin(), {WEIR_PROGRAM, "node", "--listen", listen});
    return more;
  }
};

auto no_fill = [](auto) {};

/// A socket of the test's own making.
class raw_socket {
public:
  explicit raw_socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  /// To a node at `uri`.
  static raw_socket to(const std::string& uri) {
    bool unix_path = uri.starts_with("unix://");
    raw_socket s{unix_path ? AF_UNIX : AF_INET};
    if (unix_path) {
      sockaddr_un at{};
      at.sun_family = AF_UNIX;
      uri.copy(at.sun_path, sizeof at.sun_path - 1, 7);
      EXPECT_EQ(connect(s.fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0) << uri;
    } else {
      auto at = loopback(static_cast<uint16_t>(std::stoi(uri.substr(uri.rfind(':') + 1))));
      EXPECT_EQ(connect(s.fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0) << uri;
    }
    return s;
  }
  /// Listens on a port, 0 for any; its port is 0 when that is taken.
  static raw_socket listening(uint16_t port) {
    raw_socket s{AF_INET};
    auto at = loopback(port);
    socklen_t n = sizeof at;
    if (bind(s.fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && listen(s.fd_, 1) == 0)
      getsockname(s.fd_, reinterpret_cast<sockaddr*>(&at), &n);
    else
      at.sin_port = 0;
    s.port_ = ntohs(at.sin_port);
    return s;
  }
  raw_socket(raw_socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)), port_(other.port_) {}
  ~raw_socket() {
    if (fd_ >= 0)
      close(fd_);
  }

  uint16_t port() const { return port_; }
  void write(const std::string& bytes) const {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  /// All that comes until the node closes; empty when it does not in time.
  std::optional<std::string> read_to_end(std::chrono::seconds within) const {
    timeval limit{within.count(), 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::string all;
    char space[4096];
    for (;;) {
      auto n = recv(fd_, space, sizeof space, 0);
      if (n < 0 && errno != ECONNRESET)
        return {};
      if (n <= 0)
        return all;
      all.append(space, static_cast<size_t>(n));
    }
  }

private:
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }
  int fd_;
  uint16_t port_ = 0;
};

// ---- over both transports

class Nodes : public ::testing::TestWithParam<const char*> {
protected:
  std::string listen_uri(const std::string& name = "node") const {
    return GetParam() == std::string{"tcp"} ? "tcp://127.0.0.1:0" : "unix://" + dir_.path(name);
  }

private:
  scratch dir_;
};
INSTANTIATE_TEST_SUITE_P(Sockets, Nodes, ::testing::Values("tcp", "unix"),
                         [](auto& with) { return std::string{with.param}; });

TEST_P(Nodes, CallCrossesProcesses) {
  node_process server{listen_uri()};
  machine client;
  auto echo = client.node().lookup<Echo>("echo", server.ready());
  for (size_t bytes : {0u, 1u, 100u, 5'000u, 100'000u, 3'000'000u}) {
    size_t got = 0;
    auto why = client.call<node_echo>(echo, {}, data_of(bytes),
                                      [&](node_echo::result r) { got = r.getData().size(); });
    EXPECT_EQ(why, failure{});
    EXPECT_EQ(got, bytes);
  }
  echo = {};
  EXPECT_TRUE(client.is_at_base_line());
  EXPECT_EQ(server.stop().status, 0);
}

TEST_P(Nodes, StreamCrossesProcesses) {
  node_process from{listen_uri("from")}, to{listen_uri("to")};
  machine client;
  auto to_uri = to.ready();
  auto source = client.node().lookup<Source>("source", from.ready());
  auto report = client.node().lookup<Report>("report", to_uri);
  struct sizes {
    uint64_t messages, bytes;
  };
  for (auto [messages, bytes] :
       {sizes{200'000, 10}, sizes{20'000, 1000}, sizes{100, 200'000}, sizes{1, 0}, sizes{0, 0}}) {
    EXPECT_EQ(client.call<node_reset>(report, no_fill), failure{});
    uint64_t consumed = 0;
    auto why = client.call<node_start>(
        source, {},
        [&](node_start::args a) {
          a.setUri(to_uri);
          a.setTo("sink");
          a.setMessages(messages);
          a.setBytes(static_cast<uint32_t>(bytes));
        },
        [&](node_start::result r) { consumed = r.getConsumed(); });
    EXPECT_EQ(why, failure{});
    EXPECT_EQ(consumed, messages);
    why = client.call<node_read>(report, {}, no_fill, [&](node_read::result r) {
      EXPECT_EQ(r.getMessages(), messages);
      EXPECT_EQ(r.getBytes(), messages * bytes);
      EXPECT_EQ(r.getWrong(), 0u);
    });
    EXPECT_EQ(why, failure{});
  }
}

TEST_P(Nodes, WrongServiceAndWrongInterfaceAreRefusedUnrun) {
  node_process server{listen_uri()};
  machine client;
  auto at = server.ready();
  auto nobody = client.call<node_echo>(client.node().lookup<Echo>("nobody", at), data_of(1));
  EXPECT_EQ(nobody.code, errc::no_such_service) << to_string(nobody);
  EXPECT_EQ(nobody.what, outcome::not_executed);
  EXPECT_THAT(nobody.text, HasSubstr("nobody"));
  auto wrong = client.call<echo>(client.node().lookup<Probe>("echo", at), data_of(1));
  EXPECT_EQ(wrong.code, errc::wrong_interface) << to_string(wrong);
  EXPECT_EQ(wrong.what, outcome::not_executed);
  auto stream = pour(client, client.node().lookup<Piece>("echo", at), 10, 10)->end.get_future();
  ASSERT_EQ(stream.wait_for(process::patience), std::future_status::ready);
  EXPECT_EQ(stream.get().code, errc::wrong_interface);
  EXPECT_EQ(client.call<node_echo>(client.node().lookup<Echo>("echo", at), data_of(1)), failure{});
}

TEST_P(Nodes, AnotherClusterIsRefused) {
  node_process server{listen_uri()};
  auto at = server.ready();
  node_options o;
  o.cluster = "another";
  o.connect_timeout = 1s;
  machine stranger{o}, friendly;
  auto why = stranger.call<node_echo>(stranger.node().lookup<Echo>("echo", at), data_of(1));
  EXPECT_EQ(why.code, errc::wrong_cluster) << to_string(why);
  EXPECT_EQ(why.what, outcome::not_executed);
  EXPECT_EQ(friendly.call<node_echo>(friendly.node().lookup<Echo>("echo", at), data_of(1)), failure{});
}

TEST_P(Nodes, AKilledServerIsReportedAndFoundAgain) {
  auto uri = listen_uri();
  auto server = std::make_unique<node_process>( // with a ration that all 500 calls fit in: all are sent
      uri, std::vector<std::string>{"--node.placement", "scheduler", "--ration=1MiB"});
  uri = server->ready(); // the next one listens on the same port
  machine client;
  auto echo = client.node().lookup<Echo>("echo", uri);
  auto report = client.node().lookup<Report>("report", uri);
  EXPECT_EQ(client.call<node_reset>(report, [](node_reset::args a) { a.setDelayNanos(2'000'000); }),
            failure{});
  std::vector<std::future<failure>> calls;
  for (int i = 0; i < 500; ++i)
    calls.push_back(client.start<node_pass>(echo, {}, data_of(100), [](node_pass::result) {}));
  ASSERT_EQ(calls[20].wait_for(process::patience), std::future_status::ready); // it is at work
  server->send(SIGKILL);
  EXPECT_EQ(server->end().status, 128 + SIGKILL);
  int done = 0, lost = 0;
  for (auto& c : calls) {
    ASSERT_EQ(c.wait_for(process::patience), std::future_status::ready);
    auto why = c.get();
    if (why.code == errc::none)
      ++done;
    else if (why.code == errc::link_lost && why.what == outcome::unknown)
      ++lost;
    else
      ADD_FAILURE() << to_string(why);
  }
  EXPECT_GE(done, 20);
  EXPECT_GE(lost, 1);
  auto dead = client.call<node_echo>(echo, data_of(1));
  EXPECT_NE(dead.code, errc::none);
  EXPECT_EQ(dead.what, outcome::not_executed) << to_string(dead);

  server = std::make_unique<node_process>(uri);
  ASSERT_EQ(server->ready(), uri);
  EXPECT_EQ(client.call<node_echo>(client.node().lookup<Echo>("echo", uri), data_of(1)), failure{});
  echo = {};
  report = {};
  EXPECT_TRUE(client.is_at_base_line());
}

TEST_P(Nodes, SigtermLetsCallsEnd) {
  node_process server{listen_uri(), {"--node.placement", "scheduler"}};
  machine client;
  auto at = server.ready();
  auto echo = client.node().lookup<Echo>("echo", at);
  EXPECT_EQ(client.call<node_reset>(client.node().lookup<Report>("report", at),
                                    [](node_reset::args a) { a.setDelayNanos(3'000'000); }),
            failure{});
  std::vector<std::future<failure>> calls;
  for (int i = 0; i < 200; ++i)
    calls.push_back(client.start<node_pass>(echo, {}, data_of(100), [](node_pass::result) {}));
  ASSERT_EQ(calls[5].wait_for(process::patience), std::future_status::ready);
  server.send(SIGTERM);
  for (auto& c : calls) {
    ASSERT_EQ(c.wait_for(process::patience), std::future_status::ready);
    EXPECT_EQ(c.get(), failure{}); // all had left before
  }
  auto late = client.call<node_echo>(echo, data_of(1));
  EXPECT_NE(late.code, errc::none);
  EXPECT_EQ(late.what, outcome::not_executed) << to_string(late);
  auto end = server.end();
  EXPECT_EQ(end.status, 0) << end.err;
}

TEST_P(Nodes, SigtermIsQuickWhenNothingIsUnderWay) {
  node_process server{listen_uri()};
  machine client;
  auto echo = client.node().lookup<Echo>("echo", server.ready());
  EXPECT_EQ(client.call<node_echo>(echo, data_of(1)), failure{});
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(server.stop().status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            3s); // drain-timeout is 5 s; the client keeps its ref all the time
}

TEST_P(Nodes, L1_AStoppedProcessIsAnErrorAtTheTimeoutAndNobodyWaits) {
  node_process server{listen_uri()};
  auto at = server.ready();
  server.pause();
  node_options o;
  o.connect_timeout = 500ms;
  machine client{o};
  ASSERT_TRUE(client.node().serve<Probe>("here", client.node().spawn<probe>()));
  auto start = std::chrono::steady_clock::now();
  auto call = client.start<node_echo>(client.node().lookup<Echo>("echo", at), {}, data_of(1),
                                      [](node_echo::result) {});
  int answered = 0;
  auto here = client.node().lookup<Probe>("here");
  while (call.wait_for(0s) != std::future_status::ready && std::chrono::steady_clock::now() - start < 20s) {
    auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(client.call<echo>(here, data_of(10)), failure{});
    EXPECT_LT(std::chrono::steady_clock::now() - before, 400ms);
    ++answered;
  }
  ASSERT_EQ(call.wait_for(0s), std::future_status::ready);
  auto why = call.get();
  EXPECT_EQ(why.code, errc::connect_timeout) << to_string(why);
  EXPECT_EQ(why.what, outcome::not_executed);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 500ms);
  EXPECT_GT(answered, 10);
  server.send(SIGCONT);
  EXPECT_EQ(client.call<node_echo>(client.node().lookup<Echo>("echo", at), {.timeout = 10s}, data_of(1),
                                   [](auto) {}),
            failure{});
}

TEST_P(Nodes, L1_AProcessThatStopsWithItsLinkUpDelaysItsOwnCallersOnly) {
  node_process server{listen_uri()};
  machine client;
  ASSERT_TRUE(client.node().serve<Probe>("here", client.node().spawn<probe>()));
  auto there = client.node().lookup<Echo>("echo", server.ready());
  auto here = client.node().lookup<Probe>("here");
  ASSERT_EQ(client.call<node_echo>(there, data_of(1)), failure{});
  server.pause();
  auto call = client.start<node_echo>(there, {.timeout = 500ms}, data_of(1), [](node_echo::result) {});
  int answered = 0;
  do {
    auto before = std::chrono::steady_clock::now();
    ASSERT_EQ(client.call<echo>(here, data_of(10)), failure{});
    ASSERT_LT(std::chrono::steady_clock::now() - before, 400ms);
    ++answered;
  } while (call.wait_for(0s) != std::future_status::ready);
  auto why = call.get();
  EXPECT_EQ(why.code, errc::deadline_exceeded) << to_string(why);
  EXPECT_GT(answered, 10);
  server.send(SIGCONT);
  EXPECT_EQ(client.call<node_echo>(there, data_of(1)), failure{});
}

TEST_P(Nodes, L6_GarbageClosesItsOwnLinkOnly) {
  auto o = machine::listening(listen_uri());
  o.hello_timeout = 300ms;
  machine server{o}, client;
  ASSERT_TRUE(server.node().serve<Probe>("probe", server.node().spawn<probe>()));
  auto good = client.node().lookup<Probe>("probe", server.address());
  ASSERT_EQ(client.call<echo>(good, data_of(10)), failure{});
  std::string preamble{"weir\x01\0\0\0", 8};
  std::string huge{"\xf8\xff\xff\x7f\0\0\0\0\x01\0\0\0\0\0\0\0", 16};
  std::string data_first{"\x10\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0", 16};
  std::vector<std::string> garbage{"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                   std::string(100'000, '\xff'),
                                   std::string(8, '\0'),
                                   "we",                                    // and silence
                                   preamble,                                // and silence
                                   preamble + std::string("\x40\0\0\0", 4), // half a header, and silence
                                   preamble + huge,
                                   preamble + data_first + std::string(16, 'x'),
                                   preamble + std::string("\x40\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", 16) +
                                       std::string(64, '\xee')};
  for (auto& bytes : garbage) {
    SCOPED_TRACE(fmt::format("garbage {}", &bytes - garbage.data()));
    auto peer = raw_socket::to(server.address());
    peer.write(bytes.substr(0, 4096)); // it may be closed before all of it has gone
    EXPECT_TRUE(peer.read_to_end(10s));
    EXPECT_EQ(client.call<echo>(good, data_of(10)), failure{});
    EXPECT_TRUE(eventually([&] { return server.node().stats().links == 1; }));
  }
  { // many at once, and they just go
    std::vector<raw_socket> peers;
    for (int i = 0; i < 50; ++i) {
      peers.push_back(raw_socket::to(server.address()));
      peers.back().write(garbage[i % garbage.size()].substr(0, i * 3));
    }
  }
  EXPECT_EQ(client.call<echo>(good, data_of(10)), failure{});
  EXPECT_TRUE(eventually([&] { return server.node().stats().links == 1; }));
  good = {};
  EXPECT_TRUE(server.is_at_base_line());
}

// ---- starting

TEST(NodeProgram, TakesTheFirstFreePortOfARangeAndSaysSoWhenThereIsNone) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto first = raw_socket::listening(0);
    if (first.port() == 65535)
      continue;
    auto second = raw_socket::listening(first.port() + 1);
    if (second.port() == 0)
      continue;
    auto range = fmt::format("tcp://127.0.0.1:{}-{}", first.port(), second.port());
    auto end = node_process{range}.end();
    EXPECT_EQ(end.status, 2);
    EXPECT_THAT(end.err, HasSubstr(fmt::format("{}-{}", first.port(), second.port())));
    EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
    auto port = second.port();
    { auto freed = std::move(second); }
    node_process taken{range};
    EXPECT_EQ(taken.ready(), fmt::format("tcp://127.0.0.1:{}", port));
    return;
  }
  FAIL() << "no two free ports in a row";
}

TEST(NodeProgram, NamesBadInputInOneLineWithStatus2) {
  scratch dir;
  struct bad {
    std::vector<std::string> words;
    std::string names;
  };
  for (auto& [words, names] :
       {bad{{"--listen", "http://127.0.0.1:1"}, "http://127.0.0.1:1"},
        bad{{"--listen", "tcp://127.0.0.1:70000"}, "70000"},
        bad{{"--connect", "tcp://127.0.0.1:0"}, "tcp://127.0.0.1:0"}, bad{{"--rations", "1m"}, "--rations"},
        bad{{"--ration", "1"}, "--ration"}, bad{{"--config", dir.path("missing")}, dir.path("missing")},
        bad{{"--listen", "unix://" + dir.path("no/such/directory")}, dir.path("no/such/directory")}}) {
    auto all = words;
    all.insert(all.begin(), {WEIR_PROGRAM, "node"});
    auto end = run(all);
    EXPECT_EQ(end.status, 2) << names;
    EXPECT_THAT(end.err, HasSubstr(names));
    EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
    EXPECT_EQ(end.out, "");
  }
}

} // namespace
} // namespace weir::test
