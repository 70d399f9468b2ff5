# sysbench memory counts block size × passes: true of memory only where the block is larger than the
# caches, and each thread has its own (scope=local; by default all read one block, and share it).
sysbench_rate() { # operation, threads → bytes a second
  on "$2" sysbench memory --threads="$2" --memory-scope=local --memory-oper="$1" --time=1 \
    --memory-block-size=256M --memory-total-size=1000G run |
    sed -n 's/.*(\([0-9.]*\) MiB\/sec).*/\1/p' | awk '{print $1 * 1048576}'
}
sysbench_read_one() { sysbench_rate read 1; }
sysbench_read_all() { sysbench_rate read "$cores"; }
sysbench_write_one() { sysbench_rate write 1; }
ours_read_one() { bandwidth read 1; }
ours_read_all() { bandwidth read "$cores"; }
ours_write_one() { bandwidth write 1; }
if has sysbench sysbench; then
  compare "read, one core ÷ sysbench memory" B/s ours_read_one sysbench_read_one
  [ "$cores" = 1 ] || compare "read, $cores cores ÷ sysbench memory" B/s ours_read_all sysbench_read_all
  compare "write, one core ÷ sysbench memory" B/s ours_write_one sysbench_write_one
fi
