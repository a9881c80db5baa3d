#include <weir/method.hpp>

namespace weir::detail {

namespace {

/// Thrown through generated code, which has nothing to clean up: there is no request to return.
struct recorded {};

class recording_hook final : public capnp::ClientHook, public kj::Refcounted {
public:
  explicit recording_hook(method_id& to) : to_(to) {}
  capnp::Request<capnp::AnyPointer, capnp::AnyPointer> newCall(uint64_t interface, uint16_t method,
                                                               kj::Maybe<capnp::MessageSize>) override {
    to_ = {interface, method};
    throw recorded{};
  }
  VoidPromiseAndPipeline call(uint64_t, uint16_t, kj::Own<capnp::CallContextHook>&&) override {
    throw recorded{};
  }
  kj::Maybe<ClientHook&> getResolved() override { return nullptr; }
  kj::Maybe<kj::Promise<kj::Own<ClientHook>>> whenMoreResolved() override { return nullptr; }
  kj::Own<ClientHook> addRef() override { return kj::addRef(*this); }
  const void* getBrand() override { return nullptr; }
  kj::Maybe<int> getFd() override { return nullptr; }

private:
  method_id& to_;
};

} // namespace

method_id record_method(const std::function<void(kj::Own<capnp::ClientHook>)>& use) {
  method_id id;
  try {
    use(kj::refcounted<recording_hook>(id));
  } catch (const recorded&) {
    return id;
  }
  return id;
}

} // namespace weir::detail
