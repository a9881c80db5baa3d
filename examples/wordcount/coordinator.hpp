#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <weir/node.hpp>

#include "files.hpp"
#include "worker.hpp"

namespace wordcount {

/// What a run has found out.
struct outcome {
  struct part {
    uint64_t chunks_sent = 0, chunks_consumed = 0, chunks_counted = 0;
    uint64_t bytes_sent = 0;
    uint64_t peak_bytes = 0;
    totals sum;
  };
  std::vector<part> parts; ///< by worker
  totals sum;
  vocabulary words;
  uint64_t long_words = 0;
  uint64_t bytes_read = 0;
  std::string failed; ///< why it could not end; empty when it did

  /// Chunks that were sent and not counted, or bytes that were read and not counted.
  bool lost() const {
    for (auto& p : parts)
      if (p.chunks_sent != p.chunks_consumed || p.chunks_sent != p.chunks_counted)
        return true;
    return sum.bytes != bytes_read;
  }
};

/// Reads the files, gives each worker as much as it has credit for, and collects the counts. It reads files,
/// so it is spawned `detached`, on a thread of its own.
class coordinator : public weir::actor {
public:
  struct worker {
    weir::ref<Chunk> counting;
    weir::ref<Totals> totals;
  };
  /// Calls `progress` with the bytes that were read, now and then. `result` is complete when this actor has
  /// ended.
  coordinator(caf::actor_config& c, const std::vector<worker>& workers, piece_reader files,
              std::function<void(uint64_t)> progress, outcome* result)
      : actor(c), files_(std::move(files)), progress_(std::move(progress)), result_(result) {
    result_->parts.resize(workers.size());
    for (auto& w : workers)
      lines_.push_back(std::make_unique<line>(this, w));
  }

  caf::behavior make_behavior() override {
    for (size_t i = 0; i < lines_.size(); ++i) {
      auto& l = *lines_[i];
      l.out.on_credit([this, &l] {
        l.has_credit = true;
        workers_ready_ += !std::exchange(l.is_open, true);
        if (workers_ready_ == lines_.size()) // or the first one would get all of a small input
          feed();
      });
      l.out.on_failure([this, i](const weir::failure& why) { fail(i, why); });
    }
    return actor::make_behavior();
  }

private:
  struct line {
    line(coordinator* self, const worker& w) : out(self, w.counting), totals(w.totals) {}
    weir::outlet<Chunk> out;
    weir::ref<Totals> totals;
    bool is_open = false, has_credit = false;
  };

  // ---- sending

  void feed() {
    try {
      while (!read_all_ && (has_piece_ || read_piece())) {
        auto* l = next_line();
        if (!l)
          return; // on_credit goes on
        if (!offer(*l))
          l->has_credit = false;
      }
    } catch (const input_error& e) {
      return give_up(e.what());
    }
    close_all();
  }
  bool read_piece() {
    inside_ = piece_.more;
    has_piece_ = files_.next(piece_);
    read_all_ = !has_piece_;
    result_->bytes_read = files_.bytes_read();
    progress_(result_->bytes_read);
    return has_piece_;
  }
  /// Who gets the piece: the next one that has credit; the last one when the piece goes on with a word.
  line* next_line() {
    for (size_t n = 0; n < lines_.size(); ++n) {
      auto i = inside_ ? last_ : (last_ + 1 + n) % lines_.size();
      if (lines_[i]->has_credit) {
        last_ = i;
        return lines_[i].get();
      }
      if (inside_)
        return nullptr;
    }
    return nullptr;
  }
  bool offer(line& l) {
    bool taken = l.out.offer([this](Chunk::Builder c) {
      c.setText({reinterpret_cast<const kj::byte*>(piece_.text.data()), piece_.text.size()});
      c.setMore(piece_.more);
    });
    if (!taken)
      return false;
    ++result_->parts[last_].chunks_sent;
    result_->parts[last_].bytes_sent += piece_.text.size();
    has_piece_ = false;
    return true;
  }

  // ---- collecting

  void close_all() {
    if (std::exchange(closed_, true))
      return;
    for (size_t i = 0; i < lines_.size(); ++i)
      lines_[i]->out.close().then(
          [this, i](uint64_t consumed) {
            result_->parts[i].chunks_consumed = consumed;
            ask_totals(i);
          },
          [this, i](const weir::failure& why) { fail(i, why); });
  }
  void ask_totals(size_t i) {
    call<read_totals>(lines_[i]->totals, [](read_totals::args) {})
        .then(
            [this, i](read_totals::result r) {
              auto& p = result_->parts[i];
              p.chunks_counted = r.getChunks();
              p.peak_bytes = r.getPeakBytes();
              p.sum = {r.getLines(), r.getWords(), r.getBytes()};
              result_->sum.lines += p.sum.lines;
              result_->sum.words += p.sum.words;
              result_->sum.bytes += p.sum.bytes;
              result_->long_words += r.getLongWords();
              ask_words(i, 0);
            },
            [this, i](const weir::failure& why) { fail(i, why); });
  }
  void ask_words(size_t i, uint64_t first) {
    call<read_words>(lines_[i]->totals, {.reply_room_bytes = 2 * totals_service::page_bytes},
                     [first](read_words::args a) { a.setFirst(first); })
        .then(
            [this, i, first](read_words::result r) {
              for (auto w : r.getWords())
                result_->words.add({w.getWord().begin(), w.getWord().size()}, w.getCount());
              auto next = first + r.getWords().size();
              if (next < r.getAll() && r.getWords().size() > 0)
                ask_words(i, next);
              else if (++workers_done_ == lines_.size())
                quit();
            },
            [this, i](const weir::failure& why) { fail(i, why); });
  }

  void fail(size_t worker, const weir::failure& why) {
    give_up(fmt::format("worker {}: {}", worker + 1, to_string(why)));
  }
  void give_up(std::string why) {
    if (result_->failed.empty())
      result_->failed = std::move(why);
    quit();
  }

  piece_reader files_;
  piece_reader::piece piece_;
  bool has_piece_ = false, inside_ = false, read_all_ = false, closed_ = false;
  std::vector<std::unique_ptr<line>> lines_;
  size_t last_ = 0, workers_ready_ = 0, workers_done_ = 0;
  std::function<void(uint64_t)> progress_;
  outcome* result_;
};

} // namespace wordcount
