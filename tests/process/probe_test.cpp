// `weir probe` and `weir why`: what they say about nodes where something is stuck.
#include <deque>
#include <future>

#include <boost/json.hpp>
#include <gmock/gmock.h>

#include "runtime/program/services.capnp.h"
#include "tests/process/machine.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;
using program::Report, program::Source;
using testing::HasSubstr;

using node_reset = weir::method<&Report::Client::resetRequest>;
using node_start = weir::method<&Source::Client::startRequest>;

json::object parsed(const process::ending& from) {
  EXPECT_EQ(from.status, 0) << from.err;
  json::error_code error;
  auto value = json::parse(from.out, error);
  EXPECT_TRUE(!error && value.is_object()) << from.out;
  return value.is_object() ? value.get_object() : json::object{};
}
json::object probe_of(const std::string& uri) { return parsed(run({WEIR_PROGRAM, "probe", "--json", uri})); }
json::object why_of(const std::string& service, const std::string& uri) {
  return parsed(run({WEIR_PROGRAM, "why", service, "--at", uri, "--json"}));
}
std::string text(const json::value& v) { return std::string{v.as_string()}; }

/// The first session to `service`, or nothing.
std::optional<json::object> session_to(const std::string& service, const json::object& node) {
  for (auto& loop : node.at("loops").as_array())
    for (auto& s : loop.at("sessions").as_array())
      if (text(s.at("service")) == service)
        return s.as_object();
  return {};
}
json::object service_named(const std::string& name, const json::object& node) {
  for (auto& s : node.at("services").as_array())
    if (text(s.at("name")) == name)
      return s.as_object();
  ADD_FAILURE() << "no service " << name;
  return {};
}
/// Options of a node that is stuck on purpose: nothing of it would drain.
node_options hasty(node_options o = {}) {
  o.drain_timeout = 100ms;
  return o;
}
double number(const json::value& v) { return v.to_number<double>(); }

/// `weir node` whose sink never gets on, and another whose source streams to it.
void expect_blocked_stream_on_both_sides(const std::string& option, double messages_at_least) {
  process to{{WEIR_PROGRAM, "node", "--listen", "tcp://127.0.0.1:0", "--node.placement=scheduler",
              "--ration=1MiB", option}};
  process from{{WEIR_PROGRAM, "node", "--listen", "tcp://127.0.0.1:0", "--name=from"}};
  auto to_uri = to.ready(), from_uri = from.ready();
  machine client{hasty()};
  auto never = [](node_reset::args a) { a.setDelayNanos(3'600'000'000'000); };
  ASSERT_EQ(client.call<node_reset>(client.node().lookup<Report>("report", to_uri), never), failure{});
  auto source = client.node().lookup<Source>("source", from_uri);
  auto started = client.start<node_start>(
      source, {},
      [=](node_start::args a) {
        a.setUri(to_uri);
        a.setTo("sink");
        a.setMessages(1'000'000);
        a.setBytes(1000);
      },
      [](auto) {});

  std::optional<json::object> out;
  ASSERT_TRUE(eventually([&] {
    out = session_to("sink", probe_of(from_uri));
    return out && out->at("blocked").as_bool() && text(out->at("blockedBy")) == "service" &&
           number(out->at("blockedNanos")) > 100e6;
  }));
  EXPECT_EQ(text(out->at("direction")), "opened");
  EXPECT_EQ(text(out->at("uri")), to_uri);
  EXPECT_TRUE(out->at("stream").as_bool());
  ASSERT_EQ(out->at("usedBy").as_array().size(), 1u);
  EXPECT_EQ(text(out->at("usedBy").as_array()[0]), "source");
  EXPECT_GE(number(out->at("sent").at("messages")), messages_at_least);

  auto node = probe_of(to_uri);
  auto in = session_to("sink", node);
  ASSERT_TRUE(in);
  EXPECT_EQ(text(in->at("direction")), "accepted");
  EXPECT_EQ(text(in->at("peer")), "from");
  EXPECT_GT(number(in->at("stalledNanos")), 100e6);
  EXPECT_EQ(number(in->at("received").at("messages")), number(out->at("sent").at("messages")));
  auto sink = service_named("sink", node);
  EXPECT_GT(number(sink.at("busyNanos")), 100e6);
  EXPECT_GE(number(sink.at("waitingMessages")), messages_at_least);
  EXPECT_GT(number(node.at("loops").at(0).at("inbound").at("session")), 1 << 20);

  auto tables = run({WEIR_PROGRAM, "probe", from_uri});
  EXPECT_EQ(tables.status, 0);
  EXPECT_THAT(tables.out, HasSubstr("node 'from'"));
  EXPECT_THAT(tables.out,
              testing::ContainsRegex("sink .*stream .*opened .*" + to_uri + ".* service .*source"));
}

TEST(Probe, ShowsABlockedStreamOnBothSides) {
  expect_blocked_stream_on_both_sides("--ration-messages=8192", 100);
}

