@0xa7c3e5901b8d24f6;
# What the coordinator of wordcount and its workers say to each other.

struct Chunk {
  # A piece of one file. Pieces end behind white space where there is some.
  text @0 :Data;
  more @1 :Bool;   # it ends inside a word: the next chunk of this stream goes on with it
}

struct WordCount {
  word  @0 :Text;
  count @1 :UInt64;
}

interface Totals {
  # What a worker has counted.
  read  @0 () -> (lines :UInt64, words :UInt64, bytes :UInt64, chunks :UInt64, longWords :UInt64, peakBytes :UInt64);
  words @1 (first :UInt64) -> (words :List(WordCount), all :UInt64);  # a page of all words, in the order of the alphabet
}
