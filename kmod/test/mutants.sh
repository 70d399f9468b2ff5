#!/usr/bin/env bash
# Applies each error of mutants.txt to a copy of the module, builds and boots it, and expects the
# suite to fail: mutants.sh [NAME...]. Fails if an error was not found. About 25 minutes.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${CACHE:-$root/target/kmod}
list=$root/kmod/test/mutants.txt
series=${KERNELS:-6.12}
copy=$cache/mutant
found=0 missed=()
while read -r name file expression; do
  case $name in '' | '#'*) continue ;; esac
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  rm -rf "$copy"
  mkdir -p "$copy"
  cp -r "$root"/kmod/{Kbuild,build.sh,uapi,*.c,*.h} "$copy"
  sed -i "$expression" "$copy/$file"
  if cmp -s "$root/kmod/$file" "$copy/$file"; then
    echo "$name: changes nothing; adapt its line in $list" >&2
    exit 1
  fi
  if result=$(SECONDS_MAX=90 UNCHECKED=1 KERNELS=$series SOURCE=$copy CACHE=$cache \
    ${LOCK:-} "$root/kmod/test/run.sh" first 2>&1); then
    missed+=("$name")
    echo "$name: NOT FOUND"
  elif grep -q '^total:' <<<"$result"; then
    found=$((found + 1))
    echo "$name: $(grep -m 1 -E '^not ok|did not reach' <<<"$result")"
  else
    printf '%s: does not build\n%s\n' "$name" "$result" >&2
    exit 1
  fi
done <"$list"
echo "mutants: $found found, ${#missed[@]} not found ${missed[*]}"
[ ${#missed[@]} -eq 0 ] && [ "$found" -gt 0 ]
