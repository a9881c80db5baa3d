#pragma once
// Nodes for tests over real sockets: several of them in this process, each with an actor system of its own.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/node.hpp>

#include "tests/support/probe.capnp.h"
#include "tests/support/process.hpp"

namespace weir {
/// For GoogleTest.
inline void PrintTo(const failure& f, std::ostream* out) { *out << to_string(f); }
} // namespace weir

namespace weir::test {

/// Runs what a test hands it, as an actor.
class hand;
struct task {
  std::function<void(hand&)> run;
};

} // namespace weir::test

CAF_BEGIN_TYPE_ID_BLOCK(weir_process_test, caf::first_custom_type_id + 100)
CAF_ADD_TYPE_ID(weir_process_test, (weir::test::task))
CAF_END_TYPE_ID_BLOCK(weir_process_test)
WEIR_LOCAL_MESSAGE(weir::test::task)

namespace weir::test {

class hand : public weir::actor {
public:
  using actor::actor;
  caf::behavior make_behavior() override {
    return {[this](task& t) { t.run(*this); }};
  }
};

/// A node, its actor system, and an actor that calls for the test. At its end no actors may have waited for
/// each other in a circle, unless the test has said that they are to.
class machine {
public:
  using node_maker = std::function<std::unique_ptr<weir::node>(caf::actor_system&)>;

  explicit machine(node_options o = {})
      : machine(node_maker{[&o](auto& sys) {
          if (o.stall_limit == node_options{}.stall_limit)
            o.stall_limit = std::chrono::seconds{1};
          return std::make_unique<weir::node>(sys, std::move(o));
        }}) {}
  /// With a node of the test's making.
  explicit machine(const node_maker& make) : config_(make_config()), system_(*config_), node_(make(system_)) {
    hand_ = node_->spawn<hand>();
  }
  ~machine() {
    if (!cycle_on_purpose) {
      EXPECT_EQ(node_->stats().times(errc::wait_cycle), 0u);
    }
  }
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;
  bool cycle_on_purpose = false;

  static node_options listening(std::string uri = "tcp://127.0.0.1:0") {
    node_options o;
    o.listen = {std::move(uri)};
    return o;
  }

  weir::node& node() { return *node_; }
  caf::actor_system& system() { return system_; }
  std::string address() { return node_->addresses().at(0); }

  /// Runs `f(hand&)` on the actor.
  void tell(std::function<void(hand&)> f) { put(hand_, nullptr, task{std::move(f)}); }

  /// Calls and waits; the failure's code is none when the answer came, which `read` was given on the actor.
  template <class Method, class Fill, class Read>
  failure call(const ref<typename Method::interface>& to, const call_options& o, Fill fill, Read read) {
    auto done = start<Method>(to, o, std::move(fill), std::move(read));
    if (done.wait_for(process::patience) == std::future_status::ready)
      return done.get();
    ADD_FAILURE() << "a call that never ends";
    return {errc::none, outcome::unknown, "never ended"};
  }
  template <class Method, class Fill>
  failure call(const ref<typename Method::interface>& to, Fill fill) {
    return call<Method>(to, call_options{}, std::move(fill), [](auto) {});
  }
  /// The same without waiting.
  template <class Method, class Fill, class Read>
  std::future<failure> start(const ref<typename Method::interface>& to, const call_options& o, Fill fill,
                             Read read) {
    auto done = std::make_shared<std::promise<failure>>();
    auto result = done->get_future();
    tell([=](hand& h) {
      h.call<Method>(to, o, fill)
          .then(
              [=](typename Method::result r) {
                read(r);
                done->set_value({});
              },
              [=](const failure& why) { done->set_value(why); });
    });
    return result;
  }

  /// Without a session it owes nothing but its base line.
  ::testing::AssertionResult is_at_base_line() {
    node_stats s;
    auto is_so = [&] {
      s = node_->stats();
      return s.sessions == 0 && s.liability - s.pinned == s.base_line && s.outbound == 0;
    };
    if (eventually(is_so))
      return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << "sessions " << s.sessions << ", liability " << s.liability << " (pinned " << s.pinned
           << "), base line " << s.base_line << ", outbound " << s.outbound;
  }

private:
  static std::unique_ptr<caf::actor_system_config> make_config() {
    init_types<caf::id_block::weir_process_test>();
    auto c = std::make_unique<caf::actor_system_config>();
    c->set(caf_key("scheduler.max-threads"), 2);
    set_caf_policy(*c, "sharing");
    return c;
  }

  std::unique_ptr<caf::actor_system_config> config_;
  caf::actor_system system_;
  std::unique_ptr<weir::node> node_;
  caf::actor hand_;
};

// ---- services

using echo = weir::method<&Probe::Client::echoRequest>;
using throws = weir::method<&Probe::Client::throwsRequest>;
using ignore = weir::method<&Probe::Client::ignoreRequest>;
using keep = weir::method<&Probe::Client::keepRequest>;
using reply = weir::method<&Probe::Client::replyRequest>;
using nest = weir::method<&Probe::Client::nestRequest>;

class probe : public weir::service<Probe> {
public:
  using service::service;
  /// `other`: the service that `nest` calls; looked up when both are served.
  probe(caf::actor_config& c, std::shared_ptr<ref<Probe>> other) : service(c), other_(std::move(other)) {}

