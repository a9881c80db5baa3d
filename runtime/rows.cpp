#include <kj/exception.h>

#include <weir/rows.hpp>

#include "runtime/actor_core.hpp"
#include "runtime/message_parts.hpp"

namespace weir::detail {

struct rows_core::parts {
  parts(actor& a, uint64_t i, std::shared_ptr<session_guard> s) : self(a), id(i), session(std::move(s)) {}

  /// Gives the session up, if the stream is not over.
  void abort(failure why) {
    if (session)
      put(session->handle(), self.core().self_ptr(), actors::abort_session{std::move(why)});
  }

  actor& self;
  const uint64_t id;
  std::shared_ptr<session_guard> session; // until the end
  uint64_t messages = 0;
  actors::arrivals* batch = nullptr; // while a row of it is being handled
  size_t item = 0;
  bool quiet = false; // no row is wanted any more
};

namespace {

/// What comes of the request: that the stream has begun, or why not.
class opening final : public reply_handler {
public:
  opening(actor& self, uint64_t reader) : self_(self), reader_(reader) {}
  void on_reply(capnp::AnyPointer::Reader) override {}
  void on_failure(const failure& why) override {
    auto told = why;
    if (why.code == errc::wrong_type)
      told = {errc::wrong_type, why.what, "the method answers with one result, not with a stream: call it"};
    self_.core().end_rows(reader_, told);
  }

private:
  actor& self_;
  uint64_t reader_;
};

} // namespace

std::shared_ptr<rows_core> rows_core::open(actor& self, const ref_base& to, const call_options& o,
                                           message_out& m, uint64_t type) {
  auto& core = self.core();
  auto id = core.next_reader();
  auto handle = to.guard()->raw()->sibling(type, {core.self_ptr(), id});
  auto* raw = static_cast<actors::session*>(caf::actor_cast<caf::abstract_actor*>(handle));
  ref_base own{std::make_shared<session_guard>(std::move(handle), raw)};
  auto made = std::make_shared<rows_core>(std::make_unique<parts>(self, id, own.guard()));
  core.add_reader(id, made);
  auto token = core.start_call(own, o, m, stream_begins);
  core.expect(token, std::make_unique<opening>(self, id));
  return made;
}

rows_core::rows_core(std::unique_ptr<parts> p) : parts_(std::move(p)) {}
rows_core::~rows_core() = default;

kept_message rows_core::lease() {
  return kept_message{std::make_unique<kept_message::parts>(parts_->batch->lease(parts_->item))};
}

void rows_core::cancel(failure why) {
  parts_->quiet = true;
  parts_->abort(std::move(why));
}

void rows_core::abandon() {
  cancel({errc::cancelled, outcome::unknown, "the caller has given the stream up"});
  parts_->session = nullptr;
  parts_->self.core().remove_reader(parts_->id);
}

bool rows_core::over() const { return parts_->session == nullptr; }
uint64_t rows_core::messages() const { return parts_->messages; }

void actor_core::add_reader(uint64_t id, const std::shared_ptr<rows_core>& r) { readers_.emplace(id, r); }

void actor_core::end_rows(uint64_t reader, const failure& why) {
  auto i = readers_.find(reader);
  auto r = i == readers_.end() ? nullptr : i->second.lock();
  if (!r)
    return;
  readers_.erase(i);
  auto& p = r->get();
  if (why.code != errc::none)
    p.abort(why);
  p.quiet = true;
  p.session = nullptr;
  if (auto f = std::move(r->on_end))
    f(why, p.messages);
}

void actor_core::on_rows(actors::rows_arrived& m) {
  auto i = readers_.find(m.reader);
  auto r = i == readers_.end() ? nullptr : i->second.lock(); // lives on when its owner drops it in a callback
  for (size_t k = 0; k < m.batch.size(); ++k) {
    if (r && !r->get().quiet)
      take_row(*r, m.batch, k);
    m.batch.release(k);
  }
  if (m.over)
    end_rows(m.reader, m.why);
}

void actor_core::take_row(rows_core& r, actors::arrivals& batch, size_t item) {
  auto& p = r.get();
  p.batch = &batch;
  p.item = item;
  ++p.messages;
  auto& v = batch[item].message;
  message_in in{v.words, v.count};
  try {
    if (r.on_message)
      r.on_message(in.body());
  } catch (const kj::Exception& e) { // foreign bytes that are not what they say: a part is not the whole
    end_rows(p.id, {errc::malformed_message, outcome::unknown, e.getDescription().cStr()});
  }
  p.batch = nullptr;
}

void actor_core::stop_readers() {
  for (auto& [id, weak] : std::exchange(readers_, {}))
    if (auto r = weak.lock())
      r->abandon();
}

} // namespace weir::detail
