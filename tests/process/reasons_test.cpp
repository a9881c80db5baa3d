// What strangers do to a node over a real socket: counted, and written once.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

/// Says something that is not weir, and waits until the node hangs up.
void say_garbage(const std::string& uri) {
  auto fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(std::stoi(uri.substr(uri.rfind(':') + 1))));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  timeval patience{30, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ASSERT_EQ(send(fd, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
  char space[4096];
  ssize_t n = 1;
  while (n > 0)
    n = recv(fd, space, sizeof space, 0);
  EXPECT_TRUE(n == 0 || errno == ECONNRESET) << "the node did not hang up";
  close(fd);
}

TEST(ReasonsOfANode, AreCountedForItsStats) {
  auto o = machine::listening();
  o.log_level = log_level::off;
  machine m{o};
  for (int i = 0; i < 3; ++i)
    say_garbage(m.address());
  EXPECT_TRUE(eventually([&] { return m.node().stats().times(errc::bad_magic) == 3; }));
  EXPECT_EQ(m.node().stats().links_accepted, 3u);
}

TEST(ReasonsOfANode, ARefusedOpenIsCountedOnBothSides) {
  machine server{machine::listening()}, client;
  auto nobody = client.node().lookup<Probe>("nobody", server.address()); // opens a session at once
  EXPECT_TRUE(eventually([&] { return client.node().stats().times(errc::no_such_service) > 0; }));
  EXPECT_TRUE(eventually([&] { return server.node().stats().times(errc::no_such_service) > 0; }));
  EXPECT_EQ(server.node().stats().times(errc::no_such_service), 1u);
  EXPECT_EQ(server.node().stats().sessions_refused, 1u);
  EXPECT_EQ(client.call<echo>(nobody, data_of(1)).code, errc::no_such_service); // and a call one more
  EXPECT_EQ(server.node().stats().sessions_refused, 2u);
}

TEST(ReasonsOfANode, AreWrittenOncePerPeriodHoweverOftenTheyOccur) {
  process node{{WEIR_PROGRAM, "node", "--listen", "tcp://127.0.0.1:0", "--log-period=1h"}};
  auto at = node.ready();
  for (int i = 0; i < 20; ++i)
    say_garbage(at);
  auto err = node.stop().err;
  auto first = err.find("warning: bad_magic: link");
  EXPECT_NE(first, std::string::npos) << err;
  EXPECT_EQ(err.find("bad_magic", first + 20), std::string::npos) << err;
}

TEST(ReasonsOfANode, OffWritesNothing) {
  process node{{WEIR_PROGRAM, "node", "--listen", "tcp://127.0.0.1:0", "--log-level=off"}};
  say_garbage(node.ready());
  EXPECT_EQ(node.stop().err, "");
}

TEST(ReasonsOfANode, InfoTellsOfLinks) {
  process node{{WEIR_PROGRAM, "node", "--listen", "tcp://127.0.0.1:0", "--log-level=info"}};
  {
    machine client{{.name = "the-client"}};
    EXPECT_NE(client.call<echo>(client.node().lookup<Probe>("nobody", node.ready()), data_of(1)).code,
              errc::none);
  }
  auto err = node.stop().err;
  EXPECT_THAT(err, testing::HasSubstr("link to 'the-client' (tcp "));
  EXPECT_THAT(err, testing::HasSubstr(" is up, accepted, node "));
  EXPECT_THAT(err, testing::HasSubstr(" is down: "));
}

} // namespace
} // namespace weir::test
