#!/usr/bin/env bash
# Searches the model of credit whole: every property of README.md must hold, every mutation must break its own.
#   run.sh              a minute at most; one line per check
#   MODEL_SIZE=full     the larger sizes, up to ten minutes and 4 GB of memory
# Exits 1 when a check came out otherwise than it should (with the steps that lead there), 77 when spin or a C
# compiler is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cc=${CC:-gcc}
size=${MODEL_SIZE:-small}

case $size in small | full) ;; *) echo "MODEL_SIZE is '$size': it is full or small" >&2 && exit 2 ;; esac
for tool in spin "$cc"; do
  command -v "$tool" >/dev/null && continue
  echo "skipped: '$tool' is not installed; on Debian: apt-get install spin gcc (or ./dev test, which does it)" >&2
  exit 77
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/*.pml "$work"
cd "$work"
failed=0

search() { # LTL-NAME or '' for safety and deadlock, DEFINES: leaves what pan said in `out`
  local claim=$1
  shift
  rm -f ./pan* ./*.trail
  if [[ -n $claim ]]; then
    spin -DLIVENESS "$@" -a credit.pml >spin.log || { cat spin.log >&2 && exit 1; }
    "$cc" -O1 -w -DMEMLIM=6000 -o pan pan.c
    ./pan -m10000 -a -f -N "$claim" >out 2>&1 || true
  else
    spin "$@" -a credit.pml >spin.log || { cat spin.log >&2 && exit 1; }
    "$cc" -O1 -w -DMEMLIM=6000 -DSAFETY -DNOCLAIM -o pan pan.c
    ./pan -m10000 >out 2>&1 || true
  fi
  grep -q 'errors: [0-9]' out || { cat out >&2 && exit 1; }
}

figures() { # states, depth, memory and time of the last search
  awk '
    /states, stored/ { states = $1 }
    /depth reached/ { for (i = 1; i < NF; ++i) if ($i == "reached") depth = $(i + 1) + 0 }
    /total actual memory usage/ { memory = $1 }
    /elapsed time/ { seconds = $4 }
    END { printf "%9d states  depth %4d  %5d MB  %6.2f s\n", states, depth, memory, seconds }' out
}

line() { printf '%-18s %-34s %-22s %s\n' "$@"; }

holds() { # PROPERTY DEFINES...: must hold in all states
  local property=$1 claim=
  shift
  [[ $property != L* ]] || claim=$property
  search "$claim" "$@"
  local verdict=holds
  # A search that was cut short (memory, depth) has shown nothing.
  if ! grep -q 'errors: 0' out || grep -qE 'Search not completed|search depth too small' out; then
    verdict=FAILED
    failed=1
  fi
  line "$property" "${*//-D/}" "$verdict" "$(figures)"
  [[ $verdict == holds ]] || steps "$claim" "$@"
}

steps() { # CLAIM DEFINES...: the way to the error
  local claim=$1
  shift
  sed -n '/^pan:/p' out
  [[ -f credit.pml.trail ]] || return 0
  spin ${claim:+-DLIVENESS} "$@" -t -p -g credit.pml 2>&1 | grep -vE '^ltl|queue [0-9]' | tail -n 80
}

broken() { # which property the last search saw broken
  local claim=$1 at
  shift
  if grep -q '^pan:1: acceptance cycle' out; then
    echo "${claim%%_*}"
  elif grep -q '^pan:1: invalid end state' out; then
    echo deadlock
  elif grep -q '^pan:1: assertion violated' out; then
    at=$(spin ${claim:+-DLIVENESS} "$@" -t credit.pml 2>&1 |
      sed -n 's/^spin: \(.*pml\):\([0-9]*\), Error: assertion violated.*/\1 \2/p')
    [[ -z $at ]] || sed -n "${at#* } s|.*/\* \(S[1-4]\).*|\1|p" "${at% *}"
  fi
}

fails() { # PROPERTY MUTATION [CLAIM] DEFINES...: must have a counter-example to just that property
  local property=$1 mutation=$2 claim=
  shift 2
  [[ $property != L* ]] || claim=$(sed -n "s/^ltl \(${property}_[a-z_]*\) .*/\1/p" credit.pml)
  search "$claim" "-DMUTATE_$mutation" "$@"
  local seen verdict="breaks $property"
  seen=$(broken "$claim" "-DMUTATE_$mutation" "$@")
  if [[ $seen != "$property" ]]; then
    verdict="FAILED: ${seen:-nothing} broken"
    failed=1
  fi
  line mutation "$mutation" "$verdict" "$(figures)"
}

safety="S1-S4, no deadlock"
if [[ $size == small ]]; then
  holds "$safety" -DCUTS=0
  holds "$safety" -DABORTS=0 -DMISCHIEF=1
  holds "$safety" -DRECLAIMS=0 -DMISCHIEF=1
  holds "$safety" -DMISCHIEF=0
  holds L1_blocked_sends -DCUTS=0 -DMISCHIEF=1
  holds L1_blocked_sends -DABORTS=0 -DRECLAIMS=0 -DMISCHIEF=1
  holds L2_reclaim_ends -DABORTS=0 -DMISCHIEF=1
  holds L3_abort_settles -DRECLAIMS=0 -DMISCHIEF=0
  holds L4_all_ends -DABORTS=0 -DRECLAIMS=0 -DMISCHIEF=1
  # W changes, too
  holds "$safety" -DCHANGES=1 -DCUTS=0 -DMISCHIEF=0
  holds "$safety" -DCHANGES=1 -DABORTS=0 -DMISCHIEF=0
  holds "$safety" -DCHANGES=2 -DABORTS=0 -DCUTS=0 -DMISCHIEF=1
  holds L1_blocked_sends -DCHANGES=1 -DABORTS=0 -DCUTS=0 -DMISCHIEF=1
  holds L2_reclaim_ends -DCHANGES=2 -DABORTS=0 -DCUTS=0 -DMISCHIEF=0
  holds L4_all_ends -DCHANGES=1 -DABORTS=0 -DRECLAIMS=0 -DMISCHIEF=0
else
  holds "$safety" -DCHANGES=1 -DMISCHIEF=1
  holds "$safety" -DMISCHIEF=2
  holds "$safety" -DMESSAGES=4 -DMISCHIEF=1
  for property in L1_blocked_sends L2_reclaim_ends L3_abort_settles L4_all_ends; do
    holds "$property" -DMISCHIEF=0
  done
  holds L1_blocked_sends -DABORTS=0 -DMISCHIEF=1
  holds L4_all_ends -DABORTS=0 -DMISCHIEF=1
  holds L4_all_ends -DCUTS=0 -DMISCHIEF=1
fi
fails S2 RELATIVE_GRANTS -DCUTS=0 -DABORTS=0 -DRECLAIMS=0
fails L1 BLOCKED_ONCE -DCUTS=0 -DABORTS=0 -DRECLAIMS=0
fails S2 RECLAIM_IGNORES_SENT -DCUTS=0 -DABORTS=0 -DMISCHIEF=0
fails S3 ABORT_FREES -DCUTS=0 -DRECLAIMS=0 -DMISCHIEF=0
fails S2 OLD_EPOCHS -DCUTS=0 -DABORTS=0
fails S4 RESUME_FROM_SENT -DABORTS=0 -DRECLAIMS=0 -DMISCHIEF=0
fails S3 GROWS_UNPAID -DCHANGES=1 -DABORTS=0 -DRECLAIMS=0 -DCUTS=0 -DMISCHIEF=0
exit $failed
