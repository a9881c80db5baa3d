#include "runtime/probe.hpp"

#include <algorithm>

#include <capnp/message.h>
#include <fmt/format.h>

#include "actors/dispatcher.hpp"
#include "actors/loop.hpp"
#include "actors/snapshot.hpp"

namespace weir {

struct probe_service::pending {
  uint64_t id;
  weir::request<look> asked;
  std::vector<std::shared_ptr<capnp::MallocMessageBuilder>> loops; // null: it has not answered
  size_t missing;
};

handlers probe_service::make_handlers() {
  return {on<look>([this](const weir::request<look>& rq) { begin(rq); })};
}

void probe_service::on_exit() {
  pending_.clear(); // their callers are told
  of_.reset();      // it holds the loop that we live on
  service::on_exit();
}

/// The loops hold no more than a weak pointer: a request dies on the actor that was asked.
void probe_service::begin(const weir::request<look>& rq) {
  auto& loops = of_->env->loops;
  auto wanted = rq.params().getSessionsMax();
  auto listed = std::max<size_t>(1, (wanted == 0 ? listed_max : std::min<uint64_t>(wanted, listed_max)) /
                                        loops.size());
  auto p = std::make_shared<pending>(pending{
      ++last_, rq, std::vector<std::shared_ptr<capnp::MallocMessageBuilder>>(loops.size()), loops.size()});
  pending_.emplace(p->id, p);
  std::weak_ptr<pending> asked = p;
  std::weak_ptr<actors::loop> home = loops[0];
  for (size_t i = 0; i < loops.size(); ++i)
    loops[i]->post([this, asked, home, i, listed, at = loops[i].get()] {
      auto seen = std::make_shared<capnp::MallocMessageBuilder>();
      actors::onlooker::look(*at, seen->initRoot<snapshot::Loop>(), listed);
      if (auto back = home.lock())
        back->post([this, asked, i, seen] {
          auto still = asked.lock();
          if (!still)
            return; // it was answered without us, or we are gone
          still->loops[i] = seen;
          if (--still->missing == 0)
            finish(*still);
        });
    });
  loops[0]->at(loops[0]->now() + patience, [this, asked] {
    if (auto still = asked.lock())
      finish(*still);
  });
}

void probe_service::finish(pending& p) {
  auto kept = pending_.extract(p.id);
  p.asked.reply([&](look::out out) { fill(out.initNode(), p); });
}

void probe_service::fill(snapshot::Snapshot::Builder to, const pending& p) const {
  auto& env = *of_->env;
  to.setName(env.link.node_name);
  to.setNode(to_string(env.link.node));
  to.setCluster(of_->cluster);
  to.setUptimeNanos(static_cast<uint64_t>((env.loops[0]->now() - of_->started).count()));
  auto addresses = of_->addresses();
  auto list = to.initAddresses(static_cast<unsigned>(addresses.size()));
  for (unsigned i = 0; i < addresses.size(); ++i)
    list.set(i, addresses[i]);
  auto values = of_->options();
  auto options = to.initOptions(static_cast<unsigned>(values.size()));
  for (unsigned i = 0; i < values.size(); ++i) {
    options[i].setName(values[i].first);
    options[i].setValue(values[i].second);
  }
  auto loops = to.initLoops(static_cast<unsigned>(p.loops.size()));
  auto late = env.count.late_frames.load();
  for (unsigned i = 0; i < p.loops.size(); ++i) {
    if (!p.loops[i])
      continue;
    loops.setWithCaveats(i, p.loops[i]->getRoot<snapshot::Loop>().asReader());
    for (auto link : loops[i].getLinks())
      late += link.getLateFrames();
  }
  auto counted = env.log->reasons();
  auto reasons = to.initReasons(static_cast<unsigned>(counted.size()));
  for (unsigned i = 0; i < counted.size(); ++i) {
    reasons[i].setReason(to_string(counted[i].code));
    reasons[i].setTimes(counted[i].times);
  }
  to.setLateFrames(late);
  to.setLinksAccepted(env.count.links_accepted);
  to.setLinksDialled(env.count.links_dialled);
  to.setSessionsAccepted(env.count.sessions_accepted);
  to.setSessionsRefused(env.count.sessions_refused);
  fill_services(to);
}

/// The dispatcher lives on our loop. What its services have of their sessions is the sum over all loops.
void probe_service::fill_services(snapshot::Snapshot::Builder to) const {
  auto* names = static_cast<actors::dispatcher*>(caf::actor_cast<caf::abstract_actor*>(of_->env->dispatcher));
  auto& all = names->services();
  auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  auto services = to.initServices(static_cast<unsigned>(all.size()));
  std::multimap<uint64_t, std::string> by_actor;
  unsigned i = 0;
  for (auto& [name, entry] : all) {
    auto one = services[i++];
    auto id = entry.service.id();
    by_actor.emplace(id, name);
    one.setName(name);
    one.setActor(id);
    one.setInterface(fmt::format("{:#x}", entry.interface));
    one.setStream(entry.stream);
    one.setMailboxMessages(entry.mailbox_messages);
    one.setMailboxDealt(entry.dealt);
    if (auto& held = entry.allowance) {
      one.setHeldBytes(held->bytes());
      one.setHeldBytesMax(held->bytes_max());
      one.setHeldMessages(held->messages());
      one.setHeldMessagesMax(held->messages_max());
      auto since = held->busy_since();
      one.setBusyNanos(since == 0 || since > now ? 0 : static_cast<uint64_t>(now - since));
    }
    for (auto loop : to.getLoops())
      for (auto part : loop.getServing())
        if (part.getActor() == id) {
          one.setSessions(one.getSessions() + part.getSessions());
          one.setWaitingMessages(one.getWaitingMessages() + part.getWaitingMessages());
          one.setWaitingBytes(one.getWaitingBytes() + part.getWaitingBytes());
          one.setStalledNanos(std::max(one.getStalledNanos(), part.getStalledNanos()));
        }
  }
  for (auto loop : to.getLoops())
    for (auto session : loop.getSessions()) {
      std::vector<std::string> names_of_users;
      for (auto user : session.getUsers())
        for (auto [at, end] = by_actor.equal_range(user); at != end; ++at)
          names_of_users.push_back(at->second);
      auto used_by = session.initUsedBy(static_cast<unsigned>(names_of_users.size()));
      for (unsigned k = 0; k < names_of_users.size(); ++k)
        used_by.set(k, names_of_users[k]);
    }
}

} // namespace weir
