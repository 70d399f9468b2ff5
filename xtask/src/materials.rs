//! What a distributed program contains: a bill of materials (CycloneDX 1.6) and the licences of its
//! libraries, from cargo, and from the list that `make web` writes of the packages in the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

/// What the names of licence files begin with, in capitals.
const LICENCE_FILES: [&str; 6] =
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const PAGE: &str = "web/packaged/licences.md";

/// A library in the program, or a package in its page.
#[derive(Debug, Default)]
struct Component {
    name: String,
    version: String,
    /// SPDX.
    licence: String,
    /// `cargo`, `npm` or `generic`.
    ecosystem: &'static str,
    source: Option<String>,
    sha256: Option<String>,
    /// Of its licences.
    texts: Vec<String>,
}

/// Writes `sbom.cdx.json` and `THIRD-PARTY.txt` for a program of this target into a folder. `more`
/// has the versions of what cargo does not know: `glibc=2.36`, `rust=1.96.0`.
///
/// # Errors
/// If a library has no licence, or cargo fails.
pub(crate) fn write(root: &Path, target: &str, folder: &Path, more: &[&str]) -> Result<()> {
    let components = components(root, target, more)?;
    let text = serde_json::to_string_pretty(&bill(&components))?;
    fs::write(folder.join("sbom.cdx.json"), text + "\n")?;
    fs::write(folder.join("THIRD-PARTY.txt"), notices(&components))?;
    Ok(())
}

fn components(root: &Path, target: &str, more: &[&str]) -> Result<Vec<Component>> {
    let mut components = linked(root, target)?;
    components.extend(of_page(&fs::read_to_string(root.join(PAGE)).context(PAGE)?));
    for pair in more {
        components.push(of_toolchain(pair)?);
    }
    components.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(components)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    /// `None` for the crates of this project.
    source: Option<String>,
    manifest_path: PathBuf,
}