  handlers make_handlers() override {
    return {on<echo>([](echo::in in, echo::out out) { out.setData(in.getData()); }),
            on<throws>([](throws::in, throws::out) { throw std::runtime_error{"as it was told"}; }),
            on<ignore>([](const weir::request<ignore>&) {}),
            on<keep>([this](const weir::request<keep>& rq) { kept_.push_back(rq); }),
            on<reply>([](reply::in in, reply::out out) { out.initData(in.getSize()); }),
            on<nest>([this](const weir::request<nest>& rq) { go_deeper(rq); })};
  }

private:
  void go_deeper(weir::request<nest> rq) {
    auto depth = rq.params().getDepth();
    if (depth == 0)
      return rq.reply([](nest::out out) { out.setDepth(0); });
    call<nest>(*other_,
               [&](nest::args a) {
                 a.setDepth(depth - 1);
                 a.setData(rq.params().getData());
               })
        .then(
            [rq](nest::result r) mutable {
              rq.reply([&](nest::out out) { out.setDepth(r.getDepth() + 1); });
            },
            [rq](const failure& why) mutable { rq.fail(why); });
  }

  std::shared_ptr<ref<Probe>> other_;
  std::vector<weir::request<keep>> kept_;
};

inline auto data_of(size_t bytes) {
  return [bytes](auto args) { args.initData(static_cast<unsigned>(bytes)); };
}

/// What a sink has seen, for any thread.
struct seen {
  std::atomic<uint64_t> messages{0}, bytes{0}, wrong{0}, finished{0}, ended{0}, lost{0};
};

/// Checks order and size; what else happens to a message is up to `then`.
class catcher : public weir::sink<Piece> {
public:
  using action = std::function<void(weir::inlet<Piece>&, Piece::Reader)>;
  catcher(caf::actor_config& c, std::shared_ptr<seen> s, action then = {})
      : sink(c), seen_(std::move(s)), then_(std::move(then)) {}

  void on_message(weir::inlet<Piece> from, Piece::Reader p) override {
    if (p.getNumber() + 1 != from.messages())
      ++seen_->wrong;
    seen_->bytes += p.getData().size();
    if (then_)
      then_(from, p);
    ++seen_->messages;
  }
  void on_finished(weir::inlet<Piece>) override { ++seen_->finished; }
  void on_ended(weir::inlet<Piece>, const failure& why) override {
    ++(why.code == errc::none ? seen_->ended : seen_->lost);
  }

private:
  std::shared_ptr<seen> seen_;
  action then_;
};

/// Streams `messages` pieces of `bytes` as fast as it may; `sent` counts along.
class pourer : public weir::actor {
public:
  struct result {
    std::promise<failure> end; ///< none when the end was confirmed
    std::atomic<uint64_t> sent{0};
    uint64_t consumed = 0;
  };
  pourer(caf::actor_config& c, const ref<Piece>& to, uint64_t messages, size_t bytes,
         std::shared_ptr<result> r)
      : actor(c), out_(this, to), messages_(messages), bytes_(bytes), result_(std::move(r)) {}

  caf::behavior make_behavior() override {
    out_.on_credit([this] { go_on(); });
    out_.on_failure([this](const failure& why) { finish(why); });
    return actor::make_behavior();
  }

private:
  void go_on() {
    while (result_->sent < messages_ && out_.offer([this](Piece::Builder p) {
      p.setNumber(result_->sent);
      p.initData(static_cast<unsigned>(bytes_));
    }))
      ++result_->sent;
    if (result_->sent < messages_)
      return;
    out_.close().then(
        [this](uint64_t consumed) {
          result_->consumed = consumed;
          finish({});
        },
        [this](const failure& why) { finish(why); });
  }
  void finish(const failure& why) {
    result_->end.set_value(why);
    quit();
  }

  weir::outlet<Piece> out_;
  uint64_t messages_;
  size_t bytes_;
  std::shared_ptr<result> result_;
};

/// Starts a stream from `m`.
inline std::shared_ptr<pourer::result> pour(machine& m, const ref<Piece>& to, uint64_t messages,
                                            size_t bytes) {
  auto r = std::make_shared<pourer::result>();
  m.node().spawn<pourer>(to, messages, bytes, r);
  return r;
}

/// Waits for its end: all of it must have been consumed.
inline void expect_poured(const std::shared_ptr<pourer::result>& r, uint64_t messages,
                          process::limit within = process::patience) {
  auto end = r->end.get_future();
  ASSERT_EQ(end.wait_for(within), std::future_status::ready)
      << "stuck after " << r->sent << " of " << messages;
  EXPECT_EQ(end.get(), failure{});
  EXPECT_EQ(r->consumed, messages);
}

} // namespace weir::test
