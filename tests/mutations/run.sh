#!/usr/bin/env bash
# Breaks one rule at a time and requires that its test sees it (README.md).
#   run.sh BUILD [NAME...]   each of NAME.patch, or all. BUILD has net_tests, simulation and actors_tests of the tree as
#                            it is: only the files that a patch touches are compiled again, in build-mutations/
#   run.sh --check           only whether every patch still applies to the tree; compiles nothing
# Prints a line per mutation. Exits 1 when one survives, breaks more than its own test, or does not apply, 77 when
# git is missing. DEV_JOBS: mutations at the same time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
work=$root/build-mutations
hang=60 # seconds; no test that is named here needs more than a few
export RC_PARAMS="seed=1 max_success=400" # properties see the same cases each time
export GIT_CEILING_DIRECTORIES=$root:${root%/*} # `git apply` must not take our copies for a part of a repository

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

# ---- a test program with one mistake in it

touched() { sed -n 's|^+++ b/||p' "$here/$1.patch"; } # NAME: the files that it changes

copy_touched() { # NAME DIRECTORY: with the mistake
  local file
  for file in $(touched "$1"); do
    install -D -m 644 "$root/$file" "$2/$file"
  done
  (cd "$2" && git apply "$here/$1.patch")
}

objects_of() { # NAME: what is made of the files that it changes, for its program
  local file
  for file in $(touched "$1"); do
    if [[ $file == *.cpp ]]; then
      sed -n "s|.* -o \([^ ]*\.o\) -c $root/$file\$|\1|p" "$work/$2.commands"
    else
      awk -v header="/$file" '
        /^[^ ].*: #deps/ { object = $1; sub(/:$/, "", object) }
        substr($1, length($1) - length(header) + 1) == header { print object }' "$work/deps" |
        grep -xFf <(sed -n 's|.* -o \([^ ]*\.o\) -c .*|\1|p' "$work/$2.commands")
    fi
  done | sort -u
}

compile() { # OBJECT BINARY DIRECTORY: as it was compiled, but of our copies where there are such
  local command source
  command=$(grep -m 1 -F -- " -o $1 -c " "$work/$2.commands")
  source=${command##* -c "$root"/}
  [[ ! -f $3/$source ]] || command=${command/ -c $root\// -c $3/}
  command=${command/ -I/ -I$3 -I$3/runtime/include -I}
  command=$(sed -E 's/ -MD -MT [^ ]+ -MF [^ ]+//; s/ -Werror / /' <<<"$command")
  mkdir -p "$3/$(dirname "$1")"
  (cd "$build" && eval "${command/ -o $1 / -o $3/$1 }")
}

link() { # OUTPUT BINARY DIRECTORY OBJECT...: what is in libweir.a is not taken from there when it was given before
  local command object output=" -o $1 "
  command=$(grep -F -- "$output" "$work/$2.commands")
  for object in "${@:4}"; do
    command=${command/ $object / }
    command=${command/"$output"/ $3/$object$output}
  done
  (cd "$build" && eval "${command/"$output"/ -o $3/$(basename "$1") }")
}

make_programs() { # NAME BINARY DIRECTORY: the tests, and the programs that they start
  local object objects program
  mapfile -t objects < <(objects_of "$1" "$2")
  [[ ${#objects[@]} != 0 ]] || { echo "error: nothing in $2 is made of what it changes" && return 1; }
  for object in "${objects[@]}"; do
    compile "$object" "$2" "$3" || return 1
  done
  link "tests/$2" "$2" "$3" "${objects[@]}" || return 1
  mapfile -t objects < <(printf '%s\n' "${objects[@]}" | grep -v '^tests/')
  for program in $(header "$1" Programs); do
    link "$program" "$2" "$3" "${objects[@]}" || return 1
  done
}

# ---- its tests

run_tests() { # PROGRAM FILTER LOG
  (
    ulimit -v 8000000 -c 0
    # A program that a test starts and that stands beside it is started from there.
    exec env MUTATED_PROGRAMS="$(dirname "$1")" timeout $hang "$1" --gtest_filter="$2"
  ) >"$3" 2>&1
}

tests_of() { # PROGRAM FILTER: their names
  "$1" --gtest_list_tests --gtest_filter="$2" | awk '/^[^ ].*\./ { suite = $1; next } /^  / { print suite $1 }'
}

neighbours() { echo "$(header "$1" Passes)-$(header "$1" Fails)"; } # as a filter

unmutated() { # every test that is named must pass
  local name program
  for name in "${names[@]}"; do
    program=$build/tests/$(header "$name" Binary)
    [[ -n $(tests_of "$program" "$(header "$name" Fails)") ]] || die "$name.patch: 'Fails:' names no test of $program"
    run_tests "$program" "$(header "$name" Fails):$(header "$name" Passes)" "$work/tests.log" && continue
    tail -n 40 "$work/tests.log"
    die "these tests fail without $name.patch; the tree must be sound before it is broken on purpose"
  done
}

survived() { # NAME TEST
  echo "  it passes although $(header "$1" Wrong)"
  echo "  what to do: let it see that, or name the test that does in 'Fails:' of tests/mutations/$1.patch; if the code"
  echo "  cannot go wrong this way any more, make another patch"
  echo "  to look at it: git apply tests/mutations/$1.patch, and git apply -R when you have seen it"
}

broke_more() { # LOG
  awk '
    /^\[ RUN      \]/ { last = $4 }
    /^\[       OK \]/ { last = "" }
    /^\[  FAILED  \] [^ ,]*\./ { sub(/,.*/, "", $4); failed[$4] = 1; last = "" }
    END {
      for (test in failed) print "  also fails: " test
      if (last != "") print "  also crashes or hangs: " last
    }' "$1" | sort
  echo "  what to do: make the mistake smaller, or move these tests from 'Passes:' to 'Fails:' when they guard"
  echo "  the same rule"
}