/// The crates of others that are linked into the program: no macros, build scripts or tests.
fn linked(root: &Path, target: &str) -> Result<Vec<Component>> {
    let tree = ["tree", "--package", "fathom", "--edges", "normal,no-proc-macro"];
    let tree = cargo(root, &[&tree[..], &["--prefix", "none", "--target", target]].concat())?;
    // `serde v1.0.228 (*)`
    let linked: BTreeSet<(&str, &str)> =
        tree.lines().filter_map(|line| line.split(" (").next()?.split_once(" v")).collect();
    let metadata = cargo(root, &["metadata", "--format-version", "1", "--filter-platform", target])?;
    let metadata: Metadata = serde_json::from_str(&metadata)?;
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let checksums = checksums(&lock);
    let mut components = Vec::new();
    for package in metadata.packages {
        let key = (package.name.as_str(), package.version.as_str());
        if package.source.is_none() || !linked.contains(&key) {
            continue;
        }
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        if package.name == "libsqlite3-sys" {
            components.push(sqlite(folder)?);
        }
        components.push(Component {
            sha256: checksums.get(&key).map(|sum| (*sum).to_owned()),
            texts: licence_texts(folder)?,
            // The old notation of crates.io.
            licence: package.license.context(package.name.clone())?.replace('/', " OR "),
            name: package.name,
            version: package.version,
            ecosystem: "cargo",
            source: package.repository,
        });
    }
    Ok(components)
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    let output = command.args(arguments).arg("--locked").current_dir(root).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo {}: {error}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

/// SHA-256 of the packages of Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    fn value<'lock>(package: &'lock str, key: &str) -> Option<&'lock str> {
        let of = |line: &'lock str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
        package.lines().find_map(of)
    }
    let of = |package| {
        let key = (value(package, "name")?, value(package, "version")?);
        Some((key, value(package, "checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

/// The texts in the folder of a crate, sorted by name.
fn licence_texts(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && LICENCE_FILES.iter().any(|begin| name.starts_with(begin)) {
            files.push(path);
        }
    }
    files.sort();
    let text = |path: &PathBuf| Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned());
    files.iter().map(text).collect()
}

/// SQLite, whose source is in the crate.
fn sqlite(folder: &Path) -> Result<Component> {
    let header = fs::read_to_string(folder.join("sqlite3/sqlite3.h"))?;
    let version = header.lines().find_map(|line| line.strip_prefix("#define SQLITE_VERSION "));
    Ok(Component {
        name: "sqlite".to_owned(),
        version: version.context("sqlite3.h has no version")?.trim().trim_matches('"').to_owned(),
        licence: "blessing".to_owned(),
        ecosystem: "generic",
        source: Some("https://sqlite.org/src".to_owned()),
        texts: vec!["SQLite is in the public domain: https://sqlite.org/copyright.html\n".into()],
        sha256: None,
    })
}

/// The packages in the page: sections `## name - version (licence)` with the texts of the licences.
fn of_page(list: &str) -> Vec<Component> {
    let of = |section: &str| {
        let (head, text) = section.split_once('\n')?;
        let (name, rest) = head.split_once(" - ")?;
        let (version, licence) = rest.strip_suffix(')')?.split_once(" (")?;
        Some(Component {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.to_owned(),
            ecosystem: "npm",
            texts: vec![text.trim().to_owned() + "\n"],
            ..Component::default()
        })
    };
    list.split("\n## ").filter_map(of).collect()
}

/// `glibc=2.36`: what the compiler adds to a static program.
fn of_toolchain(pair: &str) -> Result<Component> {
    let (name, version) = pair.split_once('=').context("expected NAME=VERSION")?;
    let (licence, source, text) = match name {
        "glibc" => ("LGPL-2.1-or-later", "https://www.gnu.org/software/libc/", GLIBC),
        "rust" => ("MIT OR Apache-2.0", "https://github.com/rust-lang/rust", RUST),
        _ => bail!("{name}: neither glibc nor rust"),
    };
    Ok(Component {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.to_owned(),
        ecosystem: "generic",
        source: Some(source.to_owned()),
        texts: vec![text.to_owned()],
        sha256: None,
    })
}

const GLIBC: &str = "\
The GNU C Library is linked statically. It is free software under the GNU Lesser General Public
License, version 2.1 or later: https://www.gnu.org/licenses/old-licenses/lgpl-2.1.html, also in the
file LGPL-2.1 beside this one. To link the program with another version of it, build the program
from its source, which is free software too.
";
const RUST: &str = "\
The standard library of Rust, copyright the Rust Project contributors, is under the MIT License or
the Apache License 2.0: https://github.com/rust-lang/rust/blob/HEAD/COPYRIGHT
";

fn bill(components: &[Component]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let of = |one: &Component| {
        let mut component = json!({
            "type": "library", "name": one.name, "version": one.version,
            "purl": one.purl(), "bom-ref": one.purl(),
            "licenses": [{"expression": one.licence}],
        });
        if let Some(sum) = &one.sha256 {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        if let Some(url) = &one.source {
            component["externalReferences"] = json!([{"type": "vcs", "url": url}]);
        }
        component
    };
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": {
            "type": "application", "name": "fathom", "version": version,
            "bom-ref": format!("pkg:generic/fathom@{version}"),
            "licenses": [{"expression": "(MIT OR Apache-2.0) AND CC-BY-SA-4.0"}],
        }},
        "components": components.iter().map(of).collect::<Vec<_>>(),
    })
}

impl Component {
    fn purl(&self) -> String {
        // The scope of a package of npm begins with `@`.
        let name = self.name.replace('@', "%40");
        format!("pkg:{}/{name}@{}", self.ecosystem, self.version)
    }
}

/// A table of all components, then each text once, below the names of those that have it.
fn notices(components: &[Component]) -> String {
    let mut text = "Libraries in the program and in its page, with their licences.\n\n".to_owned();
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in components {
        let name = format!("{} {}", one.name, one.version);
        let source = one.source.as_deref().unwrap_or_default();
        let _ = writeln!(text, "{}", format!("{name}: {} {source}", one.licence).trim_end());
        for licence in &one.texts {
            texts.entry(licence).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<_> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, licence) in texts {
        let line = "-".repeat(80);
        let _ = write!(text, "\n{line}\n{}:\n\n{}\n", names.join(", "), licence.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn materials_are_those_of_the_program() {
        let root = crate::root();
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let all = components(&root, &target, &["glibc=2.36", "rust=1.96.0"]).unwrap();
        let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
        for linked in ["rustls", "libsqlite3-sys", "sqlite", "d3-array", "glibc"] {
            assert!(names.contains(linked), "{linked} is missing: {names:?}");
        }
        // Of a test, a macro, a build script, and this project.
        for other in ["proptest", "serde_derive", "cc", "fathom-record"] {
            assert!(!names.contains(other), "{other} is not in the program");
        }
        let sums = all.iter().filter(|one| one.ecosystem == "cargo");
        assert!(sums.clone().all(|one| one.sha256.as_ref().is_some_and(|sum| sum.len() == 64)));
        let text = notices(&all);
        for one in &all {
            assert!(!one.licence.is_empty(), "{one:?}");
            assert!(text.contains(&format!("\n{} {}: {}", one.name, one.version, one.licence)));
        }
    }
}
