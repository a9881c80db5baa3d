@0xd1e8b7c35a90f642;
# What flows through the pipeline: numbers from the producer to the stage, their squares from the stage to the consumer.

struct Number {
  value @0 :UInt64;
}

struct Square {
  value  @0 :UInt64;
  square @1 :UInt64;
}
