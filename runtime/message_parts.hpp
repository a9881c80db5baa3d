#pragma once
#include <weir/message.hpp>

#include "actors/credit.hpp"
#include "net/message.hpp"
#include "net/wire.capnp.h"

namespace weir::detail {

struct message_out::parts {
  explicit parts(size_t expected_bytes) : builder(expected_bytes) {}
  net::message_builder builder;
  wire::Envelope::Builder envelope{nullptr};
};

/// A message with the reader that reads it; the memory goes last.
struct kept_message::parts {
  explicit parts(actors::delivery d) : owner(std::move(d)), reader(owner.view().words, owner.view().count) {}
  actors::delivery owner;
  mutable message_in reader;
};

} // namespace weir::detail
