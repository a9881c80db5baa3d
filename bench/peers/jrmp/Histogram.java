/** Latencies in buckets 1/64 of their value wide; the same as weir's own, bench/measure.hpp. One thread. */
final class Histogram {
    private static final int SUB_BITS = 6, VALUE_BITS = 42;
    private final long[] counts = new long[(VALUE_BITS - SUB_BITS + 1) << SUB_BITS];
    private long max;

    void record(long ns) {
        max = Math.max(max, ns);
        long capped = Math.min(ns, (1L << VALUE_BITS) - 1);
        int shift = Math.max(0, 63 - Long.numberOfLeadingZeros(capped | 1) - SUB_BITS);
        counts[(shift << SUB_BITS) + (int) (capped >> shift)]++;
    }

    /** `max bucket:count bucket:count ...`, for another process. */
    String toWords() {
        StringBuilder words = new StringBuilder().append(max);
        for (int i = 0; i < counts.length; i++)
            if (counts[i] != 0)
                words.append(' ').append(i).append(':').append(counts[i]);
        return words.toString();
    }

    void addWords(String from) {
        String[] words = from.split(" ");
        max = Math.max(max, Long.parseLong(words[0]));
        for (int i = 1; i < words.length; i++) {
            int colon = words[i].indexOf(':');
            counts[Integer.parseInt(words[i].substring(0, colon))] += Long.parseLong(words[i].substring(colon + 1));
        }
    }

    void add(Histogram other) {
        addWords(other.toWords());
    }

    long count() {
        long sum = 0;
        for (long n : counts)
            sum += n;
        return sum;
    }

    double quantileUs(double q) {
        long rank = (long) Math.ceil(q * count()), seen = 0;
        for (int i = 0; i < counts.length; i++) {
            seen += counts[i];
            if (seen != 0 && seen >= rank)
                return Math.min(middleOf(i), max) / 1e3;
        }
        return 0;
    }

    double maxUs() {
        return max / 1e3;
    }

    private static long middleOf(int bucket) {
        if (bucket < 2 << SUB_BITS)
            return bucket;
        int shift = (bucket >> SUB_BITS) - 1;
        return ((long) (bucket - (shift << SUB_BITS)) << shift) + (1L << shift) / 2;
    }
}
