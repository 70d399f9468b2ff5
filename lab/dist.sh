#!/usr/bin/env bash
# Delivers what `make dist` built as its users would: the package installed, upgraded, removed and
# purged in fresh Debian systems, the image run by a container runtime, the sums signed and
# verified. Writes docs/evidence/DIST.md.
# Usage: dist.sh [SUITE…]          default bullseye bookworm trixie; needs root
. "$(dirname "$0")/failures.sh"
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- bullseye bookworm trixie
export PATH=$PATH:/usr/sbin LC_ALL=C
page=docs/evidence/DIST.md mirror=${DEBIAN_MIRROR:-http://deb.debian.org}/debian
folder=$(mktemp -d -p /var/tmp)
errors=$folder/errors
chmod 755 "$folder"
clean() {
  # Made by subshells.
  for mount in "$folder"/*/{proc,sys,dev}; do umount -l "$mount" 2> /dev/null || :; done
  rm -rf --one-file-system "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP
machine=$(uname -m)
case $machine in x86_64) platform=amd64 ;; aarch64) platform=arm64 ;; esac
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
deb=$(echo dist/*_"$platform".deb)
[ -e "$deb" ] || { echo "lab/dist.sh: no $deb; \`make dist\` builds it" >&2 && exit 1; }
results=$folder/results
say() { echo "$*" && echo "- $*" >> "$results"; }

# The same package with an older version: what an upgrade starts from.
dpkg-deb -R "$deb" "$folder/older"
sed -i 's/^Version: .*/Version: 0.0.1/' "$folder/older/DEBIAN/control"
dpkg-deb --root-owner-group -b "$folder/older" "$folder/older.deb" > /dev/null

installed() { # root: what the package could have left
  find "$1" -xdev \( -name '*fathom*' -o -name _fathom \) ! -path '*/apt/*' \
    ! -path '*/var/lib/dpkg/*' ! -name '*.deb' | sed "s,^$1,," | sort
}

try_suite() { # suite
  local root=$folder/$1
  mmdebstrap --quiet --variant=minbase --include=systemd,adduser "$1" "$root" "$mirror" 2> "$errors"
  inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive HOME=/home "$@"; }
  cp "$folder/older.deb" "$root/older.deb"
  cp "$deb" "$root/new.deb"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount --bind /dev "$root/dev"
  inside dpkg -i /older.deb > /dev/null 2> "$errors"
  inside dpkg -i /new.deb > /dev/null 2> "$errors"
  inside fathom --version | grep -q "^fathom $version"
  inside fathom run --quick --only cpu.call --json 2> "$errors" | grep -Eq '"state": ?"complete"'
  local files
  files=$(installed "$root" | wc -l)
  inside dpkg -r fathom-bench > /dev/null 2> "$errors"
  [ ! -e "$root/usr/bin/fathom" ]
  inside dpkg -P fathom-bench > /dev/null 2> "$errors"
  inside sh -c "rm -rf ~/.local /older.deb /new.deb"
  local left
  left=$(installed "$root")
  [ -z "$left" ] || { echo "left in $1: $left" >&2 && return 1; }
  say "$1 ($(. "$root/etc/os-release" && echo "$PRETTY_NAME")): installed, upgraded from 0.0.1, measured, removed, purged: of $files paths nothing is left"
}

try_image() {
  local image=dist/fathom-$version-linux-$machine.oci.tar name=
  podman=(podman --root "$folder/containers" --runroot "$folder/running" --storage-driver vfs --cgroup-manager cgroupfs --runtime runc)
  name=$("${podman[@]}" load -q -i "$image" 2> "$errors" | sed -n 's/^Loaded image[^:]*: *//p' | head -n 1)
  # The limits of a runtime may be above those of this machine.
  limits=(--ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
  run() { "${podman[@]}" run --rm "${limits[@]}" --network none --read-only --tmpfs /var/tmp "$name" "$@" 2> "$errors"; }
  # Whole: podman fails where its reader has left.
  run --version > "$folder/version"
  grep -q "^fathom $version" "$folder/version"
  run run --quick --only --store /var/tmp/fathom.db --json cpu.call > "$folder/run.json"
  grep -Eq '"state": ?"complete"' "$folder/run.json"
  say "the image by $(podman --version) and runc: its version, and a run in a read-only root without a network"
}

try_signature() {
  local sums=dist/fathom-$version-SHA256SUMS
  ssh-keygen -q -t ed25519 -N '' -C release -f "$folder/key"
  cp "$sums" "$folder/sums"
  ssh-keygen -q -Y sign -n fathom-release -f "$folder/key" "$folder/sums" 2> "$errors"
  echo "release $(cut -d' ' -f1,2 "$folder/key.pub")" > "$folder/signers"
  verify() { ssh-keygen -Y verify -f "$folder/signers" -I release -n fathom-release -s "$folder/sums.sig" < "$1"; }
  verify "$folder/sums" > /dev/null
  sed 's/^./x/' "$sums" > "$folder/other"
  ! verify "$folder/other" > /dev/null 2>&1
  (cd dist && sha256sum --check --quiet "fathom-$version-SHA256SUMS")
  say "the sums by \`ssh-keygen -Y\` with a new key: signed, verified; a changed file is refused; all files have their sums"
}

# What a program consists of, by the crates whose code it is; generic code counts where it is written.
parts() { # unstripped program
  nm -S --size-sort -C "$1" | python3 -c '
import collections, re, sys
sizes = collections.Counter()
for line in sys.stdin:
    words = line.rstrip().split(" ", 3)
    if len(words) == 4 and words[2] in "tTwW":
        crate = re.match(r"[<&\s]*(?:mut )?(?:dyn )?([a-z_0-9]+)::", words[3])
        sizes[crate.group(1) if crate else "C, assembler, closures"] += int(words[1], 16)
print("| crate | KiB of code |\n|---|--:|")
for crate, size in sizes.most_common(16):
    print(f"| {crate} | {size // 1024} |")
'
}

for suite; do part "$suite" try_suite "$suite"; done
part image try_image
part signature try_signature
{
  echo "# What is delivered"
  echo
  echo "- Command: \`make lab PART=dist\`"
  echo "- Commit: $(git -c safe.directory='*' log -1 --format=%h --abbrev=8 -- . ':(exclude)docs/evidence')"
  echo "- Machine: $(target/release/fathom doctor --json 2> /dev/null | jq -r '.host | "\(.cpu.model), \(.cpu.logical) logical CPUs, kernel \(.kernel), hypervisor \(.virtualization)"' || :)"
  echo "- Date (UTC): $(date -u +%F)"
  echo
  echo "| criterion | |"
  echo "|---|---|"
  all=$(($# + 2)) right=$(wc -l < "$results")
  [ "$right" = "$all" ] && word=met || word='**MISSED**'
  echo "| Of $all deliveries below all succeed: $right | $word |"
  for built in target/dist/*/seconds; do
    [ -e "$built" ] || continue
    read -r seconds cpu < "$built"
    echo "| $(basename "$(dirname "$built")"): built in $seconds s, $cpu s of CPU time (both architectures at most 1500 s on two quiet CPUs) | $([ "$seconds" -le 750 ] && echo met || echo '**MISSED**') |"
  done
  for program in dist/fathom-"$version"-linux-{x86_64,aarch64}; do
    [ -e "$program" ] || { echo "| $(basename "$program"): not built | **MISSED** |" && continue; }
    size=$(stat -c %s "$program")
    echo "| $(basename "$program"): $((size / 1024)) KiB, at most 20480 | $([ "$size" -le $((20 << 20)) ] && echo met || echo '**MISSED**') |"
  done
  echo
  cat "$results"
  unstripped=target/$machine-unknown-linux-gnu/dist/fathom
  if [ -e "$unstripped" ]; then
    echo
    echo "What the program of $machine consists of:"
    echo
    parts "$unstripped"
  fi
  echo
  echo '```text'
  cat dist/*-SHA256SUMS
  echo '```'
} > "$folder/page"
cp "$folder/page" "$page"
end_parts
