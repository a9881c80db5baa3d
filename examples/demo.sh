#!/usr/bin/env bash
# What ./dev run shows: demo.sh BUILD_DIR. Two nodes that call each other, a real job that is checked against coreutils, and how fast it
# is. Every step ends with a verdict; the exit status is 1 when one of them failed. All processes that it starts end with it.
set -euo pipefail

build=$(cd "${1:?usage: demo.sh BUILD_DIR}" && pwd)
weir=$build/weir
examples=$build/examples
text=${DEMO_TEXT:-/usr/share/common-licenses}

work=$(mktemp -d)
pids=()
finish() {
  local rc=$?
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
  exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

steps=5
at=0
failed=0
heading() {
  at=$((at + 1))
  printf '\n=== %s/%s %s\n' "$at" "$steps" "$*"
}
verdict() { # STATUS TEXT: 0 is good
  if [[ $1 == 0 ]]; then
    echo "OK: $2"
  else
    echo "FAILED: $2"
    failed=$((failed + 1))
  fi
}
exec 3>&1
show() { # COMMAND...: says what runs, then runs it
  echo "\$ ${*/#"$build"\//}" >&3
  timeout 120 "$@"
}

pid='' uri=''
start() { # COMMAND...: in the background; sets pid, and uri to what it says behind READY
  echo "\$ ${*/#"$build"\//} &"
  exec {out}< <(exec "$@")
  pid=$!
  pids+=("$pid")
  local line=
  read -r -t 30 -u "$out" line || true
  uri=${line#READY }
  [[ $line == READY* ]] || uri=
  echo "${line:-(it does not start)}"
}
stop() { # ends the process of `start`; its exit status
  local rc=0
  kill -TERM "$pid" 2>/dev/null || true
  wait "$pid" || rc=$?
  pids=()
  exec {out}<&-
  return "$rc"
}

figure() { # FILE KEY: a number of a JSON object on one line
  grep -oE "\"$2\":[-0-9.e+]+" "$1" | head -n 1 | cut -d: -f2
}

calculator() {
  heading 'Two nodes: a service in one process, its caller in another'
  start "$examples/calculator_server" --listen tcp://127.0.0.1:0
  show "$examples/calculator_client" --connect "$uri" | tee "$work/answers" || true
  local rc=0 good=1
  stop || rc=$?
  grep -qx '20 + 22 = 42' "$work/answers" && grep -q '^1 / 0: handler_failed.*division by zero' "$work/answers" &&
    [[ $rc == 0 ]] && good=0
  verdict $good 'the answer came back, the error of the other call too, and the server stopped when it was asked to'
}

node() {
  heading 'The ready-made node: weir node serves echo, sink and source'
  start "$weir" node --listen tcp://127.0.0.1:0
  local rc=0 good=1
  show "$weir" bench rpc --connect "$uri" --seconds 1 --placement loop --raw no --json "$work/node.json" || rc=$?
  stop || rc=$?
  [[ $rc == 0 && $(figure "$work/node.json" errors) == 0 ]] && good=0
  verdict $good "one caller, one call at a time: $(figure "$work/node.json" p50_us) us each (median); the node stopped on SIGTERM"
}

coreutils_totals() { # lines words bytes of all files below $text
  find -H "$text" -xtype f -print0 | LC_ALL=C wc -l -w -c --files0-from=- | tail -n 1 | awk '{ print $1, $2, $3 }'
}
coreutils_words() { # the ten most frequent words: "count word"
  find -H "$text" -xtype f -exec sh -c 'for f; do tr -cs A-Za-z "\n" <"$f"; echo; done' sh {} + |
    grep . | LC_ALL=C sort | uniq -c | LC_ALL=C sort -k1,1nr -k2,2 | head -n 10 | awk '{ print $1, $2 }'
}
wordcount() {
  heading "The main job: two processes count $text, streamed to them under credit"
  local good=1
  if show "$examples/wordcount" --workers 2 "$text" | tee "$work/counts"; then
    awk 'NR == 2 { print $1, $2, $3 }' "$work/counts" >"$work/totals"
    awk '/ word, of / { on = 1; next } on && NF == 2 { print; next } { on = 0 }' "$work/counts" |
      awk '{ print $1, $2 }' >"$work/words"
    coreutils_totals >"$work/totals.coreutils"
    coreutils_words >"$work/words.coreutils" || true # sort writes on when head has had enough
    echo "wc says: $(cat "$work/totals.coreutils")"
    diff "$work/totals.coreutils" "$work/totals" && diff "$work/words.coreutils" "$work/words" && good=0
  fi
  verdict $good "lines, words, bytes and the ten most frequent words $([[ $good == 0 ]] || echo 'do not ')equal those of wc, sort and uniq"
}

rpc() {
  heading 'How fast calls are: 20 callers on one connection, with hand-written sockets (raw) beside'
  local good=1
  show "$weir" bench rpc --callers 20 --seconds 2 --json "$work/rpc.json" &&
    [[ $(figure "$work/rpc.json" errors) == 0 ]] && good=0
  verdict $good "$(figure "$work/rpc.json" tps) calls a second, $(figure "$work/rpc.json" ratio_to_raw) of raw; $(figure "$work/rpc.json" errors) errors"
}

stream() {
  heading 'How fast streams are: 300000 messages of 1 KiB, with raw beside'
  local good=1
  show "$weir" bench stream --bytes 1024 --messages 300000 --json "$work/stream.json" &&
    [[ $(figure "$work/stream.json" lost) == 0 ]] && good=0
  verdict $good "$(figure "$work/stream.json" msgs_per_s) messages a second, $(figure "$work/stream.json" ratio_to_raw) of raw; $(figure "$work/stream.json" lost) lost"
}

calculator
node
wordcount
rpc
stream

echo
if [[ $failed == 0 ]]; then
  echo "all $steps steps are OK"
else
  echo "$failed of $steps steps FAILED"
  exit 1
fi
