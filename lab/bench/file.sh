#!/usr/bin/env bash
# Compares reading a file with other programs, interleaved (A B B A): warm as whole processes, both
# written in pieces of 2 MiB and of 4 KiB, whose pages are in small folios, warm with memory
# bandwidth, in small blocks, and cold. Prints the ratio and its interval: smallest to
# largest of the rounds. Ratios are of throughput (above 1: Fathom is faster), for small blocks of
# latency (below 1: Fathom is faster). The same beside another program of Fathom, if BEFORE is its path.
# Usage: [BEFORE=PROGRAM] file.sh [FATHOM] [ROUNDS] [FOLDER] [GIB]; the file of GIB (default 4, on the device
# of FOLDER, default /var/tmp) is removed at the end. 5 rounds are an interval of 93.8 %.
. "$(dirname "$0")/../failures.sh"
fathom=${1:-target/release/fathom} rounds=${2:-5} bytes=$((${4:-4} << 30))
here=$(dirname "$0")
cpu=$(($(nproc) - 1))
folder=$(mktemp -d -p "${3:-/var/tmp}")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
export FATHOM_STORE=$folder/fathom.db
file=$folder/data
# shellcheck source=lab/bench/in-turn.sh
. "$here/in-turn.sh"

"$fathom" file write "$file" --block 2M --count $((bytes >> 21)) --sync data > /dev/null
fast=("$fathom" file fast)
# The value of the only record of a `fathom file` command.
value() { sed -n 's/^ *"median": \([0-9.e+-]*\),$/\1/p' | head -n 1; }

# Whole processes, from fork to exit, in GB/s; EPOCHREALTIME needs no fork.
whole() { # name, command …
  local name=$1 begin=$EPOCHREALTIME end
  quietly "${@:2}"
  end=$EPOCHREALTIME
  awk -v name="$name" -v bytes="$bytes" -v us=$((${end/./} - ${begin/./})) \
    'BEGIN { print name, bytes / us / 1000 }'
}
beside() { # name, command …: reads the cached file
  name="file.warm{process,$1}" peer=("${@:2}")
  # Reclaim takes pages of an idle file.
  cat "$file" > /dev/null
  ours() { whole "$name" "${fast[@]}" "$file"; }
  theirs() { whole "$name" "${peer[@]}"; }
  part "$name" in_turn ours theirs
}
"${fast[@]}" "$file" | sed -n '/^by\|^tried\|^speed/s/^/once: /p'
if has cc build-essential; then cc -O2 -pthread -o "$folder/pread" "$here/peers/pread.c"; fi
whole_processes() { # suffix of the names
  if has xxhsum xxhash; then beside "xxhsum-H3$1" xxhsum -H3 "$file"; fi
  if has b3sum b3sum; then beside "b3sum$1" b3sum "$file"; fi
  if [ -n "${BEFORE:-}" ]; then beside "before$1" "$BEFORE" file fast "$file"; fi
  beside "dd-1M$1" dd if="$file" of=/dev/null bs=1M
  if [ -x "$folder/pread" ]; then
    beside "pread-$(nproc)$1" "$folder/pread" "$file" "$(nproc)"
    # From the look at residency to the last byte summed: without the facts of the host and the store.
    name="file.warm{read,pread-$(nproc)$1}"
    ours() { read_alone "$name"; }
    part "$name" in_turn ours theirs
  fi
}
read_alone() { # name
  "${fast[@]}" "$file" --json | value | awk -v name="$1" '{ print name, $1 / 1e9 }'
}
whole_processes ""
large=$file file=$folder/small-pieces
"$fathom" file write "$file" --block 4096 --count $((bytes >> 12)) --sync data > /dev/null
"${fast[@]}" "$file" | sed -n '/^by\|^setup\|^speed/s/^/small pieces: /p'
whole_processes ",small-pieces"
rm "$file"
file=$large

