#!/usr/bin/env bash
# Runs `fathom fleet run` with six members that mpirun starts, inside ssh.sh: mpi.sh PROGRAM ARGUMENT…
. "$(dirname "$0")/../failures.sh"
command -v mpirun >/dev/null || { echo "skipped: no mpirun (package openmpi-bin)" && exit 0; }
FATHOM_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export FATHOM_TOKEN
program=$1
shift
"$program" fleet run --members 6 --listen 10.213.8.1:3285 "$@" &
mpirun --allow-run-as-root --bind-to none -x FATHOM_TOKEN -H node1,node2,node3,node4,node5,node6 -N 1 \
  "$program" fleet member --join 10.213.8.1:3285 >"$FLEET_FOLDER/mpirun.log" 2>&1 ||
  { tail -n 3 "$FLEET_FOLDER/mpirun.log" >&2 && kill %1; }
wait %1
