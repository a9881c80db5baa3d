/// The nodes of a benchmark of weir itself: where its actors run, options of its nodes, and two hosts.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>

#include <weir/config.hpp>
#include <weir/node.hpp>

#include "bench/options.hpp"
#include "bench/processes.hpp"

namespace weir::bench {

class client_node;

/// What the modes that run weir have in common. Not moved: its options are bound to it.
struct weir_setup {
  std::string placement = {};   ///< of services and clients: loop or scheduler; empty: both are run
  std::string serve, connect;   ///< on two hosts: the server's address
  std::string with_raw = "yes"; ///< or no
  static constexpr std::size_t setting_count = 14;
  std::array<std::string, setting_count> settings; ///< of the nodes on both sides; empty: the node's default

  weir_setup() = default;
  weir_setup(const weir_setup&) = delete;
  weir_setup& operator=(const weir_setup&) = delete;
};

/// `--placement --serve --connect --raw`, and `--ration --fragment --spin ...` for the nodes.
void add_options(options& line, weir_setup& to);

/// Without `--serve --connect --raw`: for modes that measure on this machine, in a way of their own.
void add_node_options(options& line, weir_setup& to);

/// What an option of the nodes is to be unless it was given.
void choose(weir_setup& setup, std::string_view option, const std::string& value);

/// The options that give a child the same nodes.
std::vector<std::string> arguments_of(const weir_setup& setup);

/// What is wrong with the options of the nodes; empty: nothing.
std::string complaint_about(const weir_setup& setup);

/// The arguments of a server process: a node that listens at `uri` and says READY.
std::vector<std::string> server_arguments(const weir_setup& setup, std::string_view placement,
                                          const std::string& uri);

/// Serves at `setup.serve` until SIGTERM; the exit status.
int serve(const weir_setup& setup);

/// Serves what `weir node` does and `more` at `uri` until SIGTERM; says READY and all addresses, with commas
/// between; the exit status.
int serve_more(const weir_setup& setup, const std::string& uri,
               const std::function<void(client_node&)>& more);

/// Makes the node listen at so many more ports of loopback: as a link belongs to an address, one client can
/// then have many.
void listen_more(client_node& node, std::uint64_t ports);

/// A free address of this machine for a server.
std::string own_address(std::string_view transport, std::string_view placement);

/// The node of a client process. Its actors must have ended before it goes.
class client_node {
public:
  /// Listens at `listen`, nowhere when it is empty. bench_error when the options of the node are wrong.
  explicit client_node(const weir_setup& setup, const std::string& listen = {});

  weir::node& node() { return node_; }

  /// A user's actor, where `--placement` says.
  template <class T, class... Xs>
  caf::actor spawn(Xs&&... xs) {
    return on_loop_ ? node_.spawn<T>(std::forward<Xs>(xs)...)
                    : caf::actor{system_.spawn<T>(std::forward<Xs>(xs)...)};
  }

private:
  std::unique_ptr<config> config_;
  bool on_loop_;
  caf::actor_system system_;
  weir::node node_;
};

/// bench_error when actors of the client's node, or of the one at `server`, have waited for each other's
/// credit in a circle: what was measured then is not what weir does.
void check_wait_cycles(client_node& client, const std::string& server);

/// Makes one call and ends.
template <class Method>
class asker final : public weir::actor {
public:
  using fill = std::function<void(typename Method::args)>;
  using read = std::function<void(typename Method::result)>;

  asker(caf::actor_config& cfg, ref<typename Method::interface> to, fill f, read r,
        std::promise<failure>* last)
      : actor(cfg), to_(std::move(to)), fill_(std::move(f)), read_(std::move(r)), last_(last) {}

  caf::behavior make_behavior() override {
    call<Method>(to_, {.timeout = std::chrono::minutes(5)}, fill_)
        .then(
            [this](typename Method::result result) {
              read_(result);
              finish({});
            },
            [this](const failure& why) { finish(why); });
    return actor::make_behavior();
  }

private:
  void finish(const failure& why) {
    last_->set_value(why);
    quit();
  }

  ref<typename Method::interface> to_;
  fill fill_;
  read read_;
  std::promise<failure>* last_;
};

/// Calls and waits for the answer, from a thread outside CAF. bench_error when the call fails.
template <class Method>
void ask(client_node& from, const ref<typename Method::interface>& to, typename asker<Method>::fill fill,
         typename asker<Method>::read read) {
  std::promise<failure> done;
  from.spawn<asker<Method>>(to, std::move(fill), std::move(read), &done);
  if (auto why = done.get_future().get(); why.code != errc::none)
    throw bench_error(to_string(why));
}

} // namespace weir::bench
