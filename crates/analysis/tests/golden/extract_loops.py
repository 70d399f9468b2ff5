"""Extracts reference loops and process medians of some cases from runs.

    python3 extract_loops.py NAME=RUN.json[.gz]… >loops.json

Of each run: the cases, each a list of visits; a visit is its median and its loops, of which each is
the part that a busy SMT sibling slows and the part that only the frequency slows, in nanoseconds."""

import gzip
import json
import statistics
import sys

CASES = 12


def visits_of(record):
    for sample in record["samples"]:
        loops = list(zip(sample.get("reference_ns", []), sample.get("frequency_ns", [])))
        if loops and sample["values"]:
            median = float(f"{statistics.median(sample['values']):.4g}")
            # Three in thirteen: the first, the middle and the last.
            some = [loops[0], loops[len(loops) // 2], loops[-1]]
            yield [median] + [round(part) for loop in some for part in loop]


def main():
    runs = {}
    for argument in sys.argv[1:]:
        name, path = argument.split("=")
        opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
        with opened as file:
            records = json.load(file)["records"]
        # Cases whose visits the core decides.
        chosen = [
            record
            for record in records
            if (record.get("summary") or {}).get("not_selected") in (None, "too_few_clean")
            and len(record.get("samples") or []) >= 5
        ]
        step = max(1, len(chosen) // CASES)
        runs[name] = [list(visits_of(record)) for record in chosen[::step][:CASES]]
    json.dump(runs, sys.stdout, separators=(",", ":"))
    print()


main()
