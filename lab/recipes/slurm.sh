#!/usr/bin/env bash
# The nodes of a real Slurm run docs/recipes/slurm-health.sh, with a recorded run in place of the
# measurement: the one odd node is drained, with the line of the check as its reason, and no other:
#   slurm.sh FATHOM
. "$(dirname "$0")/../failures.sh"
here=$(realpath "$(dirname "$0")")
if [ "${1:-}" = watch ]; then # inside Slurm
  ln -s "$SLURM_CONF" "$RECIPE_FOLDER/slurm.conf"
  nodes() { sinfo --noheader --Node --format='%N %t'; }
  drained() { nodes | awk '$2 ~ /^drain/ { print $1 }' | paste -sd' '; }
  # Each node three times, so that a second one would be drained, too.
  checked() { [ "$(wc -l <"$RECIPE_FOLDER/checked")" -ge 18 ] && [ -n "$(drained)" ]; }
  end=$((SECONDS + 120))
  until [ -e "$RECIPE_FOLDER/checked" ] && checked; do
    [ $SECONDS -lt $end ] || { echo "slurm: no node was drained: $(nodes | paste -sd,)"; exit 1; }
    sleep 1
  done
  drained=$(drained)
  [ "$drained" = node4 ] || { echo "slurm: drained '$drained' instead of node4"; exit 1; }
  reason=$(sinfo --noheader --Node --nodes=node4 --format=%E)
  case $reason in
  "FATHOM CRITICAL - odd among 6 hosts"*os.syscall*) echo "Slurm: node4 drained: $reason" ;;
  *) echo "slurm: the reason is '$reason'" && exit 1 ;;
  esac
  exit
fi
fathom=$(realpath "$1")
RECIPE_FOLDER=$(mktemp -d -p /var/tmp)
export RECIPE_FOLDER
trap 'rm -rf "$RECIPE_FOLDER"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$RECIPE_FOLDER"
mkdir "$RECIPE_FOLDER/bin"
python3 "$here/hosts.py" "$here/../../crates/cli/tests/golden/quick-1.json.gz" "$RECIPE_FOLDER"
# Hands out the stored run of its node; checks are real.
cat >"$RECIPE_FOLDER/bin/fathom" <<END
#!/bin/bash
[ "\$1" = run ] || exec "$fathom" "\$@"
while [ "\$1" != -qo ]; do shift; done
cp "$RECIPE_FOLDER/\$(hostname -s).json" "\$2"
echo >>"$RECIPE_FOLDER/checked"
END
# The configuration is not in /etc here.
sed -e "s|^export PATH=|export SLURM_CONF=$RECIPE_FOLDER/slurm.conf PATH=$RECIPE_FOLDER/bin:|" -e "s|/shared/rack1.jsonl|$RECIPE_FOLDER/rack1.jsonl|" \
  "$here/../../docs/recipes/slurm-health.sh" >"$RECIPE_FOLDER/health"
chmod +x "$RECIPE_FOLDER/health" "$RECIPE_FOLDER/bin/fathom"
HEALTH_CHECK=$RECIPE_FOLDER/health "$here/../fleet/slurm.sh" "$here/slurm.sh" watch
