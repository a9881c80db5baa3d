#pragma once
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "counting.hpp"

namespace wordcount {

/// A file that cannot be read: one line that names it.
class input_error : public std::runtime_error {
public:
  input_error(const std::filesystem::path& at, std::string_view why)
      : std::runtime_error(fmt::format("{}: {}", at.string(), why)) {}
};

/// An open file.
class descriptor {
public:
  explicit descriptor(const std::filesystem::path& at) : fd_(open(at.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0)
      throw input_error{at, std::strerror(errno)};
  }
  ~descriptor() { close(fd_); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const { return fd_; }

private:
  int fd_;
};

struct input_file {
  std::filesystem::path path;
  uint64_t bytes = 0; ///< when it was looked at
};

/// The regular files of `path`, which is one or is a directory, as `find -H path -xtype f` finds them: links
/// to files are followed, links to directories are not, so that there are no loops. Throws input_error.
inline void list_files(const std::filesystem::path& path, std::vector<input_file>& to, bool top = true) {
  namespace fs = std::filesystem;
  std::error_code error;
  auto is = fs::status(path, error);
  if (is.type() == fs::file_type::none || (top && !fs::exists(is)))
    throw input_error{path, error.message()};
  if (fs::is_regular_file(is)) {
    descriptor can_be_read{path};
    to.push_back({path, fs::file_size(path)});
  } else if (fs::is_directory(is) && (top || !fs::is_symlink(path))) {
    fs::directory_iterator i{path, error};
    if (error)
      throw input_error{path, error.message()};
    for (auto& entry : i)
      list_files(entry.path(), to, false);
  } else if (top) {
    throw input_error{path, "neither a file nor a directory"};
  }
}

/// Reads files in pieces that end behind white space. One piece is in memory at a time.
class piece_reader {
public:
  piece_reader(std::vector<input_file> files, size_t piece_bytes)
      : files_(std::move(files)), space_(piece_bytes) {}

  struct piece {
    std::string_view text; ///< valid until the next `next`
    bool more = false;     ///< it ends inside a word
  };
  /// False: that was all. Throws input_error.
  bool next(piece& p) {
    forget_piece();
    for (;; ++at_, in_word_ = false) {
      if (at_ == files_.size())
        return false;
      if (!file_)
        file_ = std::make_unique<descriptor>(files_[at_].path);
      bool end = fill();
      if (used_ > 0 || in_word_) {
        p = cut(end);
        in_word_ = p.more;
        return true;
      }
      file_.reset();
    }
  }
  uint64_t bytes_read() const { return bytes_read_; }

private:
  void forget_piece() {
    std::memmove(space_.data(), space_.data() + cut_, used_ - cut_);
    used_ -= cut_;
    cut_ = 0;
  }
  /// True: the file has no more.
  bool fill() {
    while (used_ < space_.size()) {
      auto n = read(file_->get(), space_.data() + used_, space_.size() - used_);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        throw input_error{files_[at_].path, std::strerror(errno)};
      if (n == 0)
        return true;
      used_ += static_cast<size_t>(n);
      bytes_read_ += static_cast<uint64_t>(n);
    }
    return false;
  }
  piece cut(bool end_of_file) {
    cut_ = used_;
    if (!end_of_file)
      while (cut_ > 0 && !is_space(static_cast<unsigned char>(space_[cut_ - 1])))
        --cut_;
    bool inside = cut_ == 0 && !end_of_file;
    if (inside)
      cut_ = used_; // a word as long as a piece
    return {{space_.data(), cut_}, inside};
  }

  std::vector<input_file> files_;
  std::vector<char> space_;
  size_t at_ = 0, used_ = 0, cut_ = 0;
  uint64_t bytes_read_ = 0;
  bool in_word_ = false;
  std::unique_ptr<descriptor> file_;
};

} // namespace wordcount
