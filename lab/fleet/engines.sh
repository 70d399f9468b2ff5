#!/usr/bin/env bash
# The same run of six hosts by ssh, Slurm and mpirun: each delivers all runs, in one shape:
#   engines.sh FATHOM
. "$(dirname "$0")/../failures.sh"
fathom=$(realpath "$1")
cd "$(dirname "$0")"
out=$(mktemp -d -p /var/tmp)
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM HUP
export FATHOM_STORE=$out/fathom.db
words=(--same-host --at-once 1 --quick --only cpu.clock.read --json)

# Whether hosts are odd depends on the machine; that all have delivered does not.
try() { # name, command
  local name=$1 status=0
  shift
  "$@" >"$out/$name.json" 2>"$out/$name.log" || status=$?
  case $status in
  0 | 3 | 5) ;;
  *) echo "$name: status $status" && tail -n 3 "$out/$name.log" && return 1 ;;
  esac
  if grep -q ^skipped: "$out/$name.json"; then cat "$out/$name.json" && rm "$out/$name.json"; fi
}

part ssh try ssh ./ssh.sh "$fathom" fleet run --hosts 'node[1-6]' --push "${words[@]}"
part slurm try slurm ./slurm.sh "$fathom" fleet run --listen 10.213.8.1 "${words[@]}"
part mpirun try mpirun ./ssh.sh "$PWD/mpi.sh" "$fathom" "${words[@]}"
python3 - "$out"/*.json <<'END'
import json, pathlib, sys

shapes = {}
for path in map(pathlib.Path, sys.argv[1:]):
    whole = json.loads(path.read_text())
    assert whole["hosts"] == 6, f"{path.stem}: {whole['hosts']} hosts"
    shapes[path.stem] = sorted(whole)
    print(f"{path.stem}: 6 hosts")
assert len(set(map(tuple, shapes.values()))) == 1, shapes
END
end_parts
