#!/usr/bin/env bash
# Unpacks kernel, headers and build tools of a Debian kernel series (6.1 or 6.12) into
# FOLDER/SERIES, without root: `vmlinuz`, `config` and a headers folder that `build` links to.
# What is unpacked already is kept; a newer kernel is fetched after `rm -r FOLDER`.
set -euo pipefail
folder=$1 series=$2
here=$folder/$series
[ -e "$here/done" ] && exit 0
fail() {
  echo "kmod: $1" >&2
  exit 1
}
case $series in
6.1) flavour=cloud-amd64 ;;
6.12) flavour=6.12-cloud-amd64 ;;
*) fail "kernel series $series: expected 6.1 or 6.12" ;;
esac
command -v apt-get >/dev/null || fail "no apt-get: these tests need Debian 12's packages"
# The metapackage's dependency has the ABI number and the version; headers and image share both.
depends=$(apt-cache show "linux-image-$flavour" 2>/dev/null |
  sed -n '0,/^Depends:/s/^Depends: linux-image-\([^ ]*\) (= \([^)]*\)).*/\1 \2/p')
read -r release version <<<"$depends" || true
case ${release:-} in
"$series".*) ;;
*) fail "apt offers no linux-image-$flavour $series; run as root on Debian 12: apt-get update" ;;
esac
base=${release%-"${flavour#6.12-}"}
kbuild=$base
[ "$series" = 6.1 ] && kbuild=6.1
rm -rf "$here"
mkdir -p "$here"
here=$(cd "$here" && pwd)
cd "$here"
for package in "linux-image-$release" "linux-headers-$release" "linux-headers-$base-common" \
  "linux-kbuild-$kbuild"; do
  apt-get download -qq "$package=$version" 2>apt.log ||
    fail "cannot download $package $version: $(tail -n 1 apt.log)"
done
for part in vmlinuz config; do
  dpkg-deb --fsys-tarfile linux-image-*.deb | tar -xO "./boot/$part-$release" >"$part"
done
rm linux-image-*.deb
for package in *.deb; do dpkg-deb -x "$package" .; done
rm ./*.deb
# The Makefile includes the common headers by their installed path.
sed -i "s|/usr/src|$here/usr/src|g" "usr/src/linux-headers-$release/Makefile"
# Tools are found by a link to /usr/lib.
for link in "usr/src/linux-headers-$release/scripts" "usr/src/linux-headers-$release/tools" \
  "usr/src/linux-headers-$base-common/scripts" "usr/src/linux-headers-$base-common/tools"; do
  if [ -L "$link" ]; then
    ln -sfn "$here/usr/lib/linux-kbuild-$kbuild/$(basename "$link")" "$link"
  fi
done
ln -s "usr/src/linux-headers-$release" build
echo "$release $version" >done
