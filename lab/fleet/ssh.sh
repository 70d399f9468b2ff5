#!/usr/bin/env bash
# Runs a command beside six hosts that sshd serves, reached by name with `ssh node1`…`ssh node6`:
#   ssh.sh COMMAND…
. "$(dirname "$0")/hosts.sh"
command -v sshd >/dev/null || skip "no sshd (package openssh-server)"
names=(node1 node2 node3 node4 node5 node6)
start_hosts "${names[@]}"
ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
ssh-keygen -q -t ed25519 -N '' -f "$folder/host"
mkdir -p /run/sshd "$folder/bin" "$folder/sys"
# Each host sees its own network interfaces in sysfs, and all else of this machine.
own_links="mount -t sysfs none $folder/sys &&
  for links in class/net devices/virtual/net; do mount --bind $folder/sys/\$links /sys/\$links; done;"
cp "$folder/key.pub" "$folder/authorized"
for name in "${names[@]}"; do
  cat >"$folder/sshd.$name" <<EOF
ListenAddress $(address "$name")
HostKey $folder/host
AuthorizedKeysFile $folder/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
MaxStartups 100
EOF
  background nsenter --target "${host_pid[$name]}" --net --uts unshare --mount \
    sh -c "$own_links exec $(command -v sshd) -D -f $folder/sshd.$name"
  printf 'Host %s\n  HostName %s\n' "$name" "$(address "$name")" >>"$folder/config"
done
cat >>"$folder/config" <<EOF
Host *
  User root
  IdentityFile $folder/key
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
  BatchMode yes
EOF
# The programs `ssh` and `scp`, with these hosts in their configuration.
for program in ssh scp; do
  printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v $program)" "$folder/config" >"$folder/bin/$program"
  chmod +x "$folder/bin/$program"
done
for name in "${names[@]}"; do
  until_true 20 "$folder/bin/ssh" "$name" true || fail "no ssh to $name"
done
PATH=$folder/bin:$PATH FLEET_FOLDER=$folder "$@" || exit