// Its producer stops before it has a message too many, so the protocol says nothing.
TEST(Probe, ShowsAStreamWhoseMessagesAreUsedUp) {
  expect_blocked_stream_on_both_sides("--ration-messages=16", 16);
}

TEST(Probe, CountsReasonsAndSaysWhatTheNodeIs) {
  auto o = machine::listening();
  o.slow_handler = {}; // a machine that is busy with something else is no reason
  machine server{o}, client;
  auto nobody = client.node().lookup<Probe>("nobody", server.address()); // opens a session at once
  ASSERT_TRUE(eventually([&] { return server.node().stats().reasons.size() == 1; }));
  auto node = probe_of(server.address());
  EXPECT_EQ(client.call<echo>(nobody, data_of(1)).code, errc::no_such_service);
  EXPECT_EQ(json::serialize(node.at("reasons")), R"([{"reason":"no_such_service","times":1}])");
  EXPECT_EQ(text(node.at("cluster")), "weir");
  EXPECT_EQ(text(node.at("addresses").at(0)), server.address());
  EXPECT_EQ(text(node.at("node")).size(), 32u);
  auto mine = server.node().serve<Piece>("weir.probe",
                                         server.node().spawn<catcher>(std::make_shared<seen>()));
  EXPECT_EQ(mine.error().code, errc::bad_option);
  EXPECT_THAT(mine.error().text, HasSubstr("weir's own"));
}

TEST(Probe, M3_ShowsTheLimitsThatAreInForce) {
  machine server{machine::listening()};
  auto option = [&](const std::string& name) {
    auto node = probe_of(server.address());
    for (auto& o : node.at("options").as_array())
      if (text(o.at("name")) == name)
        return text(o.at("value"));
    return std::string{};
  };
  EXPECT_EQ(option("ration"), "auto");
  auto ok = server.node().tune(
      {.ration = 64 << 10, .ration_messages = 77, .budget_bytes = 256 << 20, .fragment = 8 << 10});
  ASSERT_TRUE(ok) << to_string(ok.error());
  EXPECT_EQ(option("ration"), "64KiB");
  EXPECT_EQ(option("ration-messages"), "77");
  EXPECT_EQ(option("budget-bytes"), "256MiB");
  EXPECT_EQ(option("fragment"), "8KiB");
  ASSERT_TRUE(server.node().tune({.ration = infinite}));
  EXPECT_EQ(option("ration"), "inf");
  EXPECT_EQ(server.node().stats().budget, 256u << 20);
}

// Whoever waits for a loop must not keep the actors of that loop from doing the same.
TEST(Probe, M3_LimitsMayBeChangedByThreadsAndActorsAtTheSameTime) {
  auto o = machine::listening();
  o.io_threads = 2;
  machine server{o};
  std::promise<void> done;
  for (int i = 0; i < 200; ++i)
    server.tell([&, i](hand&) {
      EXPECT_TRUE(server.node().tune({.ration = 32 << 10}));
      if (i == 199)
        done.set_value();
    });
  for (int i = 0; i < 200; ++i)
    EXPECT_TRUE(server.node().tune({.ration = 64 << 10}));
  ASSERT_EQ(done.get_future().wait_for(process::patience), std::future_status::ready);
  ASSERT_TRUE(server.node().tune({.ration = 48 << 10}));
  EXPECT_EQ(server.node().options().ration, 48u << 10);
}

TEST(Probe, AnswersWhenTheBudgetIsUsedUp) {
  auto o = machine::listening();
  o.budget_bytes = 16 << 20;
  o.ration = 4 << 20;
  machine server{o}, client;
  auto pass = std::make_shared<seen>();
  ASSERT_TRUE(server.node().serve<Piece>("pieces", server.node().spawn<catcher>(pass)));
  std::vector<ref<Piece>> taken;
  for (int i = 0; i < 8; ++i) // more than there is room for
    taken.push_back(client.node().lookup<Piece>("pieces", server.address()));
  ASSERT_TRUE(eventually([&] { return server.node().stats().refused > 0; }));
  EXPECT_EQ(text(service_named("pieces", probe_of(server.address())).at("name")), "pieces");
}

TEST(Probe, NamesWhatToDoNextWhenItCannotAsk) {
  auto nobody = run({WEIR_PROGRAM, "probe", "tcp://127.0.0.1:1"});
  EXPECT_EQ(nobody.status, 1);
  EXPECT_THAT(nobody.err, HasSubstr("refused; is the node running"));
  auto bad = run({WEIR_PROGRAM, "probe", "127.0.0.1:1"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("an address is tcp://host:port or unix:///path"));
  EXPECT_EQ(run({WEIR_PROGRAM, "probe"}).status, 2);
  EXPECT_EQ(run({WEIR_PROGRAM, "why", "sink"}).status, 2);
  auto o = machine::listening();
  o.cluster = "another";
  o.log_level = log_level::off;
  machine other{o};
  auto refused = run({WEIR_PROGRAM, "probe", other.address()});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("--cluster"));
  EXPECT_EQ(run({WEIR_PROGRAM, "probe", "--cluster=another", other.address()}).status, 0);
}

