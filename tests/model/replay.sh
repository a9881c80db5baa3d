#!/usr/bin/env bash
# Replays runs of the simulation against the model: replay.sh SIMULATION [SEED...]
# The credit events of each run must be accepted; altered in any of five ways they must be rejected.
# Exits 77 when spin is missing.
set -euo pipefail
simulation=$(realpath "${1:?usage: replay.sh SIMULATION [SEED...]}")
shift
seeds=("$@")
[[ $# != 0 ]] || seeds=(2 7 11 16 23 38)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v spin >/dev/null && command -v gcc >/dev/null || {
  echo "skipped: spin or gcc (its preprocessor) is not installed; on Debian: apt-get install spin gcc" >&2
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/*.pml "$work"
cd "$work"

replay() { timeout 60 spin -T replay.pml <"$1" >out 2>&1; } # EVENTS

accepted() { replay "$1" && grep -q "^ *accepted: $(($(wc -l <"$1") - 1)) events" out; }

rejected() { ! replay "$1" && grep -q 'assertion violated' out; }

# One line of a run is changed: the last one that the alteration fits.
alter() { # ALTERATION EVENTS
  tac "$2" | awk -F '[A-Zabgr,]' -v what="$1" '
    function is(letter) { return !done && substr($0, 1, 1) == letter }
    what == "one more message beyond the limit" && is("O") && $4 > 0 {
      $0 = "O" $4 + 1 "," $3 "," $4 "," $5 "," $6; done = 1 }
    # the sender goes by a limit that it was not told
    what == "a grant lowered on its way" && is("O") && $4 > 0 { raised = $4 }
    what == "a grant lowered on its way" && is("g") && raised == $3 && $3 > 0 {
      $0 = "g" $2 "," $3 - 1 "," $4; done = 1 }
    what == "a grant beyond the ration" && is("I") && $6 == $10 && $6 > 0 {
      $0 = "I" $2 "," $3 "," $4 "," $5 "," $10 + 1 "," $7 "," $8 "," $9 "," $10 "," $11; done = 1 }
    what == "a message that came twice" && is("A") { print; done = 1 }
    what == "final counts that leave out a message" && is("S") && $3 > 0 {
      $0 = "S" $2 "," $3 - 1; done = 1 }
    { print }
    END { if (!done) exit 3 }' | tac
}

alterations=("one more message beyond the limit" "a grant lowered on its way" "a grant beyond the ration"
  "a message that came twice" "final counts that leave out a message")
failed=0
verdict() { # WORDS...
  echo "$*"
  [[ $1 != FAILED* ]] || { failed=1 && cat out; }
}
for seed in "${seeds[@]}"; do
  SIM_SEED=$seed SIM_CREDIT=events timeout 60 "$simulation" --gtest_filter=Seeds.A >sim.log 2>&1 || {
    cat sim.log >&2
    exit 1
  }
  if accepted events; then verdict "seed $seed: accepted, $(($(wc -l <events) - 1)) events"; else
    verdict "FAILED seed $seed: rejected"
  fi
  for what in "${alterations[@]}"; do
    alter "$what" events >altered || { verdict "FAILED seed $seed has no place for: $what" && continue; }
    if rejected altered; then verdict "seed $seed: rejected, $what"; else
      verdict "FAILED seed $seed: accepted, $what"
    fi
  done
done
exit $failed
