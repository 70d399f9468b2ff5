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
            to_read.extend(modules(file).into_iter().flatten());
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

/// For each `mod name;` of a file, the two possible paths of its file.
fn modules(file: &File) -> Vec<[String; 2]> {
    let code = Code::of(&file.text);
    let text = code.text();
    let stem = file.name().trim_end_matches(".rs");
    let own = is_root(file) || stem == "mod";
    let folder = file.folder();
    let base = if own { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut found = Vec::new();
    for at in words(&text, "mod") {
        let rest = text[at + "mod".len()..].trim_start();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() || !after.trim_start().starts_with(';') {
            continue;
        }
        let line = text[..at].matches('\n').count();
        let mut within = base.clone();
        for outer in inline_modules(&text[..at]) {
            within = format!("{within}/{outer}");
        }
        match path_attribute(file, line) {
            Some(path) => found.push([format!("{folder}/{path}"), String::new()]),
            None => found.push([format!("{within}/{name}.rs"), format!("{within}/{name}/mod.rs")]),
        }
    }
    found
}

/// Names of the inline modules around the end of `text`, outermost first.
fn inline_modules(text: &str) -> Vec<&str> {
    let mut open: Vec<Option<&str>> = Vec::new();
    for (at, character) in text.char_indices() {
        match character {
            '{' => {
                let before = text[..at].trim_end();
                let name_at = before
                    .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .map_or(0, |at| at + 1);
                let (head, name) = before.split_at(name_at);
                let is_module = words(head.trim_end(), "mod").any(|at| head[at..].trim() == "mod");
                open.push(is_module.then_some(name));
            }
            '}' => {
                open.pop();
            }
            _ => {}
        }
    }
    open.into_iter().flatten().collect()
}

/// The path in `#[path = "…"]` on the line of the declaration or the line above.
fn path_attribute(file: &File, line: usize) -> Option<&str> {
    let lines = file.text.lines().skip(line.saturating_sub(1)).take(2);
    let attribute = lines.filter_map(|line| line.trim().strip_prefix("#[path = \"")).next()?;
    attribute.split('"').next()
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
    fn both_layouts_of_modules_are_followed() {
        let files = [
            ("crates/a/src/main.rs", "pub mod b;\nmod d;\n"),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod c;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/d/mod.rs", "mod e;"),
            ("crates/a/src/d/e.rs", ""),
            ("xtask/src/lib.rs", "mod f { mod g; }"),
            ("xtask/src/f/g.rs", ""),
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

    #[test]
    fn path_attribute_is_followed() {
        let files = [
            ("crates/a/src/lib.rs", "#[path = \"other.rs\"]\nmod b;"),
            ("crates/a/src/other.rs", ""),
        ];
        assert!(check(&files).is_empty());
    }
}
