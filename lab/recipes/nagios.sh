#!/usr/bin/env bash
# `fathom check` as a monitoring plugin: one line, exit status 0 to 3 and performance data in the
# form of the guidelines; then a real Nagios runs the command of docs/recipes/nagios.cfg:
#   nagios.sh FATHOM
. "$(dirname "$0")/../failures.sh"
export PATH=$PATH:/usr/sbin
fathom=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
recipe=$here/../../docs/recipes/nagios.cfg
out=$(mktemp -d -p /var/tmp)
nagios=
stop() {
  trap - EXIT
  [ -z "$nagios" ] || kill "$nagios" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$out"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP
skip() { echo "skipped: $1"; exit 0; }
fail() { echo "nagios: $1" >&2; exit 1; }

export FATHOM_STORE=$out/fathom.db
"$fathom" run --quick --only -q 'os.syscall{call=getppid}'
FATHOM_STORE=$out/empty.db "$fathom" import - </dev/null >/dev/null 2>&1 || true
read -r low high < <("$fathom" export --format csv | python3 -c '
import csv, sys
row = next(csv.DictReader(sys.stdin))
print(row["low"], row["high"])')
limit() { echo "\"os.syscall{call=getppid}\" = \"$1 ns\"" >"$out/$2.toml"; }
limit "..$(awk -v x="$high" 'BEGIN { print 2 * x }')" 0
# An end within the interval, or where that is a point, none at all.
echo '"os.switch.process" = "..1 s"' >"$out/1.toml"
limit "..$(awk -v x="$low" 'BEGIN { print x / 2 }')" 2
echo 'no limits' >"$out/3.toml"

words=(OK WARNING CRITICAL UNKNOWN)
value="'[^'=]+'=[0-9.e+-]+([a-z%]+)?(;[0-9.e+:~@-]*){0,4}"
for status in 0 1 2 3; do
  found=0
  "$fathom" check latest --limits "$out/$status.toml" --max-age 26h >"$out/line" || found=$?
  [ $found = $status ] || fail "status $found instead of $status: $(cat "$out/line")"
  [ "$(wc -l <"$out/line")" = 1 ] || fail "more than one line"
  grep -q "^FATHOM ${words[status]} - " "$out/line" || fail "no ${words[status]}: $(cat "$out/line")"
  # Only what has a number has performance data.
  case $status in
  0 | 2) grep -qE " \| $value( $value)*$" "$out/line" || fail "no performance data: $(cat "$out/line")" ;;
  esac
  echo "status $status: $(cut -c 1-110 "$out/line")"
done

command -v nagios4 >/dev/null || skip "no nagios4 (package nagios4-core)"
chmod 711 "$out"
mkdir -p "$out"/{spool/checkresults,var}
chown -R nagios "$out"
{
  # The recipe, with the places of this test.
  sed -e 's|/usr/bin/sudo -n -u fathom ||' -e "s|/var/lib/fathom/fathom.db|$out/fathom.db|" \
    -e "s|/usr/bin/fathom|$out/fathom|" -e '/^define service/,$d' "$recipe"
  cat <<END
define timeperiod {
  timeperiod_name 24x7
  alias always
$(for day in sunday monday tuesday wednesday thursday friday saturday; do echo "  $day 00:00-24:00"; done)
}
define command {
  command_name none
  command_line /bin/true
}
define contact {
  contact_name admin
  host_notification_commands none
  service_notification_commands none
  host_notification_period 24x7
  service_notification_period 24x7
}
define contactgroup {
  contactgroup_name admins
  alias admins
  members admin
}
define host {
  host_name localhost
  address 127.0.0.1
  max_check_attempts 1
  check_period 24x7
  contact_groups admins
  notification_period 24x7
}
END
  for status in 0 1 2 3; do
    sed -n -e '/^define service/,/^}/p' "$recipe" | sed -e "s|Fathom$|Fathom $status|" \
      -e "s|/etc/fathom/limits.toml|$out/$status.toml|" -e 's|check_fathom!\(.*\)|check_fathom!\1|'
  done
} >"$out/objects.cfg"
cp "$fathom" "$out/fathom"
cat >"$out/nagios.cfg" <<END
log_file=$out/var/nagios.log
cfg_file=$out/objects.cfg
object_cache_file=$out/var/objects.cache
precached_object_file=$out/var/objects.precache
status_file=$out/var/status.dat
status_update_interval=1
state_retention_file=$out/var/retention.dat
lock_file=$out/var/nagios.pid
temp_file=$out/var/nagios.tmp
temp_path=$out/var
command_file=$out/var/nagios.cmd
query_socket=$out/var/nagios.qh
check_result_path=$out/spool/checkresults
nagios_user=nagios
nagios_group=nagios
illegal_macro_output_chars=\`~\$&|'"<>
service_inter_check_delay_method=n
max_service_check_spread=1
END
chown -R nagios "$out"
nagios4 -v "$out/nagios.cfg" >"$out/verify" || fail "$(grep -i error "$out/verify" | head -n 3)"
setpriv --reuid nagios --regid nagios --clear-groups env FATHOM_STORE= \
  "$(command -v nagios4)" "$out/nagios.cfg" >"$out/log" 2>&1 &
nagios=$!
# The states of all four services, once each was checked.
states() {
  awk '/^servicestatus/ { inside = 1 } /^\t}/ { inside = 0 }
    inside && /service_description=/ { name = $NF }
    inside && /current_state=/ { sub(/.*=/, ""); state[name] = $0 }
    inside && /has_been_checked=/ { sub(/.*=/, ""); checked += $0 }
    END { if (checked == 4) for (i = 0; i < 4; i++) printf "%s ", state[i] }' "$out/var/status.dat"
}
end=$((SECONDS + 60))
until [ "$(states 2>/dev/null)" = "0 1 2 3 " ]; do
  [ $SECONDS -lt $end ] || fail "states '$(states)' instead of 0 1 2 3: $(tail -n 3 "$out/log")"
  sleep 1
done
grep -q 'performance_data=.os.syscall' "$out/var/status.dat" || fail "Nagios has no performance data"
echo "Nagios: states 0 1 2 3, with performance data"
