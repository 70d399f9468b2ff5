#!/usr/bin/env bash
# Builds the module for each kernel series, boots it in QEMU without root, runs the suite inside.
# run.sh [suite | soak=SECONDS | first]    first: stops at the first failure
#   KERNELS  series, default "6.1 6.12"
#   CACHE    kernels and build output, default target/kmod
#   SOURCE   folder of the module, default kmod (mutants are copies)
#   FATHOM   a static fathom program to run inside as well
#   VERBOSE  also print passed checks
# Prints the failed checks, the numbers per kernel and a total; fails if a check failed or a machine
# did not reach the end of its tests.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mode=${1:-suite}
cache=${CACHE:-$root/target/kmod}
source=${SOURCE:-$root/kmod}
name=$(basename "$source")
kernels=${KERNELS:-6.1 6.12}
# On an idle machine 30 s; emulated CPUs share the real ones with whatever else runs.
seconds=${SECONDS_MAX:-200}
case $mode in soak=*) seconds=$((${mode#soak=} + 120)) ;; esac

missing=()
need() { [ -n "$(command -v "$1")" ] || [ -e "/usr/sbin/$1" ] || missing+=("$2"); }
need gcc build-essential
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need cpio cpio
need sparse sparse
need dpkg-deb dpkg
if [ ${#missing[@]} -gt 0 ]; then
  echo "kmod: missing packages; run: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 2
fi
busybox=$(command -v busybox)
if ldd "$busybox" >/dev/null 2>&1; then
  echo "kmod: $busybox is not static; install busybox-static" >&2
  exit 2
fi

# The image that a series boots: the suite, the module and busybox.
image() {
  local folder=$1 tree=$1/tree
  rm -rf "$tree"
  mkdir -p "$tree/bin"
  cp "$busybox" "$tree/bin/busybox"
  cp "$root/kmod/test/init" "$tree/init"
  cp "$cache/suite" "$tree/suite"
  cp "$folder/fathom.ko" "$tree/fathom.ko"
  if [ -n "${FATHOM:-}" ]; then
    cp "$FATHOM" "$tree/fathom"
    cp "$root/kmod/test/fathom-inside.sh" "$tree/fathom-inside.sh"
  fi
  (cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$folder/initrd"
}

# Not KVM: nested virtualization hangs on some hosts, and these tests measure nothing.
boot() {
  local series=$1 folder=$2
  # Redzones, poison, and the caller of each allocation, by which leaks are found.
  local checkers="slub_debug=FZPU slab_nomerge"
  [ "$series" = 6.1 ] || checkers="$checkers kfence.sample_interval=1"
  timeout -k 5 "$seconds" qemu-system-x86_64 -accel tcg -M q35 -cpu max -smp 2 -m 1G -nodefaults \
    -no-user-config -display none -serial stdio -no-reboot \
    -kernel "$cache/$series/vmlinuz" -initrd "$folder/initrd" \
    -append "console=ttyS0 quiet panic=-1 oops=panic $checkers fathom_mode=$mode" \
    </dev/null 2>&1 | tr -d '\r' >"$folder/log" || true
}

mkdir -p "$cache"
gcc -std=gnu11 -O1 -g -static -Wall -Wextra -Werror -pthread -I"$root/kmod/uapi" \
  -o "$cache/suite" "$root"/kmod/test/suite/*.c

passed=0 failed=0 skipped=0 complete=1
for series in $kernels; do
  "$root/kmod/test/fetch.sh" "$cache" "$series"
  folder=$cache/$series/$name
  "$source/build.sh" "$cache/$series/build" "$folder"
  image "$folder"
  boot "$series" "$folder"
  log=$folder/log
  ok=$(grep -c '^ok ' "$log" || true)
  bad=$(grep -c '^not ok ' "$log" || true)
  skip=$(grep -c '^ok .*# SKIP' "$log" || true)
  [ -z "${VERBOSE:-}" ] || grep -E '^(ok|#)' "$log" || true
  grep -E '^not ok|^# ?(expected|Linux)' "$log" || true
  if ! grep -q '^fathom-tests: end$' "$log"; then
    echo "Linux $series: did not reach the end; last lines of $log:"
    tail -n 15 "$log"
    complete=0
  fi
  echo "Linux $series: $((ok - skip)) passed, $bad failed, $skip skipped"
  passed=$((passed + ok - skip)) failed=$((failed + bad)) skipped=$((skipped + skip))
done
echo "total: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$complete" -eq 1 ] && [ "$passed" -gt 0 ]
