#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include <weir/node.hpp>

#include "counting.hpp"
#include "processes.hpp"
#include "wordcount.capnp.h"

namespace wordcount {

using read_totals = weir::method<&Totals::Client::readRequest>;
using read_words = weir::method<&Totals::Client::wordsRequest>;

/// What the two services of a worker share; one lock per chunk.
struct tally {
  std::mutex mutex;
  counter counts;
  uint64_t chunks = 0;
};

/// Counts what is streamed to it. On CAF's scheduler: counting takes time that a loop has not.
class counting_service : public weir::sink<Chunk> {
public:
  counting_service(caf::actor_config& c, std::shared_ptr<tally> t) : sink(c), tally_(std::move(t)) {}

  void on_message(weir::inlet<Chunk>, Chunk::Reader chunk) override {
    auto text = chunk.getText().asChars();
    std::lock_guard guard{tally_->mutex};
    ++tally_->chunks;
    tally_->counts.feed({text.begin(), text.size()}, chunk.getMore());
  }

private:
  std::shared_ptr<tally> tally_;
};

/// Says what was counted.
class totals_service : public weir::service<Totals> {
public:
  totals_service(caf::actor_config& c, std::shared_ptr<tally> t) : service(c), tally_(std::move(t)) {}

  weir::handlers make_handlers() override {
    return {on<read_totals>([this](read_totals::in, read_totals::out out) { read(out); }),
            on<read_words>([this](read_words::in in, read_words::out out) { page(in.getFirst(), out); })};
  }

  /// Words of one page have about so many bytes.
  static constexpr size_t page_bytes = 32 << 10;

private:
  void read(read_totals::out out) {
    std::lock_guard guard{tally_->mutex};
    auto& sum = tally_->counts.sum();
    out.setLines(sum.lines);
    out.setWords(sum.words);
    out.setBytes(sum.bytes);
    out.setChunks(tally_->chunks);
    out.setLongWords(tally_->counts.long_words());
    out.setPeakBytes(peak_bytes());
  }
  void page(uint64_t first, read_words::out out) {
    if (first == 0) {
      std::lock_guard guard{tally_->mutex};
      in_order_ = tally_->counts.words().in_order();
    }
    auto end = first;
    for (size_t bytes = 0; end < in_order_.size() && bytes < page_bytes; ++end)
      bytes += in_order_[end].first.size() + 32;
    out.setAll(in_order_.size());
    auto words = out.initWords(static_cast<unsigned>(end - std::min(first, end)));
    for (unsigned i = 0; i < words.size(); ++i) {
      words[i].setWord(in_order_[first + i].first);
      words[i].setCount(in_order_[first + i].second);
    }
  }

  std::shared_ptr<tally> tally_;
  std::vector<vocabulary::entry> in_order_;
};

} // namespace wordcount
