"""Counts and percentiles of all AMD groups of a collection: an independent computation."""

import csv
import sys

SIZES = [(1, 4), (5, 16), (17, 10**6)]


def pairs(text):
    return {int(size): float(value) for size, value in (p.split(":") for p in text.split(";") if p)}


def percentile(values, share):
    values = sorted(values)
    at = (len(values) - 1) * share
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


def rate(row, name):
    rates = pairs(row[name + "_bytes_per_s"])
    if not rates or not row["l3_bytes"]:
        return None
    size = max(rates)
    cpus = int(row["cpus"])
    # What is copied is read and written.
    factor = 2 if name == "copy" else 1
    return factor * rates[size] if size * cpus >= 4 * int(row["l3_bytes"]) else None


def beyond_caches(row):
    latency = pairs(row["latency_ns"])
    if not latency or not row["l3_bytes"]:
        return None
    return latency[max(latency)] if max(latency) >= 3.5 * int(row["l3_bytes"]) else None


def within_l3(row):
    sizes = [
        size
        for size in pairs(row["latency_ns"])
        if row["l3_bytes"] and 4 << 20 <= size <= min(8 << 20, int(row["l3_bytes"]) / 4)
    ]
    return pairs(row["latency_ns"])[max(sizes)] if sizes else None


def show(cpu, cpus, what, size, values):
    if len(values) >= 8:
        numbers = [percentile(values, share) for share in (0.05, 0.5, 0.95)]
        print(*cpu, cpus, what, size, len(values), *map(repr, numbers))


rows = [row for row in csv.DictReader(open(sys.argv[1])) if row["cpu_vendor"] == "AuthenticAMD"]
for cpu in sorted({(row["cpu_family"], row["cpu_model"]) for row in rows}):
    for low, high in SIZES:
        group = [
            row
            for row in rows
            if (row["cpu_family"], row["cpu_model"]) == cpu and low <= int(row["cpus"]) <= high
        ]
        for size in (8 << 20, 32 << 20, 128 << 20):
            found = [pairs(row["latency_ns"]).get(size) for row in group]
            show(cpu, low, "latency", size, [value for value in found if value is not None])
        for name, of in (("dram", beyond_caches), ("l3", within_l3)):
            show(cpu, low, name, 0, [ns for ns in map(of, group) if ns is not None])
    alike = [row for row in rows if (row["cpu_family"], row["cpu_model"]) == cpu]
    for cpus in sorted({int(row["cpus"]) for row in alike}):
        for name in ("read", "write", "copy"):
            rates = [rate(row, name) for row in alike if int(row["cpus"]) == cpus]
            show(cpu, cpus, name, 0, [value for value in rates if value is not None])
