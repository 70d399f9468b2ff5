#!/usr/bin/env bash
# Compares every number of a quick run by two programs of Fathom, interleaved (A B B A): the one of
# `make run` and the one of `make dist`, whose profiles differ. Ratios of medians with their smallest
# and largest of the rounds, of cases that are valid in all runs. With METRICs it prints only these, and writes no
# page.
# Usage: profiles.sh [FATHOM] [DIST] [ROUNDS] [METRIC...]
. "$(dirname "$0")/../failures.sh"
fathom=${1:-target/release/fathom} dist=${2:-target/dist/fathom} rounds=${3:-2}
metrics=("${@:4}")
here=$(dirname "$0")
page=docs/evidence/PROFILES.md
folder=$(mktemp -d -p /var/tmp)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
export FATHOM_STORE=$folder/fathom.db
# shellcheck source=lab/bench/in-turn.sh
. "$here/in-turn.sh"
has jq jq || exit 0
medians() { # program
  "$1" run --quick --jsonl "${metrics[@]}" 2> "$errors" | jq -r '
    select(.verdict.state == "valid" and .value != null and .value > 0) | .metric
      + "{" + (.params | to_entries | map("\(.key)=\(.value)") | join(",")) + "} "
      + "\(.value)"'
}
ours() { medians "$fathom"; }
theirs() { medians "$dist"; }
in_turn ours theirs > "$folder/ratios"
if [ ${#metrics[@]} -gt 0 ]; then cat "$folder/ratios"; exit; fi
of() { awk -v least="$1" -v most="$2" '$3 >= least && $3 <= most' "$folder/ratios" | wc -l; }
apart() { # cases whose rounds all lie on one side of 1, by more than 5 %
  awk '{ from = substr($4, 2) + 0; to = $6 + 0 } (from > 1 || to < 1) && ($3 > 1.05 || $3 < 0.952)' "$folder/ratios"
}
{
  echo "# Numbers by the programs of two profiles"
  echo
  echo "- Command: \`make bench-profiles ROUNDS=$rounds\`"
  echo "- Commit: $(git -c safe.directory='*' log -1 --format=%h --abbrev=8 -- . ':(exclude)docs/evidence')"
  echo "- Machine: $("$fathom" doctor --json 2> /dev/null | jq -r '.host | "\(.cpu.model), \(.cpu.logical) logical CPUs, kernel \(.kernel), hypervisor \(.virtualization)"')"
  echo "- Date (UTC): $(date -u +%F)"
  echo
  echo "Each number of a quick run by the program of \`make run\` ÷ that of \`make dist\`, in rounds A B B A: $rounds. In parentheses the smallest and the largest round. Only numbers that are valid in all runs. Of $(wc -l < "$folder/ratios") numbers $(of 0.98 1.02) are within ± 2 %, $(of 0.952 1.05) within ± 5 %, $(of 0.909 1.1) within ± 10 %."
  echo
  echo "Further apart than 5 %, in all rounds on one side: $(apart | wc -l)."
  echo
  echo '```text'
  apart
  echo '```'
  echo
  echo "All:"
  echo
  echo '```text'
  cat "$folder/ratios"
  echo '```'
} > "$folder/page"
cp "$folder/page" "$page"
apart
