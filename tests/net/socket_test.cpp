// Real sockets. The loop is on virtual time, so the test's own thread runs it and timers fire when it says
// so.
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/stream.hpp"
#include "tests/support/process.hpp"

namespace weir::net {
namespace {
using namespace std::chrono_literals;
using testing::HasSubstr, testing::StartsWith;
using weir::test::scratch;

class quiet_loop final : public loop {
public:
  quiet_loop() : loop(loop_options{.virtual_time = true}) {}

private:
  bool run_ready() override { return false; }
  void take_remote() override {}
};

using stream_result = result<std::unique_ptr<stream>>;

struct Socket : testing::Test {
  scratch files;
  quiet_loop l;
  std::vector<int> accepted;
  std::vector<int> raw; // descriptors of the test's own

  ~Socket() override {
    for (auto fd : accepted)
      ::close(fd);
    for (auto fd : raw)
      ::close(fd);
  }

  uri at(const std::string& text) {
    auto u = parse_uri(text);
    EXPECT_TRUE(u) << u.error().text;
    return *u;
  }
  uri socket_file() { return at("unix://" + files.path("s")); }

  /// Runs the loop until `f` is true, for at most 20 s of real time.
  template <class F>
  [[nodiscard]] bool until(F f) {
    auto end = std::chrono::steady_clock::now() + 20s;
    while (!f()) {
      if (std::chrono::steady_clock::now() > end)
        return false;
      l.run_until_idle();
      std::this_thread::yield();
    }
    return true;
  }
  result<std::unique_ptr<listener>> try_listen(const uri& u) {
    return listen(l, u, [this](int fd) { accepted.push_back(fd); });
  }
  std::unique_ptr<listener> listening(const uri& u) {
    auto made = try_listen(u);
    EXPECT_TRUE(made) << to_string(made.error());
    return std::move(*made);
  }
  stream_result dialled(const uri& u) {
    std::optional<stream_result> end;
    auto d = connect(l, u, 5s, [&](stream_result r) { end = std::move(r); });
    EXPECT_TRUE(until([&] { return end.has_value(); }));
    return std::move(*end);
  }
  struct ends {
    std::unique_ptr<stream> here, there;
  };
  /// A connection; `there` is the accepted end.
  ends connected(const uri& u) {
    auto on = listening(u);
    auto s = dialled(on->address());
    EXPECT_TRUE(s) << to_string(s.error());
    EXPECT_TRUE(until([&] { return !accepted.empty(); }));
    auto fd = accepted.back();
    accepted.pop_back();
    return {std::move(*s), adopt(l, fd, u)};
  }
  io_count write(stream& s, std::string_view text) {
    iovec v[2] = {{const_cast<char*>(text.data()), text.size() / 2},
                  {const_cast<char*>(text.data()) + text.size() / 2, text.size() - text.size() / 2}};
    return s.write(v, 2);
  }
  std::string read(stream& s) {
    std::array<std::byte, 256> b;
    io_count n;
    EXPECT_TRUE(until([&] {
      n = s.read(b.data(), b.size());
      return n.what != io_count::state::would_block;
    }));
    return {reinterpret_cast<char*>(b.data()), n.bytes};
  }
  /// Fills `s` until it takes nothing more.
  size_t fill(stream& s) {
    std::string much(256 << 10, 'x');
    size_t all = 0;
    for (auto n = write(s, much); n.what == io_count::state::ok; n = write(s, much))
      all += n.bytes;
    return all;
  }
  int raw_connection(uint16_t port) {
    int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a);
    raw.push_back(fd);
    return fd;
  }
};

// ---- a connection

TEST_F(Socket, CarriesBytesBothWays) {
  for (auto& u : {at("tcp://127.0.0.1:0"), socket_file()}) {
    auto c = connected(u);
    EXPECT_EQ(write(*c.here, "hello").bytes, 5u);
    EXPECT_EQ(read(*c.there), "hello");
    EXPECT_EQ(write(*c.there, "and back").bytes, 8u);
    EXPECT_EQ(read(*c.here), "and back");
  }
}

TEST_F(Socket, SaysWhoTalksToWhom) {
  auto tcp = connected(at("tcp://127.0.0.1:0"));
  EXPECT_THAT(tcp.here->describe(), StartsWith("tcp 127.0.0.1:"));
  auto words = tcp.there->describe();
  auto dash = words.find(" - ");
  ASSERT_NE(dash, std::string::npos);
  EXPECT_EQ(tcp.here->describe(), "tcp " + words.substr(dash + 3) + " - " + words.substr(4, dash - 4));
  auto local = connected(socket_file());
  EXPECT_EQ(local.there->describe(), "unix " + files.path("s") + " - (unnamed)");
}

TEST_F(Socket, WritesIpv6AddressesInBrackets) {
  auto on = try_listen(at("tcp://[::1]:0"));
  if (!on)
    GTEST_SKIP() << "no IPv6 here: " << on.error().text;
  auto s = dialled((*on)->address());
  ASSERT_TRUE(s) << to_string(s.error());
  EXPECT_THAT((*s)->describe(), StartsWith("tcp [::1]:"));
}

TEST_F(Socket, TellsWhenThereIsSomethingToRead) {
  auto c = connected(at("tcp://127.0.0.1:0"));
  std::byte b[8];
  EXPECT_EQ(c.there->read(b, sizeof b).what, io_count::state::would_block);
  int told = 0;
  c.there->when_readable([&] { ++told; });
  l.run_until_idle();
  EXPECT_EQ(told, 0);
  write(*c.here, "x");
  EXPECT_TRUE(until([&] { return told == 1; }));
  l.run_until_idle();
  EXPECT_EQ(told, 1) << "once";
}

TEST_F(Socket, TellsWhenItTakesMore) {
  auto c = connected(at("tcp://127.0.0.1:0"));
  auto filled = fill(*c.here);
  EXPECT_GT(filled, 0u);
  auto told = false;
  c.here->when_writable([&] { told = true; });
  l.run_until_idle();
  EXPECT_FALSE(told);
  std::vector<std::byte> b(1 << 20);
  EXPECT_TRUE(until([&] {
    c.there->read(b.data(), b.size());
    return told;
  }));
  EXPECT_EQ(write(*c.here, "more").what, io_count::state::ok);
}

TEST_F(Socket, TheOthersCloseIsAnEnd) {
  auto c = connected(at("tcp://127.0.0.1:0"));
  write(*c.here, "last");
  c.here->close();
  EXPECT_EQ(read(*c.there), "last");
  std::byte b[8];
  EXPECT_EQ(c.there->read(b, sizeof b).what, io_count::state::end);
}

TEST_F(Socket, WaitingEndsWithClose) {
  auto c = connected(at("tcp://127.0.0.1:0"));
  auto told = false;
  c.there->when_readable([&] { told = true; });
  c.there->close();
  l.run_until_idle();
  EXPECT_FALSE(told);
}

TEST_F(Socket, AResetIsAFailureInWords) {
  auto on = listening(at("tcp://127.0.0.1:0"));
  auto fd = raw_connection(on->address().port);
  ASSERT_TRUE(until([&] { return !accepted.empty(); }));
  auto there = adopt(l, accepted.back(), on->address());
  accepted.clear();
  linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(fd);
  raw.clear();
  std::byte b[8];
  io_count n;
  ASSERT_TRUE(until([&] { return (n = there->read(b, sizeof b)).what != io_count::state::would_block; }));
  EXPECT_EQ(n.what, io_count::state::failed);
  EXPECT_EQ(n.text, "read: Connection reset by peer");
  n = write(*there, "x");
  EXPECT_EQ(n.what, io_count::state::failed) << "and no SIGPIPE";
  EXPECT_EQ(n.text, "write: Broken pipe");
}

TEST_F(Socket, ADescriptorThatIsNoneIsNotAdopted) {
  EXPECT_EQ(adopt(l, -1, at("tcp://127.0.0.1:0")), nullptr);
  EXPECT_EQ(adopt(l, -1, socket_file()), nullptr);
}

// ---- listening

TEST_F(Socket, KnowsWhichPortTheSystemChose) {
  auto on = listening(at("tcp://127.0.0.1:0"));
  EXPECT_NE(on->address().port, 0);
  EXPECT_FALSE(on->address().is_range());
  EXPECT_EQ(to_string(on->address()), "tcp://127.0.0.1:" + std::to_string(on->address().port));
}

TEST_F(Socket, APortThatIsTakenIsRefusedInWords) {
  auto first = listening(at("tcp://127.0.0.1:0"));
  auto second = try_listen(first->address());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, errc::address_in_use);
  EXPECT_EQ(second.error().text, "cannot listen on " + to_string(first->address()) + ": the port is in use");
}

