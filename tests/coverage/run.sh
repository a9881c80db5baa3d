#!/usr/bin/env bash
# What the tests reach of net/: README.md.   run.sh BUILD [--json]
# Runs the tests of net, the simulation and the corpora of the fuzz targets, which are built in BUILD with --coverage,
# and prints lines and branches per file and in total; with --json the same as gcovr's summary. BUILD/coverage.html has
# the sources with what was not reached. SIM_SEEDS: runs of the simulation, default 80.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:?usage: run.sh BUILD [--json]}
as=${2:-}
[[ $as == '' || $as == --json ]] || { echo "run.sh: unknown argument '$as': --json or nothing" >&2 && exit 2; }
export SIM_SEEDS=${SIM_SEEDS:-80} RC_PARAMS=${RC_PARAMS:-seed=1} # the same in each run

run() { # COMMAND...; what it says is shown when it fails
  "$@" >"$build/coverage.log" 2>&1 || {
    tail -n 40 "$build/coverage.log" >&2
    echo "run.sh: $* failed" >&2
    exit 1
  }
}

find "$build" -name '*.gcda' -delete
run "$build/tests/net_tests"
run "$build/tests/simulation"
for corpus in tests/fuzz/corpus/*/; do
  name=$(basename "$corpus")
  run "$build/tests/fuzz/fuzz_replay_$name" "$corpus"
done

run gcovr --root . --filter net/ --object-directory "$build" --exclude-throw-branches --exclude-unreachable-branches \
  --csv "$build/coverage.csv" --json-summary "$build/coverage.json" --json-summary-pretty \
  --html-details "$build/coverage.html" "$build"
if [[ $as == --json ]]; then
  cat "$build/coverage.json"
  exit
fi
awk -F, '
  function row(name, lines, line_total, branches, branch_total) {
    printf "%-28s %5d of %5d %6.1f %%   %5d of %5d %8s\n", name, lines, line_total, 100 * lines / line_total,
      branches, branch_total, branch_total ? sprintf("%.1f %%", 100 * branches / branch_total) : "-"
  }
  BEGIN { printf "%-28s %23s   %23s\n", "", "lines", "branches" }
  NR > 1 && $2 > 0 {
    row($1, $3, $2, $6, $5)
    lines += $3; line_total += $2; branches += $6; branch_total += $5
  }
  END { row("all of net/", lines, line_total, branches, branch_total) }' "$build/coverage.csv"
