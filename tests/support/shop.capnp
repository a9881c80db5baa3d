@0xa9c1d5e07b3f2846;
# Interfaces for tests of actors.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("weir::test");

interface Shop {
  add    @0 (a :Int64, b :Int64) -> (sum :Int64);
  later  @1 (data :Data) -> (size :UInt64);    # kept until the test answers it
  fail   @2 () -> ();                          # throws
  give   @3 (size :UInt64) -> (data :Data);    # a reply of that size
}
interface Other {
  nothing @0 () -> ();
}
interface Warehouse {
  scan  @0 (from :UInt64, count :UInt64, size :UInt64) -> (number :UInt64, data :Data);  # a stream of rows
  walk  @1 (from :UInt64, count :UInt64, size :UInt64) -> (number :UInt64, data :Data);  # the same, by a coroutine
  total @2 () -> (items :UInt64);
}
struct Item {
  number @0 :UInt64;
  data   @1 :Data;
}
