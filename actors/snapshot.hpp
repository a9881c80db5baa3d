#pragma once
#include <cstddef>
#include <vector>

#include "actors/snapshot.capnp.h"

namespace weir::actors {

class link;
class local_conversation;
class loop;
class session;

/// Looks at what lives on one loop and changes nothing but this: credit that came back is collected, so that
/// what is still out is exact. On the loop; a few ms when there are 10^5 sessions.
class onlooker {
public:
  /// Fills in `to`: at most `listed_max` links and as many sessions, who waits longest first.
  static void look(loop& at, snapshot::Loop::Builder to, size_t listed_max);

private:
  struct seen;
  static seen see(session& s);
  static void show(session& s, const seen& what, snapshot::Session::Builder to);
  static void show_remote(session& s, snapshot::Session::Builder to);
  static void show_local(session& s, snapshot::Session::Builder to);
  static void show_users(session& s, snapshot::Session::Builder to);
  static void show(link& l, snapshot::Link::Builder to);
  static void show_serving(const std::vector<seen>& sessions, snapshot::Loop::Builder to);
};

} // namespace weir::actors
