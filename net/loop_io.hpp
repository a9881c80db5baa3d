#pragma once
// Asio's side of a loop; included by the few files of net/ that do I/O.
#include <boost/asio/io_context.hpp>

#include "net/loop.hpp"

namespace weir::net {

struct loop::io {
  boost::asio::io_context context{1};
};

} // namespace weir::net
