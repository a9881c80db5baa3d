@0xd1f0a5c27b9e4c36;
# The messages that two weir nodes exchange. The prose is in PROTOCOL.md; this file is the specification of every field.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("weir::wire");

struct Envelope {
  # The root of every `message` frame (and of what fragments make). Immutable from the builder to the reader: what differs per hop
  # (session, call id, time left) stands in the frame header.
  interface @0 :UInt64;   # interface id of the method; 0 for stream items and failures
  type      @1 :UInt64;   # id of the struct in `body`; checked against the method before the body is looked at
  trace     @2 :UInt64;   # trace id of the user's choice, handed on untouched; 0: none
  method    @3 :UInt16;   # ordinal of the method in `interface`
  replyRoom @4 :UInt32;   # bytes that the caller has paid for the reply; 0: what `open` said
  body      @5 :AnyPointer;
}

struct Failure {
  # The body of a reply that is no result.
  reason  @0 :UInt16;     # errc
  outcome @1 :UInt8;
  text    @2 :Text;       # at most 1024 bytes
}

struct Hello {
  versionMin  @0 :UInt16;
  versionMax  @1 :UInt16;
  cluster     @2 :Text;   # at most 255 bytes, must be equal on both sides
  nodeHigh    @3 :UInt64; # 128 random bits, new at each start of a process
  nodeLow     @4 :UInt64;
  name        @5 :Text;   # for people, at most 255 bytes
  features    @6 :UInt64; # bits; the link uses those that both sides set
  messageMax  @7 :UInt64; # largest message this side takes, bytes
  frameMax    @8 :UInt32; # largest frame body this side takes, bytes
  sessionsMax @9 :UInt32; # sessions the peer may have open at once
  callsMax    @10 :UInt32; # calls the peer may have open at once per session
}

struct Open {
  session   @0 :UInt32;
  service   @1 :Text;     # at most 255 bytes
  interface @2 :UInt64;   # of the service, or the struct id of a stream
  stream    @3 :Bool;     # one way: items, then `close`
  replyRoom @4 :UInt32;   # bytes paid for each reply unless the call says more
  limitBytes    @5 :UInt64; # what the *acceptor* may send at once on this session (epoch 0)
  limitMessages @6 :UInt64;
}
struct Opened {
  session @0 :UInt32;
  limitBytes    @1 :UInt64; # what the opener may send at once (epoch 0)
  limitMessages @2 :UInt64;
  messageMax    @3 :UInt64; # of this service; 0: the node's
}
struct Refused {
  session @0 :UInt32;
  reason  @1 :UInt16;
  text    @2 :Text;
  retryable @3 :Bool;
}
struct Grant {
  # Absolute. The receiver of a grant takes the maximum within an epoch and ignores older epochs.
  session  @0 :UInt32;
  epoch    @1 :UInt32;
  bytes    @2 :UInt64;
  messages @3 :UInt64;
  received @4 :UInt64;    # whole messages received so far; for resume
  reason   @5 :UInt16;    # why there is no more, when this answers `blocked`: 0, or errc (overloaded: service or held; no_budget)
}
struct Blocked {
  session  @0 :UInt32;
  epoch    @1 :UInt32;
  bytes    @2 :UInt64;    # the limits the sender knows
  messages @3 :UInt64;
  need     @4 :UInt64;    # absolute offset in bytes that lets the head of the queue go
  backlog  @5 :UInt64;    # bytes that wait
}
struct Reclaim { session @0 :UInt32; epoch @1 :UInt32; }     # receiver -> sender: stop early; epoch is the new one
struct Reclaimed { session @0 :UInt32; epoch @1 :UInt32; bytes @2 :UInt64; messages @3 :UInt64; } # where it stops
struct Abort {
  # Ends the session at once in both directions; applied on arrival.
  session @0 :UInt32;
  reason  @1 :UInt16;
  text    @2 :Text;
  # final counts of the data that the writer of this abort has handed over
  bytes    @3 :UInt64;
  messages @4 :UInt64;
}
struct Close {
  # The writer sends nothing more on the session; applied behind its data (at `messages`).
  session  @0 :UInt32;
  bytes    @1 :UInt64;
  messages @2 :UInt64;
}
struct Closed {
  # Answers `close` when all has been consumed, and `abort` at once. After it the id is dead for its writer.
  session  @0 :UInt32;
  consumed @1 :UInt64;    # messages that a handler has finished with
  bytes    @2 :UInt64;    # final counts of the writer's own direction
  messages @3 :UInt64;
}
struct Call { session @0 :UInt32; call @1 :UInt32; }
struct ReplyNeed { session @0 :UInt32; call @1 :UInt32; bytes @2 :UInt64; }  # callee: my reply is larger than its room
struct ReplyFund { session @0 :UInt32; call @1 :UInt32; bytes @2 :UInt64; }  # caller: paid up to `bytes`; 0: not to be had
struct Unfunded { session @0 :UInt32; bytes @1 :UInt64; reason @2 :UInt16; }   # receiver: the large message up to offset `bytes` is not funded

struct Resume { nodeHigh @0 :UInt64; nodeLow @1 :UInt64; serial @2 :UInt64; session @3 :UInt32; received @4 :UInt64; }
struct Resumed { session @0 :UInt32; epoch @1 :UInt32; received @2 :UInt64; limitBytes @3 :UInt64; limitMessages @4 :UInt64; }

struct Control {
  # The body of a `control` frame. Any subset of the fields; lists apply in this order. Unknown fields are ignored.
  hello     @0 :Hello;
  open      @1 :List(Open);
  opened    @2 :List(Opened);
  refused   @3 :List(Refused);
  grant     @4 :List(Grant);
  blocked   @5 :List(Blocked);
  reclaim   @6 :List(Reclaim);
  reclaimed @7 :List(Reclaimed);
  abort     @8 :List(Abort);
  close     @9 :List(Close);
  closed    @10 :List(Closed);
  cancel    @11 :List(Call);      # caller -> callee
  cancelled @12 :List(Call);      # callee -> caller: no reply will come
  need      @13 :List(ReplyNeed);
  fund      @14 :List(ReplyFund);
  unfunded  @15 :List(Unfunded);
  ping      @16 :UInt64;          # nonce, 0: none
  pong      @17 :UInt64;
  goaway    @18 :Goaway;
  fin       @19 :Bool;            # nothing follows on this link but control
  resume    @20 :List(Resume);
  resumed   @21 :List(Resumed);
  fault     @22 :Fault;           # the last thing a side says before it closes the link
}
struct Goaway { reason @0 :UInt16; text @1 :Text; lastSession @2 :UInt32; }
struct Fault { reason @0 :UInt16; text @1 :Text; }