TEST_F(Socket, TakesTheFirstPortOfARangeThatIsFree) {
  auto first = listening(at("tcp://127.0.0.1:0"));
  auto range = first->address();
  range.port_last = static_cast<uint16_t>(std::min(range.port + 50, 0xffff));
  ASSERT_TRUE(range.is_range()) << "the system chose the very last port";
  auto second = listening(range);
  EXPECT_GT(second->address().port, range.port);
  EXPECT_LE(second->address().port, range.port_last);
  range.port_last = static_cast<uint16_t>(range.port + 1);
  auto keeps_the_next = try_listen(at("tcp://127.0.0.1:" + std::to_string(range.port_last)));
  auto third = try_listen(range);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, errc::address_in_use);
  EXPECT_THAT(third.error().text, HasSubstr("every port of the range is in use"));
}

TEST_F(Socket, AnAddressOfSomebodyElseIsRefused) {
  auto on = try_listen(at("tcp://192.0.2.1:0")); // for documentation only, nobody has it
  ASSERT_FALSE(on);
  EXPECT_EQ(on.error().code, errc::io_error);
  EXPECT_THAT(on.error().text, StartsWith("cannot listen on tcp://192.0.2.1:0: "));
}

TEST_F(Socket, AHostThatCannotBeIsRefused) {
  uri u;
  u.host = std::string(64, 'h'); // labels have 63 at most, so nobody is asked
  u.port = u.port_last = 1;
  auto on = try_listen(u);
  ASSERT_FALSE(on);
  EXPECT_EQ(on.error().code, errc::io_error);
  EXPECT_THAT(on.error().text, HasSubstr("host '" + u.host + "'"));
  auto s = dialled(u);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, errc::connect_failed);
  EXPECT_THAT(s.error().text, StartsWith("cannot resolve '" + u.host + "': "));
}

