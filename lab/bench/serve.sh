#!/usr/bin/env bash
# Compares the CPU time of `fathom serve` and nginx, interleaved (A B B A), in a network namespace
# with cubic congestion control: per request of 4 KiB, and per GB of 2 MiB files. One server thread
# is pinned to one CPU, the client (wrk, 16 connections) to another. A ratio below 1: Fathom uses
# less. The same beside another program of Fathom, if BEFORE is its path. Then the rate of one client
# that asks for a file of 2 MiB (`fathom load`), against a bare loop of sendfile (peers/sendfile.c): a
# ratio near 1 is the goal. Needs root and a C compiler.
# Usage: [BEFORE=PROGRAM] serve.sh [FATHOM] [ROUNDS] [SECONDS] [FOLDER]
. "$(dirname "$0")/../failures.sh"
if [ "${FATHOM_BENCH_INSIDE:-}" != 1 ]; then
  # The sysctl and the ports are the namespace's own.
  FATHOM_BENCH_INSIDE=1 exec unshare --net "$0" "$@"
fi
fathom=$(realpath "${1:-target/release/fathom}") rounds=${2:-5} seconds=${3:-3}
here=$(dirname "$0")
folder=$(mktemp -d -p "${4:-/var/tmp}")
pids=()
trap 'kill "${pids[@]}" 2> /dev/null || :; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
# shellcheck source=lab/bench/in-turn.sh
. "$here/in-turn.sh"
has wrk wrk && has nginx nginx && has cc gcc || exit 0
ip link set lo up
# By the route, for both ends of both servers: a namespace's sysctl accepts only allowed ones.
ip route replace local 127.0.0.1 dev lo table local proto kernel scope host src 127.0.0.1 congctl cubic
server_cpu=0 client_cpu=$(($(nproc) - 1))

mkdir "$folder/files"
chmod 755 "$folder" "$folder/files"
head -c 4096 /dev/urandom > "$folder/files/4k"
for n in 0 1 2 3; do head -c $((2 << 20)) /dev/urandom > "$folder/files/2m$n"; done
cat > "$folder/nginx.conf" << EOF
worker_processes 1; daemon off; pid $folder/nginx.pid; error_log $folder/error.log;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
  default_type application/octet-stream;
  client_body_temp_path $folder/1; proxy_temp_path $folder/2; fastcgi_temp_path $folder/3;
  uwsgi_temp_path $folder/4; scgi_temp_path $folder/5;
  server { listen 127.0.0.1:8001; root $folder/files; }
}
EOF
cat > "$folder/2m.lua" << 'EOF'
local n = 0
request = function() n = n + 1; return wrk.format("GET", "/2m" .. n % 4) end
EOF
taskset -c $server_cpu nginx -c "$folder/nginx.conf" &
pids+=($!)
serve() { # program, port
  taskset -c $server_cpu "$1" serve "$folder/files" --threads 1 --listen "127.0.0.1:$2" > /dev/null &
  pids+=($!)
}
serve "$fathom" 8002
[ -z "${BEFORE:-}" ] || serve "$BEFORE" 8003
for port in 8001 8002 ${BEFORE:+8003}; do
  for _ in {1..100}; do
    curl -s -o /dev/null "http://127.0.0.1:$port/4k" && break
    sleep 0.1
  done
done
exec 3<> /dev/tcp/127.0.0.1/8001
[[ $(ss -tin "( sport = :8001 )") == *cubic* ]] || { echo "serve: the connections are not cubic" >&2; exit 1; }
exec 3>&-
worker=$(pgrep -P "${pids[0]}")

# CPU time of all threads of a process so far, in ns.
cpu_ns() { cat "/proc/$1/task/"*/schedstat | awk '{ all += $1 } END { printf "%.0f\n", all }'; }

measure() { # pid, port, name, wrk arguments …: prints lines "name value"
  local pid=$1 port=$2 name=$3 before after
  before=$(cpu_ns "$pid")
  taskset -c "$client_cpu" wrk -t1 -c16 -d"$seconds" "${@:4}" "http://127.0.0.1:$port/4k" \
    > "$folder/wrk" 2> "$errors"
  # Until the threads have slept, their last slice is not counted.
  sleep 0.1
  after=$(cpu_ns "$pid")
  awk -v name="$name" -v ns=$((after - before)) '
    /requests in/ { requests = $1 }
    /Non-2xx|Socket errors/ { print "wrk: " $0 > "/dev/stderr" }
    END {
      if (name == "4k") print "cpu_us_per_request{4KiB}", ns / 1e3 / requests
      else print "cpu_s_per_gb{2MiB}", ns / 1e9 / (requests * 2097152 / 1e9)
    }' "$folder/wrk"
}
all() { measure "$1" "$2" 4k; measure "$1" "$2" 2m -s "$folder/2m.lua"; }
ours() { all "${pids[1]}" 8002; }
peer() { all "$worker" 8001; }
before() { all "${pids[2]}" 8003; }

ours > /dev/null
peer > /dev/null
part nginx in_turn ours peer
echo "medians of $rounds rounds:"
awk '{ n[$2 " " $3]++; v[$2 " " $3, n[$2 " " $3]] = $4 } END {
  for (key in n) { m = n[key]
    for (i = 1; i <= m; i++) for (j = i + 1; j <= m; j++) if (v[key, j] < v[key, i]) {
      t = v[key, i]; v[key, i] = v[key, j]; v[key, j] = t }
    printf "%-40s %.3f\n", key, (v[key, int((m + 1) / 2)] + v[key, int(m / 2) + 1]) / 2 } }' \
  "$folder/log" | sort

if [ -n "${BEFORE:-}" ]; then
  echo "beside $BEFORE:"
  part before in_turn ours before
fi

cc -O2 -o "$folder/sendfile" "$here/peers/sendfile.c"
taskset -c $server_cpu "$folder/sendfile" 8004 "$folder/files/2m0" &
pids+=($!)
sleep 0.2
export FATHOM_STORE=$folder/fathom.db
rate() { # port
  taskset -c "$client_cpu" "$fathom" load "http://127.0.0.1:$1/" --urls /2m0 --clients 1 \
    --threads 1 --time "${seconds}s" --json 2> "$errors" | python3 -c '
import json, sys
for record in json.load(sys.stdin)["records"]:
    if record["metric"] == "load.throughput":
        print("requests_per_s{2MiB}", record["summary"]["median"])'
}
rate_ours() { rate 8002; }
rate_bare() { rate 8004; }
part sendfile in_turn rate_ours rate_bare
end_parts
