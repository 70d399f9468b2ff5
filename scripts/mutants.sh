#!/usr/bin/env bash
# Changes SAMPLE places of the code one at a time (an operator, a returned value) and runs the tests
# of the crate, and where they miss it the golden cases of the program: a change that no test notices
# shows what is not tested. SHARD selects the sample.
# A later call goes on with what is left; without target/mutants it begins anew.
set -euo pipefail
cd "$(dirname "$0")/.."
sample=${1:-100} shard=${2:-0}
names=(analysis engine store fileio record service report load)
packages=("${names[@]/#/fathom-}")

command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants
output=$PWD/target/mutants/$sample-$shard
# Dependencies are built once, although each crate is tested in a new copy.
export CARGO_TARGET_DIR=$PWD/target/mutants/build
try() { # folder, options of cargo mutants
  local folder=$output/$1 status=0
  shift
  [ ! -e "$folder/done" ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  # Status 2: some were missed; 3: some took too long, and count as caught.
  cargo mutants --output "$folder" "$@" || status=$?
  case $status in 0 | 2 | 3) touch "$folder/done" ;; *) exit $status ;; esac
}
found() { cat "$output"/$1/mutants.out/"$2".txt 2>/dev/null || true; }

all=$(cargo mutants --list "${packages[@]/#/--package=}" | wc -l)
for package in "${packages[@]}"; do
  try "$package" --package "$package" --shard "$shard/$((all / sample))" --sharding round-robin
done
missed=()
while read -r name; do
  # As a pattern that fits this name alone.
  missed+=(--re "^$(sed 's/[][\.^$*+?(){}|]/\\&/g' <<<"$name")\$")
done < <(found 'fathom-*' missed)
[ ${#missed[@]} -eq 0 ] ||
  try golden "${missed[@]}" --test-package fathom -- --test program golden::
caught=$(for which in 'fathom-*' golden; do found "$which" caught && found "$which" timeout; done)
echo "missed:"
found golden missed
echo "$(wc -l <<<"$caught") of $(($(wc -l <<<"$caught") + $(found golden missed | wc -l))) viable mutants caught"
