#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "net/errc.hpp"

namespace weir::net {

/// What inbound bytes are owed for.
enum class charge : uint8_t {
  session,    ///< granted and not yet given back
  large,      ///< a message beyond its session's ration
  held,       ///< moved out of a session's charge by `hold()`
  reply_room, ///< paid for replies that have not died yet
};
constexpr size_t charges = 4;
std::string_view to_string(charge c);

struct budget_options {
  uint64_t bytes = uint64_t{1} << 30; ///< default: 25 % of the memory limit, at most 1 GiB
  uint64_t reserve_bytes = 64 << 20;  ///< for one large message at a time, and as much of it again for
                                      ///< replies: half and half
};

/// The inbound ledger of one loop: the sum of what it owes never exceeds the budget. Pure arithmetic, owner:
/// the credit_manager. Invariant: sum of charges + reserve + pinned-as-known <= bytes at the moment of every
/// successful `take`.
class budget {
public:
  explicit budget(const budget_options& o);

  /// True: charged. False: would exceed the budget; nothing changed.
  bool take(charge c, uint64_t bytes);
  /// Precondition: at least that much is charged.
  void give(charge c, uint64_t bytes);
  /// Slab bytes kept alive beyond what is charged in them; measured, so it cannot be refused, only counted.
  void set_pinned(uint64_t bytes);
  /// Moves a charge from one account to the other; never refused.
  void move(charge from, charge to, uint64_t bytes);

  /// Half of the reserve, for a request (or one-way message) or for a reply, one owner at a time. True:
  /// charged to `c` at once and lent by the reserve. Whatever is given back afterwards, by anyone, fills the
  /// reserve first; when it is whole it can be taken again, so the owner gives back with `give(c, ...)` and
  /// need not know where its bytes came from. False: taken or too small.
  enum class reserve : uint8_t { request, reply };
  bool take_reserve(reserve r, charge c, uint64_t bytes);
  bool reserve_taken(reserve r) const { return lent_[static_cast<size_t>(r)] != 0; }
  /// The largest message that the reserve can fund.
  uint64_t reserve_each_bytes() const { return options_.reserve_bytes / 2; }

  /// Gives up to `bytes` of what is free to another loop's ledger, which grows by it: the sum of both stays.
  /// What was given up.
  uint64_t shrink(uint64_t bytes);
  void grow(uint64_t bytes);
  /// Its part of a budget was changed from `before` to `after`, whatever it has lent or borrowed. What is
  /// owed already is not taken back, but nothing new is until it fits. It keeps its reserve; what it should
  /// have given up of that goes when it grows.
  void change(uint64_t before, uint64_t after);

  uint64_t charged(charge c) const { return charged_[static_cast<size_t>(c)]; }
  /// Everything owed now, the reserve included.
  uint64_t liability() const;
  uint64_t free_bytes() const;
  /// What is there beside the reserve.
  uint64_t pool_bytes() const { return options_.bytes - options_.reserve_bytes; }
  /// True: `bytes` may go to who merely wants more; a fifth of the pool stays for those who have not begun.
  bool can_spare(uint64_t bytes) const { return free_bytes() >= bytes + pool_bytes() / 5; }
  uint64_t pinned() const { return pinned_; }
  uint64_t refused() const { return refused_; }
  const budget_options& options() const { return options_; }

private:
  uint64_t& of(charge c) { return charged_[static_cast<size_t>(c)]; }
  void refill_reserve();

  budget_options options_;
  std::array<uint64_t, charges> charged_{};
  std::array<uint64_t, 2> lent_{}; // by each half of the reserve
  uint64_t pinned_ = 0, refused_ = 0;
  uint64_t overdue_ = 0; // given up by `change`, and still in the reserve
};

/// The outbound ledger of one loop: bytes kept for others (queued, in writev). Lends nothing to the inbound
/// one.
class outbound_ledger {
public:
  explicit outbound_ledger(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  bool admit(uint64_t bytes);
  /// Counts without asking: answers, which are bounded by the calls that they answer.
  void add(uint64_t bytes);
  void release(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }
  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t peak() const { return peak_; }

private:
  uint64_t bytes_max_, bytes_ = 0, peak_ = 0;
};

} // namespace weir::net
