#!/usr/bin/env python3
"""Executes pages of docs/labs and docs/tutorials: course.py [-v] FATHOM PAGE...

One bash runs the `sh` blocks of a page in order, in an empty folder with `fathom` on the PATH. A
command must end with status 0, or with one that its comment names (`# exit status 0, 3 or 5`).
The lines of a `text` block must be in the output of the `sh` block before it, in this order: a
number stands for any number, 16 hexadecimal digits for any, a judgement (valid, noisy; within,
outside, inconclusive) for any of its kind, `…` for the rest of a line; line breaks do not count.

A page that says "Needs root" is skipped without it. As root each page has namespaces of its own
for processes, network and mounts, so that nothing of it remains. `-v` prints the output.
"""
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS_MAX = 1500
FENCE = re.compile(r"^```(\w*)$")
STATUS = re.compile(r"\s*# exit status ([\d, or]+)$")
UNIT = r"(?: ?(?:[nµm]?s|min|h|%|[KMGTk]?i?B(?:/s)?|[kMG]?Hz|/s)(?![\w/]))"
NUMBER = r"(?:[~°≤≥<>±+−×-]+ ?)?\d[\d.,–−+×]*" + UNIT + "?"
KINDS = ["valid|noisy", "within|outside|inconclusive"]
ID = r"(?:0x)?[0-9a-f]{16}"
TOKEN = re.compile(
    rf"(?P<any>…)|(?P<id>{ID})|(?P<number>{NUMBER})|(?P<space>\s+)|(?P<word>\w+)|(?P<other>.)"
)
HEAD = "set -eE -o pipefail; status=0; trap 'echo \"line $LINENO: exit status $?\"' ERR"
# /run/netns is where `ip netns` keeps its namespaces.
NAMESPACES = "ip link set lo up && mkdir -p /run/netns && mount -t tmpfs none /run/netns"


class Wrong(Exception):
    """What a page says and its commands do not do."""


def is_root():
    return os.geteuid() == 0


def blocks(text):
    """Line, language and lines of each fenced block."""
    found, begin, language = [], 0, None
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if fence and language is None:
            begin, language = number, fence[1]
        elif fence:
            found.append((begin, language, lines[begin : number - 1]))
            language = None
    return found


def script(found):
    """The `sh` blocks as one script, each command in its line of the page."""
    lines = {1: HEAD}
    for begin, language, commands in found:
        if language == "sh":
            lines[begin] = f"printf '\\036%d\\n' {begin}"
            for number, line in enumerate(commands, begin + 1):
                lines[number] = with_status(line, number)
    return "\n".join(lines.get(number, "") for number in range(1, max(lines) + 1)) + "\n"


def with_status(line, number):
    named = STATUS.search(line)
    if not named:
        return line
    allowed = "|".join(re.findall(r"\d+", named[1]))
    wrong = f'echo "line {number}: exit status $status instead of {named[1]}"; exit 1'
    choice = f"case $status in {allowed}) status=0 ;; *) {wrong} ;; esac"
    return f"{line[: named.start()]} || status=$?; {choice}"


def pattern(line):
    """What a line of a `text` block stands for."""
    parts = []
    for token in TOKEN.finditer(line.strip()):
        kinds = [kind for kind in KINDS if token[0] in kind.split("|")]
        if token["any"]:
            parts.append(".*")
        elif token["id"]:
            parts.append(ID)
        elif token["number"]:
            parts.append(NUMBER)
        elif token["space"]:
            parts.append(r"\s+")
        elif kinds:
            parts.append(f"(?:{kinds[0]})")
        else:
            parts.append(re.escape(token[0]))
    return re.compile("".join(parts))


def execute(found, root_folder):
    """Output of the script by the line of each block; the exit status."""
    folder = os.path.join(root_folder, "page")
    os.mkdir(folder)
    path = os.path.join(root_folder, "commands.sh")
    with open(path, "w") as file:
        file.write(script(found))
    command = ["bash", path]
    if is_root():
        inside = f"{NAMESPACES} && exec bash {shlex.quote(path)}"
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += ["bash", "-c", inside]
    environment = dict(os.environ, HOME=root_folder, COLUMNS="80")
    folders = [os.path.join(root_folder, "bin"), os.environ["PATH"], "/usr/sbin", "/sbin"]
    environment["PATH"] = ":".join(folders)
    for name in [name for name in environment if name.startswith("FATHOM_")]:
        del environment[name]
    output = os.path.join(root_folder, "output")
    with open(output, "w") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            status = f"none after {SECONDS_MAX} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    with open(output, errors="replace") as file:
        parts = file.read().split("\036")[1:]
    return {int(begin): text for begin, _, text in (part.partition("\n") for part in parts)}, status


def compare(found, outputs):
    """Compares the `text` blocks, and returns the number of their lines."""
    count, output, at = 0, "", 0
    for begin, language, lines in found:
        if language == "sh":
            output, at = outputs[begin], 0
        for number, line in enumerate(lines if language == "text" else [], begin + 1):
            match = pattern(line).search(output, at)
            if match is None:
                raise Wrong(f"{number}: not in the output, or not in this order: {line}")
            at = match.end()
            count += 1
    return count


def check(page, fathom, verbose):
    with open(page) as file:
        text = file.read()
    if "Needs root" in text and not is_root():
        print(f"{page}: SKIPPED: needs root for network namespaces")
        return True
    found = blocks(text)
    start = time.monotonic()
    # Not in memory: pages measure files on a disk.
    root_folder = tempfile.mkdtemp(prefix="fathom-course-", dir="/var/tmp")
    outputs = {}
    try:
        os.mkdir(os.path.join(root_folder, "bin"))
        shutil.copy(fathom, os.path.join(root_folder, "bin", "fathom"))
        outputs, status = execute(found, root_folder)
        if status != 0:
            where = max(outputs, default=1)
            raise Wrong(f"{where}: exit status {status}; the end of the output says where")
        lines = compare(found, outputs)
        commands = sum(language == "sh" for _, language, _ in found)
        seconds = time.monotonic() - start
        print(f"{page}: {commands} blocks executed, {lines} lines found, {seconds:.0f} s")
        return True
    except Wrong as wrong:
        print(f"{page}:{wrong}")
        for begin, output in list(outputs.items())[-1:] if not verbose else []:
            print(f"--- output of line {begin}\n{output}---")
        return False
    finally:
        if verbose:
            for begin, output in outputs.items():
                print(f"--- {page}:{begin}\n{output}")
        shutil.rmtree(root_folder, ignore_errors=True)


def main():
    sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = sys.argv[1:]
    verbose = arguments[:1] == ["-v"]
    fathom, *pages = arguments[verbose:]
    if not pages:
        sys.exit(__doc__)
    results = [check(page, os.path.realpath(fathom), verbose) for page in pages]
    sys.exit(0 if all(results) else 1)


main()
