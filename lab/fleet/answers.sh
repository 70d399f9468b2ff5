#!/usr/bin/env bash
# Known answers of `fathom fleet pairs`, inside ssh.sh: ssh.sh answers.sh FATHOM LAB
# Each of six hosts sends at most 100 Mbit/s. Then one sends 95, and then one link has 5 ms more delay:
# that host and that link are named, with the right kind, and nothing else. One pair at a time: six
# hosts share the CPUs of one machine, and 30 pairs take about 10 minutes. ANSWERS chooses some.
. "$(dirname "$0")/../failures.sh"
fathom=$1 lab=$2
answers=" ${ANSWERS:-healthy slow-host slow-link} "
hosts=(node1 node2 node3 node4 node5 node6)
failed=0

rate() { # host, device, Mbit/s
  ssh "$1" "tc qdisc replace dev $2 root tbf rate $3mbit burst 32k latency 50ms"
}

# What is bad by the judgement: `rate host node5`, `trip link node2 node3`.
bad='
import json, sys
for case in json.load(sys.stdin).get("between", []):
    what = "trip" if case["metric"].endswith("rtt") else "rate"
    hosts, pairs = case["hosts"], case["pairs"]
    if pairs["not_judged"]:
        print(what, "not judged:", "; ".join(pairs["not_judged"]))
    for bad in pairs["bad_hosts"]:
        ways = [way for way in ("sends", "receives") if bad[way] is not None]
        print(what, "host", hosts[bad["host"]], *ways)
    for bad in pairs["bad_links"]:
        print(what, "link", *(hosts[at] for at in bad["hosts"]))
'

named() { # what is wrong, the metric that shows it, what must be named
  local status=0 found
  [[ $answers == *" $1 "* ]] || return 0
  FATHOM_STORE=$FLEET_FOLDER/answers.db "$fathom" fleet pairs "$2" --quick --hosts 'node[1-6]' --push \
    --same-host --at-once 1 --label "$1" --json >"$FLEET_FOLDER/answer" 2>"$FLEET_FOLDER/answer.log" || status=$?
  found=$(python3 -c "$bad" <"$FLEET_FOLDER/answer" | sort | paste -sd, -)
  if [ "$found" = "$3" ]; then
    echo "$1: as expected: ${found:-nothing named} (status $status)"
  else
    echo "$1: expected '$3', named '$found' (status $status)"
    tail -n 3 "$FLEET_FOLDER/answer.log"
    failed=1
  fi
}

for host in "${hosts[@]}"; do rate "$host" eth0 100; done
named healthy "network.tcp.bandwidth{cpus=2,direction=send,streams=1}" ""
rate node5 eth0 95
named slow-host "network.tcp.bandwidth{cpus=2,direction=send,streams=1}" "rate host node5 sends"
rate node5 eth0 100

# Packets between node2 and node3 go through the relay.
relayed() { ip netns delete pairs2; ip netns delete pairs3; }
ssh node2 'ip netns attach pairs2 $$'
ssh node3 'ip netns attach pairs3 $$'
trap relayed EXIT
mkfifo "$FLEET_FOLDER/relay"
"$lab" relay pairs2 pairs3 slow0 5 <"$FLEET_FOLDER/relay" >"$FLEET_FOLDER/relay.log" &
exec 9>"$FLEET_FOLDER/relay"
until grep -q relays "$FLEET_FOLDER/relay.log"; do sleep 0.1; done
route() { # host, its address, that of the other
  ssh "$1" "ip link set slow0 up mtu 1500 && ip route add $3/32 dev slow0 src $2"
  rate "$1" slow0 100
}
route node2 10.213.8.12 10.213.8.13
route node3 10.213.8.13 10.213.8.12
named slow-link "network.tcp.rtt{bytes=1,cpus=2,mode=block}" "trip link node2 node3"
exec 9>&-
wait
exit $failed
