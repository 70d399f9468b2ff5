#!/usr/bin/env bash
# The canary in Prometheus: the commands of the systemd unit write the file of metrics,
# node_exporter's text collector shows it, Prometheus scrapes it by the configuration and
# with the rules of docs/recipes, and every query of the dashboard returns data:
#   prometheus.sh FATHOM
# In a network namespace of its own, so that the ports of the recipe are free. No service is started.
. "$(dirname "$0")/../failures.sh"
export PATH=$PATH:/usr/sbin:/sbin
[ "${1:-}" != inside ] || { shift; inside=yes; }
fathom=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
recipes=$here/../../docs/recipes unit=$here/../../scripts/systemd/fathom-canary.service
skip() { echo "skipped: $1"; exit 0; }
fail() { echo "prometheus: $1" >&2; exit 1; }
[ "$(id -u)" = 0 ] || skip "no root, which a network namespace needs"
for program in prometheus promtool prometheus-node-exporter; do
  command -v $program >/dev/null || skip "no $program (packages prometheus, prometheus-node-exporter)"
done
[ -n "${inside:-}" ] || exec unshare --net "$here/prometheus.sh" inside "$fathom"
ip link set lo up

out=$(mktemp -d -p /var/tmp)
processes=()
stop() {
  trap - EXIT
  [ ${#processes[@]} -eq 0 ] || kill "${processes[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$out"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP
until_true() { # seconds, command
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.5
  done
}

# The commands of the unit, in order, with its environment. `%S` is the folder of the state.
canary() { # name of the host, options of the export
  local state=$out/$1 line command options=${2:-} status settings=()
  mkdir -p "$state/fathom"
  # A setting a word: a value may be empty.
  mapfile -t settings < <(sed -n 's/^Environment=//p' "$unit" | tr ' ' '\n' | sed "s|%S|$state|g")
  while read -r line; do
    command=${line#-}
    status=0
    env FATHOM_HOST="$1" "${settings[@]}" FATHOM_EXPORT_OPTIONS="$options" \
      sh -c "${command//\/usr\/bin\/fathom/$fathom}" >>"$out/$1.log" 2>&1 || status=$?
    # A dash means that the status does not matter, as to systemd.
    [ $status = 0 ] || [ "$line" != "$command" ] ||
      fail "status $status of $command: $(tail -n 3 "$out/$1.log")"
  done < <(sed -n 's/^ExecStart=//p' "$unit" | sed "s|%S|$state|g")
  promtool check metrics <"$state/fathom/fathom.prom" || fail "promtool refuses the metrics of $1"
  ln -sf "$state/fathom/fathom.prom" "$out/collector/$1.prom"
  echo "canary of $1: $(grep -vc '^#' "$state/fathom/fathom.prom") series"
}
# A recorded run is the second host: it has numbers for every query, however busy this machine is.
gunzip -c "$here/../../crates/cli/tests/golden/quick-1.json.gz" >"$out/recorded.json"
mkdir -p "$out/collector"
"$fathom" export "$out/recorded.json" --format openmetrics -o "$out/collector/recorded.prom"
"$fathom" export "$out/recorded.json" --format limits -o "$out/limits.toml"
canary first "--limits $out/limits.toml"

prometheus-node-exporter --web.listen-address=127.0.0.1:9100 --collector.disable-defaults \
  --collector.textfile --collector.textfile.directory="$out/collector" 2>"$out/exporter.log" &
processes+=($!)
until_true 20 curl -sf http://127.0.0.1:9100/metrics || fail "$(tail -n 1 "$out/exporter.log")"
! curl -sf http://127.0.0.1:9100/metrics | grep -q '^node_textfile_scrape_error 1' ||
  fail "the text collector refuses a file: $(tail -n 1 "$out/exporter.log")"
prometheus --config.file="$recipes/prometheus.yml" --storage.tsdb.path="$out/data" \
  --web.listen-address=127.0.0.1:9090 2>"$out/prometheus.log" &
processes+=($!)
until_true 30 curl -sf http://127.0.0.1:9090/-/ready || fail "$(tail -n 1 "$out/prometheus.log")"
scraped() { [ "$(python3 "$here/dashboard.py" hosts http://127.0.0.1:9090)" = "first vm" ]; }
until_true 90 scraped || fail "Prometheus has not scraped both hosts"
python3 "$here/dashboard.py" queries http://127.0.0.1:9090 "$recipes/grafana-dashboard.json"
