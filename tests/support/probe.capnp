@0xc5a17e93d8f0b264;
# What the nodes of the process tests say to each other.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("weir::test");

interface Probe {
  echo   @0 (data :Data) -> (data :Data);
  throws @1 (data :Data) -> ();
  ignore @2 (data :Data) -> ();                       # the request is dropped without an answer
  keep   @3 (data :Data) -> ();                       # the request is kept until the service goes
  reply  @4 (data :Data, size :UInt32) -> (data :Data);  # looks at nothing, answers with so much
  nest   @5 (depth :UInt32, data :Data) -> (depth :UInt32);  # calls `nest` of the other node until the depth is 0
}
interface Feed {
  rows  @0 (count :UInt64, bytes :UInt32) -> (number :UInt64, data :Data);  # a stream of so many rows
  twice @1 (data :Data) -> (bytes :UInt64);                                 # asks the other node's `echo` twice, in turn
}
interface NotProbe {
  echo @0 (data :Data) -> (data :Data);
}
struct Piece {
  number @0 :UInt64;
  data   @1 :Data;
}
