//! Rules that rustc, clippy and rustfmt do not check: length and names of files, vocabulary,
//! dependencies between crates, files that may read the clock, tests that depend on time, broken
//! links, undeclared modules.
//!
//! It reads text files only: it needs no build and no git. A message has the form
//! `file:line: problem; remedy`.

mod bans;
mod code;
mod layout;
mod links;
mod mood;
mod names;
mod reach;
mod structure;
mod visibility;
mod vocabulary;

use std::fs;
use std::path::Path;

use code::Code;
use names::SharedNames;

/// Files and folders that are not part of the project. `.git` is a file in a second worktree.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "dist"];

/// Files written by a tool.
const GENERATED: &[&str] = &["Cargo.lock", "package-lock.json", "document.ts"];

#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root.
    path: String,
    text: String,
}

impl File {
    fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The folder, without a final `/`; empty for the root.
    fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    fn message(&self, line: usize, what: &str, remedy: &str) -> String {
        format!("{}:{line}: {what}; {remedy}", self.path)
    }
}

/// Checks all files below `root`, and returns the messages, sorted by file.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let files = files(root, &mut found);
    for file in &files {
        found.extend(layout::of_any(file));
        found.extend(bans::of_any(file));
        if file.is("rs") {
            let code = Code::from_text(&file.text);
            found.extend(layout::of_rust(file, &code));
            found.extend(bans::of_rust(file, &code));
        }
        if file.is("md") {
            found.extend(links::of_markdown(root, file));
        }
    }
    found.extend(visibility::of_crates(&files));
    found.extend(visibility::of_table(&files));
    found.extend(visibility::of_rust_version(&files));
    found.extend(reach::of_sources(&files));
    found.extend(mood::of_tests(&files));
    found.extend(structure::of_sources(&files));
    found.extend(SharedNames::count(&files).refused());
    found.extend(vocabulary::of_texts(&files));
    found
}

/// Circles and arrows up inside each crate and the page, their lines, and names that are shared.
pub(crate) fn structure(root: &Path) -> String {
    let files = files(root, &mut Vec::new());
    structure::page(&structure::of_packages(&files)) + "\n" + &SharedNames::count(&files).page()
}

fn files(root: &Path, found: &mut Vec<String>) -> Vec<File> {
    let mut files = Vec::new();
    walk(root, "", &mut files, found);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Collects the files that are UTF-8.
fn walk(root: &Path, folder: &str, files: &mut Vec<File>, found: &mut Vec<String>) {
    let here = root.join(folder);
    let entries = match fs::read_dir(&here) {
        Ok(entries) => entries,
        Err(error) => {
            found.push(format!("{}:1: {error}; make it readable", here.display()));
            return;
        }
    };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        // A symbolic link is neither a file nor a folder here: following it could loop.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            walk(root, &path, files, found);
        } else if kind.is_file()
            && !GENERATED.contains(&name.as_str())
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.push(File::new(path, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn only_files_of_the_project_are_walked() {
        let root = tree(&[
            ("crates/a/src/lib.rs", b"//! A.\n"),
            ("target/debug/x.rs", b"\tbad"),
            (".git", b"gitdir: elsewhere\n"),
            ("web/node_modules/y.rs", b"\tbad"),
            ("Cargo.lock", b"x"),
            ("web/src/document.ts", b"\tbad"),
            ("image.bin", &[0xff, 0xfe]),
        ]);
        let (mut files, mut found) = (Vec::new(), Vec::new());
        walk(root.path(), "", &mut files, &mut found);
        let missing = check(&root.path().join("missing"));
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/lib.rs"]);
        assert!(found.is_empty());
        assert!(missing[0].contains("missing"), "{missing:?}");
    }

    #[test]
    fn check_applies_all_rules() {
        let root = tree(&[
            ("crates/record/Cargo.toml", b"[dependencies]\nfathom-store.workspace = true\n"),
            ("crates/record/src/lib.rs", b"fn f() { Instant::now() }\n"),
            ("crates/record/src/dead.rs", b"//! Dead.\n"),
            ("README.md", b"[x](nowhere.md)\n"),
            ("crates/record/src/tests.rs", b"//! Tests.\nfn f() { std::thread::sleep(A) }\n"),
        ]);
        let found = check(root.path()).join("\n");
        let parts = [
            "first line is not",
            "Instant::now",
            "no module declares",
            "a test sleeps",
            "must not depend on",
            "nowhere.md",
        ];
        for part in parts {
            assert!(found.contains(part), "`{part}` not in:\n{found}");
        }
    }
}
