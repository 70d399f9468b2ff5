# stress-ng --stream counts the program's bytes of a variant of STREAM's four kernels together.
stress_ng_peer() {
  on 1 stress-ng --stream 1 --stream-l3-size 32M --timeout 10 2>&1 |
    sed -n 's/.*memory rate: \([0-9.]*\) MB.*/\1/p' |
    awk 'NR == 1 {print "memory.bandwidth{triad:1}", $1 * 1e6}'
}
stress_ng_ours() { bandwidth_ours triad:1; }
if has stress-ng stress-ng; then
  echo "beside stress-ng --stream:"
  in_turn stress_ng_ours stress_ng_peer
fi
