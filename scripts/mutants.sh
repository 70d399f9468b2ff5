#!/usr/bin/env bash
# Changes SAMPLE places of the code one at a time (an operator, a returned value) and runs the tests
# of the crate: a change that no test notices shows what is not tested. SHARD selects the sample.
set -euo pipefail
cd "$(dirname "$0")/.."
sample=${1:-100} shard=${2:-0}
packages=(-p fathom-analysis -p fathom-engine -p fathom-store -p fathom-fileio)

command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants
mkdir -p target
all=$(cargo mutants --list "${packages[@]}" | wc -l)
exec cargo mutants "${packages[@]}" --shard "$shard/$((all / sample))" --sharding round-robin \
    --output target/mutants
