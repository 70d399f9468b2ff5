#!/usr/bin/env bash
# Makes the first file system of an emulated machine: busybox, the kernel's modules and what FOLDER
# holds. initramfs.sh KERNEL FOLDER OUTPUT [MODULE...]
. "$(dirname "$0")/../failures.sh"
kernel=$1 folder=$2 output=$3
shift 3
export PATH=$PATH:/usr/sbin
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{bin,modules,dev,proc,sys,tmp,run,etc,mnt,data}
cp "$kernel/busybox" "$tree/bin/busybox"
cp -r "$folder"/. "$tree"
# In the order of their dependencies; those of the kernel's image are left out.
: >"$tree/modules/order"
for module; do
  found=$(modprobe -d "$kernel" -S "$(cat "$kernel/release")" --show-depends "$module" 2>/dev/null) ||
    { echo "zoo: the kernel has no module $module" >&2; exit 1; }
  while read -r how path _; do
    [ "$how" = insmod ] || continue
    name=$(basename "$path" .xz)
    [ ! -e "$tree/modules/$name" ] || continue
    case $path in *.xz) xz -dc "$path" ;; *) cat "$path" ;; esac >"$tree/modules/$name"
    echo "$name" >>"$tree/modules/order"
  done <<<"$found"
done
# Not compressed: an emulated CPU would take seconds to unpack it.
(cd "$tree" && find . | cpio -o -H newc --quiet) >"$output"