// ---- why

/// Hands on what it gets; what cannot go on yet stays charged to the stream it came on.
class forwarder : public weir::sink<Piece> {
public:
  forwarder(caf::actor_config& cfg, std::function<ref<Piece>()> to) : sink(cfg), to_(std::move(to)) {}

  void on_message(weir::inlet<Piece> from, Piece::Reader p) override {
    if (!out_) {
      out_ = std::make_unique<outlet<Piece>>(this, to_());
      out_->on_credit([this] { go_on(); });
    }
    if (!waiting_.empty() || !offer(p))
      waiting_.push_back(from.lease());
  }

private:
  bool offer(Piece::Reader p) {
    return out_->offer([&](Piece::Builder b) {
      b.setNumber(p.getNumber());
      b.setData(p.getData());
    });
  }
  void go_on() {
    while (!waiting_.empty() && offer(waiting_.front().get()))
      waiting_.pop_front();
  }
  std::function<ref<Piece>()> to_;
  std::unique_ptr<outlet<Piece>> out_;
  std::deque<held<Piece>> waiting_;
};

TEST(Why, NamesTheSlowSinkBehindAForwarderOnAnotherNode) {
  std::promise<void> end;
  auto ended = end.get_future().share();
  auto pass = std::make_shared<seen>();
  auto stuck_node = hasty(machine::listening());
  machine last{stuck_node}, middle{stuck_node}, first{hasty()};
  auto stuck = [ended](auto&, auto) { ended.wait(); };
  auto slow = last.system().spawn<catcher>(pass, stuck);
  ASSERT_TRUE(last.node().serve<Piece>("slow", slow));
  auto to_slow = [&] { return middle.node().lookup<Piece>("slow", last.address()); };
  ASSERT_TRUE(middle.node().serve<Piece>("forward", middle.node().spawn<forwarder>(to_slow)));
  auto stream = pour(first, first.node().lookup<Piece>("forward", middle.address()), 1'000'000, 1000);

  json::object found;
  EXPECT_TRUE(eventually([&] {
    found = why_of("forward", middle.address());
    return found.at("root").is_object() && text(found.at("root").at("service")) == "slow" &&
           text(found.at("root").at("cause")) == "handler";
  })) << json::serialize(found);
  auto& hops = found.at("chain").as_array();
  EXPECT_EQ(hops.size(), 2u);
  EXPECT_EQ(text(hops.at(0).at("cause")), "waits-for");
  EXPECT_EQ(text(found.at("root").at("uri")), last.address());
  EXPECT_FALSE(found.at("cycle").as_bool());
  auto from_its_user = why_of("slow", middle.address()).at("chain").as_array();
  ASSERT_EQ(from_its_user.size(), 2u);
  EXPECT_EQ(text(from_its_user[0].at("cause")), "elsewhere");
  EXPECT_EQ(text(from_its_user[1].at("cause")), "handler");
  auto words = run({WEIR_PROGRAM, "why", "forward", "--at", middle.address()}).out;
  EXPECT_THAT(words, HasSubstr("'forward' at " + middle.address()));
  EXPECT_THAT(words, HasSubstr("ROOT: its handler has been at work on one batch for "));
  end.set_value();
}

TEST(Why, FindsACycleOfForwarders) {
  auto stuck_node = hasty(machine::listening());
  machine a{stuck_node}, b{stuck_node}, first{hasty()};
  auto to_b = [&] { return a.node().lookup<Piece>("b", b.address()); };
  auto to_a = [&] { return b.node().lookup<Piece>("a", a.address()); };
  ASSERT_TRUE(a.node().serve<Piece>("a", a.node().spawn<forwarder>(to_b)));
  ASSERT_TRUE(b.node().serve<Piece>("b", b.node().spawn<forwarder>(to_a)));
  auto stream = pour(first, first.node().lookup<Piece>("a", a.address()), 1'000'000, 1000);
  json::object found;
  EXPECT_TRUE(eventually([&] {
    found = why_of("a", a.address());
    return found.at("cycle").as_bool();
  })) << json::serialize(found);
  EXPECT_EQ(found.at("chain").as_array().size(), 3u);
}

TEST(Why, SaysThatNothingWaits) {
  machine server{machine::listening()};
  ASSERT_TRUE(server.node().serve<Piece>("pieces", server.node().spawn<catcher>(std::make_shared<seen>())));
  EXPECT_EQ(text(why_of("pieces", server.address()).at("root").at("cause")), "nothing");
  auto unknown = run({WEIR_PROGRAM, "why", "nobody", "--at", server.address()});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("it serves pieces, weir.probe"));
}

} // namespace
} // namespace weir::test
