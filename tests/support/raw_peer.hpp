#pragma once
#include <string>
#include <vector>

#include "net/control.hpp"
#include "tests/support/mux_pair.hpp"

/// The far end of a link made by hand, for bytes that no mux would send.
namespace weir::net::test {

/// A mux (the accepting side) and what a peer of the test's making says to it.
class raw_peer {
public:
  explicit raw_peer(peer::settings s = server_settings());

  time_point now{std::chrono::hours{1}};
  peer host;

  // ---- what the peer says
  void bytes(const void* at, size_t n);
  void preamble();
  say::hello hello_fields() const;
  void control(const say::control& c);
  /// Preamble and hello, as it should be.
  void hello();
  void frame(frame_header h, const std::vector<uint64_t>& body);
  /// A message as it should be: an Envelope with `n` bytes of data.
  void message(uint32_t session, uint32_t call, size_t n, lane in_lane = lane::normal);
  /// A first fragment: `total` is what it claims.
  void first_fragment(uint32_t session, uint64_t total, size_t slice, uint8_t flags = 1, uint32_t call = 0);
  void fragment(uint32_t session, size_t slice, uint8_t flags = 1, uint32_t call = 0);
  /// Opens session `id` and has it accepted.
  session& open(uint32_t id, bool stream = false);

  /// Hello and two sessions: 1 for harm, which is returned, and 3 for the control.
  session& two_sessions();
  /// The link lives, keeps no memory, and session 3 still delivers.
  void expect_lives();

  // ---- what the mux said since the last time
  /// All control of the frames it wrote, put together.
  say::control said();
  /// Headers of all frames that said() went through.
  std::vector<frame_header> frames;
  /// The fault that it told us; none if the link lives.
  errc fault();
  /// The reason of the abort of session `id`; none if it was not aborted.
  errc abort_of(uint32_t id);

private:
  void collect();
  bool preamble_read_ = false;
  std::vector<uint64_t> in_;
  std::vector<std::byte> out_;
  say::control all_;
};

} // namespace weir::net::test
