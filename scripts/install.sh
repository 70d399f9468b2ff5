#!/usr/bin/env bash
# Installs the program, its man pages and its shell completions.
set -euo pipefail
program=$1 prefix=$2
install -Dm755 "$program" "$prefix/bin/fathom"
"$program" man "$prefix/share/man/man1"
complete() { mkdir -p "$(dirname "$2")"; "$program" completions "$1" >"$2"; }
complete bash "$prefix/share/bash-completion/completions/fathom"
complete zsh "$prefix/share/zsh/site-functions/_fathom"
complete fish "$prefix/share/fish/vendor_completions.d/fathom.fish"
