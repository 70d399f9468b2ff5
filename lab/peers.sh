#!/usr/bin/env bash
# Side by side with perf bench, in turn (A B B A …), on one CPU: what it measures and what we do.
# Prints the ratio of each pair and the median of the ratios.
set -euo pipefail
fathom=${1:-target/release/fathom} pairs=${2:-10}
command -v perf >/dev/null || { echo "skipped: perf is missing; install with: sudo apt-get install linux-perf"; exit 0; }
cpu=$(($(nproc) - 1))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export FATHOM_STORE=$folder/fathom.db

ours() { "$fathom" run --quick --jsonl --cpu "$cpu" "$@" 2>/dev/null; }
# The median of one case in nanoseconds: metric, then a part of its parameters.
median_of() { grep "\"metric\":\"$1\",\"params\":{$2}" | sed 's/.*"summary":{[^}]*"median":\([0-9.e+-]*\).*/\1/'; }
perf_ns() { taskset -c "$cpu" perf bench -f simple "$@" 2>/dev/null | awk '{print $1}'; }

syscall_ours() { ours os.syscall | median_of os.syscall '"call":"getppid_called"'; }
# perf calls getppid() of the C library 10,000,000 times: a procedure around the instruction, whose
# return is mispredicted. getppid_called has that too; the bare getppid has not.
syscall_perf() { perf_ns syscall basic | awk '{print $1 * 100}'; }
# One loop of perf's is a round trip by the C library's calls: two switches, two writes, two reads,
# and four returns that are mispredicted. calls=libc has those too; calls=bare has not.
pipe_ours() { ours os.pipe.rtt | median_of os.pipe.rtt '"calls":"libc"'; }
pipe_perf() { perf_ns sched pipe -l 100000 | awk '{print $1 * 1e9 / 100000}'; }

compare() { # name, ours, theirs
  local ratios=() a b
  for ((i = 0; i < pairs; i++)); do
    if ((i % 2)); then b=$($3); a=$($2); else a=$($2); b=$($3); fi
    ratios+=("$(awk -v a="$a" -v b="$b" 'BEGIN {printf "%.4f", a / b}')")
    printf '%s: ours %.1f ns, perf %.1f ns, ratio %s\n' "$1" "$a" "$b" "${ratios[-1]}"
  done
  printf '%s\n' "${ratios[@]}" | sort -n | awk -v name="$1" '{v[NR] = $1} END {
    m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
    printf "%s: median ratio %.3f of %d pairs (%.3f to %.3f)\n", name, m, NR, v[1], v[NR] }'
}

compare "os.syscall{call=getppid_called} ÷ perf bench syscall basic" syscall_ours syscall_perf
compare "os.pipe.rtt{calls=libc} ÷ perf bench sched pipe" pipe_ours pipe_perf
