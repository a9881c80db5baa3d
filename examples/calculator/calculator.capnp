@0xb0d6f1a8c4e27395;
# What the calculator answers to.

interface Calculator {
  add    @0 (a :Int32, b :Int32) -> (sum :Int64);
  divide @1 (dividend :Int32, divisor :Int32) -> (quotient :Int64);  # fails when the divisor is 0
}
