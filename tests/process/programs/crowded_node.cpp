// A node that has very much under way when it is told to stop (crowd_test.cpp): calls and one-way messages
// that are parked in every place where the design lets them wait. It counts how each of them ends.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <future>
#include <latch>
#include <vector>

#include <fmt/format.h>

#include <weir/main.hpp>
#include <weir/node.hpp>

#include "runtime/program/services.capnp.h"
#include "tests/support/probe.capnp.h"

namespace weir::test {
namespace {

using program::Echo;
using pass = weir::method<&Echo::Client::passRequest>;
using probe_echo = weir::method<&Probe::Client::echoRequest>;

struct crowd_config : config {
  std::string peer, silent;
  uint64_t sessions = 1000, messages = 1'000'000;

  crowd_config() {
    about("crowded_node: parks messages when it is called, and counts how they end when it stops");
    add_option("crowd.peer", "address of a node with the service `echo`", peer);
    add_option("crowd.silent", "another address of it, with which there is no link", silent);
    add_option("crowd.sessions", "that are open to the peer", sessions);
    add_option("crowd.messages", "to park in all", messages);
  }
};

/// What the crowd knows of itself, for the main thread.
struct figures {
  std::atomic<uint64_t> calls{0}, answered{0}, answered_well{0}, unknown{0}, tells{0}, lost{0}, refused{0};
  std::promise<void> over; ///< every call has its answer and every one-way message is counted

  void look() {
    if (answered == calls && lost == tells && !std::exchange(is_over_, true))
      over.set_value();
  }

private:
  bool is_over_ = false;
};

/// Serves nobody: its first request stays in the handler until the program ends.
class stuck : public weir::service<Probe> {
public:
  stuck(caf::actor_config& c, std::shared_ptr<std::latch> end) : service(c), end_(std::move(end)) {}
  handlers make_handlers() override {
    auto wait = [this](auto, auto) { end_->wait(); };
    return {on<probe_echo>(wait),
            on<weir::method<&Probe::Client::throwsRequest>>(wait),
            on<weir::method<&Probe::Client::ignoreRequest>>(wait),
            on<weir::method<&Probe::Client::keepRequest>>(wait),
            on<weir::method<&Probe::Client::replyRequest>>(wait),
            on<weir::method<&Probe::Client::nestRequest>>(wait)};
  }

private:
  std::shared_ptr<std::latch> end_;
};

/// Opens the sessions; `park` lets them have their messages. It lives on CAF's scheduler, so it is still
/// there when the node has stopped.
class crowd : public weir::service<Probe> {
public:
  crowd(caf::actor_config& c, weir::node& n, const crowd_config& cfg, std::shared_ptr<figures> f)
      : service(c), node_(n), messages_(cfg.messages), silent_(cfg.silent), figures_(std::move(f)) {
    for (uint64_t i = 0; i < cfg.sessions; ++i)
      open_.push_back(node_.lookup<Echo>("echo", cfg.peer));
  }

  handlers make_handlers() override {
    using echo = probe_echo;
    using reply = weir::method<&Probe::Client::replyRequest>;
    using keep = weir::method<&Probe::Client::keepRequest>;
    using nest = weir::method<&Probe::Client::nestRequest>;
    return {on<echo>([this](weir::request<echo> rq) { open(std::move(rq)); }),
            on<nest>([this](nest::in, nest::out out) { out.setDepth(park()); }),
            on<keep>([this](const weir::request<keep>& rq) { kept_.push_back(rq); }),
            on<reply>([](reply::in, reply::out) {}),
            on<weir::method<&Probe::Client::throwsRequest>>([](auto, auto) {}),
            on<weir::method<&Probe::Client::ignoreRequest>>([](auto, auto) {})};
  }
  void on_undelivered(const undelivered& u) override {
    figures_->lost += u.count;
    figures_->look();
  }

private:
  static constexpr uint64_t detours = 1000;

  /// Each session makes a call, so it is there. The answer comes when all have been.
  void open(weir::request<probe_echo> rq) {
    auto left = std::make_shared<size_t>(open_.size());
    for (auto& to : open_)
      call<pass>(to, [](pass::args) {}).then([rq, left](pass::result) mutable {
        if (--*left == 0)
          rq.reply([](probe_echo::out) {});
      });
  }

