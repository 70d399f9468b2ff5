#!/usr/bin/env bash
# Oddities of six hosts hidden behind a seed, inside ssh.sh: ssh.sh odd.sh FATHOM [SEED [DRAWS]]
# Of each draw the kind and the host are drawn: loopback is down, so that cases fail; the host cannot
# be reached; another MTU; or nothing. `fleet run` must name that host with its kind, and none else.
. "$(dirname "$0")/../failures.sh"
fathom=$1 seed=${2:-1} draws=${3:-10}
failed=0

# Who is odd and why: `node3 fails`, `node5 missing`, `node2 MTU`.
named='
import json, sys
found = json.load(sys.stdin)
for group in found["groups"]:
    for odd in group["odd"]:
        kinds = ["fails" for one in odd.get("conduct", []) if one["kind"] == "cases"]
        kinds += [one["kind"] for one in odd.get("conduct", []) if one["kind"] != "cases"]
        kinds += [fact["fact"] for fact in odd["facts"]] + ["slow" for _ in odd["numbers"][:1]]
        for kind in sorted(set(kinds)):
            print(odd["host"], kind)
for one in found["members"]["absent"] + found["members"]["lost"]:
    print(one["host"], "missing")
'

RANDOM=$seed
for ((draw = 1; draw <= draws; draw++)); do
  host=node$((RANDOM % 6 + 1))
  case $((RANDOM % 4)) in
  0) kind=fails break="ip link set lo down" mend="ip link set lo up" ;;
  1) kind=missing break="ip link set eth0 down" mend="ip link set eth0 up" ;;
  2) kind=MTU break="ip link set eth0 mtu 1400" mend="ip link set eth0 mtu 1500" ;;
  3) kind=nothing break=true mend=true ;;
  esac
  status=0
  # By its process: the network may be what is broken.
  pid=$(pgrep -f "sshd\.$host( |\$)" | head -n 1)
  nsenter --target "$pid" --net sh -c "$break"
  FATHOM_STORE=$FLEET_FOLDER/odd.db "$fathom" fleet run 'network.tcp.rtt{bytes=1,cpus=1,mode=block}' \
    --only --quick --hosts 'node[1-6]' --push --same-host --at-once 1 --join-time 30s --json \
    >"$FLEET_FOLDER/odd" 2>"$FLEET_FOLDER/odd.log" || status=$?
  nsenter --target "$pid" --net sh -c "$mend"
  expected="$host $kind" right=3
  [ $kind != nothing ] || expected='' right='[05]'
  found=$(python3 -c "$named" <"$FLEET_FOLDER/odd" | sort | paste -sd, -) || found=unreadable
  if [ "$found" = "$expected" ] && [[ $status == $right ]]; then
    echo "draw $draw: as expected: ${found:-nothing named} (status $status)"
  else
    echo "draw $draw: expected '$expected', named '$found' (status $status)"
    tail -n 3 "$FLEET_FOLDER/odd.log"
    failed=$((failed + 1))
  fi
done
echo "seed $seed: $((draws - failed)) of $draws as expected"
[ $((10 * failed)) -le "$draws" ]
