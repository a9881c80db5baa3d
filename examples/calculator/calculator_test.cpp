// The calculator and a caller in one test: no threads, no sockets, and a network that is slow and then
// breaks. Any framework will do; this one needs none. Exit code 0: passed.

#include <fmt/format.h>

#include <weir/client.hpp>
#include <weir/testing.hpp>

#include "calculator.hpp"

using namespace std::chrono_literals;

int failures = 0;

void expect(bool ok, const std::string& what) {
  if (!ok)
    fmt::print("FAILED: {}\n", what), ++failures;
}

void test(caf::actor_system& sys, uint64_t seed) {
  weir::testing::network net{sys, {.seed = seed}};
  auto& server = net.add_node("server"); // listens on tcp://server:7000
  auto& node = net.add_node("client");
  expect(bool{server.serve<Calculator>("calculator", server.spawn<calculator>())}, "serve");
  net.shuffle(); // small delays and turns, drawn from the seed
  auto link = net.between("client", "server").delay(20ms);
  weir::client client{node};
  {
    auto calc = node.lookup<Calculator>("calculator", "tcp://server:7000");
    auto sum = client.call<add>(calc, [](add::args a) { a.setA(20), a.setB(22); });
    expect(sum && sum->getSum() == 42, "20 + 22 = 42");
    auto nothing = client.call<divide>(calc, [](divide::args a) { a.setDividend(1), a.setDivisor(0); });
    expect(nothing.error().text.find("division by zero") != std::string::npos, "1 / 0 says why");

    auto before = net.now();
    net.after(30ms, [&] { link.cut(); }); // the request has arrived, its answer has not
    auto lost = client.call<add>(calc, [](add::args a) { a.setA(1); });
    expect(lost.error().code == weir::errc::link_lost, "a cut link fails the call");
    expect(lost.error().what == weir::outcome::unknown, "it may have run");
    expect(net.now() - before == 30ms, "the caller hears it at once");

    link.stall();
    auto again = node.lookup<Calculator>("calculator", "tcp://server:7000");
    auto late = client.call<add>(again, {.timeout = 1s}, [](add::args) {});
    expect(late.error().what == weir::outcome::not_executed, "what never left is safe to retry");
  }
  net.advance(10s); // takes no time
  expect(net.leftovers().empty(), net.leftovers());
}

int main() {
  weir::init_types<>();
  caf::actor_system_config cfg;
  caf::actor_system sys{cfg};
  for (uint64_t seed = 1; failures == 0 && seed <= 20; ++seed)
    if (test(sys, seed); failures > 0)
      fmt::print("with seed {}\n", seed);
  return failures == 0 ? 0 : 1;
}
