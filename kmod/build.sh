#!/usr/bin/env bash
# Builds the module in a copy of its sources: build.sh HEADERS OUTPUT. Several kernels can be built
# for at the same time. With sparse installed it checks too; each warning is an error, except with
# UNCHECKED=1, for mutants.
set -euo pipefail
headers=$1 output=$2
source=$(cd "$(dirname "$0")" && pwd)
if [ ! -e "$headers/Makefile" ]; then
  echo "kmod: no kernel headers in $headers; install linux-headers-$(uname -r)" >&2
  exit 2
fi
mkdir -p "$output"
output=$(cd "$output" && pwd)
cp -pr "$source"/{Kbuild,uapi,*.c,*.h} "$output"
check=(W=1 KCFLAGS=-Werror)
if [ -n "${UNCHECKED:-}" ]; then
  check=()
elif command -v sparse >/dev/null; then
  check+=(C=2 "CF=-Wsparse-error -Wno-unknown-attribute")
fi
# The headers' vmlinux is absent or of no use: no BTF.
make -s -C "$headers" M="$output" "${check[@]}" CONFIG_DEBUG_INFO_BTF_MODULES= modules
strip -g "$output/fathom.ko"
