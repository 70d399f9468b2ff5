#!/usr/bin/env python3
"""Executes a wrapper of scripts/ci-gate.sh as its service does, as far as that is known.

wrapper.py FILE NAME=VALUE…: action.yml or a GitLab component, with these inputs; inputs that are
missing or unknown end it.
"""

import os
import re
import sys

import yaml

file, given = sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])
with open(file, encoding="utf-8") as text:
    head, *jobs = yaml.safe_load_all(text)
is_action = not jobs
declared = head["inputs"] if is_action else head["spec"]["inputs"]
unknown = given.keys() - declared.keys()
missing = [name for name in declared if name not in given and "default" not in declared[name]]
if unknown or missing:
    sys.exit(f"wrapper: unknown inputs: {sorted(unknown)}, missing: {missing}")
values = {name: str(about.get("default", "")) for name, about in declared.items()} | given
expression = r"\$\{\{ (.*?) \}\}" if is_action else r"\$\[\[ inputs\.(.*?) \]\]"


def value(match):
    name = match[1].removeprefix("inputs.")
    return os.environ["FAKE_TOKEN"] if name == "github.token" else values[name]


def expanded(text):
    # A default may be an expression of its own.
    return re.sub(expression, value, re.sub(expression, value, text))


if is_action:
    step = head["runs"]["steps"][0]
    environment, script = step["env"], step["run"]
    os.environ["GITHUB_ACTION_PATH"] = os.path.dirname(os.path.abspath(file))
else:
    (job,) = jobs[0].values()
    assert all(one["expand"] is False for one in job["variables"].values())
    environment = {name: one["value"] for name, one in job["variables"].items()}
    script = "\n".join(job["script"])
assert not re.search(expression, script), "an input is a part of the text of a shell"
os.environ.update({name: expanded(text) for name, text in environment.items()})
os.execvp("bash", ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script])
