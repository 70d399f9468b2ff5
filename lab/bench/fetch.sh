#!/usr/bin/env bash
# Compares `fathom fetch` with curl and wget as whole processes, interleaved (A B B A): a file of GIB
# from the page cache, over loopback with cubic congestion control, into a file system in memory;
# from nginx (sendfile) and from `fathom serve`. Then its default (copy over two connections) with its
# other receive paths. Ratios of throughput: above 1, Fathom or its default is faster. Needs root.
# Usage: fetch.sh [FATHOM] [ROUNDS] [GIB] [FOLDER]
. "$(dirname "$0")/../failures.sh"
if [ "${FATHOM_BENCH_INSIDE:-}" != 1 ]; then
  # The route and the ports are the namespace's own.
  FATHOM_BENCH_INSIDE=1 exec unshare --net "$0" "$@"
fi
fathom=$(realpath "${1:-target/release/fathom}") rounds=${2:-5} bytes=$((${3:-1} << 30))
here=$(dirname "$0")
folder=$(mktemp -d -p "${4:-/dev/shm}")
pids=()
trap 'kill "${pids[@]}" 2> /dev/null || :; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
export FATHOM_STORE=$folder/fathom.db
# shellcheck source=lab/bench/in-turn.sh
. "$here/in-turn.sh"
has nginx nginx && has curl curl && has wget wget || exit 0
ip link set lo up
# By the route, for both ends: a namespace's sysctl accepts only allowed ones.
ip route replace local 127.0.0.1 dev lo table local proto kernel scope host src 127.0.0.1 congctl cubic

mkdir "$folder/files"
chmod 755 "$folder" "$folder/files"
head -c "$bytes" /dev/urandom > "$folder/files/data"
cat > "$folder/nginx.conf" << EOF
worker_processes 1; daemon off; pid $folder/nginx.pid; error_log $folder/error.log;
events { worker_connections 64; }
http {
  access_log off; sendfile on; tcp_nopush on; default_type application/octet-stream;
  client_body_temp_path $folder/1; proxy_temp_path $folder/2; fastcgi_temp_path $folder/3;
  uwsgi_temp_path $folder/4; scgi_temp_path $folder/5;
  server { listen 127.0.0.1:8001; root $folder/files; }
}
EOF
nginx -c "$folder/nginx.conf" &
pids+=($!)
"$fathom" serve "$folder/files" --listen 127.0.0.1:8002 > /dev/null &
pids+=($!)
for port in 8001 8002; do
  for _ in {1..100}; do
    curl -s -o /dev/null -r 0-0 "http://127.0.0.1:$port/data" && break
    sleep 0.1
  done
done

# Whole processes, from fork to exit, in GB/s; EPOCHREALTIME needs no fork.
whole() { # name, command …
  local name=$1 begin end
  rm -f "$folder/got"
  begin=$EPOCHREALTIME
  quietly "${@:2}"
  end=$EPOCHREALTIME
  [ "$(stat -c %s "$folder/got")" = "$bytes" ] || { echo "fetch: $2: not the whole file" >&2; exit 1; }
  awk -v name="$name" -v bytes="$bytes" -v us=$((${end/./} - ${begin/./})) \
    'BEGIN { print name, bytes / us / 1000 }'
}
medians() {
  awk '{ n[$2]++; v[$2, n[$2]] = $4 } END { for (who in n) { m = n[who]
    for (i = 1; i <= m; i++) for (j = i + 1; j <= m; j++) if (v[who, j] < v[who, i]) {
      t = v[who, i]; v[who, i] = v[who, j]; v[who, j] = t }
    printf "  %s %.2f GB/s\n", who, (v[who, int((m + 1) / 2)] + v[who, int(m / 2) + 1]) / 2 } }' "$folder/log"
}
beside() { # server, name, command …
  local url="http://127.0.0.1:$([ "$1" = nginx ] && echo 8001 || echo 8002)/data"
  name="fetch{from=$1,beside=$2}" peer=("${@:3}")
  ours() { whole "$name" "$fathom" fetch "$url" -o "$folder/got"; }
  theirs() { whole "$name" "${peer[@]}" "$url"; }
  in_turn ours theirs
  medians
}
for server in nginx serve; do
  part "curl from $server" beside $server curl curl -s -o "$folder/got"
  part "wget from $server" beside $server wget wget -q -O "$folder/got"
done
for other in "splice 1" "copy 1" "splice 2" "mmap 2"; do
  read -r receive connections <<< "$other"
  part "$other" beside nginx "$receive*$connections" "$fathom" fetch -o "$folder/got" --receive "$receive" \
    --connections "$connections"
done
end_parts
