#!/usr/bin/env bash
# Records the runs that the tests of the page import, with PROGRAM (default: the release build): two
# runs of a few metrics, a load of `fathom serve`, and a transfer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "${1:-$here/../../target/release/fathom}")
folder=$(mktemp -d -p /var/tmp)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
export FATHOM_STORE=$folder/fathom.db
record() { gzip -9n >"$here/runs/$1.json.gz"; }
sets=()
for kib in 1 2 4 8 16 32 64 128; do sets+=("memory.latency{page=4K,set_bytes=${kib}KiB}"); done
for run in 1 2; do
  "$program" run --quick --only --samples --json cpu.frequency cpu.call os.syscall \
    os.switch.process file.read.latency "${sets[@]}" | record "battery-$run"
done
"$program" load --make 8x20KB set
coproc SERVE { exec "$program" serve set --listen 0; }
server=$SERVE_PID
read -ru "${SERVE[0]}" line
[[ $line =~ http:[^[:space:]]+ ]]
"$program" load "${BASH_REMATCH[0]}" --clients 1,2,4 --cases think0,fixed --time 2s --json | record load
"$program" transfer --sets small,file --repeat 1 --folder . --json | record transfer
