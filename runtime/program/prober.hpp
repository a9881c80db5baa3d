#pragma once
#include <memory>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <capnp/message.h>

#include <weir/config.hpp>
#include <weir/node.hpp>

#include "actors/snapshot.capnp.h"

namespace weir::program {

/// What a node said of itself.
class seen_node {
public:
  explicit seen_node(snapshot::Snapshot::Reader of) { message_->setRoot(of); }
  snapshot::Snapshot::Reader get() const { return message_->getRoot<snapshot::Snapshot>().asReader(); }

private:
  std::shared_ptr<capnp::MallocMessageBuilder> message_ = std::make_shared<capnp::MallocMessageBuilder>();
};

/// Asks running nodes. One per program run; on the main thread.
class prober {
public:
  prober(caf::actor_system& sys, const config& cfg) : node_(sys, cfg) {}
  /// Waits for the answer, at most `connect-timeout` and `call-timeout`. Errors: bad_uri, and all that a call
  /// can end with.
  result<seen_node> look(const std::string& uri);

private:
  node node_;
};

/// The error as one line that says what to do next.
std::string advice(const std::string& uri, const failure& why);

/// The options that a program that only looks needs: nothing of its own on stderr, no listening.
void set_defaults(node_options& o);

/// 0: go on. Else the exit status, after `--help`, or 2 with a line on stderr: options that are wrong, or not
/// exactly one argument.
struct parsed {
  bool go_on = false;
  int status = 0;
};
parsed parse_command(config& cfg, const std::string& command, const std::string& argument, int argc,
                     char** argv);

/// "12.3 s", "4 ms".
std::string show_time(uint64_t nanos);
/// "1.2 MiB".
std::string show_size(uint64_t bytes);

/// Rows of cells as aligned columns, two blanks between them; numbers to the right. The first row is the
/// head.
std::string table(const std::vector<std::vector<std::string>>& rows);

} // namespace weir::program
