#!/usr/bin/env bash
# Changes SAMPLE places of the code one at a time (an operator, a returned value) and runs the tests
# of the crate, and where they miss it the golden cases of the program: a change that no test notices
# shows what is not tested. SHARD selects the sample; PACKAGES, of which crates.
# A later call goes on with what is left; without target/mutants it begins anew.
set -euo pipefail
cd "$(dirname "$0")/.."
sample=${1:-100} shard=${2:-0}
read -ra names <<<"${PACKAGES:-analysis engine store fileio record service report load}"
packages=("${names[@]/#/fathom-}")

command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants
output=$PWD/target/mutants/$sample-$shard${PACKAGES:+-${PACKAGES// /-}}
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

# The golden cases, in a copy of the tree, to which each change is made by its difference.
tree=$output/tree golden=$output/golden
rm -rf "$tree"
mkdir -p "$tree" "$golden"
git ls-files -z | xargs -0 cp --parents -t "$tree"
golden_cases() {
  (cd "$tree" && timeout 600 cargo test --quiet --locked --package fathom --test program \
    golden:: </dev/null &>"$golden/last.log")
}
# Else every change would seem to be caught.
golden_cases || { echo "the golden cases fail without a change: $golden/last.log" >&2; exit 1; }
while read -r name; do
  [ -n "$name" ] && ! grep -qsxF -- "$name" "$golden"/{caught,missed}.txt || continue
  file=${name%%:*}
  difference=$(grep -lxF -- "+++ ${name#*: }" \
    "$output"/fathom-*/mutants.out/diff/"${file//\//__}_line_$(cut -d: -f2 <<<"$name")_"* | head -n 1)
  patch --quiet "$tree/$file" "$difference"
  verdict=caught
  ! golden_cases || verdict=missed
  patch --quiet --reverse "$tree/$file" "$difference"
  echo "$name" >>"$golden/$verdict.txt"
done <<<"$own"
echo "missed:"
cat "$golden/missed.txt" 2>/dev/null || true
viable=$(for which in caught timeout missed; do found 'fathom-*' $which; done | wc -l)
missed=$(cat "$golden/missed.txt" 2>/dev/null | wc -l || true)
own=$(grep -c . <<<"$own" || true)
echo "$((viable - own)) of $viable viable mutants caught by the crate's own tests," \
  "$((viable - missed)) with the golden cases"
