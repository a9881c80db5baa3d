#!/usr/bin/env bash
# The house rules that no compiler checks.   tidy.sh layers|text [ROOT]
#   layers  who may include whom; what net's protocol core must not know
#   text    size, left-overs and places of files
# Prints FILE:LINE: RULE for each violation and exits 1 when there was one. tidy_test.sh shows each rule at work.
set -euo pipefail

mode=${1:?usage: tidy.sh layers|text [ROOT]}
cd "${2:-$(dirname "${BASH_SOURCE[0]}")/../..}"

files() { # all that is ours: no build directories, no hidden ones but .ci, no pictures, no inputs of the fuzz targets
  find . \( -path './build*' -o -path './tests/fuzz/corpus' -o -path './.[!.]*' ! -path './.ci' ! -path './.ci/*' -type d \) -prune \
    -o -type f ! -name '*.png' ! -name '*.svg' -print0 | sort -z
}

top_level() { # README says what belongs at the top; all else has a folder
  local entry
  for entry in *; do
    case $entry in
      CMakeLists.txt | CMakePresets.json | LICENSE | README.md | dev) ;;
      actors | bench | examples | net | runtime | tests) ;;
      build* | CMakeUserPresets.json | compile_commands.json) ;; # not in git
      *) echo "$entry:1: does not belong at the top level" ;;
    esac
  done
}

text() {
  files | xargs -0 awk '
    function report(rule) { printf "%s:%d: %s\n", path, FNR, rule }
    FNR == 1 {
      path = substr(FILENAME, 3)
      is_cpp = path ~ /\.[ch]pp$/
      is_code = is_cpp || path ~ /\.(capnp|cmake|sh)$/ || path ~ /(^|\/)(CMakeLists\.txt|dev|run)$/
    }
    /\t/ { report("tab") }
    /TO[D]O|FIX[M]E/ { report("left-over: write an issue instead") }
    /(^|[^A-Za-z0-9_.~})-])\/(home|root|work|Users)\// { report("path of one machine") }
    is_code && FNR == 701 { report("over 700 lines") }
    is_cpp && path != "actors/caf.hpp" && /CAF_(MAJOR_|MINOR_|PATCH_)?VERSION/ {
      report("only actors/caf.hpp knows versions of CAF")
    }'
}

exported_headers() { # the files of lower layers that are installed as <weir/NAME>
  [[ ! -f CMakeLists.txt ]] || sed -n '/set(WEIR_EXPORTED_HEADERS/,/)/p' CMakeLists.txt | grep -oE '[a-z_/]+\.hpp' || true
}

layers() {
  files | grep -zE '\.[ch]pp$' | xargs -0 -r awk -v exported="$(exported_headers | tr '\n' ' ')" '
    BEGIN {
      split(exported, list, " ")
      for (i in list) {
        name = list[i]
        is_exported[name] = 1
        sub(/.*\//, "", name)
        home_of["weir/" name] = list[i]
      }
      # area -> the areas it may include
      may["net"] = "net"
      may["actors"] = "net actors"
      may["runtime"] = "net actors runtime weir"
      may["program"] = "net actors runtime weir program commands services"
      may["public"] = "weir"                # what is installed
      may["examples"] = "weir examples"
      may["bench"] = "weir bench commands services" # the program calls it through commands.hpp; it measures services, asks them
      may["tests"] = "net actors runtime weir program commands services bench examples tests"
      core = "^net/(frame|mux|ration|ledger|calls|schedule|reassembly|control|session)(_[a-z_]+)?\\.[ch]pp$"
      io = "^(boost/asio|asio|caf/|thread$|future$|stop_token$|ctime$|time\\.h$" \
           "|unistd\\.h$|poll\\.h$|sys/(socket|epoll|time)\\.h$|netinet/|arpa/|netdb\\.h$)"
      shared = "^(mutex|shared_mutex|condition_variable|semaphore|latch|barrier|atomic)$" # only memory may come home so
    }
    function folder(path) {
      sub(/\/.*/, "", path)
      return path
    }
    function area(path) {
      if (path in is_exported || path ~ /^runtime\/include\//) return "public"
      if (path ~ /^runtime\/program\//) return "program"
      return folder(path)
    }
    function allowed(from, to) { return index(" " may[from] " ", " " to " ") > 0 }
    function report(path, line, rule) { printf "%s:%d: %s\n", path, line, rule }

    # target: as written; quoted: "..." and not <...>
    function check_include(path, target, quoted,    from, to, home) {
      from = area(path)
      to = folder(target)
      if (!(to in may) && to != "weir") {
        if (quoted && from != "examples" && from != "tests")
          report(path, FNR, "write \"" target "\" from the top of the tree, or in <> if it is not ours")
        if (quoted && target ~ /\.\.\//) report(path, FNR, "no ../ in an include")
        if (from == "net" && target ~ /^caf\//) report(path, FNR, "net knows no actor")
        return
      }
      if (target !~ /\.(hpp|capnp\.h)$/) return # <net/if.h> is the system'"'"'s
      home = target in home_of ? home_of[target] : target
      includes[path] = includes[path] " " home
      if (target ~ /^runtime\/program\//) to = "program"
      if (target == "runtime/program/commands.hpp") to = "commands"
      if (target == "runtime/program/reasons.hpp") to = "services"
      if (target ~ /^runtime\/program\/services\.(hpp|capnp\.h)$/) to = "services"
      if (path in is_exported && to == "weir" && !allowed(folder(path), folder(home))) {
        report(path, FNR, folder(path) " may not include " target) # also a bridge must not lead upward
        return
      }
      if (!allowed(from, to)) report(path, FNR, (from == "public" ? "an installed header" : from) " may not include " target)
    }

    FNR == 1 {
      path = substr(FILENAME, 3)
      paths[path] = 1
    }
    /^[ ]*#[ ]*include[ ]*[<"]/ {
      target = $0
      sub(/^[^<"]*[<"]/, "", target)
      sub(/[>"].*/, "", target)
      check_include(path, target, $0 ~ /include[ ]*"/)
      if (path ~ /^net\// && target ~ io) notes[path] = notes[path] FNR ":<" target ">\n"
      if (path ~ core && target ~ shared) report(path, FNR, "sans-I/O: <" target "> in the protocol core")
      next
    }
    path ~ /^net\// {
      code = $0
      sub(/\/\/.*/, "", code)
      if (code ~ /::now\(|this_thread/) notes[path] = notes[path] FNR ":a clock or a thread\n"
    }

    # what the protocol core includes, directly or not, must be as innocent as itself
    function visit(path, why,    i, n, list, parts) {
      if (path in seen) return
      seen[path] = 1
      n = split(notes[path], list, "\n")
      for (i = 1; i < n; i++) {
        split(list[i], parts, ":")
        report(path, parts[1], "sans-I/O: " substr(list[i], length(parts[1]) + 2) " in the protocol core" why)
      }
      n = split(includes[path], list, " ")
      for (i = 1; i <= n; i++) visit(list[i], why == "" ? " (included by " path ")" : why)
    }
    END {
      for (path in paths) if (path ~ core) visit(path, "")
    }' | sort -t: -k1,1 -k2,2n
}

case $mode in
  layers) violations=$(layers) ;;
  text) violations=$(top_level && text) ;;
  *) echo "tidy.sh: unknown mode '$mode': layers or text" >&2 && exit 2 ;;
esac
[[ -z $violations ]] || {
  echo "$violations"
  exit 1
}
