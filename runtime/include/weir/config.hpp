#pragma once
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor_system_config.hpp>
#include <caf/error.hpp>

#include <weir/errc.hpp>
#include <weir/options.hpp>

namespace weir {

/// A number of bytes, as the type of an option of your own: it is written `64k`, `16MiB` or `1g`.
struct byte_size {
  uint64_t value = 0;
  friend auto operator<=>(const byte_size&, const byte_size&) = default;
};

/// The configuration of a program: the options of weir, of CAF and of your own, read from (in rising
/// priority) their defaults, a file (`--config FILE` or `WEIR_CONFIG`), the environment (`WEIR_RATION=64k`)
/// and the command line
/// (`--weir.ration=64k`, `--ration=64k` or `--ration 64k`). The file (runtime/CONFIG.md has all of it):
///
///     # a comment
///     [weir]
///     listen = tcp://[::]:7000-7010, unix:///run/calculator.sock
///     ration = 256KiB
///     [caf]
///     scheduler.max-threads = 2
///     [calculator]                    # your own
///     precision = 10
///
/// Nothing is ignored: an unknown option, key or WEIR_ variable is an error that names it and suggests the
/// nearest name. Options of your own: derive and add them in the constructor; `WEIR_MAIN()` (weir/main.hpp)
/// takes the derived class from the signature of `caf_main`.
///
///     struct my_config : weir::config {
///       int precision = 10;
///       my_config() { add_option("calculator.precision", "digits that are kept", precision, 1, 100); }
///     };
///     void caf_main(caf::actor_system& sys, const my_config& cfg);
///     WEIR_MAIN()
///
/// Owner: main; outlives the actor system. Not thread-safe before `load` has returned, immutable afterwards.
class config : public caf::actor_system_config {
public:
  config();
  config(const config&) = delete; // options point into it
  config& operator=(const config&) = delete;
  ~config() override;

  // ---- before load

  /// One sentence that `--help` begins with.
  void about(std::string summary);

  /// What holds for weir's options where no source says otherwise, for a program that needs other defaults.
  node_options& defaults();

  /// Adds an option: `name` is `section.key` or `key`, small letters, digits and dashes; `value` is its
  /// default until `load`, which changes it only when a source names the option. `value` must outlive this
  /// object. Preconditions: the name is new, and so is its environment variable (WEIR_CALCULATOR_PRECISION).
  void add_option(const std::string& name, const std::string& help, bool& value);
  void add_option(const std::string& name, const std::string& help, double& value);
  void add_option(const std::string& name, const std::string& help, std::string& value);
  void add_option(const std::string& name, const std::string& help, std::vector<std::string>& value);
  void add_option(const std::string& name, const std::string& help, byte_size& value, byte_size least = {0},
                  byte_size most = {infinite - 1});
  template <std::integral T>
  void add_option(const std::string& name, const std::string& help, T& value,
                  std::type_identity_t<T> least = std::numeric_limits<T>::min(),
                  std::type_identity_t<T> most = std::numeric_limits<T>::max());
  /// A time that is not negative, in whole units of `value`.
  template <class Rep, class Period>
  void add_option(const std::string& name, const std::string& help,
                  std::chrono::duration<Rep, Period>& value);

  // ---- load

  enum class action : uint8_t {
    run,
    exit_ok, ///< `--help` or `--dump-config` was there and is printed: nothing is left to do
  };

  /// Reads all sources and validates. Call it once. Errors: bad_option or io_error, one line that names the
  /// option, key or variable and where it stands. `argv[0]` is the program's name.
  result<action> load(int argc, const char* const* argv);
  using caf::actor_system_config::load; // CAF's is another: it loads modules

  /// Valid after `load`.
  const node_options& options() const;
  /// What was on the command line besides options, in order; everything behind `--`.
  const std::vector<std::string>& arguments() const;

  /// What `--help` prints.
  std::string help_text() const;
  /// What `--dump-config` prints: every value, and where it is from, as a file that `--config` reads.
  std::string dump() const;

  // ---- for CAF_MAIN

  /// `load` for CAF_MAIN, which calls it instead of CAF's own, wraps our line in its words and exits with 1:
  /// prefer WEIR_MAIN.
  caf::error parse(int argc, char** argv, const char* ignored = nullptr);
  bool helptext_printed() const { return cli_helptext_printed; }
  bool cli_helptext_printed = false;

private:
  struct state;

  void add_integer(const std::string& name, const std::string& help, int64_t least, int64_t most,
                   std::function<void(int64_t)> set, std::function<int64_t()> get);
  void add_duration(const std::string& name, const std::string& help, std::chrono::nanoseconds unit,
                    std::function<void(std::chrono::nanoseconds)> set,
                    std::function<std::chrono::nanoseconds()> get);
  void add_caf_options();
  result<void> set_caf_option(const std::string& full_name, const std::string& type, std::string_view text);

  std::unique_ptr<state> state_;
};

template <std::integral T>
void config::add_option(const std::string& name, const std::string& help, T& value,
                        std::type_identity_t<T> least, std::type_identity_t<T> most) {
  constexpr auto top = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  auto bounded = static_cast<uint64_t>(most) > top && most > 0 ? std::numeric_limits<int64_t>::max()
                                                               : static_cast<int64_t>(most);
  add_integer(
      name, help, static_cast<int64_t>(least), bounded, [&value](int64_t v) { value = static_cast<T>(v); },
      [&value] { return static_cast<int64_t>(value); });
}

template <class Rep, class Period>
void config::add_option(const std::string& name, const std::string& help,
                        std::chrono::duration<Rep, Period>& value) {
  using std::chrono::duration_cast, std::chrono::nanoseconds;
  using unit = std::chrono::duration<Rep, Period>;
  add_duration(
      name, help, duration_cast<nanoseconds>(unit{1}),
      [&value](nanoseconds v) { value = duration_cast<unit>(v); },
      [&value] { return duration_cast<nanoseconds>(value); });
}

} // namespace weir
