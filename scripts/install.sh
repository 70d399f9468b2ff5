#!/usr/bin/env bash
# Installs the program, its man pages and its shell completions below PREFIX. Where the program is of
# another architecture, RUNNABLE writes the pages and completions.
set -euo pipefail
program=$1 prefix=$2 runnable=${3:-$1}
install -Dm755 "$program" "$prefix/bin/fathom"
"$runnable" man "$prefix/share/man/man1"
complete() { mkdir -p "$(dirname "$2")"; "$runnable" completions "$1" >"$2"; }
complete bash "$prefix/share/bash-completion/completions/fathom"
complete zsh "$prefix/share/zsh/site-functions/_fathom"
complete fish "$prefix/share/fish/vendor_completions.d/fathom.fish"
