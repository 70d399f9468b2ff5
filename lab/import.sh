#!/usr/bin/env bash
# Files of the tools themselves, whole, imported: the medians of Fathom are those of each tool, and
# the real benchstat reads what Fathom exports. A tool that is missing is skipped, and its name said.
# Usage: import.sh [FATHOM]; PYTHON and BENCHSTAT name those programs elsewhere.
. "$(dirname "$0")/failures.sh"
fathom=$(realpath "${1:-target/release/fathom}")
python=${PYTHON:-python3} benchstat=${BENCHSTAT:-benchstat}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
cd "$folder"
export FATHOM_STORE=$folder/fathom.db
# A line of each comparison: parts are subshells.
counts=$folder/counts errors=$folder/errors
: > "$counts"

skip() { echo "skipped: $1"; echo skipped >> "$counts"; }

same() { # what, number of the tool, number of Fathom, largest difference as a share
  if awk -v a="$2" -v b="$3" -v share="$4" 'BEGIN { d = a - b; exit !((d < 0 ? -d : d) <= share * a) }'
  then verdict=equal
  else verdict=DIFFERENT
  fi
  echo $verdict >> "$counts"
  echo "$1: $2 by the tool, $3 by Fathom: $verdict"
}

number() { # label, name of the case: the number in the base unit
  "$fathom" show "$1" --json | "$python" -c '
import json, sys
for record in json.load(sys.stdin)["records"]:
    name = record["metric"]
    pairs = ",".join("%s=%s" % pair for pair in sorted(record["params"].items()))
    if name + ("{%s}" % pairs if pairs else "") == sys.argv[1]:
        print(record["summary"]["median"])' "$2"
}

from_json() { "$python" -c "import json; file = json.load(open('$1')); print($2)"; }

import_hyperfine() {
if command -v hyperfine > /dev/null; then
  hyperfine -N --runs 20 -n nap 'sleep 0.01' --export-json nap.json > /dev/null 2> "$errors"
  "$fathom" import --label nap nap.json
  same hyperfine "$(from_json nap.json "file['results'][0]['median'] * 1e9")" \
    "$(number nap import.hyperfine.nap)" 1e-12
else skip "hyperfine is missing; install with: sudo apt-get install hyperfine"; fi
}
part hyperfine import_hyperfine

