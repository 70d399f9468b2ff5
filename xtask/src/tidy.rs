//! What the compiler and clippy do not check: size and names of files, who may see whom, where the
//! clock may be read and a line printed, links and files that lead nowhere.
//!
//! It reads text and nothing else: it builds nothing and needs no git. Each message names the
//! place, what is wrong and the remedy.

mod bans;
mod code;
mod layout;
mod links;
mod reach;
mod visibility;

use std::fs;
use std::path::Path;

use code::Code;

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "dist"];

/// Files that a tool writes.
const GENERATED: &[&str] = &["Cargo.lock", "package-lock.json"];

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root, with `/`.
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

    /// Last part of the path.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The folder, without a `/` at the end; empty for the root.
    fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// A message about line `line`, counted from 1.
    fn says(&self, line: usize, what: &str, remedy: &str) -> String {
        format!("{}:{line}: {what}; {remedy}", self.path)
    }
}

/// Everything that is not tidy under `root`, as `file:line: what; remedy`, in order of the files.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut files = Vec::new();
    walk(root, "", &mut files, &mut found);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    for file in &files {
        found.extend(layout::of_any(file));
        found.extend(bans::of_any(file));
        if file.is("rs") {
            let code = Code::of(&file.text);
            found.extend(layout::of_rust(file, &code));
            found.extend(bans::of_rust(file, &code));
        }
        if file.is("md") {
            found.extend(links::of_markdown(root, file));
        }
    }
    found.extend(visibility::of_crates(&files));
    found.extend(reach::of_sources(&files));
    found
}

/// Collects the text files; what is not UTF-8 is not text.
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
        // In a second work tree `.git` is a file.
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        // A symbolic link is neither: it is not followed, so that the walk ends.
        let Ok(kind) = entry.file_type() else { continue };
        // In a second working tree of one repository `.git` is a file.
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
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

    #[test]
    fn what_is_ours_is_walked_and_the_rest_is_not() {
        let root = std::env::temp_dir().join(format!("fathom-tidy-{}", std::process::id()));
        let write = |path: &str, text: &[u8]| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("crates/a/src/lib.rs", b"//! A.\n");
        write("target/debug/x.rs", b"\tbad");
        write(".git", b"gitdir: elsewhere\n");
        write("web/node_modules/y.rs", b"\tbad");
        write(".git", b"gitdir: elsewhere");
        write("Cargo.lock", b"x");
        write("image.bin", &[0xff, 0xfe]);
        let (mut files, mut found) = (Vec::new(), Vec::new());
        walk(&root, "", &mut files, &mut found);
        let all = check(&root.join("missing"));
        fs::remove_dir_all(&root).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/lib.rs"]);
        assert!(found.is_empty());
        assert!(all[0].contains("missing"), "{all:?}");
    }

    #[test]
    fn a_message_names_file_line_fault_and_remedy() {
        let file = File::new("a/b.rs", "");
        assert_eq!(file.says(3, "a tab", "use spaces"), "a/b.rs:3: a tab; use spaces");
        assert_eq!((file.folder(), file.name()), ("a", "b.rs"));
    }

    #[test]
    fn every_kind_of_rule_is_reached_from_check() {
        let root = std::env::temp_dir().join(format!("fathom-tidy-all-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("crates/record/Cargo.toml", "[dependencies]\nfathom-store.workspace = true\n");
        write("crates/record/src/lib.rs", "fn f() { todo!() }\n");
        write("crates/record/src/dead.rs", "//! Dead.\n");
        write("README.md", "[x](nowhere.md)\n");
        let found = check(&root).join("\n");
        fs::remove_dir_all(&root).unwrap();
        let parts =
            ["opens with", "todo!", "no module declares", "may not depend on", "nowhere.md"];
        for part in parts {
            assert!(found.contains(part), "`{part}` not in:\n{found}");
        }
    }
}
