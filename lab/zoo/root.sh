#!/usr/bin/env bash
# Makes an image of a small Debian system with systemd: root.sh IMAGE BYTES
# What is made already is kept.
. "$(dirname "$0")/../failures.sh"
image=$1 bytes=$2
[ ! -e "$image" ] || exit 0
export PATH=$PATH:/usr/sbin
fail() {
  echo "zoo: $1" >&2
  exit 1
}
command -v mmdebstrap >/dev/null || fail "no mmdebstrap, which makes a Debian system"
tree=$(mktemp -d -p /var/tmp)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
mmdebstrap --quiet --variant=minbase --include=systemd-sysv,dbus bookworm "$tree" \
  "${DEBIAN_MIRROR:-http://deb.debian.org}/debian" 2>"$image.log" ||
  fail "mmdebstrap: $(grep -m 1 '^E:' "$image.log")"
truncate -s "$bytes" "$image.part"
mkfs.ext4 -q -b 4096 -d "$tree" "$image.part"
mv "$image.part" "$image"