  /// Nine tenths behind open sessions, the rest behind sessions that are not open, and at a service of this
  /// node that does not get on. A few behind a session that asks `detours` peers in turn. How many there are.
  uint32_t park() {
    auto each = messages_ * 9 / 10 / open_.size();
    for (auto& to : open_) // the peer may send them credit for one message: that is the first call
      for (uint64_t i = 0; i < each; ++i)
        i % 2 == 0 ? park_call<pass>(to) : park_tell<pass>(to);
    constexpr uint64_t few = 20;
    for (uint64_t i = 0; i < few; ++i) {
      auto& to = open_.emplace_back(node_.lookup<Echo>("echo", silent_));
      auto& here = here_.emplace_back(node_.lookup<Probe>("stuck"));
      for (uint64_t k = 0; k < messages_ / 20 / few; ++k) {
        k % 2 == 0 ? park_call<pass>(to) : park_tell<pass>(to);
        park_call<probe_echo>(here);
      }
    }
    node_.connect(silent_); // it waits there
    for (uint64_t i = 0; i < detours; ++i)
      node_.connect(fmt::format("tcp://127.77.{}.{}:1", i / 250, 1 + i % 250));
    auto& anywhere = open_.emplace_back(node_.lookup<Echo>("echo"));
    for (uint64_t i = 0; i < few; ++i)
      park_call<pass>(anywhere);
    return static_cast<uint32_t>(figures_->calls + figures_->tells);
  }
  template <class Method>
  void park_call(const ref<typename Method::interface>& to) {
    ++figures_->calls;
    call<Method>(to, [](auto args) { args.initData(8); })
        .then([f = figures_](typename Method::result) { ++f->answered_well, ++f->answered, f->look(); },
              [f = figures_](const failure& why) {
                f->unknown += why.what == outcome::unknown;
                ++f->answered, f->look();
              });
  }
  template <class Method>
  void park_tell(const ref<typename Method::interface>& to) {
    ++figures_->tells;
    figures_->refused += !tell<Method>(to, [](auto args) { args.initData(8); });
  }

  weir::node& node_;
  uint64_t messages_;
  std::string silent_;
  std::shared_ptr<figures> figures_;
  std::vector<ref<Echo>> open_;
  std::vector<ref<Probe>> here_;
  std::vector<weir::request<weir::method<&Probe::Client::keepRequest>>> kept_;
};

std::chrono::milliseconds processor_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::milliseconds{t.tv_sec * 1000 + t.tv_nsec / 1'000'000};
}

int crowd_main(caf::actor_system& sys, const crowd_config& cfg) {
  stop_signal stop;
  auto end = std::make_shared<std::latch>(1);
  auto f = std::make_shared<figures>();
  caf::actor by;
  bool over = false;
  std::chrono::milliseconds used;
  {
    weir::node node{sys, cfg};
    by = sys.spawn<crowd>(node, cfg, f);
    if (!node.serve<Probe>("crowd", by) || !node.serve<Probe>("stuck", sys.spawn<stuck>(end)))
      return 1;
    fmt::print("READY {}\n", node.addresses().at(0));
    std::fflush(stdout);
    stop.wait();
    used = processor_time();
    node.stop();
    over = f->over.get_future().wait_for(std::chrono::seconds{20}) == std::future_status::ready;
  }
  fmt::print("calls {} answered {} well {} unknown {} tells {} lost {} refused {} used_ms {}\n",
             f->calls.load(), f->answered.load(), f->answered_well.load(), f->unknown.load(), f->tells.load(),
             f->lost.load(), f->refused.load(), (processor_time() - used).count());
  send_exit(caf::actor_cast<caf::strong_actor_ptr>(by), caf::exit_reason::user_shutdown);
  end->count_down();
  return over ? 0 : 3;
}

} // namespace
} // namespace weir::test

int main(int argc, char** argv) { return weir::run_main<>(&weir::test::crowd_main, argc, argv); }
