#!/usr/bin/env bash
# Breaks one rule at a time and requires that its test sees it (README.md).
#   run.sh [NAME...]   each of NAME.patch, or all: applies it to a copy of the tree in build-mutations/, builds, runs
#   run.sh --check     only whether every patch still applies to the tree; compiles nothing
# Prints a line per mutation. Exits 1 when one survives, breaks more than its own test, or does not apply, 77 when
# git is missing. DEV_JOBS: compilers at the same time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
copy=$root/build-mutations
jobs=${DEV_JOBS:-$(nproc)}
hang=60 # seconds; no test that is named here needs more than a few
export RC_PARAMS="seed=1 max_success=400" # properties see the same cases each time
export GIT_CEILING_DIRECTORIES=$root:${root%/*} # `git apply` must not take the copy for a part of a repository

say() { printf '%-28s %-9s %s\n' "$@"; }
die() {
  echo "run.sh: $*" >&2
  exit 2
}

header() { sed -n "/^diff /q; s/^$2: *//p" "$here/$1.patch"; } # NAME KEY

check_header() { # NAME
  local key
  for key in Rule Wrong Binary Fails Passes; do
    [[ $(header "$1" $key | wc -l) == 1 ]] || die "$1.patch needs one line '$key: ...' above its first 'diff'"
  done
}

how_to_remake() {
  echo "  what to do: make the same mistake (see 'Wrong:' in tests/mutations/$1.patch) in the tree by hand, write"
  echo "  'git diff -U2' behind the lines above its first 'diff', and take the mistake back"
}

applies() { # NAME TREE
  (cd "$2" && git apply --check "$here/$1.patch")
}

check_all() {
  local name failed=0
  for name in "${names[@]}"; do
    applies "$name" "$root" && continue
    say "$name" FAILED "does not apply any more"
    how_to_remake "$name"
    failed=1
  done
  [[ $failed != 0 ]] || echo "all ${#names[@]} patches apply"
  exit $failed
}

files_of() { # TREE: what belongs to it
  (cd "$1" && find . \( -path './build*' -o -path ./.git \) -prune -o -type f -print | sort)
}

synchronise() { # only what differs is written, so the next build is short
  local file
  mkdir -p "$copy"
  files_of "$root" >"$copy/build.files"
  while read -r file; do
    cmp -s "$root/$file" "$copy/$file" || install -D -m "$(stat -c %a "$root/$file")" "$root/$file" "$copy/$file"
  done <"$copy/build.files"
  files_of "$copy" | comm -13 "$copy/build.files" - | (cd "$copy" && xargs -r rm --)
}

build() { # TARGET...; what it says is in build.log
  (cd "$copy" && cmake --build build -j "$jobs" --target "$@") >"$copy/build.log" 2>&1
}

run_tests() { # BINARY FILTER; what they say is in tests.log
  (
    ulimit -v 8000000 -c 0
    exec timeout $hang "$copy/build/tests/$1" --gtest_filter="$2"
  ) >"$copy/build.tests.log" 2>&1
}

tests_of() { # BINARY FILTER: their names
  "$copy/build/tests/$1" --gtest_list_tests --gtest_filter="$2" |
    awk '/^[^ ].*\./ { suite = $1; next } /^  / { print suite $1 }'
}

neighbours() { echo "$(header "$1" Passes)-$(header "$1" Fails)"; } # as a filter

unmutated() { # builds all that is needed; every test that is named must pass
  local name binary
  (cd "$copy" && cmake --preset release -DWEIR_EXAMPLES=OFF) >"$copy/build.log" 2>&1 || { cat "$copy/build.log" && exit 1; }
  # shellcheck disable=SC2046 # a list of words
  build $(for name in "${names[@]}"; do header "$name" Binary; done | sort -u) ||
    { tail -n 40 "$copy/build.log" && exit 1; }
  for name in "${names[@]}"; do
    binary=$(header "$name" Binary)
    [[ -n $(tests_of "$binary" "$(header "$name" Fails)") ]] || die "$name.patch: 'Fails:' names no test of $binary"
    run_tests "$binary" "$(header "$name" Fails):$(header "$name" Passes)" && continue
    tail -n 40 "$copy/build.tests.log"
    die "these tests fail without $name.patch; the tree must be sound before it is broken on purpose"
  done
}

survived() { # NAME TEST
  echo "  it passes although $(header "$1" Wrong)"
  echo "  what to do: let it see that, or name the test that does in 'Fails:' of tests/mutations/$1.patch; if the code"
  echo "  cannot go wrong this way any more, make another patch"
  echo "  to look at it: git apply tests/mutations/$1.patch, and git apply -R when you have seen it"
}

broke_more() { # NAME
  awk '
    /^\[ RUN      \]/ { last = $4 }
    /^\[       OK \]/ { last = "" }
    /^\[  FAILED  \] [^ ,]*\./ { sub(/,.*/, "", $4); failed[$4] = 1; last = "" }
    END {
      for (test in failed) print "  also fails: " test
      if (last != "") print "  also crashes or hangs: " last
    }' "$copy/build.tests.log" | sort
  echo "  what to do: make the mistake smaller, or move these tests from 'Passes:' to 'Fails:' when they guard"
  echo "  the same rule"
}

judge() { # NAME: prints what is wrong, and why in detail on the lines below
  local binary test tests
  binary=$(header "$1" Binary)
  mapfile -t tests < <(tests_of "$binary" "$(header "$1" Fails)")
  for test in "${tests[@]}"; do
    ! run_tests "$binary" "$test" && continue
    say "$1" SURVIVED "$test passes"
    survived "$1" "$test"
    return 1
  done
  if ! run_tests "$binary" "$(neighbours "$1")"; then
    say "$1" FAILED "breaks more than its test"
    broke_more "$1"
    return 1
  fi
  verdict="by ${tests[0]}"
  [[ ${#tests[@]} == 1 ]] || verdict+=" and $((${#tests[@]} - 1)) more"
  verdict+=", $(tests_of "$binary" "$(neighbours "$1")" | wc -l) others pass"
}

mutate() { # NAME
  local start=$SECONDS verdict='' good=1
  if ! applies "$1" "$copy"; then
    say "$1" FAILED "does not apply any more"
    how_to_remake "$1"
    return 1
  fi
  (cd "$copy" && git apply "$here/$1.patch")
  if ! build "$(header "$1" Binary)"; then
    say "$1" FAILED "does not compile: $(grep -m 1 -E 'error' "$copy/build.log" || true)"
    how_to_remake "$1"
    good=0
  elif ! judge "$1"; then
    good=0
  fi
  (cd "$copy" && git apply -R "$here/$1.patch")
  [[ $good == 1 ]] || return 1
  say "$1" caught "$verdict, $((SECONDS - start)) s"
}

command -v git >/dev/null || { echo "skipped: git is not installed; on Debian: apt-get install git" >&2 && exit 77; }
check=0
[[ ${1:-} != --check ]] || { check=1 && shift; }
names=("$@")
if [[ ${#names[@]} == 0 ]]; then
  for file in "$here"/*.patch; do
    names+=("$(basename "$file" .patch)")
  done
fi
for name in "${names[@]}"; do
  [[ -f $here/$name.patch ]] || die "there is no mutation '$name': one of $(cd "$here" && printf '%s ' *.patch | sed 's/\.patch//g')"
  check_header "$name"
done
[[ $check == 0 ]] || check_all

synchronise
start=$SECONDS
unmutated
say unmutated sound "all tests that are named pass, $((SECONDS - start)) s"
failed=0
for name in "${names[@]}"; do
  mutate "$name" || failed=$((failed + 1))
done
echo "$((${#names[@]} - failed)) of ${#names[@]} mutations are caught"
[[ $failed == 0 ]]
