#!/usr/bin/env bash
# Changes SAMPLE places of the code one at a time (an operator, a returned value) and runs the tests
# of the crate, and where they miss it the golden cases of the program: a change that no test notices
# shows what is not tested. SHARD selects the sample.
# A later call goes on: what was caught, or does not build, is not tried again.
set -euo pipefail
cd "$(dirname "$0")/.."
sample=${1:-100} shard=${2:-0}
packages=()
for name in analysis engine store fileio record service report load; do
  packages+=(-p "fathom-$name")
done

command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants
output=target/mutants/$sample-$shard
mkdir -p "$output"
all=$(cargo mutants --list "${packages[@]}" | wc -l)
status=0
try() { # options of cargo mutants; 2 and 3: some were missed, or took too long
  cargo mutants "${packages[@]}" --shard "$shard/$((all / sample))" --sharding round-robin \
    --iterate --output "$output" "$@" || status=$?
}
try
[ $status -ne 2 ] || { status=0 && try --test-package fathom -- --test program golden::; }
found=$output/mutants.out
count() { cat "$@" 2>/dev/null | sort -u | wc -l; }
caught=$(count "$found"/{caught,timeout,previously_caught}.txt) missed=$(count "$found/missed.txt")
echo "missed:"
cat "$found/missed.txt"
echo "$caught of $((caught + missed)) viable mutants caught"
exit $status
