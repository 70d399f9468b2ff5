# Six hosts on one machine: network and UTS namespaces on one bridge, sourced by the other scripts.
# `nsenter`, not `ip netns exec`, which hides the cgroup mounts that slurmd needs.
#   start_hosts NAME…   each gets 10.213.8.N, counted from 11; the control host is 10.213.8.1
#   on NAME COMMAND…    runs it there
# All end with this shell: hosts are children of it, and a namespace ends with its processes.
. "$(dirname "${BASH_SOURCE[0]}")/../failures.sh"
export PATH=$PATH:/usr/sbin:/sbin
folder=$(mktemp -d -p /var/tmp fathom-fleet.XXXXXX)
bridge=fathom-fleet
declare -A host_pid
processes=()
links=()

fail() {
  echo "fleet: $1" >&2
  exit 1
}

skip() {
  echo "skipped: $1"
  exit 0
}

stop_hosts() {
  local status=$?
  trap - EXIT INT TERM HUP ERR
  set +e
  [ ${#processes[@]} -eq 0 ] || kill "${processes[@]}" 2>/dev/null
  [ ${#host_pid[@]} -eq 0 ] || kill "${host_pid[@]}" 2>/dev/null
  wait 2>/dev/null
  # The kernel removes those of an ended namespace later, and the next script has the same names.
  for link in "${links[@]}" "$bridge"; do ip link del "$link" 2>/dev/null; done
  [ -n "${keep:-}" ] || rm -rf "$folder"
  exit "$status"
}
trap stop_hosts EXIT
trap 'exit 130' INT TERM HUP

# A process of the background, which is stopped at the end.
background() {
  setsid "$@" >>"$folder/background.log" 2>&1 &
  processes+=($!)
}

on() { # name, command
  local name=$1
  shift
  nsenter --target "${host_pid[$name]}" --net --uts "$@"
}

start_hosts() {
  [ "$(id -u)" = 0 ] || skip "no root, which namespaces need"
  ip link add "$bridge" type bridge || fail "a bridge $bridge exists: is another lab running?"
  ip address add 10.213.8.1/24 dev "$bridge"
  ip link set "$bridge" up
  local number=11 name
  echo "127.0.0.1 localhost" >"$folder/hosts"
  echo "10.213.8.1 control" >>"$folder/hosts"
  for name; do
    unshare --net --uts sleep infinity &
    host_pid[$name]=$!
    # Until it has left the namespaces of this shell.
    until [ "$(readlink /proc/${host_pid[$name]}/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do
      sleep 0.01
    done
    ip link add "fl$number" type veth peer name eth0 netns "${host_pid[$name]}"
    links+=("fl$number")
    ip link set "fl$number" master "$bridge" up
    on "$name" hostname "$name"
    on "$name" ip link set lo up
    on "$name" ip address add "10.213.8.$number/24" dev eth0
    on "$name" ip link set eth0 up
    echo "10.213.8.$number $name" >>"$folder/hosts"
    number=$((number + 1))
  done
}

# The address of a host.
address() { awk -v name="$1" '$2 == name { print $1 }' "$folder/hosts"; }

until_true() { # seconds, command
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}
