#!/usr/bin/env bash
# Shows each house rule at work: a clean tree passes, and every wrong file fails with exactly the line expected.
set -euo pipefail

tidy=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/tidy.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

clean_tree() { # what every rule allows
  rm -rf "${tree:?}"/* "$tree"/.ci
  mkdir -p "$tree"/{net,actors,runtime/include/weir,runtime/program,examples/a,bench,tests/net,tests/fuzz/corpus/x,build/x,.ci}
  file CMakeLists.txt 'set(WEIR_EXPORTED_HEADERS' '  net/errc.hpp' '  actors/caf.hpp' ')'
  file net/errc.hpp '#pragma once'
  file net/mux.hpp '#include "net/errc.hpp"' '#include "net/wire.capnp.h"' '#include <chrono>' '#include "net/lease.hpp"'
  file net/lease.hpp '#include <atomic>'
  file net/loop.cpp '#include <boost/asio.hpp>' '#include <net/if.h>' 'auto t = clock::now();'
  file actors/caf.hpp '#include <caf/all.hpp>' '#include <weir/errc.hpp>' 'static_assert(CAF_MAJOR_VERSION < 2);'
  file actors/link.hpp '#include "actors/caf.hpp"' '#include "net/mux.hpp"'
  file runtime/include/weir/node.hpp '#include <weir/errc.hpp>' '#include <caf/all.hpp>'
  file runtime/node.cpp '#include <weir/node.hpp>' '#include "actors/link.hpp"' '#include "net/mux.hpp"'
  file runtime/program/main.cpp '#include "runtime/program/commands.hpp"' '#include "runtime/program/verb.hpp"'
  file bench/load.hpp '#include <weir/node.hpp>' '#include "bench/load.capnp.h"' '#include "runtime/program/commands.hpp"' \
    '#include "runtime/program/services.hpp"' '#include "runtime/program/reasons.hpp"' '#include "runtime/program/services.capnp.h"'
  file examples/a/a.cpp '#include "a.capnp.h"' '#include <weir/node.hpp>'
  file tests/net/mux_test.cpp '#include "net/mux.hpp"' '#include "tests/support/pipe.hpp"'
  file tests/fuzz/corpus/x/input $'\tanything'
  file build/x/any.cpp $'\tanything'
}

file() { # PATH LINE...
  local path=$tree/$1
  shift
  printf '%s\n' "$@" >"$path"
}

expect() { # MODE LINE...: exactly these violations
  local mode=$1 got want rc=0
  shift
  want=$(printf '%s\n' "$@")
  got=$("$tidy" "$mode" "$tree" 2>&1) || rc=$?
  if [[ $got == "$want" && $rc == $([[ -n $want ]] && echo 1 || echo 0) ]]; then return 0; fi
  failed=1
  printf 'FAILED: %s\n  want: %s\n  got:  %s (exit %s)\n' "$mode" "$want" "$got" "$rc"
}

wrong() { # MODE PATH EXPECTED LINE...: the clean tree with one wrong file
  local mode=$1 path=$2 expected=$3
  shift 3
  clean_tree
  file "$path" "$@"
  expect "$mode" "$path:$expected"
}

clean_tree
expect layers
expect text

wrong layers net/a.hpp '1: net may not include actors/link.hpp' '#include "actors/link.hpp"'
wrong layers net/a.hpp '2: net may not include weir/node.hpp' '' '#  include <weir/node.hpp>'
wrong layers net/a.hpp '1: net knows no actor' '#include <caf/actor.hpp>'
wrong layers net/a.hpp '1: write "mux.hpp" from the top of the tree, or in <> if it is not ours' '#include "mux.hpp"'
wrong layers net/errc.hpp '1: an installed header may not include net/mux.hpp' '#include "net/mux.hpp"'
wrong layers net/errc.hpp '1: net may not include weir/caf.hpp' '#include <weir/caf.hpp>'
wrong layers actors/caf.hpp '1: actors may not include weir/node.hpp' '#include <weir/node.hpp>'
wrong layers actors/link.hpp '1: actors may not include runtime/node.hpp' '#include "runtime/node.hpp"'
wrong layers runtime/node.cpp '1: runtime may not include bench/load.hpp' '#include "bench/load.hpp"'
wrong layers runtime/node.cpp '1: runtime may not include runtime/program/verb.hpp' '#include "runtime/program/verb.hpp"'
wrong layers runtime/include/weir/node.hpp '1: an installed header may not include net/mux.hpp' '#include "net/mux.hpp"'
wrong layers examples/a/a.cpp '1: examples may not include net/mux.hpp' '#include "net/mux.hpp"'
wrong layers examples/a/a.cpp '1: no ../ in an include' '#include "../../net/mux.hpp"'
wrong layers runtime/program/main.cpp '1: program may not include bench/load.hpp' '#include "bench/load.hpp"'
wrong layers bench/load.hpp '1: bench may not include runtime/program/verb.hpp' '#include "runtime/program/verb.hpp"'
wrong layers bench/load.hpp '1: bench may not include actors/link.hpp' '#include "actors/link.hpp"'

wrong layers net/mux.hpp '1: sans-I/O: <boost/asio.hpp> in the protocol core' '#include <boost/asio.hpp>'
wrong layers net/frame.cpp '1: sans-I/O: <mutex> in the protocol core' '#include <mutex>'
wrong layers net/ration.hpp '2: sans-I/O: <atomic> in the protocol core' '' '#include <atomic>'
wrong layers net/session_parked.cpp '1: sans-I/O: <thread> in the protocol core' '#include <thread>'
wrong layers net/calls.cpp '1: sans-I/O: a clock or a thread in the protocol core' 'auto t = steady_clock::now();'
wrong layers net/lease.hpp '1: sans-I/O: <sys/socket.h> in the protocol core (included by net/mux.hpp)' '#include <sys/socket.h>'

wrong text net/a.hpp '2: tab' '' $'\tint a;'
wrong text net/a.hpp '1: left-over: write an issue instead' "// TO""DO: later"
wrong text tests/a.sh '1: left-over: write an issue instead' "# FIX""ME"
wrong text .ci/run '1: path of one machine' "cd /ho""me/me"
wrong text net/a.cpp '701: over 700 lines' "$(seq 701)"
wrong text actors/link.hpp '1: only actors/caf.hpp knows versions of CAF' '#if CAF_MAJOR_VERSION >= 1'

clean_tree
file other.txt
expect text 'other.txt:1: does not belong at the top level'

exit $failed