import_fio() {
if command -v fio > /dev/null; then
  for run in 1 2 3 4 5; do
    fio --name=cached --ioengine=psync --rw=randread --bs=4k --size=4m --filename=data \
      --output-format=json --output="fio-$run.json" > /dev/null
  done
  "$fathom" import --label fio fio-?.json
  wanted=$("$python" -c '
import json, statistics
files = [json.load(open("fio-%d.json" % run)) for run in range(1, 6)]
print(statistics.median(file["jobs"][0]["read"]["iops"] for file in files))')
  same fio "$wanted" "$(number fio 'import.fio.cached.iops{op=read}')" 1e-12
else skip "fio is missing; install with: sudo apt-get install fio"; fi
}
part fio import_fio

import_pyperf() {
if "$python" -c 'import pyperf' 2> /dev/null; then
  "$python" -m pyperf timeit -q -p 5 -n 3 -w 1 --name sort -s 'l = list(range(1000))' 'sorted(l)' \
    -o sort.json > /dev/null
  "$fathom" import --label sort sort.json
  wanted=$("$python" -c '
import pyperf, statistics
runs = pyperf.Benchmark.load("sort.json").get_runs()
print(1e9 * statistics.median(statistics.median(run.values) for run in runs if run.values))')
  same pyperf "$wanted" "$(number sort import.pyperf.sort)" 1e-12
else skip "pyperf is missing; install with: pip install pyperf"; fi
}
part pyperf import_pyperf

import_google_benchmark() {
if c++ -x c++ -E -o /dev/null - 2> /dev/null <<< '#include <benchmark/benchmark.h>'; then
  cat > copy.cpp << 'END'
#include <benchmark/benchmark.h>
#include <cstring>
static void Copy(benchmark::State &state) {
  static char from[65536], to[65536];
  for (auto _ : state) { memcpy(to, from, state.range(0)); benchmark::ClobberMemory(); }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Copy)->Arg(4096)->Arg(65536);
BENCHMARK_MAIN();
END
  c++ -O2 copy.cpp -o copy.out -lbenchmark -pthread
  ./copy.out --benchmark_repetitions=7 --benchmark_min_time=0.05 --benchmark_format=json \
    > copy.json 2> /dev/null
  "$fathom" import --label copy copy.json
  wanted=$(from_json copy.json "[row['real_time'] for row in file['benchmarks'] if row['name'] == 'Copy/4096_median'][0]")
  same google-benchmark "$wanted" "$(number copy 'import.google-benchmark.Copy{arg=4096}')" 1e-12
else skip "Google Benchmark is missing; install with: sudo apt-get install g++ libbenchmark-dev"; fi
}
part google_benchmark import_google_benchmark

import_iperf3() {
if command -v iperf3 > /dev/null; then
  # It also ends if this script is killed.
  timeout 60 iperf3 -s -1 -p 5537 -B 127.0.0.1 > /dev/null &
  for _ in {1..50}; do
    iperf3 -c 127.0.0.1 -p 5537 -t 3 --json > tcp.json && break
    sleep 0.2
  done
  "$fathom" import --label tcp tcp.json
  same iperf3 "$(from_json tcp.json "file['end']['sum_received']['bits_per_second'] / 8")" \
    "$(number tcp 'import.iperf3.TCP.received{direction=send,streams=1}')" 1e-12
else skip "iperf3 is missing; install with: sudo apt-get install iperf3"; fi
}
part iperf3 import_iperf3

mkdir -p sum/src sum/benches
cat > sum/Cargo.toml << 'END'
[package]
name = "sum"
version = "0.1.0"
edition = "2021"
[dev-dependencies]
criterion = { version = "0.5", default-features = false }
[[bench]]
name = "sum"
harness = false
[workspace]
END
echo 'pub fn sum(n: u64) -> u64 { (0..n).map(std::hint::black_box).sum() }' > sum/src/lib.rs
cat > sum/benches/sum.rs << 'END'
use criterion::{criterion_group, criterion_main, Criterion};
fn bench(c: &mut Criterion) {
    c.bench_function("sum/100", |b| b.iter(|| sum::sum(std::hint::black_box(100))));
}
criterion_group!(benches, bench);
criterion_main!(benches);
END
import_criterion() {
if (cd sum && cargo fetch > /dev/null 2>&1); then
  (cd sum && cargo bench --bench sum -- --sample-size 10 --measurement-time 1 --warm-up-time 0.2) > /dev/null 2> "$errors"
  estimates=$(find sum/target/criterion -path '*/new/estimates.json')
  "$fathom" import --label sum "$estimates"
  same criterion "$(from_json "$estimates" "file['median']['point_estimate']")" \
    "$(number sum 'import.criterion.sum{arg=100}')" 1e-9
else skip "criterion cannot be fetched (cargo)"; fi
}
part criterion import_criterion

jars=$(find ~/.m2 \( -name 'jmh-*.jar' -o -name 'jopt-simple*.jar' -o -name 'commons-math3*.jar' \) 2> /dev/null | paste -sd : || true)
import_jmh() {
if command -v javac > /dev/null && [[ $jars == *jmh-generator-annprocess* ]]; then
  mkdir out && cat > Sum.java << 'END'
package lab;
import org.openjdk.jmh.annotations.*;
@State(Scope.Thread) @BenchmarkMode(Mode.AverageTime)
public class Sum {
  @Benchmark public long sum() { long s = 0; for (int i = 0; i < 1000; i++) s += i * 31L ^ s; return s; }
}
END
  javac -cp "$jars" -processorpath "$jars" -d out Sum.java
  java -cp "$jars:out" org.openjdk.jmh.Main -f 3 -wi 1 -i 3 -w 100ms -r 100ms -rf json -rff jmh.json > /dev/null
  "$fathom" import --label jmh jmh.json
  wanted=$(from_json jmh.json "1e9 * sorted(sorted(fork)[1] for fork in file[0]['primaryMetric']['rawData'])[1]")
  same JMH "$wanted" "$(number jmh 'import.jmh.lab.Sum.sum{mode=avgt}')" 1e-9
else skip "JMH is missing; fetch with: mvn dependency:get -Dartifact=org.openjdk.jmh:jmh-generator-annprocess:1.37"; fi
}
part jmh import_jmh

import_go() {
if command -v go > /dev/null; then
  mkdir sums && cat > sums/sums_test.go << 'END'
package sums

import (
	"sort"
	"testing"
)

func BenchmarkSort(b *testing.B) {
	for i := 0; i < b.N; i++ {
		list := make([]int, 1000)
		for at := range list {
			list[at] = (at * 7919) % 1000
		}
		sort.Ints(list)
	}
}
END
  (cd sums && printf 'module example.com/sums\n\ngo 1.20\n' > go.mod && go test -c -o sums.test) > /dev/null
  for run in 1 2 3 4 5 6 7 8 9; do
    (cd sums && ./sums.test -test.bench . -test.benchtime 20ms) > "go-$run.txt"
  done
  "$fathom" import --label go go-?.txt
  cat go-?.txt > all.txt
  wanted=$(awk '/^BenchmarkSort/ { print $3 }' all.txt | sort -n | sed -n 5p)
  case=$("$fathom" export go --format csv | grep -o 'import.go.sums.Sort,[^,]*' | tr -d ,)
  same go "$wanted" "$(number go "$case")" 1e-12
  if command -v "$benchstat" > /dev/null; then
    "$fathom" export go --format go > exported.txt
    centre() { "$benchstat" -format csv "$1" 2> /dev/null | awk -F, '/Sort/ { print $2; exit }'; }
    same benchstat "$(centre all.txt)" "$(centre exported.txt)" 1e-6
  else skip "benchstat is missing; install with: go install golang.org/x/perf/cmd/benchstat@latest"; fi
else skip "go is missing; install with: sudo apt-get install golang"; fi
}
part go import_go

count() { grep -cx "$1" "$counts" || true; }
echo "$(count equal) passed, $(count DIFFERENT) failed, $(count skipped) skipped"
end_parts
[ "$(count DIFFERENT)" = 0 ] || exit 1