TEST_F(Socket, TheFileOfAListenerGoesWithIt) {
  auto on = listening(socket_file());
  EXPECT_TRUE(std::filesystem::exists(files.path("s")));
  EXPECT_EQ(to_string(on->address()), to_string(socket_file()));
  on.reset();
  EXPECT_FALSE(std::filesystem::exists(files.path("s")));
}

TEST_F(Socket, AFileThatAProcessLeftBehindIsTakenOver) {
  int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::strncpy(a.sun_path, files.path("s").c_str(), sizeof a.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  ::close(fd);
  ASSERT_TRUE(std::filesystem::exists(files.path("s")));
  auto on = listening(socket_file());
  EXPECT_TRUE(dialled(socket_file()));
}

TEST_F(Socket, AFileThatSomebodyListensOnIsNot) {
  auto first = listening(socket_file());
  auto second = try_listen(socket_file());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, errc::address_in_use);
  EXPECT_TRUE(dialled(socket_file())) << "the first one is unharmed";
}

TEST_F(Socket, AListenerThatIsBusyIsNotWaitedForAndKeepsItsFile) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::strncpy(a.sun_path, files.path("s").c_str(), sizeof a.sun_path - 1);
  auto make = [&] {
    raw.push_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    return raw.back();
  };
  int busy = make();
  ASSERT_EQ(::bind(busy, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  ASSERT_EQ(::listen(busy, 0), 0);
  while (::connect(make(), reinterpret_cast<sockaddr*>(&a), sizeof a) == 0) {
  }
  ASSERT_EQ(errno, EAGAIN) << "it takes no more";
  auto on = try_listen(socket_file());
  ASSERT_FALSE(on);
  EXPECT_EQ(on.error().code, errc::address_in_use);
  EXPECT_TRUE(std::filesystem::exists(files.path("s")));
}

TEST_F(Socket, AFileThatIsNoSocketIsLeftAlone) {
  auto path = files.file("s", "text");
  auto on = try_listen(socket_file());
  ASSERT_FALSE(on);
  EXPECT_EQ(on.error().code, errc::address_in_use);
  std::string text;
  std::ifstream{path} >> text;
  EXPECT_EQ(text, "text");
}

TEST_F(Socket, AFolderThatDoesNotExistIsAnErrorInWords) {
  auto on = try_listen(at("unix://" + files.path("no/such/folder/s")));
  ASSERT_FALSE(on);
  EXPECT_EQ(on.error().code, errc::io_error);
  EXPECT_THAT(on.error().text, HasSubstr("No such file or directory"));
}

/// Until it goes away no descriptor can be made.
class no_descriptors {
public:
  no_descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    int next = ::dup(0);
    ::close(next);
    rlimit none{static_cast<rlim_t>(next), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~no_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

private:
  rlimit before_{};
};

TEST_F(Socket, WaitsAWhileWhenThereAreNoDescriptors) {
  auto on = listening(at("tcp://127.0.0.1:0"));
  l.run_until_idle();
  raw_connection(on->address().port);
  {
    no_descriptors out;
    EXPECT_TRUE(until([&] { return l.next_timer() != time_point::max(); })) << "it does not spin";
    EXPECT_TRUE(accepted.empty());
  }
  l.run_until_idle();
  EXPECT_TRUE(accepted.empty());
  l.advance(100ms);
  EXPECT_TRUE(until([&] { return accepted.size() == 1; }));
}

TEST_F(Socket, AListenerMayGoWhileItWaits) {
  auto on = listening(at("tcp://127.0.0.1:0"));
  l.run_until_idle();
  raw_connection(on->address().port);
  {
    no_descriptors out;
    EXPECT_TRUE(until([&] { return l.next_timer() != time_point::max(); }));
  }
  on.reset();
  EXPECT_EQ(l.next_timer(), time_point::max());
  l.advance(1s);
  EXPECT_TRUE(accepted.empty());
}

// ---- dialling

TEST_F(Socket, ARefusedConnectionIsAFailureInWords) {
  auto on = listening(at("tcp://127.0.0.1:0"));
  auto u = on->address();
  on.reset();
  auto s = dialled(u);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, errc::connect_failed);
  EXPECT_EQ(s.error().what, outcome::not_executed);
  EXPECT_EQ(s.error().text, "cannot connect to " + to_string(u) + ": Connection refused");
  s = dialled(socket_file());
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, errc::connect_failed);
  EXPECT_THAT(s.error().text, HasSubstr("No such file or directory"));
}

