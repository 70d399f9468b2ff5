#!/usr/bin/env bash
# Memory side by side with other tools, in turn (A B B A …), on the same number of threads.
# One file for each of them under lab/peers/; each calls `compare`.
set -euo pipefail
fathom=${1:-target/release/fathom} pairs=${2:-10}
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export FATHOM_STORE=$folder/fathom.db
cores=$(nproc)
cpu=$((cores - 1))

has() { # program, Debian package
  command -v "$1" >/dev/null && return
  echo "skipped: $1 is missing; install with: sudo apt-get install $2"
  return 1
}

# Runs on one CPU, or on all, by the number of threads.
on() { if [ "$1" = 1 ]; then taskset -c "$cpu" "${@:2}"; else "${@:2}"; fi; }

# One case of memory.bandwidth in bytes a second: operation, threads.
bandwidth() {
  "$fathom" run --quick --jsonl --cpu "$cpu" memory.bandwidth 2>/dev/null |
    grep "\"params\":{\"level\":\"dram\",\"op\":\"$1\",\"page\":\"[a-zA-Z0-9]*\",\"threads\":$2}" |
    sed 's/.*"summary":{[^}]*"median":\([0-9.e+-]*\).*/\1/'
}

compare() { # name, unit, ours, theirs: two commands that print a number each
  local ratios=() a b
  for ((i = 0; i < pairs; i++)); do
    if ((i % 2)); then b=$($4); a=$($3); else a=$($3); b=$($4); fi
    ratios+=("$(awk -v a="$a" -v b="$b" 'BEGIN {printf "%.4f", a / b}')")
    printf '%s: ours %.4g %s, theirs %.4g %s, ratio %s\n' "$1" "$a" "$2" "$b" "$2" "${ratios[-1]}"
  done
  # The interval of the median by order statistics: of 10, the second and the ninth (97.9 %).
  printf '%s\n' "${ratios[@]}" | sort -n | awk -v name="$1" '{v[NR] = $1} END {
    m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
    k = int(NR / 5); if (k < 1) k = 1
    printf "%s: median ratio %.3f of %d pairs (interval %.3f to %.3f)\n", name, m, NR, v[k], v[NR + 1 - k] }'
}

for peer in "$here"/peers/*.sh; do
  # shellcheck source=/dev/null
  . "$peer"
done
