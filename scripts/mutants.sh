#!/usr/bin/env bash
# Changes SAMPLE places of the code one at a time (an operator, a returned value) and runs the tests
# of the crate: a change that no test notices shows what is not tested. SHARD selects the sample.
# A later call goes on with the crates that are left; without target/mutants it begins anew.
set -euo pipefail
cd "$(dirname "$0")/.."
sample=${1:-100} shard=${2:-0}
names=(analysis engine store fileio record service report load)
packages=("${names[@]/#/fathom-}")

command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants
output=$PWD/target/mutants/$sample-$shard
# Dependencies are built once, although each crate is tested in a new copy.
export CARGO_TARGET_DIR=$PWD/target/mutants/build
all=$(cargo mutants --list "${packages[@]/#/--package=}" | wc -l)
for package in "${packages[@]}"; do
  folder=$output/$package
  [ ! -e "$folder/done" ] || continue
  rm -rf "$folder"
  mkdir -p "$folder"
  # Status 2: some were missed; 3: some took too long, and count as caught.
  status=0
  cargo mutants --package "$package" --shard "$shard/$((all / sample))" --sharding round-robin \
    --output "$folder" || status=$?
  case $status in 0 | 2 | 3) touch "$folder/done" ;; *) exit $status ;; esac
done
count() { cat "$output"/*/mutants.out/"$1".txt | wc -l; }
caught=$(($(count caught) + $(count timeout))) missed=$(count missed)
echo "missed:"
cat "$output"/*/mutants.out/missed.txt
echo "$caught of $((caught + missed)) viable mutants caught"