TEST_F(Socket, TriesEveryAddressOfAName) {
  auto on = listening(at("tcp://127.0.0.1:0"));
  auto u = on->address();
  u.host = "localhost"; // where it is two addresses, one of them refuses
  addrinfo* known = nullptr;
  if (getaddrinfo(u.host.c_str(), nullptr, nullptr, &known) != 0)
    GTEST_SKIP() << "this machine has no name for itself (/etc/hosts)";
  freeaddrinfo(known);
  EXPECT_TRUE(dialled(u));
}

/// Nobody takes its connections, and a few fill it.
struct full_listener {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  uint16_t port = 0;
  full_listener() {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof a;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
    EXPECT_EQ(::listen(fd, 0), 0);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &n);
    port = ntohs(a.sin_port);
  }
  ~full_listener() { ::close(fd); }
};

TEST_F(Socket, GivesUpWhenNobodyAnswersInTime) {
  full_listener full;
  for (int i = 0; i < 4; ++i)
    raw_connection(full.port);
  std::optional<stream_result> end;
  auto u = at("tcp://127.0.0.1:" + std::to_string(full.port));
  auto d = connect(l, u, 5s, [&](stream_result r) { end = std::move(r); });
  l.advance(4900ms);
  EXPECT_FALSE(end.has_value());
  l.advance(200ms);
  ASSERT_TRUE(end.has_value());
  ASSERT_FALSE(*end);
  EXPECT_EQ(end->error().code, errc::connect_timeout);
  EXPECT_THAT(end->error().text, HasSubstr(to_string(u)));
  EXPECT_EQ(l.next_timer(), time_point::max());
}

TEST_F(Socket, ADialThatIsGivenUpSaysNothing) {
  auto on = listening(at("tcp://127.0.0.1:0"));
  int told = 0, in_time = 0; // the second: it may have ended before it was given up
  for (auto& u : {on->address(), socket_file()}) {
    auto at_once = connect(l, u, 5s, [&](stream_result) { ++told; });
    at_once.reset();
    auto soon = connect(l, u, 5s, [&](stream_result) { ++in_time; });
    l.step();
    soon.reset();
  }
  auto by_then = in_time;
  full_listener full;
  for (int i = 0; i < 4; ++i)
    raw_connection(full.port);
  auto late = connect(l, at("tcp://127.0.0.1:" + std::to_string(full.port)), 5s,
                      [&](stream_result) { ++told; });
  l.advance(1s);
  late.reset();
  l.advance(10s);
  EXPECT_EQ(l.next_timer(), time_point::max());
  EXPECT_EQ(told, 0);
  EXPECT_EQ(in_time, by_then);
}

TEST_F(Socket, ADialMayBeDestroyedByItsOwnAnswer) {
  auto on = listening(at("tcp://127.0.0.1:0"));
  std::unique_ptr<dial> d;
  auto told = false;
  d = connect(l, on->address(), 5s, [&](stream_result r) {
    EXPECT_TRUE(r);
    told = true;
    d.reset();
  });
  EXPECT_TRUE(until([&] { return told; }));
  l.advance(10s);
}

} // namespace
} // namespace weir::net
