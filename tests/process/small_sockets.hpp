#pragma once
// Nodes on loopback whose sockets hold next to nothing.
#include <atomic>
#include <memory>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/node.hpp>

#include "runtime/ground.hpp"

namespace weir::test {

/// For the kernel to send and to receive; it takes twice that, and no less than some KiB.
inline void make_small(int descriptor) {
  int bytes = 4 << 10;
  for (int which : {SO_SNDBUF, SO_RCVBUF})
    EXPECT_EQ(setsockopt(descriptor, SOL_SOCKET, which, &bytes, sizeof bytes), 0);
}

/// Makes nodes that stand on such sockets. Keep it until they are gone.
class small_sockets {
public:
  /// For a `machine`: tcp://127.0.0.1 only.
  auto node_maker(node_options o) {
    return [this, o = std::move(o)](caf::actor_system& sys) {
      auto& g = grounds_.emplace_back(std::make_unique<detail::ground>());
      static std::atomic<uint64_t> made{0};
      g->id = {static_cast<uint64_t>(getpid()), ++made};
      g->adjust = [](actors::environment& e) {
        e.connect = connect;
        e.listen = listen;
      };
      g->made = [] {};
      return detail::node_on_ground::make(sys, o, *g);
    };
  }

private:
  struct dialled final : net::dial {
    std::shared_ptr<bool> wanted = std::make_shared<bool>(true);
    ~dialled() override { *wanted = false; }
  };

  /// On loopback it does not wait.
  static std::unique_ptr<net::dial> connect(net::loop& l, const net::uri& to, net::duration,
                                            net::dial::on_result f) {
    auto descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    make_small(descriptor);
    int segment = 1000; // else TCP waits for room for one of loopback's 64 KiB
    EXPECT_EQ(setsockopt(descriptor, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment), 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(to.port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto ok = ::connect(descriptor, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
    auto d = std::make_unique<dialled>();
    static_cast<actors::loop&>(l).post([&l, to, descriptor, ok, f = std::move(f), wanted = d->wanted] {
      if (*wanted && ok)
        return f(net::adopt(l, descriptor, to));
      close(descriptor);
      if (*wanted)
        f(failure{errc::connect_failed, outcome::not_executed, "nobody listens there"});
    });
    return d;
  }
  static result<std::unique_ptr<net::listener>>
  listen(net::loop& l, const net::uri& at, std::function<void(actors::environment::stream_maker)> accepted) {
    return net::listen(l, at, [accepted = std::move(accepted), at](int descriptor) {
      make_small(descriptor);
      accepted([descriptor, at](net::loop& target) { return net::adopt(target, descriptor, at); });
    });
  }

  std::vector<std::unique_ptr<detail::ground>> grounds_;
};

} // namespace weir::test
