//! Names that a search finds: how many types share theirs with another type of the tree, and how
//! many functions are called `of`, which says nothing.

use std::collections::BTreeMap;

use super::File;
use super::code::Code;

/// More types than this share make a search useless, in percent of all.
const SHARED_PERCENT_MAX: usize = 15;

#[derive(Debug, Default)]
pub(crate) struct SharedNames {
    /// How often each name is that of a type, in product and tests.
    types: BTreeMap<String, usize>,
    /// Where functions are called `of`.
    called_of: Vec<String>,
}

impl SharedNames {
    pub(super) fn count(files: &[File]) -> Self {
        let mut names = Self::default();
        for file in files.iter().filter(|file| file.is("rs")) {
            for (at, line) in Code::from_text(&file.text).lines.iter().enumerate() {
                match declared(line) {
                    Some(("fn", "of")) => {
                        names.called_of.push(format!("{}:{}", file.path, at + 1));
                    }
                    Some((kind, name)) if kind != "fn" => {
                        *names.types.entry(name.to_owned()).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
        names
    }

    fn types(&self) -> usize {
        self.types.values().sum()
    }

    fn shared(&self) -> usize {
        self.types.values().filter(|count| **count > 1).sum()
    }

    pub(super) fn page(&self) -> String {
        let (types, shared) = (self.types(), self.shared());
        let percent = 100.0 * shared as f64 / types.max(1) as f64;
        let of = self.called_of.len();
        format!(
            "types that share their name  {shared} of {types} ({percent:.1} %)\n\
             functions called `of`        {of}\n"
        )
    }

    pub(super) fn refused(&self) -> Vec<String> {
        let message =
            |place: &String| format!("{place}: `of` says nothing; such as `from_records`");
        let mut found: Vec<String> = self.called_of.iter().map(message).collect();
        let (types, shared) = (self.types(), self.shared());
        if shared * 100 > types * SHARED_PERCENT_MAX {
            let mut most: Vec<_> = self.types.iter().filter(|(_, count)| **count > 1).collect();
            most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let most: Vec<_> =
                most.iter().take(5).map(|(name, of)| format!("{of} {name}")).collect();
            found.push(format!(
                "{shared} of {types} types share their names, above {SHARED_PERCENT_MAX} %: {}",
                most.join(", ")
            ));
        }
        found
    }
}

/// The kind and the name of a type or a function that a line declares; not of an associated type.
fn declared(line: &str) -> Option<(&str, &str)> {
    let is_inside = line.starts_with(' ');
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest),
        None => rest,
    });
    let mut words = line.split_whitespace();
    let kind = words.find(|word| !["const", "unsafe", "async"].contains(word))?;
    if !["struct", "enum", "trait", "union", "type", "fn"].contains(&kind)
        || kind == "type" && is_inside
    {
        return None;
    }
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some((kind, &name[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_names_and_functions_called_of_are_counted() {
        let files = [
            File::new(
                "a.rs",
                "pub struct Row<'a> {}\nimpl Row {\n    pub const fn of(x: u8) {}\n}\n",
            ),
            File::new("b.rs", "pub(crate) enum Row { A }\ntype Other = u8;\nfn often() {}\n"),
            File::new(
                "c.rs",
                "    type Item = u8;\n// struct Row;\nlet text = \"\nstruct Row;\n\";\n",
            ),
        ];
        let names = SharedNames::count(&files);
        assert_eq!((names.types(), names.shared()), (3, 2));
        assert_eq!(names.called_of, ["a.rs:3"]);
        let refused = names.refused();
        assert_eq!(refused[0], "a.rs:3: `of` says nothing; such as `from_records`");
        assert_eq!(refused[1], "2 of 3 types share their names, above 15 %: 2 Row");
        assert!(SharedNames::count(&files[2..]).refused().is_empty());
    }
}
