#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace wordcount {

/// What `wc -l -w -c` counts in the C locale.
struct totals {
  uint64_t lines = 0, words = 0, bytes = 0;
};

/// The white space of the C locale, which is ASCII: no locale is asked.
constexpr bool is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool is_printable(unsigned char c) { return c > ' ' && c < 0x7f; }
constexpr bool is_letter(unsigned char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/// How often each word occurs, a word being a run of letters: `tr -cs A-Za-z '\n' | sort | uniq -c`.
class vocabulary {
public:
  void add(std::string_view word, uint64_t count = 1) {
    auto i = counts_.find(word);
    if (i == counts_.end())
      i = counts_.emplace(std::string{word}, 0).first;
    i->second += count;
  }
  size_t size() const { return counts_.size(); }

  using entry = std::pair<std::string, uint64_t>;
  std::vector<entry> in_order() const {
    std::vector<entry> all{counts_.begin(), counts_.end()};
    std::sort(all.begin(), all.end());
    return all;
  }
  /// The `n` most frequent, equal ones in the order of the alphabet: `sort -k1,1nr -k2,2`.
  std::vector<entry> most_frequent(size_t n) const {
    auto all = in_order();
    std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.second > b.second; });
    all.resize(std::min(n, all.size()));
    return all;
  }

private:
  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, uint64_t, hash, std::equal_to<>> counts_;
};

/// Counts text that comes in pieces.
class counter {
public:
  /// `more`: the next piece goes on in the middle of a word; else a word that is open ends here.
  void feed(std::string_view text, bool more) {
    count_totals(text);
    count_words(text, more);
    if (!more)
      in_word_ = false;
  }
  const totals& sum() const { return sum_; }
  const vocabulary& words() const { return words_; }
  /// Runs of more letters than `letters_max`: counted in the totals, but not in the vocabulary.
  uint64_t long_words() const { return long_words_; }

  static constexpr size_t letters_max = 4096;

private:
  /// As coreutils' wc: a word is what stands between white space and has at least one printable character.
  void count_totals(std::string_view text) {
    sum_.bytes += text.size();
    for (unsigned char c : text) {
      if (is_space(c)) {
        in_word_ = false;
        sum_.lines += c == '\n';
      } else if (is_printable(c)) {
        sum_.words += !in_word_;
        in_word_ = true;
      }
    }
  }
  void count_words(std::string_view text, bool more) {
    while (!text.empty()) {
      auto end = std::find_if_not(text.begin(), text.end(), is_letter);
      add_letters(text.substr(0, end - text.begin()));
      if (end == text.end())
        break;
      end_word();
      text.remove_prefix(std::find_if(end, text.end(), is_letter) - text.begin());
    }
    if (!more)
      end_word();
  }
  void add_letters(std::string_view letters) {
    letters_ += letters.size();
    open_.append(letters.substr(0, letters_max + 1 - std::min(open_.size(), letters_max + 1)));
  }
  void end_word() {
    if (letters_ > letters_max)
      ++long_words_;
    else if (letters_ > 0)
      words_.add(open_);
    letters_ = 0;
    open_.clear();
  }

  totals sum_;
  vocabulary words_;
  uint64_t long_words_ = 0, letters_ = 0;
  std::string open_; // the letters of the word that has not ended
  bool in_word_ = false;
};

} // namespace wordcount
