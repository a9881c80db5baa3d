#pragma once
#include <cstdint>
#include <functional>
#include <type_traits>

#include <capnp/any.h>
#include <capnp/capability.h>
#include <capnp/schema.h>

namespace weir {

namespace detail {

struct method_id {
  uint64_t interface = 0;
  uint16_t method = 0;
};
/// What `use` asks of the client it is given. Source: the generated `xxxRequest` functions, which pass both
/// to their hook.
method_id record_method(const std::function<void(kj::Own<capnp::ClientHook>)>& use);

template <class Member>
struct method_traits;
template <class Client, class Params, class Results>
struct method_traits<capnp::Request<Params, Results> (Client::*)(kj::Maybe<capnp::MessageSize>)> {
  using client = Client;
  using interface = typename Client::Calls;
  using params = Params;
  using results = Results;
};

/// The id of a struct type; of implicit parameter structs, too.
template <class T>
constexpr uint64_t type_id() {
  return capnp::typeId<T>();
}

} // namespace detail

/// A method of a Cap'n Proto interface, named by its generated request function: stock capnp output is all it
/// needs.
///
///     using add = weir::method<&Calculator::Client::addRequest>;
template <auto Request>
struct method {
  using traits = detail::method_traits<decltype(Request)>;
  using interface = typename traits::interface;
  using params = typename traits::params;
  using results = typename traits::results;

  using args = typename params::Builder;   ///< what a caller fills in
  using in = typename params::Reader;      ///< what a handler reads
  using out = typename results::Builder;   ///< what a handler fills in
  using result = typename results::Reader; ///< what a caller reads

  static const detail::method_id& id() {
    static const auto known = detail::record_method([](kj::Own<capnp::ClientHook> hook) {
      typename traits::client client{kj::mv(hook)};
      (client.*Request)(nullptr);
    });
    return known;
  }
};

} // namespace weir
