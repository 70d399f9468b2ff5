#!/usr/bin/env bash
# Installs the missing packages that a build needs besides Rust, if run as root. With `tests` also
# the optional ones of the tests, which are skipped without them: strace, curl, slowhttptest, a
# parser of OpenMetrics, the tools of `fathom crosscheck`, and a browser for the page of `fathom
# report`. With `http-peers` the servers of `make http-peers`, which are not started as services.
# With `kmod` the emulator and the tools of `make kmod-test`.
set -euo pipefail
missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
get() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq &&
    apt-get install -y -qq -o DPkg::Lock::Timeout=120 --no-install-recommends "$@" >/dev/null
}
need cc build-essential
need pgrep procps
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "needs: missing packages; run: sudo apt-get install ${missing[*]}" >&2
    exit 2
  fi
  get "${missing[@]}"
fi
missing=()
if [ "${1:-}" = http-peers ]; then
  PATH=$PATH:/usr/sbin
  for server in nginx apache2 lighttpd caddy; do need "$server" "$server"; done
  [ ${#missing[@]} -eq 0 ] && exit 0
  if [ "$(id -u)" -ne 0 ]; then
    echo "needs: missing packages; run: sudo apt-get install ${missing[*]}" >&2
    exit 2
  fi
  # Packages of servers start them, unless this program forbids it.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod +x "$policy"
  fi
  get "${missing[@]}"
  exit 0
fi
if [ "${1:-}" = kmod ]; then
  PATH=$PATH:/usr/sbin
  need qemu-system-x86_64 qemu-system-x86
  need busybox busybox-static
  need cpio cpio
  need sparse sparse
  if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" -eq 0 ]; then get "${missing[@]}"; fi
  exit 0
fi
[ "${1:-}" = tests ] || exit 0
need strace strace
# Parses the export for Prometheus.
python3 -c 'import prometheus_client' 2>/dev/null || missing+=(python3-prometheus-client)
need curl curl
need slowhttptest slowhttptest
for tool in stress-ng sysbench mbw fio b3sum iperf3 sockperf; do need "$tool" "$tool"; done
need xxhsum xxhash
need ping iputils-ping
[ -e /usr/include/benchmark/benchmark.h ] || missing+=(libbenchmark-dev)
# Without Node the packaged page is used, and its tests are skipped.
if command -v node >/dev/null 2>&1 && ! command -v google-chrome >/dev/null 2>&1; then
  need chromium chromium
fi
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -eq 0 ]; then
  # One by one if not all exist in this release.
  get "${missing[@]}" || for package in "${missing[@]}"; do
    get "$package" || echo "needs: cannot install $package; its tests are skipped" >&2
  done
else
  echo "needs: missing packages: ${missing[*]}; the tests that call them are skipped" >&2
fi