judge() { # NAME PROGRAM LOG: prints what is wrong, and why in detail on the lines below
  local test tests
  mapfile -t tests < <(tests_of "$2" "$(header "$1" Fails)")
  for test in "${tests[@]}"; do
    ! run_tests "$2" "$test" "$3" && continue
    say "$1" SURVIVED "$test passes"
    survived "$1" "$test"
    return 1
  done
  if ! run_tests "$2" "$(neighbours "$1")" "$3"; then
    say "$1" FAILED "breaks more than its test"
    broke_more "$3"
    return 1
  fi
  verdict="by ${tests[0]}"
  [[ ${#tests[@]} == 1 ]] || verdict+=" and $((${#tests[@]} - 1)) more"
  verdict+=", $(tests_of "$2" "$(neighbours "$1")" | wc -l) others pass"
}

mutate() { # NAME
  local start=$SECONDS verdict='' in=$work/$1 binary
  binary=$(header "$1" Binary)
  rm -rf "$in"
  if ! applies "$1" "$root"; then
    say "$1" FAILED "does not apply any more"
    how_to_remake "$1"
    return 1
  fi
  copy_touched "$1" "$in"
  if ! make_programs "$1" "$binary" "$in" >"$in/build.log" 2>&1; then
    say "$1" FAILED "does not compile: $(grep -m 1 -E 'error' "$in/build.log" || true)"
    how_to_remake "$1"
    return 1
  fi
  judge "$1" "$in/$binary" "$in/tests.log" || return 1
  rm -rf "$in"
  say "$1" caught "$verdict, $((SECONDS - start)) s"
}

one() { # NAME: what it says comes at once, so that those at the same time do not mix
  local said rc=0
  said=$(mutate "$1") || rc=1
  echo "$said"
  return $rc
}

command -v git >/dev/null || { echo "skipped: git is not installed; on Debian: apt-get install git" >&2 && exit 77; }
check=0
case ${1:-} in
  --check) check=1 ;;
  --one) build=$2 && one "$3" && exit 0 || exit 1 ;; # of ourselves
  '') die "usage: run.sh BUILD [NAME...], or run.sh --check" ;;
  *) build=$(cd "$1" && pwd -P) ;;
esac
shift
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

rm -rf "$work"
mkdir "$work"
for binary in $(for name in "${names[@]}"; do header "$name" Binary; done | sort -u); do
  ninja -C "$build" -t commands "$binary" >"$work/$binary.commands"
done
ninja -C "$build" -t deps >"$work/deps"
start=$SECONDS
unmutated
say unmutated sound "all tests that are named pass, $((SECONDS - start)) s"
rc=0
printf '%s\n' "${names[@]}" | xargs -P "${DEV_JOBS:-$(nproc)}" -I NAME "${BASH_SOURCE[0]}" --one "$build" NAME | tee "$work/said" || rc=1
echo "$(grep -cE '^[^ ]+ +caught ' "$work/said" || true) of ${#names[@]} mutations are caught, $((SECONDS - start)) s"
exit $rc
