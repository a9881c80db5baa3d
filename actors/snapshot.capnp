@0xb6e1f0a94c7d2835;
# What a node shows of itself to `weir probe` and `weir why`: the built-in service `weir.probe`. `weir probe --json` prints a
# Snapshot with these names as keys; they are only added to. Times are in nanoseconds: for how long something has been so.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("weir::snapshot");

interface Prober {
  look @0 (sessionsMax :UInt32) -> (node :Snapshot);
  # `sessionsMax`: sessions listed, over all loops; 0: 1000. More than 1000 are never listed.
}

struct Snapshot {
  name             @0  :Text;
  node             @1  :Text;            # node id, new at each start
  cluster          @2  :Text;
  uptimeNanos      @3  :UInt64;
  addresses        @4  :List(Text);
  options          @5  :List(Option);
  loops            @6  :List(Loop);
  services         @7  :List(Service);
  reasons          @8  :List(Reason);    # why something ended or was refused, since the start
  lateFrames       @9  :UInt64;          # ignored: for sessions that were over
  linksAccepted    @10 :UInt64;
  linksDialled     @11 :UInt64;
  sessionsAccepted @12 :UInt64;
  sessionsRefused  @13 :UInt64;
}

struct Option {
  name  @0 :Text;
  value @1 :Text;
}

struct Reason {
  reason @0 :Text;                       # the name of an errc
  times  @1 :UInt64;
}

struct Position {
  bytes    @0 :UInt64;
  messages @1 :UInt64;
}

struct Loop {
  answered      @0 :Bool;                # no: it was busy for too long, and the rest is empty
  inbound       @1 :Inbound;
  outbound      @2 :Outbound;
  links         @3 :List(Link);
  linksTotal    @4 :UInt64;              # listed or not
  sessions      @5 :List(Session);       # who waits longest first
  sessionsTotal @6 :UInt64;
  serving       @7 :List(Serving);
}

struct Inbound {
  # What this loop owes to its peers, in bytes.
  budget    @0 :UInt64;
  free      @1 :UInt64;
  liability @2 :UInt64;                  # the sum of what follows
  reserve   @3 :UInt64;
  session   @4 :UInt64;
  large     @5 :UInt64;
  held      @6 :UInt64;                  # allowances of services
  replyRoom @7 :UInt64;
  pinned    @8 :UInt64;
  refused   @9 :UInt64;                  # how often it had no room
}

struct Outbound {
  bytes    @0 :UInt64;
  bytesMax @1 :UInt64;
  peak     @2 :UInt64;
}

struct Link {
  peer           @0  :Text;
  node           @1  :Text;
  address        @2  :Text;              # both ends of the socket
  uri            @3  :Text;              # when it was dialled
  dialled        @4  :Bool;
  state          @5  :Text;              # hello, up, going (one side takes nothing new)
  ageNanos       @6  :UInt64;
  roundTripNanos @7  :UInt64;
  bytesIn        @8  :UInt64;
  bytesOut       @9  :UInt64;
  messagesIn     @10 :UInt64;            # requests, items and replies
  messagesOut    @11 :UInt64;            # requests and items of the sessions that are open
  sessions       @12 :UInt64;
  writeBlocked   @13 :Bool;              # the peer's socket takes nothing
  lateFrames     @14 :UInt64;
}

struct Session {
  id              @0  :UInt32;
  service         @1  :Text;
  interface       @2  :Text;
  stream          @3  :Bool;
  direction       @4  :Text;             # opened, accepted, or local (both ends are here)
  state           @5  :Text;             # looking, opening, open, closing
  peer            @6  :Text;
  peerNode        @7  :Text;
  uri             @8  :Text;             # of the peer, when it was dialled
  ageNanos        @9  :UInt64;

  # what is sent here
  sent            @10 :Position;
  limit           @11 :Position;
  queuedBytes     @12 :UInt64;
  queuedMessages  @13 :UInt64;
  blocked         @14 :Bool;
  blockedBy       @15 :Text;             # service (has not given back), budget, link (socket), outbound (our queues), opening
  blockedNanos    @16 :UInt64;
  need            @17 :UInt64;           # position in bytes that lets the next message go
  backlog         @18 :UInt64;           # bytes that wait
  openCalls       @19 :UInt64;
  oldestCallNanos @20 :UInt64;

  # what comes here
  granted         @21 :Position;
  received        @22 :Position;
  consumed        @23 :Position;
  peerBlocked     @24 :Bool;
  peerNeed        @25 :UInt64;
  peerBacklog     @26 :UInt64;
  answersOwed     @27 :UInt64;
  stalledNanos    @28 :UInt64;           # the service has messages of this session and has given nothing back for so long

  # who
  users           @29 :List(UInt64);     # actors here that send on it or wait for its answers
  usedBy          @30 :List(Text);       # those of them that are services, by name
  serviceActor    @31 :UInt64;           # that serves it, if that is here
}

struct Serving {
  # What the sessions of one loop have brought to one service.
  actor           @0 :UInt64;
  sessions        @1 :UInt64;
  waitingMessages @2 :UInt64;
  waitingBytes    @3 :UInt64;
  stalledNanos    @4 :UInt64;
}

struct Service {
  name            @0  :Text;
  actor           @1  :UInt64;
  interface       @2  :Text;
  stream          @3  :Bool;
  sessions        @4  :UInt64;
  waitingMessages @5  :UInt64;           # handed over and not given back: in its mailbox, at work, or leased
  waitingBytes    @6  :UInt64;
  stalledNanos    @7  :UInt64;           # of the session for which that is longest
  busyNanos       @8  :UInt64;           # at work on one batch for so long; 0: it is idle
  heldBytes       @9  :UInt64;
  heldBytesMax    @10 :UInt64;
  heldMessages    @11 :UInt64;
  heldMessagesMax @12 :UInt64;
  mailboxMessages @13 :UInt64;           # places in its mailbox; 0: as many as the rations allow
  mailboxDealt    @14 :UInt64;           # of them, to sessions that are open
}
