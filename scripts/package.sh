#!/usr/bin/env bash
# Packs the static PROGRAM of ARCH (x86_64, aarch64): program, tarball, Debian package, OCI image and
# bill of materials, in the folder OUTPUT. RUNNABLE is the same program for this machine: it writes
# man pages and completions. MATERIALS is a folder of materials.py. SOURCE_DATE_EPOCH is the
# time of all files; equal inputs give equal files.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 arch=$2 runnable=$3 materials=$4 output=$5
export LC_ALL=C TZ=UTC DPKG_DEB_THREADS_MAX=1
umask 022
case $arch in
x86_64) platform=amd64 ;;
aarch64) platform=arm64 ;;
*) echo "package: $arch: neither x86_64 nor aarch64" >&2 && exit 2 ;;
esac
maintainer='The Fathom authors <fathom@fathom.invalid>'
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
name=fathom-$version-linux-$arch
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/$name doc=$stage/$name/share/doc/fathom

scripts/install.sh "$program" "$tree" "$runnable" >/dev/null
install -Dm644 -t "$doc" LICENSE-MIT LICENSE-APACHE "$materials/THIRD-PARTY.txt" \
  /usr/share/common-licenses/LGPL-2.1
install -Dm644 data/typical/LICENSE "$doc/LICENSE-typical-machines"
mkdir -p "$output"
install -m755 "$program" "$output/$name"
install -m644 "$materials/sbom.cdx.json" "$output/$name.cdx.json"
# Files only: unpacked into /usr/local, entries of folders would change the rights of those there.
(cd "$stage" && find "$name" ! -type d | sort |
  tar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=ustar -c -T -) |
  gzip -9n >"$output/$name.tar.gz"

# Image: the program, the licences, and what a read-only root cannot make.
image=$stage/image
install -Dm755 "$program" "$image/usr/bin/fathom"
mkdir -p "$image"/{dev,etc,proc,sys,usr/share/doc}
cp -r "$doc" "$image/usr/share/doc/"
mkdir -p "$image/var" && mkdir -m 1777 "$image/tmp" "$image/var/tmp"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$image/etc/hosts"
scripts/oci.sh "$image" "$version" "$platform" "$output/$name.oci.tar"

# Debian package: the places and the compression that its policy asks for. Debian's own `fathom` is
# chess software, which an upgrade would install instead.
deb=$stage/deb
package=fathom-bench
doc=$deb/usr/share/doc/$package
mkdir -p "$deb/DEBIAN"
cp -r "$tree" "$deb/usr"
mv "$deb/usr/share/doc/fathom" "$doc"
mkdir "$deb/usr/share/zsh/vendor-completions"
mv "$deb/usr/share/zsh/site-functions/_fathom" "$deb/usr/share/zsh/vendor-completions/"
rmdir "$deb/usr/share/zsh/site-functions"
gzip -9n "$deb"/usr/share/man/man1/*
rm "$doc"/LICENSE-* "$doc/LGPL-2.1"
text() { sed 's/^$/./; s/^/ /' "$1"; }
while IFS= read -r line; do
  case $line in
  @*@) file=${line#@} && text "${file%@}" ;;
  *) printf '%s\n' "$line" ;;
  esac
done <scripts/deb/copyright >"$doc/copyright"
gzip -9n <CHANGELOG.md >"$doc/NEWS.gz"
gzip -9n >"$doc/changelog.gz" <<END
$package ($version) unstable; urgency=medium

  * Changes are in NEWS.gz.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
install -Dm644 scripts/deb/lintian-overrides "$deb/usr/share/lintian/overrides/$package"
for unit in scripts/systemd/*.service scripts/systemd/*.timer; do
  install -Dm644 -t "$deb/usr/lib/systemd/system" "$unit"
done
install -Dm644 scripts/systemd/fathom.sysusers.conf "$deb/usr/lib/sysusers.d/fathom.conf"
install -m755 -t "$deb/DEBIAN" scripts/deb/postinst scripts/deb/prerm scripts/deb/postrm
cat >"$deb/DEBIAN/control" <<END
Package: $package
Version: $version
Architecture: $platform
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$deb/usr" | cut -f1)
Recommends: ca-certificates
Section: utils
Priority: optional
Description: performance of Linux, with a prediction for every number
 Fathom measures CPU, system calls, processes, memory, files and network of a
 machine. Beside every result it prints a confidence interval, a prediction,
 and a verdict on the quality of the measurement.
END
dpkg-deb --root-owner-group -Zxz --build "$deb" "$output/${package}_${version}_$platform.deb" >/dev/null
