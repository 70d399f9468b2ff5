//! Dead files: source files that no `mod` declares are never compiled.

use std::collections::{BTreeMap, BTreeSet};

use super::File;
use super::code::{Code, words};

pub(super) fn of_sources(files: &[File]) -> Vec<String> {
    let by_path: BTreeMap<&str, &File> =
        files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut to_read: Vec<String> =
        files.iter().filter(|file| is_root(file)).map(|file| file.path.clone()).collect();
    while let Some(path) = to_read.pop() {
        let Some(file) = by_path.get(path.as_str()) else { continue };
        if reached.insert(path) {
            to_read.extend(modules(file));
        }
    }
    let dead = files
        .iter()
        .filter(|file| file.is("rs") && in_source(file).is_some() && !reached.contains(&file.path));
    dead.map(|file| {
        file.message(1, "no module declares this file", "declare it with `mod`, or delete it")
    })
    .collect()
}

/// The path below `src`, for a file of a crate's sources.
fn in_source(file: &File) -> Option<&str> {
    let (package, below) = file.path.split_once("/src/")?;
    let ours = ["lab", "xtask"].contains(&package) || package.starts_with("crates/");
    ours.then_some(below)
}

/// Whether the file is the root of a library or a program.
fn is_root(file: &File) -> bool {
    let Some(below) = in_source(file) else { return false };
    let program = below.strip_prefix("bin/").is_some_and(|name| {
        (!name.contains('/') && name.ends_with(".rs")) || name.ends_with("/main.rs")
    });
    below == "lib.rs" || below == "main.rs" || program
}

/// For each `mod name;` of a file, the path of its file.
fn modules(file: &File) -> Vec<String> {
    let text = Code::from_text(&file.text).text();
    let base = if is_root(file) { file.folder() } else { file.path.trim_end_matches(".rs") };
    let mut found = Vec::new();
    for at in words(&text, "mod") {
        let declaration = text[at + "mod".len()..].split([';', '{']).next().unwrap_or_default();
        let is_declared = text[at + "mod".len() + declaration.len()..].starts_with(';');
        if is_declared {
            let name = declaration.trim();
            found.push(format!("{base}/{name}.rs"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files.iter().map(|&(path, text)| File::new(path, text)).collect();
        of_sources(&files)
    }

    #[test]
    fn undeclared_file_is_reported() {
        let found = check(&[("crates/a/src/lib.rs", "// mod b;"), ("crates/a/src/b.rs", "")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/a/src/b.rs:1: no module"), "{found:?}");
        assert_eq!(check(&[("lab/src/lib.rs", ""), ("lab/src/b.rs", "")]).len(), 1);
    }

    #[test]
    fn declared_files_are_followed() {
        let files = [
            ("crates/a/src/main.rs", "pub mod b;\nmod d;\n"),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod c;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/d.rs", "mod e;"),
            ("crates/a/src/d/e.rs", ""),
            ("lab/src/lib.rs", "mod h;"),
            ("lab/src/h.rs", ""),
            ("crates/a/src/bin/tool.rs", ""),
            ("crates/a/tests/whole.rs", ""),
        ];
        assert_eq!(check(&files), Vec::<String>::new());
    }

    #[test]
    fn modules_of_dead_files_are_reported() {
        let files = [
            ("crates/a/src/lib.rs", ""),
            ("crates/a/src/b.rs", "mod c;"),
            ("crates/a/src/b/c.rs", ""),
        ];
        assert_eq!(check(&files).len(), 2);
    }
}
