#!/usr/bin/env bash
# Compares every number of a quick run by two programs of Fathom, interleaved (A B B A): the one of
# `make run` and the one of `make dist`, whose profiles differ. Ratios of medians with their smallest
# and largest of the rounds; those whose rounds all lie on one side of 1 come first.
# Usage: profiles.sh [FATHOM] [DIST] [ROUNDS] [METRIC...]
set -euo pipefail
fathom=${1:-target/release/fathom} dist=${2:-target/dist/fathom} rounds=${3:-3}
metrics=("${@:4}")
here=$(dirname "$0")
folder=$(mktemp -d -p /var/tmp)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
export FATHOM_STORE=$folder/fathom.db
# shellcheck source=lab/bench/in-turn.sh
. "$here/in-turn.sh"
has jq jq || exit 0
medians() { # program
  "$1" run --quick --jsonl "${metrics[@]}" 2> /dev/null | jq -r '
    select(.summary.median > 0) | .metric
      + "{" + (.params | to_entries | map("\(.key)=\(.value)") | join(",")) + "} "
      + "\(.summary.median)"'
}
ours() { medians "$fathom"; }
theirs() { medians "$dist"; }
in_turn ours theirs > "$folder/ratios"
awk '{ from = substr($4, 2) + 0; to = $6 + 0 } from > 1 || to < 1 { print; next } { rest[++n] = $0 }
  END { print "no difference shown:"; for (i = 1; i <= n; i++) print rest[i] }' "$folder/ratios"
