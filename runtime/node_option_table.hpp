#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <weir/errc.hpp>
#include <weir/options.hpp>

#include "runtime/machine.hpp"

namespace weir::settings {

enum class shape : uint8_t { text, uris, count, bytes, time, level, when_full };

/// One row of the table that reading, checking, `--help` and `--dump-config` share.
struct node_option {
  using field_pointer = std::variant<std::string node_options::*, std::vector<std::string> node_options::*,
                                     uint64_t node_options::*, uint32_t node_options::*,
                                     std::chrono::nanoseconds node_options::*, log_level node_options::*,
                                     weir::when_full node_options::*>;

  std::string_view name; ///< without category
  field_pointer field;
  enum shape shape;
  std::string_view help;
  uint64_t least = 0, most = 0; ///< in bytes, items, nanoseconds, or bytes of a text
  std::string_view chosen = {}; ///< what a 0 (or an empty text) is replaced by; empty: 0 has no such meaning
  bool may_be_infinite = false, may_be_automatic = false;
};

/// Every field of node_options, in its order.
std::span<const node_option> node_option_table();

/// "16KiB to 1GiB, or inf"; empty for a list.
std::string show_limits(const node_option& row);

/// Reads `text` into its field. Errors: not a value of that shape, or out of range; they do not name the
/// option.
result<void> set(node_options& o, const node_option& row, std::string_view text);
/// The field as `set` reads it, quoted where a file needs that.
std::string show(const node_options& o, const node_option& row);
/// What is wrong with the field by itself; empty: nothing.
std::string complaint_about(const node_options& o, const node_option& row);

/// An option that is wrong, and how.
struct fault {
  std::string_view option; ///< without category
  std::string text;
};

/// `validate` for machine `m`, with the option apart from the words.
std::optional<fault> resolve_and_check(node_options& o, const machine& m);

} // namespace weir::settings
