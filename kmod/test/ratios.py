#!/usr/bin/env python3
"""Ratios of the 2 x 2 of a run by the kernel devices beside those of the 2020 study.

ratios.py RUN.json STUDY.toml; fails if a combination is missing, was not verified, or is not marked
as emulated.
"""

import json
import sys
import tomllib

PATHS = ["copy", "mmap"]
PAIRS = [(send, receive) for send in PATHS for receive in PATHS]


def main(run_file, study_file):
    with open(run_file) as file:
        run = json.load(file)
    with open(study_file, "rb") as file:
        study = tomllib.load(file)["record"]
    times = [record for record in run["records"] if record["metric"] == "transfer.time"]
    assert run["host"]["emulation"] == "tcg", "the host is emulated"
    for record in run["records"]:
        if record.get("summary"):
            verdict = record["verdict"]
            causes = [reason["cause"] for reason in verdict["reasons"]]
            assert (verdict["state"], causes[0]) == ("noisy", "emulated"), record
            assert record.get("agreement") is None, record
    for name in ["small", "file"]:
        here, there = {}, {}
        for send, receive in PAIRS:
            wanted = {"set": name, "send": f"device-{send}", "receive": f"device-{receive}"}
            [record] = [one for one in times if wanted.items() <= one["params"].items()]
            check = record["checks"]["content"]
            assert not check.startswith("FAILED"), check
            here[send, receive] = record["summary"]["mean"]
            wanted = {"set": name, "send": send, "receive": receive, "io": "blocking"}
            wanted |= {"connection": "persistent", "window_bytes": 1 << 20}
            [record] = [one for one in study if wanted.items() <= one["params"].items()]
            there[send, receive] = record["measured"]
        print(f"{name}: mean time / that of copy to copy, {record_count(times)} repetitions")
        for pair in PAIRS[1:]:
            ratios = [all_times[pair] / all_times["copy", "copy"] for all_times in (here, there)]
            words = f"{pair[0]} to {pair[1]}"
            print(f"  {words:14} here {ratios[0]:5.2f}   published {ratios[1]:5.2f}")


def record_count(times):
    return times[0]["summary"]["n"]


main(*sys.argv[1:])
