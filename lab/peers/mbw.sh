# mbw's memcpy counts a copied byte once: read and written it is two, as ours counts.
mbw_copy() { on 1 mbw -q -t 0 -n 5 128 | awk '/^AVG/ {for (i = 1; i < NF; i++) if ($i == "Copy:") print 2 * $(i + 1) * 1048576}'; }
ours_copy() { bandwidth copy 1; }
if has mbw mbw; then
  compare "copy, one core ÷ mbw memcpy × 2" B/s ours_copy mbw_copy
fi
