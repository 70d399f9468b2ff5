#!/usr/bin/env bash
# The manifests have the fields that Kubernetes knows, and no others; nothing is sent to a cluster:
#   kubernetes.sh
. "$(dirname "$0")/../failures.sh"
here=$(realpath "$(dirname "$0")")
skip() { echo "skipped: $1"; exit 0; }
. "$here/python.sh"
"$python" "$here/manifests.py" "$here"/../../docs/recipes/kubernetes-*.yml
