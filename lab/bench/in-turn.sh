# Runs two programs interleaved (A B B A); the including script sets `folder` and `rounds`.
# What a command says of its failure is kept in $errors, and said by failures.sh.
errors=$folder/errors

ratios() { # file of lines: round who name value
  # What one of the runs lacks has no ratio.
  awk '{ log_of[$3, $1, $2] += log($4) / 2; names[$3]++; rounds[$1] } END {
    for (round in rounds) runs += 4
    for (name in names) { n = 0; if (names[name] < runs) { lacking++; continue }
      shown++
      for (round in rounds) { r = exp(log_of[name, round, "ours"] - log_of[name, round, "peer"]); v[++n] = r }
      for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
      m = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
      printf "%-44s ratio %.3f (%.3f to %.3f) of %d rounds A B B A\n", name, m, v[1], v[n], n }
    if (lacking) print lacking " numbers are not in all runs, and left out" > "/dev/stderr"
    if (!shown) { print "no number is in all runs" > "/dev/stderr"; exit 1 }
  }' "$1" | sort
}

in_turn() { # ours, peer: each prints lines "name value"
  local log=$folder/log round who
  : > "$log"
  for ((round = 1; round <= rounds; round++)); do
    for who in ours peer peer ours; do
      if [ "$who" = ours ]; then $1; else $2; fi | sed "s/^/$round $who /" >> "$log"
    done
  done
  ratios "$log"
}

has() { # program, Debian package
  command -v "$1" >/dev/null && return
  echo "skipped: $1 is missing; install with: sudo apt-get install $2"
  return 1
}
