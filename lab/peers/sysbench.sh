# sysbench memory counts block size × passes: true of memory only where the block is larger than the
# caches, and each thread has its own (scope=local; by default all read one block, and share it).
sysbench_rate() { # operation, threads
  on "$2" sysbench memory --threads="$2" --memory-scope=local --memory-oper="$1" --time=1 \
    --memory-block-size=256M --memory-total-size=1000G run |
    sed -n 's/.*(\([0-9.]*\) MiB\/sec).*/\1/p' |
    awk -v name="memory.bandwidth{$1:$2}" '{print name, $1 * 1048576}'
}
sysbench_peer() {
  sysbench_rate read 1
  sysbench_rate write 1
  if [ "$cores" != 1 ]; then sysbench_rate read "$cores"; fi
}
sysbench_ours() { bandwidth_ours read:1 write:1 "read:$cores"; }
if has sysbench sysbench; then
  echo "beside sysbench memory:"
  in_turn sysbench_ours sysbench_peer
fi
