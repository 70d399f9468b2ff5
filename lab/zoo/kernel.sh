#!/usr/bin/env bash
# Unpacks a Debian kernel and a static busybox of its architecture into FOLDER/SERIES-ARCHITECTURE,
# without root: `vmlinuz`, `release`, `busybox` and the modules. kernel.sh FOLDER SERIES ARCHITECTURE
# What is unpacked already is kept; a newer kernel is fetched after `rm -r FOLDER`.
# The package lists are private: other releases and architectures than the machine's, which stays
# as it is.
. "$(dirname "$0")/../failures.sh"
folder=$1 series=$2 architecture=$3
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
fail() {
  echo "zoo: $1" >&2
  exit 1
}
case $series in
5.10) suite=bullseye package=linux-image-$architecture ;;
6.1) suite=bookworm package=linux-image-$architecture ;;
6.12) suite=trixie package=linux-image-$architecture ;;
6.12-16k) suite=trixie package=linux-image-$architecture-16k ;;
*) fail "kernel series $series: expected 5.10, 6.1, 6.12 or 6.12-16k" ;;
esac
here=$folder/$series-$architecture
[ -e "$here/done" ] && exit 0
command -v apt-get >/dev/null || fail "no apt-get: the kernels are Debian's packages"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd) here=$folder/$series-$architecture

lists=$folder/apt/$suite-$architecture
rm -rf "$here" && mkdir -p "$here" "$lists"/{state/lists/partial,cache/archives/partial}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
printf 'deb [signed-by=%s] %s %s main\n' "$keys" "$mirror/debian" "$suite" \
  "$keys" "$mirror/debian-security" "$suite-security" >"$lists/sources.list"
: >"$lists/state/status"
apt=(-qq -o Dir::Etc::SourceList="$lists/sources.list" -o Dir::Etc::SourceParts=- -o
  Dir::State="$lists/state" -o Dir::State::status="$lists/state/status" -o
  Dir::Cache="$lists/cache" -o APT::Architecture="$architecture" -o
  APT::Architectures::="$architecture" -o Acquire::Languages=none -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update 2>"$lists/log" || fail "no package lists of $suite: $(tail -n 1 "$lists/log")"
# An archive may list security updates that it no longer has: then the package of the release.
download() {
  apt-get "${apt[@]}" download "$1" 2>"$lists/log" ||
    apt-get "${apt[@]}" download "$1/$suite" 2>>"$lists/log"
}
# The dependency of a metapackage has the name with the release.
images=$(apt-cache "${apt[@]}" show "$package" 2>/dev/null |
  sed -n 's/^Depends: \(linux-image-[^ ]*\) .*/\1/p')
[ -n "$images" ] || fail "$suite has no $package"
cd "$here"
for image in $images; do
  ! download "$image" || break
done
if ! compgen -G 'linux-image-*.deb' >/dev/null || ! download busybox-static; then
  fail "cannot download $image and busybox-static: $(grep -m 1 '^E:' "$lists/log")"
fi
dpkg-deb --fsys-tarfile linux-image-*.deb |
  tar -x --wildcards './boot/vmlinuz-*' '*lib/modules/*/kernel/*' '*lib/modules/*/modules.*'
[ ! -d usr/lib/modules ] || ln -s usr/lib lib
dpkg-deb --fsys-tarfile busybox-static*.deb | tar -xO --wildcards '*bin/busybox' >busybox
chmod +x busybox
rm ./*.deb
mv boot/vmlinuz-* vmlinuz
ls lib/modules >release
PATH=$PATH:/usr/sbin depmod -b . "$(cat release)"
touch done
