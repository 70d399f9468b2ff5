//! Words and phrases that the project does not use, counted in sources and Markdown.

use super::File;
use super::code::words;

/// Places that may have one of the words, in the whole project.
const PLACES_MAX: usize = 60;

/// The list itself has each of them.
const OWN_FILE: &str = "xtask/src/tidy/vocabulary.rs";

const BANNED: &[&str] = &[
    "told",
    "tells",
    "held against",
    "lies within",
    "lies outside",
    "by a spin of fixed work",
    "believed",
    "ended without a word",
    "is none of a",
    "what is not there",
    "beforehand",
];

/// Replaced on every screen and page: nowhere at all.
const REPLACED: &[&str] = &[
    "as found",
    "by more than 5 ×",
    "cause unknown",
    "clean visit",
    "clean visits",
    "procedure call",
    "visits clean",
    "with a dose",
];

const REMEDY: &str = "state the fact in one short sentence, with the usual term";

/// Returns all places of the replaced words, and of the others if there are more than `PLACES_MAX`.
pub(super) fn of_texts(files: &[File]) -> Vec<String> {
    let all = |list| files.iter().flat_map(move |file| places(file, list)).collect::<Vec<String>>();
    let mut found = all(BANNED);
    if found.len() <= PLACES_MAX {
        found.clear();
    }
    [found, all(REPLACED)].concat()
}

fn places(file: &File, list: &[&str]) -> Vec<String> {
    let is_checked = ["rs", "ts", "md"].iter().any(|extension| file.is(extension));
    if !is_checked || file.path == OWN_FILE {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, line) in file.text.to_lowercase().lines().enumerate() {
        for phrase in list.iter().filter(|phrase| words(line, phrase).next().is_some()) {
            let what =
                format!("`{phrase}` (at most {PLACES_MAX} such places in the project, or none)");
            found.push(file.message(index + 1, &what, REMEDY));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_above_the_limit_are_listed() {
        let file = |lines| File::new("a/b.md", "It tells more.\n".repeat(lines));
        assert!(of_texts(&[file(PLACES_MAX)]).is_empty());
        let found = of_texts(&[file(PLACES_MAX), file(1)]);
        assert_eq!(found.len(), PLACES_MAX + 1);
        assert_eq!(of_texts(&[File::new("a.rs", "// A function, as found.")]).len(), 1);
        assert!(found[0].starts_with("a/b.md:1: `tells` (at most"), "{found:?}");
    }

    #[test]
    fn whole_words_in_sources_are_counted() {
        for (path, text, count) in [
            ("a.rs", "// The value lies within\n// It is told.", 2),
            ("a.ts", "foretold, TOLD_OFF, beforehand", 1),
            ("a.json", "told", 0),
            (OWN_FILE, "told", 0),
        ] {
            assert_eq!(places(&File::new(path, text), BANNED).len(), count, "{path}");
        }
    }
}
