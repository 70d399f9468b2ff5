#!/usr/bin/env bash
# Runs `make test` once under a condition that shows which tests depend on the machine:
#   loaded    on one CPU, beside stress-ng on the same CPU
#   stranger  without privileges and IPv6, in another locale and time zone, with umask 077, in a
#             clone in a path with spaces
#   twice     in two clones at once
# The clones stay below /var/tmp, so that the next run need not build again. Needs root and stress-ng.
set -euo pipefail
condition=$1 folder='/var/tmp/fathom flaky'
root=$(cd "$(dirname "$0")/.." && pwd)
children=()
trap '[ ${#children[@]} -eq 0 ] || kill "${children[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM HUP

# The committed state of this tree.
clone() {
  mkdir -p "$folder"
  [ -d "$1" ] || git clone --quiet --no-hardlinks "$root" "$1"
  git -C "$1" fetch --quiet origin HEAD
  git -C "$1" -c advice.detachedHead=false checkout --quiet --force FETCH_HEAD
}

# Runs in a mount and a network namespace of its own, as root.
stranger() {
  local clone=$1 home="$folder/home"
  mkdir -p "$folder/rust"
  mount --bind "$(rustc --print sysroot)" "$folder/rust"
  ip link set lo up
  sysctl -qw net.ipv6.conf.all.disable_ipv6=1
  cd "$clone"
  umask 077
  exec setpriv --reuid nobody --regid nogroup --clear-groups env -i \
    HOME="$home" CARGO_HOME="$home/cargo" CARGO_NET_OFFLINE=true USER=nobody \
    PATH="$folder/rust/bin:/usr/local/bin:/usr/bin:/bin" LC_ALL=de_DE.UTF-8 TZ=Asia/Kathmandu make test
}

case $condition in
loaded)
  cd "$root"
  taskset -c 0 stress-ng --quiet --cpu 4 --io 2 --vm 2 --vm-bytes 1G &
  children+=($!)
  taskset -c 0 make test
  ;;
stranger)
  clone="$folder/a clone"
  # git and cargo refuse what belongs to somebody else.
  [ ! -d "$clone" ] || chown -R root "$clone"
  clone "$clone"
  (cd "$clone" && cargo fetch --quiet --locked && scripts/web.sh packages && scripts/needs.sh tests)
  mkdir -p "$folder/home/cargo"
  cp -ru "${CARGO_HOME:-$HOME/.cargo}/registry" "$folder/home/cargo/"
  chown -R nobody:nogroup "$clone" "$folder/home"
  chmod 755 "$folder"
  export -f stranger
  export folder
  unshare --mount --net bash -c 'set -euo pipefail; stranger "$1"' _ "$clone"
  ;;
twice)
  status=0
  for name in one two; do
    clone "$folder/$name"
    (cd "$folder/$name" && make test) >"$folder/$name.log" 2>&1 &
    children+=($!)
  done
  for child in "${children[@]}"; do wait "$child" || status=1; done
  cat "$folder/one.log" "$folder/two.log"
  exit $status
  ;;
*)
  echo "flaky.sh: $condition is not a condition: loaded, stranger, twice" >&2
  exit 2
  ;;
esac
