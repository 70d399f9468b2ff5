#!/usr/bin/env bash
# Raw values as CSV are one table to pandas, as many and the same as in JSON; and
# docs/recipes/notebook.ipynb runs from its first cell to its last:
#   notebook.sh FATHOM
. "$(dirname "$0")/../failures.sh"
fathom=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
recipes=$(realpath "$here/../../docs/recipes")
skip() { echo "skipped: $1"; exit 0; }
. "$here/python.sh"
out=$(mktemp -d -p /var/tmp)
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM HUP
cd "$out"
export FATHOM_STORE=$out/fathom.db
for run in 1 2 3; do
  "$fathom" run --quick --only --label "notebook $run" -q memory.latency os.syscall
done
"$fathom" export --all --samples --format csv -o all.csv
"$fathom" export --all --samples --format jsonl -o runs.jsonl
"$python" "$here/tables.py" all.csv runs.jsonl
"$fathom" export latest --samples --format csv -o samples.csv
"$fathom" export --all --format csv -o runs.csv
cp "$recipes/notebook.ipynb" .
"$python" -m jupyter nbconvert --log-level=WARN --to notebook --execute notebook.ipynb --output done.ipynb
"$python" -c '
import json
cells = [cell for cell in json.load(open("done.ipynb"))["cells"] if cell["cell_type"] == "code"]
pictures = sum("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])
assert all(cell["execution_count"] for cell in cells) and pictures == 3, (len(cells), pictures)
print(f"notebook: {len(cells)} cells executed, {pictures} pictures")'
"$python" -c '
import json, sys
cells = json.load(open(sys.argv[1]))["cells"]
assert not any(cell.get("outputs") for cell in cells), "the notebook has outputs; strip them"' \
  "$recipes/notebook.ipynb"
