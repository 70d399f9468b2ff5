"""Whether the table of raw values has those of the JSON: tables.py CSV JSONL"""

import json
import sys

import pandas as pd

csv, jsonl = sys.argv[1:3]
texts = {name: str for name in ("run", "metric", "params")}
table = pd.read_csv(csv, dtype=texts, keep_default_na=False, na_values={"visit_started_ns": "", "round": ""})

rows = []
for line in open(jsonl):
    run = json.loads(line)
    for record in run["records"]:
        if record["verdict"]["state"] in ("valid", "noisy"):
            for sample in record.get("samples") or []:
                rows += [(run["run"]["id"], record["metric"], json.dumps(record["params"]), sample["process"],
                          index, value) for index, value in enumerate(sample["values"])]
names = ["run", "metric", "params", "process", "index", "value"]
expected = pd.DataFrame(rows, columns=names)
found = table[names].assign(params=table.params.map(lambda text: json.dumps(json.loads(text))))
# JSON has the newest run last or first; the order within a run is the same.
order = {"by": "run", "kind": "stable", "ignore_index": True}
pd.testing.assert_frame_equal(found.sort_values(**order), expected.sort_values(**order),
                              check_dtype=False, check_exact=True)
assert len(table) > 1000 and table.run.nunique() == 3, (len(table), table.run.nunique())
print(f"tables: {len(table)} values of {table.run.nunique()} runs, the same in CSV and JSON")
