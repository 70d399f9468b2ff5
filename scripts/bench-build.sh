#!/usr/bin/env bash
# How long a build takes: from nothing, again, and after a changed line in each of three crates. In a
# copy of the committed tree, with a target folder of its own.
set -euo pipefail
cargo=${CARGO:-cargo}
copy=$(mktemp -d -p /var/tmp)
trap 'git worktree remove --force "$copy/tree"; rm -rf "$copy"' EXIT
trap 'exit 130' INT TERM HUP
git worktree add --quiet --detach "$copy/tree"
cd "$copy/tree"
"$cargo" fetch --quiet --locked
echo "CPUs: $(nproc); packages: $("$cargo" tree --locked --prefix none --edges normal,build | sort -u | wc -l)"
build() {
	local begin=$EPOCHREALTIME
	"$cargo" build --quiet --release --locked --target-dir "$copy/target"
	awk -v what="$1" -v from="$begin" -v to="$EPOCHREALTIME" \
		'BEGIN { printf "%-28s %6.1f s\n", what, to - from }'
}
build "from nothing"
build "again, nothing changed"
for crate in cli load record; do
	printf '\n#[doc(hidden)]\n#[must_use]\npub fn changed() -> u8 {\n    1\n}\n' >>"crates/$crate/src/lib.rs"
	build "a changed line in $crate"
done
