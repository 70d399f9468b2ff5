# mbw's memcpy counts a copied byte once: it is read and written, which is two, as ours counts.
mbw_peer() {
  on 1 mbw -q -t 0 -n 5 128 | awk '/^AVG/ {for (i = 1; i < NF; i++)
    if ($i == "Copy:") print "memory.bandwidth{copy:1}", 2 * $(i + 1) * 1048576}'
}
mbw_ours() { bandwidth_ours copy:1; }
if has mbw mbw; then
  echo "beside mbw, memcpy × 2:"
  in_turn mbw_ours mbw_peer
fi
