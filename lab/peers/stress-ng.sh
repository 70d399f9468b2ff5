# stress-ng --stream counts the program's bytes of a variant of STREAM's four kernels together.
stress_ng_triad() {
  on 1 stress-ng --stream 1 --stream-l3-size 32M --timeout 10 2>&1 |
    sed -n 's/.*memory rate: \([0-9.]*\) MB.*/\1/p' | awk '{print $1 * 1e6; exit}'
}
ours_triad() { bandwidth triad 1; }
if has stress-ng stress-ng; then
  compare "triad, one core ÷ stress-ng --stream" B/s ours_triad stress_ng_triad
fi
