#!/usr/bin/env bash
# Builds what a release page offers, in dist/: for each architecture a static program, a tarball, a
# Debian package, an OCI image and a bill of materials; then their SHA-256 sums.
#   dist.sh [ARCH…]           x86_64 and aarch64, without ARCH both
#   dist.sh --check [ARCH…]   does so here and in a clone elsewhere, and compares all files
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
check=
[ "${1:-}" != --check ] || { check=1 && shift; }
[ $# -gt 0 ] || set -- x86_64 aarch64
for arch; do
  case $arch in
  x86_64 | aarch64) ;;
  *) echo "dist: $arch: neither x86_64 nor aarch64" >&2 && exit 2 ;;
  esac
done

if [ "$check" ]; then
  git diff-index --quiet HEAD || { echo "dist: commit the changes first: a clone has none" >&2; exit 2; }
  folder=$(mktemp -d -p /var/tmp)
  trap 'rm -rf "$folder"' EXIT
  trap 'exit 130' INT TERM HUP
  scripts/dist.sh "$@"
  git clone --quiet --no-hardlinks . "$folder/a clone"
  env -u CARGO_TARGET_DIR "$folder/a clone/scripts/dist.sh" "$@"
  diff -r dist "$folder/a clone/dist"
  echo "dist: equal in two folders: $(find dist -type f | wc -l) files"
  exit
fi

scripts/needs.sh dist
export LC_ALL=C TZ=UTC
# Sources unpacked inside another repository are not of its commit.
export GIT_CEILING_DIRECTORIES=${root%/*}
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}"
export SOURCE_DATE_EPOCH
# Extensions of SQLite that no statement uses.
export LIBSQLITE3_FLAGS="-USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
rm -rf dist
mkdir dist

# Selects what builds for an architecture: the toolchain in PATH, or that of Debian where it lacks
# the target. Fails, and says why, if there is none.
select_tools() { # architecture
  target=$1-unknown-linux-gnu cargo=${CARGO:-cargo} rustc=${RUSTC:-rustc} linker=cc runner=
  has_target() { [ -d "$("$rustc" --print sysroot)/lib/rustlib/$target/lib" ]; }
  if [ "$1" != "$(uname -m)" ]; then
    scripts/needs.sh "dist-$1"
    linker=$1-linux-gnu-gcc runner=qemu-$1-static
    has_target || scripts/needs.sh "dist-rust-$1"
  fi
  has_target || cargo=/usr/bin/cargo rustc=/usr/bin/rustc
  if [ ! -x "$(command -v "$cargo")" ] || ! has_target 2>/dev/null; then
    missing="the standard library of Rust for it; try: rustup target add $target"
  elif ! command -v "$linker" >/dev/null; then
    missing="$linker, a C compiler for it"
  elif [ "$runner" ] && ! command -v "$runner" >/dev/null; then
    missing="$runner, to write its man pages and try it"
  else
    return 0
  fi
  echo "dist: $1 is left out: missing is $missing" >&2
  return 1
}

# The program, tried once, and its bill of materials.
build() { # architecture, folder for the bill
  local sysroot flags
  sysroot=$("$rustc" --print sysroot)
  flags=(
    -Ctarget-feature=+crt-static "-Clinker=$linker" "--remap-path-prefix=$root=/fathom"
    "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
    "--remap-path-prefix=$CARGO_TARGET_DIR=/target"
    "--remap-path-prefix=$sysroot/lib/rustlib/src/rust=/rust"
  )
  # Equal functions once (generic code of types of one shape) and relocations as a bitmap, where the
  # linker of the toolchain can.
  if [ -x "$sysroot/lib/rustlib/$target/bin/rust-lld" ]; then
    flags+=(-Clink-arg=-Wl,--icf=all -Clink-arg=-Wl,-z,pack-relative-relocs)
  fi
  CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}") RUSTC=$rustc \
    "$cargo" build --profile dist --locked --package fathom --target "$target"
  program=$2/fathom runnable=$program
  local strip=strip
  [ "$linker" = cc ] || strip=${linker%gcc}strip
  "$strip" -o "$program" "$CARGO_TARGET_DIR/$target/dist/fathom"
  if readelf -lW "$program" | grep -q INTERP; then
    echo "dist: $program is not static" >&2
    exit 1
  fi
  if [ "$runner" ]; then
    runnable=$2/run
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$runner" "$program" >"$runnable"
    chmod +x "$runnable"
  fi
  "$runnable" --version | head -n 1
  local glibc
  glibc=$(printf '#include <features.h>\n__GLIBC__.__GLIBC_MINOR__' | "$linker" -E -P - | tail -n 1)
  scripts/materials.py "$target" "$2" "glibc=${glibc// /}" "libgcc=$("$linker" -dumpfullversion)" \
    "rust=$("$rustc" --version | cut -d' ' -f2)"
}

# Sets `children_s` to the CPU time of all children so far: a subshell would have its own.
count_children() {
  times >"$CARGO_TARGET_DIR/dist/times"
  children_s=$(tail -n 1 "$CARGO_TARGET_DIR/dist/times" | tr ms '  ' |
    awk '{ printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }')
}

for arch; do
  select_tools "$arch" || continue
  materials=$CARGO_TARGET_DIR/dist/$arch
  mkdir -p "$materials"
  count_children
  begun=$SECONDS used=$children_s
  build "$arch" "$materials"
  count_children
  echo "$((SECONDS - begun)) $((children_s - used))" >"$materials/seconds"
  scripts/package.sh "$program" "$arch" "$runnable" "$materials" dist
  echo "sections of the program of $arch of at least 64 KiB:"
  size -A -d "$program" |
    awk 'NF == 3 && $1 ~ /^\./ && $2 >= 65536 { printf "  %-16s %6.2f MiB\n", $1, $2 / 1048576 }'
done
cd dist
[ "$(ls)" ] || { echo "dist: nothing was built" >&2 && exit 1; }
sha256sum -- * >"fathom-$version-SHA256SUMS"
for package in *.deb; do
  lintian --allow-root --fail-on error "$package"
done
ls -l --time-style=+ | awk 'NF > 2 { printf "%7.2f MB  dist/%s\n", $5 / 1e6, $6 }'
