#!/usr/bin/env bash
# Boots a kernel with the module in QEMU, runs a static fathom inside (fathom-inside.sh), and prints
# the ratios of the published 2 × 2 beside those of the study. The machine has no memory checkers:
# they slow one path more than another. transfer.sh [REPETITIONS]
#   FATHOM   a static fathom program; default: it is built, with the tests of crates/paths
#   PATHS    the tests of crates/paths as a static program, to run as well
#   KERNEL   series, default 6.1
#   CACHE    kernels and build output, default target/kmod
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
repeat=${1:-20}
cache=${CACHE:-$root/target/kmod}
series=${KERNEL:-6.1}
if [ -z "${FATHOM:-}" ]; then
  target=$(uname -m)-unknown-linux-gnu
  built() { RUSTFLAGS="-C target-feature=+crt-static" cargo "$@" --release --locked --target "$target"; }
  cd "$root"
  built build -p fathom
  FATHOM=${CARGO_TARGET_DIR:-target}/$target/release/fathom
  PATHS=$(built test -p fathom-paths --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')
fi
here=$cache/transfer-$series
tree=$here/tree
rm -rf "$tree"
mkdir -p "$tree/bin"
"$root/kmod/test/fetch.sh" "$cache" "$series"
"$root/kmod/build.sh" "$cache/$series/build" "$here"
cp "$(command -v busybox)" "$tree/bin/busybox"
cp "$here/fathom.ko" "$root/kmod/test/fathom-inside.sh" "$tree"
cp "$root/kmod/test/transfer-init" "$tree/init"
cp "$FATHOM" "$tree/fathom"
[ -z "${PATHS:-}" ] || cp "$PATHS" "$tree/paths-tests"
(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$here/initrd"
timeout -k 5 "${SECONDS_MAX:-235}" qemu-system-x86_64 -accel tcg -M q35 -cpu max -smp 2 -m 1G \
  -nodefaults -no-user-config -display none -serial stdio -no-reboot \
  -kernel "$cache/$series/vmlinuz" -initrd "$here/initrd" \
  -append "console=ttyS0 quiet panic=-1 oops=panic fathom_repeat=$repeat" \
  </dev/null 2>&1 | tr -d '\r' >"$here/log" || true
grep -v '^fathom-run: ' "$here/log"
grep -q '^ok fathom inside' "$here/log"
sed -n 's/^fathom-run: //p' "$here/log" >"$here/run.json"
"$root/kmod/test/ratios.py" "$here/run.json" "$root/data/reference/2020-transfer.toml"
