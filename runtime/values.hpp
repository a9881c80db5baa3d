#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weir/errc.hpp>

/// The texts of options, both ways: what `show_*` returns is read as the same value by `parse_*`. Pure. The
/// errors are bad_option and say what was expected; the caller says where.
namespace weir::settings {

/// A whole number of bytes with k, m, g, KiB, MiB, GiB or TiB (powers of 1024), B or nothing behind it.
result<uint64_t> parse_bytes(std::string_view text);
/// In the largest unit that divides it; `infinite` is "inf", `automatic` "auto".
std::string show_bytes(uint64_t bytes);

/// A whole number with ns, us, ms, s, min or h behind it; 0 needs no unit.
result<std::chrono::nanoseconds> parse_duration(std::string_view text);
/// Precondition: not negative.
std::string show_duration(std::chrono::nanoseconds time);

result<int64_t> parse_integer(std::string_view text);
result<double> parse_number(std::string_view text);
std::string show_number(double number);
result<bool> parse_bool(std::string_view text);

/// `a, b` or `[a, b]`; an item may stand in quotes, and must when it begins with [ or has a comma or a quote.
/// Empty or `[]`: no items.
result<std::vector<std::string>> parse_list(std::string_view text);
std::string show_list(const std::vector<std::string>& items);

/// `text`, or what it stands for when it begins with a double quote. Inside quotes \" \\ \n \r \t are known.
result<std::string> parse_text(std::string_view text);
/// In quotes when it must be, to be read back from a file.
std::string show_text(std::string_view text);

std::string_view trim(std::string_view text);

/// The name that a person who wrote `name` may have meant, or nothing when none is near (edit distance above
/// a third).
std::string nearest(std::string_view name, const std::vector<std::string>& names);

} // namespace weir::settings
