#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <weir/errc.hpp>

namespace weir::settings {

/// One `key = value` of a config file.
struct file_entry {
  std::string section; ///< empty before the first section
  std::string key;
  std::string value; ///< as it stands there: without comment and outer blanks, with its quotes
  size_t line = 0;
};

constexpr size_t
    config_file_bytes_max = 1 << 20; ///< nobody writes more by hand; a wrong path (a log, a device) ends here

/// The whole file. Errors: io_error with a line that names it.
result<std::string> read_config_file(const std::string& path);

/// Splits `text` into its entries; `path` is for errors: bad_option with "path:line: words". Knows no option.
result<std::vector<file_entry>> split_config_file(std::string_view text, std::string_view path);

} // namespace weir::settings
