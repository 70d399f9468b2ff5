#!/bin/sh
# A node that is odd is drained; "unknown" and "undecided" are logged and change nothing.
export PATH=/usr/local/bin:/usr/bin:/bin # slurmd sets none
baseline=/shared/rack1.jsonl
run=$(mktemp) || exit 0
trap 'rm -f "$run"' EXIT
timeout 50 fathom run --quick --only cpu.frequency memory.latency.dram os.syscall \
  -qo "$run" --force || exit 0
line=$(fathom check "$run" --against "$baseline")
status=$?
logger -t fathom-health "$line"
[ "$status" -ne 2 ] ||
  scontrol update NodeName="$(hostname -s)" State=DRAIN Reason="$(printf %.200s "${line%% |*}")"
