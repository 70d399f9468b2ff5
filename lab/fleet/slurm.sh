#!/usr/bin/env bash
# Runs a command inside an allocation of six nodes of a real Slurm: slurm.sh COMMAND…
# With HEALTH_CHECK, a program, the nodes run it every 5 s, and the command gets no allocation.
. "$(dirname "$0")/hosts.sh"
for program in slurmctld slurmd srun salloc munged; do
  command -v $program >/dev/null || skip "no $program (packages slurmctld, slurmd, slurm-client, munge)"
done
names=(node1 node2 node3 node4 node5 node6)
start_hosts "${names[@]}"
mkdir -p "$folder/munge" "$folder/state"
chmod 755 "$folder"
chmod 700 "$folder/munge"
dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 status=none
chmod 400 "$folder/munge/key"
background "$(command -v munged)" --foreground --force --key-file="$folder/munge/key" \
  --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" \
  --seed-file="$folder/munge/seed"
until_true 10 test -S "$folder/munge/socket" || fail "munged does not start: $(tail -n 1 "$folder/munge/log")"
chmod 755 "$folder/munge"
cpus=$(nproc)
{
  cat <<EOF
ClusterName=fathom
SlurmctldHost=control(10.213.8.1)
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=300
SlurmdTimeout=300
SlurmdParameters=config_overrides
LaunchParameters=disable_send_gids
EOF
  [ -z "${HEALTH_CHECK:-}" ] ||
    printf '%s\n' "HealthCheckProgram=$HEALTH_CHECK" HealthCheckInterval=5 HealthCheckNodeState=IDLE
  for name in "${names[@]}"; do
    echo "NodeName=$name NodeAddr=$(address "$name") NodeHostname=$name CPUs=$cpus State=UNKNOWN"
  done
  echo "PartitionName=all Nodes=node[1-6] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4"
} >"$folder/slurm.conf"
echo "CgroupPlugin=cgroup/v1" >"$folder/cgroup.conf"
export SLURM_CONF=$folder/slurm.conf
background unshare --uts sh -c "hostname control && exec slurmctld -D -f '$folder/slurm.conf'"
for name in "${names[@]}"; do
  mkdir -p "$folder/spool.$name"
  background nsenter --target "${host_pid[$name]}" --net --uts "$(command -v slurmd)" -D -N "$name" \
    -f "$folder/slurm.conf"
done
if [ -n "${HEALTH_CHECK:-}" ]; then
  "$@" || exit
  exit
fi
idle() { [ "$(sinfo --noheader --states=idle --format=%D)" = 6 ]; }
until_true 60 idle || fail "the nodes of Slurm are not idle: $(sinfo --noheader --Node --long | head -n 7)"
FLEET_FOLDER=$folder salloc --quiet --nodes=6 "$@" || exit
