#!/usr/bin/env python3
"""Writes what a program for TARGET contains into FOLDER: sbom.cdx.json, a bill of materials
(CycloneDX 1.6), and THIRD-PARTY.txt, the licences of its libraries. NAME=VERSION are those that cargo
does not know: glibc=2.36 libgcc=12.2.0 rust=1.96.0. The packages in its page are those that `make web` listed.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LICENCE_FILES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
TOOLCHAIN = {
    "glibc": ("LGPL-2.1-or-later", "https://www.gnu.org/software/libc/", """\
The GNU C Library is linked statically. It is free software under the GNU Lesser General Public
License, version 2.1 or later: https://www.gnu.org/licenses/old-licenses/lgpl-2.1.html. To link the
program with another version of it, build the program from its source, which is free software too."""),
    "libgcc": ("GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org/git/gcc.git", """\
The run-time library of GCC is linked statically, under the GNU General Public License, version 3 or
later, with the GCC Runtime Library Exception 3.1, by which programs that contain it may have any
licence: https://www.gnu.org/licenses/gcc-exception-3.1.html"""),
    "rust": ("MIT OR Apache-2.0", "https://github.com/rust-lang/rust", """\
The standard library of Rust, copyright the Rust Project contributors, is under the MIT License or
the Apache License 2.0: https://github.com/rust-lang/rust/blob/HEAD/COPYRIGHT"""),
}


def cargo(*arguments):
    command = [os.environ.get("CARGO", "cargo"), *arguments, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def component(kind, name, version, licence, source=None, sha256=None, texts=()):
    # The scope of a package of npm begins with `@`.
    purl = f"pkg:{kind}/{name.replace('@', '%40')}@{version}"
    one = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl,
           "licenses": [{"expression": licence}]}
    if source:
        one["externalReferences"] = [{"type": "vcs", "url": source}]
    if sha256:
        one["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    return one, [text.strip() for text in texts]


def crates(target):
    """The crates of others that are linked: no macros, build scripts or tests."""
    tree = cargo("tree", "--package", "fathom", "--edges", "normal,no-proc-macro", "--prefix", "none",
                 "--target", target)
    # `serde v1.0.228 (*)`
    linked = {tuple(line.split(" (")[0].split(" v", 1)) for line in tree.splitlines()}
    sums = {(name, version): sum for name, version, sum in re.findall(
        r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"',
        (ROOT / "Cargo.lock").read_text())}
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    for package in metadata["packages"]:
        key = package["name"], package["version"]
        # Those of this project have no source.
        if key not in linked or not package["source"]:
            continue
        folder = Path(package["manifest_path"]).parent
        files = sorted(file for file in folder.iterdir()
                       if file.is_file() and file.name.upper().startswith(LICENCE_FILES))
        # The old notation of crates.io has a slash.
        licence = package["license"].replace("/", " OR ")
        yield component("cargo", *key, licence, package["repository"], sums[key],
                        [file.read_text(errors="replace") for file in files])
        if package["name"] == "libsqlite3-sys":
            header = (folder / "sqlite3/sqlite3.h").read_text()
            version = re.search(r'#define SQLITE_VERSION +"(.+)"', header)[1]
            yield component("generic", "sqlite", version, "blessing", "https://sqlite.org/src", None,
                            ["SQLite is in the public domain: https://sqlite.org/copyright.html"])


def page():
    """The packages in the page: sections `## name - version (licence)` with texts of licences."""
    text = (ROOT / "web/packaged/licences.md").read_text()
    for section in text.split("\n## ")[1:]:
        head, licence = section.split("\n", 1)
        name, version, expression = re.fullmatch(r"(.+) - (.+) \((.+)\)", head).groups()
        yield component("npm", name, version, expression, texts=[licence])


def toolchain(pair):
    name, version = pair.split("=")
    licence, source, text = TOOLCHAIN[name]
    return component("generic", name, version, licence, source, None, [text])


def bill(components, version):
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": {
            "type": "application", "name": "fathom", "version": version,
            "bom-ref": f"pkg:generic/fathom@{version}",
            "licenses": [{"expression": "(MIT OR Apache-2.0) AND CC-BY-SA-4.0"}]}},
        "components": [one for one, _ in components],
    }


def notices(components):
    """A line for each component; then each text once, below the names of those that have it."""
    text, holders = "Libraries in the program and in its page, with their licences.\n\n", {}
    for one, texts in components:
        name = f"{one['name']} {one['version']}"
        source = [reference["url"] for reference in one.get("externalReferences", [])]
        text += " ".join([f"{name}:", one["licenses"][0]["expression"], *source]) + "\n"
        for licence in texts:
            holders.setdefault(licence, []).append(name)
    for licence, names in sorted(holders.items(), key=lambda holder: (holder[1], holder[0])):
        text += f"\n{'-' * 80}\n{', '.join(names)}:\n\n{licence}\n"
    return text


def main():
    target, folder, *more = sys.argv[1:]
    components = [*crates(target), *page(), *map(toolchain, more)]
    components.sort(key=lambda component: component[0]["purl"])
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    text = json.dumps(bill(components, version), indent=1, ensure_ascii=False)
    Path(folder, "sbom.cdx.json").write_text(text + "\n", encoding="utf-8")
    Path(folder, "THIRD-PARTY.txt").write_text(notices(components), encoding="utf-8")


main()
