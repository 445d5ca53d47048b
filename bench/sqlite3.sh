#!/usr/bin/env bash
# Builds SQLite from Debian's source package twice, once with extra work planted in one function, and
# judges them with `tollgate compare`:
#
#   planted  base against the planted build   must FAIL, the planted function first
#   null     base against a second, identical build   must not FAIL
#
# usage: bench/sqlite3.sh [planted|null|build]...   (default: planted null)
#
# The planted loop costs about 3 % of the workload's CPU on a current x86-64; ITERATIONS changes it and
# the script prints the size it measured. Needs deb-src indexes for apt, gcc, make, tclsh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
work=${BENCH_DIR:-$root/.cache/sqlite3}
iterations=${ITERATIONS:-64}
pairs=${PAIRS:-20}
size=${SIZE:-100}
planted_function=freeSpace
tollgate=$root/bin/tollgate

fetch() {
  mkdir -p "$work"
  cd "$work"
  compgen -G 'sqlite3_*.orig.tar.xz' >/dev/null || {
    # A source-only view of the machine's own package sources; the machine's configuration stays as it is.
    mkdir -p apt/lists/partial apt/sources.list.d apt/cache
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
      [ -f "$file" ] || continue
      case $file in
        *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"apt/sources.list.d/$(basename "$file")" ;;
        *) sed -n 's/^deb /deb-src /p' "$file" >"apt/sources.list.d/$(basename "${file%.list}").list" ;;
      esac
    done
    local options=(-o "Dir::State::Lists=$work/apt/lists" -o "Dir::Etc::SourceList=/dev/null"
      -o "Dir::Etc::SourceParts=$work/apt/sources.list.d" -o "Dir::Cache=$work/apt/cache"
      -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update -qq || true # a source without a deb-src side must not stop the others
    apt-get "${options[@]}" source --download-only -qq sqlite3
  }
  rm -rf src && mkdir src && tar xf sqlite3_*.orig.tar.xz -C src --strip-components=1
}

build() {
  [ -x "$work/planted" ] && [ "$(cat "$work/iterations" 2>/dev/null)" = "$iterations" ] && return
  fetch
  mkdir -p "$work/build" && cd "$work/build"
  ../src/configure --disable-tcl >configure.log 2>&1
  make sqlite3.c >make.log 2>&1
  local flags=(-O2 -g -fomit-frame-pointer -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I.)
  gcc "${flags[@]}" ../src/test/speedtest1.c sqlite3.c -o "$work/base" -lm
  # Another path and another build, the same code.
  cp "$work/base" "$work/same"
  mkdir -p planted
  # The body of freeSpace begins at its first local variable.
  awk -v n="$iterations" '
    /^static int '"$planted_function"'\(/ { inside = 1 }
    inside && /^  assert\( pPage->pBt!=0 \);/ {
      print "  { static volatile unsigned work; unsigned i; for(i=0; i<" n "; i++) work += i; }"
      inside = 0; done = 1
    }
    { print }
    END { if (!done) exit 1 }' sqlite3.c >planted/sqlite3.c
  gcc "${flags[@]}" ../src/test/speedtest1.c planted/sqlite3.c -o "$work/planted" -lm
  echo "$iterations" >"$work/iterations"
}

judge() { # name head
  local json="$work/$1.json" code=0
  "$tollgate" compare --name sqlite3 --runs "$pairs" --json "$json" --discard-stdout \
    --base-command "$work/base --memdb --size $size" \
    -- "$work/$2" --memdb --size "$size" >"$work/$1.txt" 2>"$work/$1.err" || code=$?
  cat "$work/$1.txt"
  local verdict first
  verdict=$(sed -n 's/^ *"verdict": *"\([a-z]*\)".*/\1/p' "$json" | head -n 1)
  first=$(sed -n '/"findings": \[$/,/^  \]/s/^ *"function": *"\(.*\)",*$/\1/p' "$json" | head -n 1)
  case $1 in
    planted) [ "$verdict" = fail ] && [ "$first" = "$planted_function" ] ;;
    null) [ "$verdict" != fail ] ;;
  esac && echo "ok   $1: verdict $verdict, first finding ${first:-none}, exit $code" || {
    echo "MISS $1: verdict ${verdict:-none}, first finding ${first:-none}, exit $code"
    tail -n 20 "$work/$1.err"
    return 1
  }
}

(cd "$root" && go build -o bin/tollgate ./cmd/tollgate)
build
[ $# -gt 0 ] || set -- planted null
failed=0
for job in "$@"; do
  case $job in
    build) ;;
    planted) judge planted planted || failed=1 ;;
    null) judge null same || failed=1 ;;
    *) echo "usage: bench/sqlite3.sh [planted|null|build]..." >&2; exit 2 ;;
  esac
done
exit $failed
