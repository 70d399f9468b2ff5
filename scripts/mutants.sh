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
  # What fuzzers call is a test itself.
  cargo mutants --gitignore true --exclude '**/fuzz.rs' --output "$folder" "$@" || status=$?
  case $status in 0 | 2 | 3) touch "$folder/done" ;; *) exit $status ;; esac
}
found() { cat "$output"/$1/mutants.out/"$2".txt 2>/dev/null || true; }

all=$(cargo mutants --list --exclude '**/fuzz.rs' "${packages[@]/#/--package=}" | wc -l)
for package in "${packages[@]}"; do
  try "$package" --package "$package" --shard "$shard/$((all / sample))" --sharding round-robin
done
own=$(for package in "${packages[@]}"; do found "$package" missed; done)
missed=()
while read -r name; do
  # As a pattern that fits this name alone.
  pattern=$(sed 's/[][\.^$*+?(){}|]/\\&/g' <<<"$name")
  missed+=(--re "^$pattern\$" --file "${name%%:*}")
  # Patterns do not choose among the fields that can be deleted: those stay missed.
done < <(grep -v ': delete field ' <<<"$own")
[ ${#missed[@]} -eq 0 ] ||
  try golden --workspace "${missed[@]}" --baseline skip --timeout 120 \
    --test-package fathom -- --test program golden::
echo "missed:"
caught=$(for which in caught timeout unviable; do found golden "$which"; done)
grep --invert-match --line-regexp --fixed-strings "${caught:-none}" <<<"$own" |
  tee "$output/missed.txt" || true
viable=$(for which in caught timeout missed; do found 'fathom-*' $which; done | wc -l)
missed=$(wc -l <"$output/missed.txt")
echo "$((viable - missed)) of $viable viable mutants caught"
