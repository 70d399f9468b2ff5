#!/usr/bin/env bash
# Compares network metrics with independent programs, interleaved (A B B A), over loopback: connect
# with lab/bench/peers/connect.c, here; the others with iperf3, sockperf and ping by
# `fathom crosscheck network`. Prints the ratio and its interval: smallest to largest of the rounds.
# Usage: network.sh [FATHOM] [ROUNDS]; 5 rounds are an interval of 93.8 %.
. "$(dirname "$0")/../failures.sh"
fathom=${1:-target/release/fathom} rounds=${2:-5}
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export FATHOM_STORE=$folder/fathom.db

# shellcheck source=lab/bench/in-turn.sh
. "$here/in-turn.sh"

connect_ours() {
  "$fathom" run --quick --only --jsonl --cpu "$cpu" network.tcp.connect 2>"$errors" |
    sed -n 's/.*"metric":"network.tcp.connect","params":{"to":"loopback"}.*"summary":{[^}]*"median":\([0-9.e+-]*\).*/network.tcp.connect \1/p'
}
connect_peer() { echo "network.tcp.connect $("$folder/connect" "$cpu" "$far" 2000)"; }

# Fathom's far end runs on another CPU than its worker.
if [ "$(nproc)" -lt 2 ]; then
  echo "skipped: one CPU"
elif has cc build-essential; then
  cpu=$(($(nproc) - 1))
  far=$((cpu == 1 ? 0 : 1))
  cc -O2 -o "$folder/connect" "$here/peers/connect.c"
  part connect in_turn connect_ours connect_peer
fi

part crosscheck "$fathom" crosscheck network --verbose --pairs "$rounds"
end_parts
