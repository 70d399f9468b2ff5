//! The files that the arguments name: files, folders and patterns.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fathom_fileio::inspect;
use fathom_fileio::path_info::FileKind;
use walkdir::WalkDir;

use fathom_record::shortened;

use super::super::by_hand::{ByHandResult, printable, printable_list};
use crate::prelude::*;

const FILES_MAX: usize = 10_000_000;
/// Each takes its own walk through all folders.
const RECURSIVE_MAX: usize = 2;

#[derive(Debug, Default)]
pub(super) struct FileList {
    /// Files with their sizes, in the order found; size 0 if unknown.
    pub(super) files: Vec<(PathBuf, u64)>,
    /// Number of entries in folders that are not regular files, or could not be inspected.
    pub(super) skipped: u64,
    /// The first of these, with the reason.
    pub(super) example: Option<String>,
    /// Missing arguments, if the read continues without them.
    pub(super) missing: Vec<String>,
}

impl FileList {
    /// Expands the arguments. With `keep_going` missing ones are collected instead of failing.
    pub(super) fn from_arguments(arguments: &[PathBuf], keep_going: bool) -> ByHandResult<Self> {
        let mut list = Self::default();
        for path in arguments {
            match inspect(path) {
                Ok(info) if info.kind == FileKind::Directory => list.add_folder(path)?,
                Ok(info) => list.files.push((path.clone(), info.size.unwrap_or(0))),
                Err(error) => match is_pattern(path) {
                    true => list.add_pattern(path)?,
                    false if keep_going => list.missing.push(error.to_string()),
                    false => return Err(ProcedureError::failed(error)),
                },
            }
        }
        if list.files.is_empty() {
            let paths = printable_list(arguments);
            return Err(ProcedureError::failed(format!("no regular file in {paths}")));
        }
        Ok(list)
    }

    fn add_folder(&mut self, folder: &Path) -> ByHandResult<()> {
        for entry in WalkDir::new(folder).sort_by_file_name() {
            match entry {
                Ok(entry) if entry.file_type().is_file() => {
                    let bytes = entry.metadata().map_or(0, |facts| facts.len());
                    self.add(entry.into_path(), bytes)?;
                }
                Ok(entry) if entry.file_type().is_dir() => {}
                Ok(entry) => {
                    self.skip(format!("{} is not a regular file", printable(entry.path())));
                }
                Err(error) => self.skip(error.to_string()),
            }
        }
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &Path) -> ByHandResult<()> {
        let mut parts: Vec<String> =
            pattern.to_string_lossy().split('/').map(str::to_owned).collect();
        // The same files, each found once.
        parts.dedup_by(|next, last| next == "**" && last == "**");
        if parts.iter().filter(|part| *part == "**").count() > RECURSIVE_MAX {
            let shown = shortened(&printable(pattern), 120);
            let text = format!("pattern {shown}: ** more than {RECURSIVE_MAX} times; name folders");
            return Err(ProcedureError::usage(text));
        }
        let paths = glob::glob(&parts.join("/")).map_err(|error| {
            ProcedureError::usage(format!("pattern {}: {error}", printable(pattern)))
        })?;
        let before = self.files.len();
        // What is found in a folder that was added is known.
        let mut known = BTreeSet::new();
        let mut is_new = |path: &PathBuf| {
            !path.ancestors().any(|it| known.contains(it)) && known.insert(path.clone())
        };
        for path in paths.filter(|path| path.as_ref().map_or(true, &mut is_new)) {
            match path.map_err(|error| error.to_string()).and_then(|path| {
                inspect(&path).map(|info| (path, info)).map_err(|error| error.to_string())
            }) {
                Ok((path, info)) if info.kind == FileKind::Directory => self.add_folder(&path)?,
                Ok((path, info)) => self.add(path, info.size.unwrap_or(0))?,
                Err(why) => self.skip(why),
            }
        }
        match self.files.len() > before {
            true => Ok(()),
            false => Err(ProcedureError::failed(format!("no file matches {}", printable(pattern)))),
        }
    }

    fn add(&mut self, path: PathBuf, bytes: u64) -> ByHandResult<()> {
        if self.files.len() == FILES_MAX {
            return Err(ProcedureError::failed(format!("more than {FILES_MAX} files")));
        }
        self.files.push((path, bytes));
        Ok(())
    }

    fn skip(&mut self, why: String) {
        self.skipped += 1;
        self.example.get_or_insert(why);
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Anything else that does not exist is a missing file, such as one with a lone `[` in its name.
fn is_pattern(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.contains(['*', '?', '[']) && glob::Pattern::new(&text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_without_following_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("deep")).unwrap();
        for (name, length) in [("b.bin", 3), ("a.txt", 2), ("deep/c.bin", 5)] {
            std::fs::write(at(name), vec![0; length]).unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), at("deep/loop")).unwrap();
        let list = FileList::from_arguments(&[folder.path().to_owned()], false).unwrap();
        let names: Vec<_> = list.files.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(names, [at("a.txt"), at("b.bin"), at("deep/c.bin")]);
        assert_eq!((list.bytes(), list.skipped), (10, 1));
        assert_eq!(FileList::from_arguments(&[at("*.bin")], false).unwrap().bytes(), 3);
        for all in ["**", "**/**/**/**/**", "**/*", "**/**/*", "**/deep/**"] {
            let list = FileList::from_arguments(&[at(all)], false).unwrap();
            let each: BTreeSet<_> = list.files.iter().collect();
            assert!(!each.is_empty() && each.len() == list.files.len(), "{all}: {list:?}");
        }
        assert!(FileList::from_arguments(&[at("**/*/**/*/**")], false).is_err());
        assert!(FileList::from_arguments(&[at("*.none")], false).is_err());
        assert!(FileList::from_arguments(&[at("none")], false).is_err());
        let missing =
            FileList::from_arguments(&[at("bad\u{1b}[31m")], false).unwrap_err().to_string();
        assert!(missing.contains("No such file"), "no pattern: {missing}");
        assert!(
            FileList::from_arguments(&[at("deep/lo*")], false).is_ok(),
            "a named link is followed"
        );
    }

    #[test]
    fn existing_name_wins_over_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a[1]*.bin");
        std::fs::write(&path, b"x").unwrap();
        assert_eq!(FileList::from_arguments(&[path], false).unwrap().files.len(), 1);
    }
}
