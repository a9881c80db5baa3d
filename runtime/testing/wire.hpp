#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/loop.hpp"
#include "net/stream.hpp"
#include "runtime/testing/world.hpp"

namespace weir::testing::detail {

/// A connection in memory: one flow of bytes each way. Both ends and the world share it.
class wire final : public std::enable_shared_from_this<wire> {
public:
  struct piece {
    net::time_point arrives;
    std::vector<std::byte> bytes;
    size_t read = 0;
  };
  struct flow {
    path* over = nullptr;
    std::deque<piece> pieces;
    size_t bytes = 0;         ///< in them, not read yet
    net::time_point last;     ///< arrival of what was written last
    bool closed = false;      ///< by its writer; its reader knows at `last`
    bool end_seen = false;    ///< it knows
    bool reader_gone = false; ///< what is still written goes nowhere
    bool planned = false;     ///< the world comes to look
    std::function<void()> reader, writer;
    std::weak_ptr<actors::loop> reads, writes;
  };

  wire(std::shared_ptr<world> w, uint64_t number, path& there, path& back);

  /// The stream of the end that dialled, then of the one that accepted, on `l`.
  std::unique_ptr<net::stream> dialled_end(net::loop& l);
  std::unique_ptr<net::stream> accepted_end(net::loop& l);

  bool is_between(const std::string& a, const std::string& b) const;
  bool over() const { return cut_ || there_.closed || back_.closed; }
  /// What `from` has written and the other node has not read.
  size_t bytes_from(const std::string& from) const;
  void cut();
  /// Something has changed: wakes whoever may go on.
  void stir();

  // ---- its ends
  net::io_count read(flow& f, std::byte* to, size_t n);
  net::io_count write(flow& f, const iovec* from, int count);
  void when_readable(flow& f, std::function<void()> g);
  void when_writable(flow& f, std::function<void()> g);
  void close(flow& in, flow& out);
  std::string describe() const;

private:
  class end;

  static bool has_room(const flow& f) { return f.bytes < f.over->capacity; }
  flow& opposite(const flow& f) { return &f == &there_ ? back_ : there_; }
  net::time_point readable_at(const flow& f) const;
  net::time_point arrival(flow& f);
  void look(flow& f);
  bool breaks(flow& f);
  void trace(const flow& f, const std::string& what) const;

  const std::shared_ptr<world> world_;
  const uint64_t number_;
  flow there_, back_; // as the dialler sees it
  bool cut_ = false;
};

} // namespace weir::testing::detail
