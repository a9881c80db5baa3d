#include <gtest/gtest.h>

#include "net/uri.hpp"

namespace weir::net {
namespace {

uri parsed(std::string_view text) {
  auto u = parse_uri(text);
  EXPECT_TRUE(u) << u.error().text;
  return u ? *u : uri{};
}

void expect_same_text(std::string_view text) { EXPECT_EQ(to_string(parsed(text)), text); }

void expect_error(std::string_view text, std::string_view words) {
  auto u = parse_uri(text);
  ASSERT_FALSE(u) << text;
  EXPECT_EQ(u.error().code, errc::bad_uri);
  EXPECT_EQ(u.error().text, "'" + std::string(text) + "': " + std::string(words));
}

TEST(Uri, TcpHasHostAndPort) {
  auto u = parsed("tcp://db-1.example.org:7000");
  EXPECT_EQ(u.kind, uri::scheme::tcp);
  EXPECT_EQ(u.host, "db-1.example.org");
  EXPECT_EQ(u.port, 7000);
  EXPECT_EQ(u.port_last, 7000);
  EXPECT_FALSE(u.is_range());
}

TEST(Uri, TcpMayHaveARangeOfPorts) {
  auto u = parsed("tcp://0.0.0.0:7000-7010");
  EXPECT_EQ(u.port, 7000);
  EXPECT_EQ(u.port_last, 7010);
  EXPECT_TRUE(u.is_range());
}

TEST(Uri, BracketsOfIpv6AreNotPartOfTheHost) {
  auto u = parsed("tcp://[fe80::1%eth0]:0");
  EXPECT_EQ(u.host, "fe80::1%eth0");
  EXPECT_EQ(u.port, 0);
}

TEST(Uri, UnixHasAPath) {
  auto u = parsed("unix:///run/weir/a b.sock");
  EXPECT_EQ(u.kind, uri::scheme::unix_);
  EXPECT_EQ(u.path, "/run/weir/a b.sock");
}

TEST(Uri, IsWrittenAsItWasRead) {
  for (auto text :
       {"tcp://localhost:1", "tcp://10.0.0.1:7000-7010", "tcp://[::1]:0", "tcp://[::]:65535", "unix:///a"})
    expect_same_text(text);
}

TEST(Uri, OneRangeOfOnePortIsAPort) { EXPECT_EQ(to_string(parsed("tcp://a:5-5")), "tcp://a:5"); }

TEST(Uri, PathOf107BytesIsTheLongest) {
  std::string longest = "unix:///" + std::string(unix_path_bytes_max - 1, 'x');
  expect_same_text(longest);
  expect_error(longest + "x", "the path has 108 bytes (at most 107)");
}

TEST(Uri, RefusesOtherSchemes) {
  expect_error("", "it must begin with tcp:// or unix://");
  expect_error("localhost:7000", "it must begin with tcp:// or unix://");
  expect_error("TCP://a:1", "it must begin with tcp:// or unix://");
  expect_error("udp://a:1", "it must begin with tcp:// or unix://");
}

TEST(Uri, RefusesBadPorts) {
  expect_error("tcp://a", "the port is missing");
  expect_error("tcp://a:", "the port is missing");
  expect_error("tcp://[::1]", "the port is missing");
  expect_error("tcp://a:http", "port 'http' is not a number");
  expect_error("tcp://a:70x", "port '70x' is not a number");
  expect_error("tcp://a:7000/x", "port '7000/x' is not a number");
  expect_error("tcp://a: 7", "port ' 7' is not a number");
  expect_error("tcp://a:65536", "port 65536 is out of range (0 to 65535)");
  expect_error("tcp://a:99999999999999", "port 99999999999999 is out of range (0 to 65535)");
}

TEST(Uri, RefusesBadRanges) {
  expect_error("tcp://a:-7", "port '' is not a number");
  expect_error("tcp://a:7-", "port '' is not a number");
  expect_error("tcp://a:7-8-9", "port '8-9' is not a number");
  expect_error("tcp://a:7-6", "the range ends at 6, before it begins at 7");
  expect_error("tcp://a:0-6", "a range cannot begin at port 0");
}

TEST(Uri, RefusesBadHosts) {
  expect_error("tcp://:7", "the host is missing");
  expect_error("tcp://::1:7", "an IPv6 address needs brackets, as in tcp://[::1]:7000");
  expect_error("tcp://a b:7", "host 'a b' has a character that no host name has");
  expect_error("tcp://user@a:7", "host 'user@a' has a character that no host name has");
  expect_error("tcp://[::1:7", "'[' without ']'");
  expect_error("tcp://[a]:7", "'a' is not an IPv6 address");
  expect_error("tcp://" + std::string(254, 'a') + ":7", "the host has 254 bytes (at most 253)");
  expect_error("tcp://[::" + std::string(252, '1') + "]:7", "the host has 254 bytes (at most 253)");
}

TEST(Uri, RefusesPathsThatAreNotAbsolute) {
  expect_error("unix://a.sock", "the path must be absolute, as in unix:///run/weir.sock");
  expect_error("unix://", "the path must be absolute, as in unix:///run/weir.sock");
  expect_error("unix:///", "the path must be absolute, as in unix:///run/weir.sock");
  expect_error(std::string_view("unix:///a\0b", 11), "the path has a zero byte");
}

} // namespace
} // namespace weir::net
