"""Queries of the Grafana dashboard, by Prometheus: dashboard.py hosts URL | queries URL DASHBOARD

Variables have the values that the dashboard's own templating finds. Every query must return data,
and every rule must have been evaluated without an error.
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request


def ask(url, path, **parameters):
    query = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{query}", timeout=30) as answer:
        return json.load(answer)["data"]


def instant(url, expression):
    return ask(url, "query", query=expression)["result"]


def ranged(url, expression):
    now = time.time()
    found = ask(url, "query_range", query=expression, start=now - 600, end=now, step=15)
    return found["result"]


def replaced(text, values):
    def value(match):
        return values[match[1] or match[2]]

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, text)


def variable_values(url, variable, values):
    """As Grafana finds them: label_values(SERIES, LABEL), or query_result(EXPRESSION) and a regex."""
    query = replaced(variable["query"]["query"], values)
    if found := re.fullmatch(r"label_values\((.+), *(\w+)\)", query):
        return ask(url, f"label/{found[2]}/values", **{"match[]": found[1]})
    found = re.fullmatch(r"query_result\((.+)\)", query)
    assert found, f"unknown query of ${variable['name']}: {query}"
    lines = []
    for row in instant(url, found[1]):
        labels = dict(row["metric"])
        name = labels.pop("__name__", "")
        pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
        lines.append(f"{name}{{{pairs}}} {row['value'][1]} {int(row['value'][0])}000")
    pattern = re.compile(variable["regex"].strip("/"))
    return sorted({match[1] for line in lines if (match := pattern.search(line))})


def variables(url, dashboard):
    values, choices = {}, {}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "datasource":
            values[variable["name"]] = variable["query"]
            continue
        found = variable_values(url, variable, values)
        assert found, f"${variable['name']} has no values"
        default = variable["current"]["value"]
        chosen = variable["allValue"] if variable["includeAll"] else default
        assert variable["includeAll"] or default in found, f"{default} is none of {found}"
        values[variable["name"]] = chosen
        choices[variable["name"]] = found
        print(f"${variable['name']}: {len(found)} values, {chosen!r} chosen")
    return values, choices


def queries(url, path):
    dashboard = json.load(open(path))
    values, choices = variables(url, dashboard)
    empty = []
    asked = 0
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = replaced(target["expr"], values)
            rows = (instant if target["instant"] else ranged)(url, expression)
            asked += 1
            if not rows:
                empty.append(f"{panel['title']}, {target['refId']}: {expression}")
        # The panel has something to show for each other value of a variable that it uses. Only some
        # metrics have a prediction, and only some hosts a finding.
        if panel.get("targets") and "doctor" not in panel["title"]:
            first = panel["targets"][0]
            for name, found in choices.items():
                for one in found if f"${name}" in first["expr"] else []:
                    expression = replaced(first["expr"], values | {name: one})
                    asked += 1
                    if not (instant if first["instant"] else ranged)(url, expression):
                        empty.append(f"{panel['title']}, {name} = {one}: {expression}")
    for line in empty:
        print(f"no data: {line}")
    bad = [rule["name"] for group in ask(url, "rules")["groups"] for rule in group["rules"]
           if rule["health"] not in ("ok", "unknown")]
    print(f"{asked} queries, {len(empty)} without data; rules with errors: {bad or 'none'}")
    sys.exit(1 if empty or bad or not asked else 0)


if sys.argv[1] == "hosts":
    print(*ask(sys.argv[2], "label/host/values", **{"match[]": "fathom_run_info"}))
else:
    queries(*sys.argv[2:4])
