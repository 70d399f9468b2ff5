#!/bin/sh
# Fuzzes each target for SECONDS, JOBS (2) at a time: fuzz/run.sh SECONDS [TARGET …]. Without
# nightly and without cargo-fuzz: the flags are those of `cargo fuzz --sanitizer none`.
set -eu
seconds=$1
shift
cd "$(dirname "$0")"
known=$(cd targets && printf '%s ' *.rs | sed 's/\.rs//g')
for target; do
	case " $known" in
	*" $target "*) ;;
	*) echo "fuzz: $target is no target; they are $known" >&2 && exit 2 ;;
	esac
done
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}"
host=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
for option in inline-8bit-counters pc-table trace-compares; do
	flags="$flags -Cllvm-args=-sanitizer-coverage-$option"
done
# With a target the flags do not go to build scripts.
RUSTFLAGS="$flags" "${CARGO:-cargo}" build --quiet --release --locked --target "$host"
programs="$CARGO_TARGET_DIR/$host/release"
[ $# -gt 0 ] || set -- head range token control_far control_near telemetry chunks response histogram import fleet_coordinator fleet_member document import_go import_hyperfine hosts limits server_error
work="$CARGO_TARGET_DIR/work"
mkdir -p "$work"

fuzz() {
	new="$work/$1"
	mkdir -p "$new"
	# A found input stays in the folder of this script.
	if ! "$programs/$1" "$new" "corpus/$1" -max_total_time="$seconds" -max_len=4096 \
		-timeout=60 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
		-artifact_prefix="found-$1-" >"$work/$1.log" 2>&1; then
		echo "$1: FAILED; see fuzz/$work/$1.log"
		return 1
	fi
	cover=$("$programs/$1" "$new" "corpus/$1" -runs=0 2>&1 | sed -n 's/.*DONE *//p' | tail -1)
	echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$1.log") runs, $cover"
}

failed=0
while [ $# -gt 0 ]; do
	running=
	while [ $# -gt 0 ] && [ "$(echo "$running" | wc -w)" -lt "${JOBS:-2}" ]; do
		fuzz "$1" &
		running="$running $!"
		shift
	done
	for one in $running; do
		wait "$one" || failed=1
	done
done
exit $failed
