#!/usr/bin/env bash
# Compares memory metrics with independent programs in lab/bench/peers, interleaved (A B B A), on one
# CPU. Prints the ratio and its interval: smallest to largest of the rounds.
# Usage: memory.sh [FATHOM] [ROUNDS]; 5 rounds are an interval of 93.8 %.
. "$(dirname "$0")/../failures.sh"
fathom=${1:-target/release/fathom} rounds=${2:-5}
command -v cc >/dev/null || { echo "skipped: no C compiler; install with: sudo apt-get install build-essential"; exit 0; }
here=$(dirname "$0")
cpu=$(($(nproc) - 1))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export FATHOM_STORE=$folder/fathom.db

# shellcheck source=lab/bench/in-turn.sh
. "$here/in-turn.sh"

# memory.latency and lab/bench/peers/chase.c: a working set well within each level, base and huge pages.
cache_bytes() { numfmt --from=iec < "/sys/devices/system/cpu/cpu$cpu/cache/index$1/size"; }
chase_sets() {
  local l1 l2 llc largest=1024
  l1=$(cache_bytes 0) l2=$(cache_bytes 2) llc=$(cache_bytes 3 2>/dev/null || cache_bytes 2)
  while ((largest < 4 * llc)); do largest=$((2 * largest)); done
  echo $((l1 / 2)) $((l2 / 4)) $((2 * l2)) $largest
}
chase_ours() {
  "$fathom" run --quick --only --jsonl --cpu "$cpu" memory.latency 2>"$errors" |
    sed -n 's/.*"metric":"memory.latency","params":{"page":"\([^"]*\)","pattern":"random","set_bytes":\([0-9]*\)}.*"summary":{[^}]*"median":\([0-9.e+-]*\).*/\1 \2 \3/p' |
    while read -r page set ns; do
      case " $sets " in *" $set "*) echo "memory.latency{$page,$set} $ns" ;; esac
    done
}
chase_peer() {
  local page set ns
  for page in 4K huge; do
    # shellcheck disable=SC2086 # each set is a word
    taskset -c "$cpu" "$folder/chase" "$page" $sets
  done | while read -r page set ns; do echo "memory.latency{$page,$set} $ns"; done
}
compare_chase() {
  cc -O2 -o "$folder/chase" "$here/peers/chase.c"
  sets=$(chase_sets)
  in_turn chase_ours chase_peer
}

part chase compare_chase

# memory.bandwidth and tools without a row in `fathom crosscheck`, one file each. Sizes exceed all caches;
# bytes are those that the tool actually moves.
on() { if [ "$1" = 1 ]; then taskset -c "$cpu" "${@:2}"; else "${@:2}"; fi; }
bandwidth_ours() { # operation:threads … → lines "operation:threads bytes/s"
  "$fathom" run --quick --only --jsonl --cpu "$cpu" "memory.bandwidth{level=dram}" 2>"$errors" |
    sed -n 's/.*"params":{"level":"dram","op":"\([^"]*\)","page":"[^"]*","threads":\([0-9]*\)}.*"summary":{[^}]*"median":\([0-9.e+-]*\).*/\1:\2 \3/p' |
    while read -r case rate; do case " $* " in *" $case "*) echo "memory.bandwidth{$case} $rate" ;; esac; done
}
for peer in "$here"/peers/*.sh; do
  # shellcheck source=/dev/null
  part "$(basename "$peer" .sh)" . "$peer"
done
end_parts