# The read itself and memory bandwidth with as many threads.
warm_ours() { # the median of five: the other side is a median too
  for _ in 1 2 3 4 5; do "${fast[@]}" "$file" --json | value; done | sort -g |
    awk 'NR == 3 { print "file.warm{read,memory.bandwidth}", $1 / 1e9 }'
}
memory_peer() {
  "$fathom" run --quick --only --jsonl "memory.bandwidth{level=dram,op=read}" 2> "$errors" |
    sed -n "s/.*\"threads\":$(nproc)}.*\"summary\":{[^}]*\"median\":\([0-9.e+-]*\).*/\1/p" |
    awk '{ print "file.warm{read,memory.bandwidth}", $1 / 1e9 }'
}
part memory.bandwidth in_turn warm_ours memory_peer

# Latency of a call with blocks of a byte and of a page.
calls_ours() {
  for block in 1 4096; do
    "${on[@]}" "$fathom" file read "$file" --block $block --count 500000 --json | value |
      awk -v b=$block '{ print "file.calls{ns," b "}", 1e9 * b / $1 }'
  done
}
calls_peer() {
  for block in 1 4096; do
    "${on[@]}" "$folder/calls" "$file" $block 500000 2> "$errors" | awk -v b=$block '{ print "file.calls{ns," b "}", $1 }'
  done
}
if has cc build-essential; then
  cc -O3 -o "$folder/calls" "$here/peers/calls.c"
  on=(taskset -c "$cpu")
  part calls in_turn calls_ours calls_peer
fi

# Cold: both sides are measured again at their best setting of a sweep.
cold_cell() { # way threads block depth
  local cell=(--way "$1" --threads "$2" --block "$3")
  if [ "$1" = ring ]; then cell+=(--depth "$4"); fi
  "$fathom" file read "$file" "${cell[@]}" --json | value | awk '{ print $1 / 1e9 }'
}
fio_cell() { # block depth [bytes]
  fio --name=cold --filename="$file" --rw=read --direct=1 --ioengine=io_uring --fixedbufs=1 \
    --bs="$1" --iodepth="$2" --size="${3:-$bytes}" --readonly --minimal 2> "$errors" |
    awk -F';' '{ print $7 * 1024 / 1e9 }'
}
best_of() { # lines "speed cell", each cell twice: the slower of the two counts, against lucky outliers
  sort -n | awk '{ speed = $1; $1 = ""; if (!seen[$0]++) print speed $0 }' |
    sort -rn | head -n 1 | cut -d ' ' -f 2-
}
fio_sweep() {
  for _ in 1 2; do
    for block in 262144 524288 1048576 2097152 4194304; do
      for depth in 2 4 8 16 32; do
        echo "$(fio_cell $block $depth $((1 << 30))) $block $depth"
      done
    done
  done | best_of
}
sweep_of() { # way, depths …
  for _ in 1 2; do
    for threads in 1 2; do
      for block in 262144 1048576 4194304; do
        for depth in "${@:2}"; do
          # Fathom's limit of buffer memory.
          if ((threads * block * depth <= 128 << 20)); then
            echo "$(cold_cell "$1" $threads $block "$depth") $1 $threads $block $depth"
          fi
        done
      done
    done
  done | best_of
}
cold_ours() { echo "file.cold{${our_cell[0]},fio} $(cold_cell "${our_cell[@]}")"; }
cold_peer() { echo "file.cold{${our_cell[0]},fio} $(fio_cell "${fio_best[@]}")"; }
beside_fio() {
  local way depths
  read -ra fio_best < <(fio_sweep)
  for way in ring direct; do
    depths=(1)
    if [ $way = ring ]; then depths=(4 16 32); fi
    read -ra our_cell < <(sweep_of $way "${depths[@]}")
    echo "cold: fio block depth ${fio_best[*]}; ours way threads block depth ${our_cell[*]}"
    in_turn cold_ours cold_peer
  done
}
if has fio fio; then part fio beside_fio; fi
end_parts
