#!/usr/bin/env bash
# The manifests have the fields that Kubernetes knows, and no others; nothing is sent to a cluster:
#   kubernetes.sh FATHOM
. "$(dirname "$0")/../failures.sh"
fathom=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
skip() { echo "skipped: $1"; exit 0; }
. "$here/python.sh"
out=$(mktemp -d -p /var/tmp)
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM HUP
"$python" "$here/manifests.py" "$here"/../../docs/recipes/kubernetes-*.yml
