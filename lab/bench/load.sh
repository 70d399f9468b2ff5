#!/usr/bin/env bash
# Compares the client CPU of `fathom load` with that of wrk, hey, oha and h2load, each interleaved
# with it (A B B A), against one nginx worker on another CPU: per request with files of 4 KiB, plain
# and by https (where openssl makes a certificate), per GB with files of 2 MiB. Each client is one
# thread on the last CPU; requests are counted by nginx, CPU time is of the whole process. Ratios
# below 1: Fathom needs less CPU. The same beside another program of Fathom, if BEFORE is its path.
# Usage: [BEFORE=PROGRAM] load.sh [FATHOM] [ROUNDS] [SECONDS] [PEER...]
. "$(dirname "$0")/../failures.sh"
fathom=$(realpath "${1:-target/release/fathom}") rounds=${2:-5} seconds=${3:-6}
peers=("${@:4}")
[ ${#peers[@]} -gt 0 ] || peers=(${BEFORE:+before} wrk hey oha h2load)
here=$(dirname "$0")
cpu=$(($(nproc) - 1)) port=18473 tls_port=18474
folder=$(mktemp -d)
server=
stop() { [ -z "$server" ] || kill "$server" 2> /dev/null || true; rm -rf "$folder"; }
trap stop EXIT
trap 'exit 130' INT TERM HUP
export FATHOM_STORE=$folder/fathom.db
# shellcheck source=lab/bench/in-turn.sh
. "$here/in-turn.sh"
has nginx nginx || exit 0
if [ "$cpu" = 0 ]; then echo "skipped: one CPU cannot run both ends"; exit 0; fi

"$fathom" load --make 64x4KiB "$folder/small" > /dev/null
"$fathom" load --make 32x2MiB "$folder/large" > /dev/null
chmod 755 "$folder"
tls=
if has openssl openssl; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
    -subj /CN=localhost -keyout "$folder/key.pem" -out "$folder/cert.pem" 2> /dev/null
  tls="listen 127.0.0.1:$tls_port ssl; ssl_certificate $folder/cert.pem;
    ssl_certificate_key $folder/key.pem;"
fi
cat > "$folder/nginx.conf" << EOF
daemon off; worker_processes 1; pid $folder/pid; error_log $folder/error.log;
events { worker_connections 1024; }
http { access_log off; sendfile on; keepalive_requests 1000000000;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi; uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$port; $tls root $folder; location = /count { stub_status; } } }
EOF
taskset -c 0 nginx -c "$folder/nginx.conf" -p "$folder" &
server=$!
url=http://127.0.0.1:$port tls_url=https://127.0.0.1:$tls_port
served() ( # the third number of the third line: requests so far
  exec 3<> "/dev/tcp/127.0.0.1/$port" || exit 1
  printf 'GET /count HTTP/1.0\r\n\r\n' >&3
  awk '/^ *[0-9]+ [0-9]+ [0-9]+/ { print $3 }' <&3
  exec 3<&-
)
for _ in $(seq 50); do served > /dev/null 2>&1 && break; sleep 0.1; done

TIMEFORMAT='%U %S'
# CPU time of a command ÷ what nginx served meanwhile, in microseconds per request and ms per GB.
cost() { # name, bytes, command …
  local name=$1 bytes=$2 before after cpu_time
  before=$(served)
  cpu_time=$({ time quietly taskset -c "$cpu" "${@:3}" 2>&3; } 3>&2 2>&1)
  after=$(served)
  echo "$cpu_time" | awk -v n=$((after - before - 1)) -v name="$name" -v bytes="$bytes" '{
    per = ($1 + $2) / n
    if (bytes < 100000) print name "{us_per_request}", per * 1e6
    else print name "{ms_per_gb}", per / bytes * 1e12
  }'
}
ours_of() { # name, folder, files, bytes, connections, url, option
  # 3: the generator is the limit, so there is no number of the server. The requests are counted.
  accepted=3 cost "load.client.$1" "$4" "$fathom" load "$6/" --urls "/$2/f{0..$(($3 - 1))}" \
    --clients "$5" --threads 1 --time "${seconds}s" "${@:7}"
}
theirs_of() { # name, folder, bytes, connections, url
  local command
  # One file: no list, no script, each one's cheapest way. One thread each.
  case $peer in
  wrk) command=(wrk -t 1 -c "$4" -d "$seconds") ;;
  hey) command=(hey -z "${seconds}s" -c "$4" -cpus 1) ;;
  oha) command=(oha -z "${seconds}s" -c "$4" --no-tui --insecure) ;;
  h2load) command=(h2load --h1 -t 1 -c "$4" -D "$seconds") ;;
  esac
  cost "load.client.$1" "$3" "${command[@]}" "$5/$2/f0"
}
ours() { fathom_of "$fathom"; }
fathom_of() { # program
  local fathom=$1
  ours_of small small 64 4096 32 "$url"
  ours_of large large 32 2097152 4 "$url"
  [ -z "$tls" ] || ours_of https small 64 4096 32 "$tls_url" --insecure
}
theirs() {
  if [ "$peer" = before ]; then fathom_of "$BEFORE"; return; fi
  theirs_of small small 4096 32 "$url"
  theirs_of large large 2097152 4 "$url"
  [ -z "$tls" ] || theirs_of https small 4096 32 "$tls_url"
}
for peer in "${peers[@]}"; do
  case $peer in h2load) package=nghttp2-client ;; oha) package='oha (or: cargo install oha)' ;; *) package=$peer ;; esac
  [ "$peer" = before ] || has "$peer" "$package" || continue
  echo "beside $peer:"
  part "$peer" in_turn ours theirs
  sed 's/^/  /' "$folder/log"
done
[ ! -e "$folder/accepted" ] ||
  echo "note: $(wc -l < "$folder/accepted") loads have status 3: the client is the limit, as it shall be here"
end_parts
