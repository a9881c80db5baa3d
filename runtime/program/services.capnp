@0xe2a4c1d07f5b9836;
# What `weir node` serves, and what `weir bench` measures.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("weir::program");

struct Blob {
  # One message of a benchmark. `check` is computed from `sequence` and `data`: see services.hpp.
  sequence @0 :UInt64;
  check    @1 :UInt64;
  data     @2 :Data;
}

interface Echo {
  # The service `echo`: answers with what it was sent.
  echo @0 Blob -> Blob;
  pass @1 Blob -> ();   # takes it, and says so
}

interface Report {
  # The service `report`: what `sink` and `pass` have got since the last `reset`.
  read  @0 () -> (messages :UInt64, bytes :UInt64, wrong :UInt64);
  reset @1 (delayNanos :UInt64);  # from now on each message takes them this long
}

interface Source {
  # The service `source`: streams `messages` blobs of `bytes` to the stream service `to` at `uri`; answers when all were consumed.
  start @0 (uri :Text, to :Text, messages :UInt64, bytes :UInt32) -> (consumed :UInt64);
}
