#!/usr/bin/env bash
# clang reads every source of the library, the program, the examples and the public headers (not the tests), with the
# warnings of our own build as errors.   clang.sh BUILD_DIR [JOBS]
# Sources and flags are those of BUILD_DIR/compile_commands.json, in which what is generated must have been built.
# Nothing is compiled: that is half the time, and all warnings but the few that need an optimiser.
set -euo pipefail

build=$(cd "${1:?usage: clang.sh BUILD_DIR [JOBS]}" && pwd)
jobs=${2:-$(nproc)}
cd "$build"

commands() { # one a line, for a shell; clang takes the place of the compiler and the cache before it
  awk '/^ *"command":/ && !/\.capnp\.c\+\+",?$/ && (!/ -o tests\// || / -o tests\/headers\//)' compile_commands.json |
    sed -E -e 's/^ *"command": "(.*)",?$/\1/' -e 's/\\"/"/g' -e 's/\\\\/\\/g' \
      -e "s|^([^ ]*ccache )?[^ ]+ |${CLANG:-clang++} |" -e 's| -o [^ ]+ -c | -Werror -fsyntax-only |'
}

list=$(commands)
[[ -n $list ]] || {
  echo "clang.sh: $build/compile_commands.json has no source of ours" >&2
  exit 2
}
printf '%s' "$list" | tr '\n' '\0' | xargs -0 -n 1 -P "$jobs" sh -c 'eval "$0"' || {
  echo "clang finds fault with what g++ takes" >&2
  exit 1
}
echo "clang: $(wc -l <<<"$list") sources without a warning"
