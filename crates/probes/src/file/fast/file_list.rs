//! The files that words of the command line mean: themselves, those in a folder, those of a
//! pattern.

use std::path::{Path, PathBuf};

use fathom_fileio::inspect;
use fathom_fileio::path_info::FileKind;
use fathom_metric::ProcedureError;
use walkdir::WalkDir;

use super::super::by_hand::shown;

/// More files than this are a mistake, or a file system as a whole.
const MANY: usize = 10_000_000;

#[derive(Debug, Default)]
pub(super) struct FileList {
    /// Files with their sizes, in the order found; 0 where a size is not known.
    pub(super) files: Vec<(PathBuf, u64)>,
    /// What is no regular file, or could not be looked at, in folders.
    pub(super) left_out: u64,
    /// The first of these, and why.
    pub(super) example: Option<String>,
    /// What was named and is not there, where that is to be gone over.
    pub(super) missing: Vec<String>,
}

impl FileList {
    /// Finds the files of some words; `keep_going` over those that are not there.
    pub(super) fn of(words: &[PathBuf], keep_going: bool) -> Result<Self, ProcedureError> {
        let mut found = Self::default();
        for word in words {
            match inspect(word) {
                Ok(info) if info.kind == FileKind::Directory => found.folder(word)?,
                Ok(info) => found.files.push((word.clone(), info.size.unwrap_or(0))),
                Err(error) => match is_pattern(word) {
                    true => found.pattern(word)?,
                    false if keep_going => found.missing.push(error.to_string()),
                    false => return Err(ProcedureError::failed(error)),
                },
            }
        }
        if found.files.is_empty() {
            let names: Vec<String> = words.iter().map(|word| printable(word)).collect();
            return Err(ProcedureError::failed(format!(
                "there is no regular file in {}",
                names.join(", ")
            )));
        }
        Ok(found)
    }

    fn folder(&mut self, folder: &Path) -> Result<(), ProcedureError> {
        for entry in WalkDir::new(folder).sort_by_file_name() {
            match entry {
                Ok(entry) if entry.file_type().is_file() => {
                    let bytes = entry.metadata().map_or(0, |facts| facts.len());
                    self.add(entry.into_path(), bytes)?;
                }
                Ok(entry) if entry.file_type().is_dir() => {}
                Ok(entry) => {
                    let what = "is no regular file";
                    self.leave_out(format!("{} {what}", printable(entry.path())));
                }
                Err(error) => self.leave_out(error.to_string()),
            }
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &Path) -> Result<(), ProcedureError> {
        let text = pattern.to_string_lossy();
        let paths = glob::glob(&text).map_err(|error| {
            ProcedureError::usage(format!("the pattern {}: {error}", printable(pattern)))
        })?;
        let before = self.files.len();
        for path in paths {
            match path.map_err(|error| error.to_string()).and_then(|path| {
                inspect(&path).map(|info| (path, info)).map_err(|error| error.to_string())
            }) {
                Ok((path, info)) if info.kind == FileKind::Directory => self.folder(&path)?,
                Ok((path, info)) => self.add(path, info.size.unwrap_or(0))?,
                Err(why) => self.leave_out(why),
            }
        }
        match self.files.len() > before {
            true => Ok(()),
            false => {
                Err(ProcedureError::failed(format!("no file has a name like {}", printable(pattern))))
            }
        }
    }

    fn add(&mut self, path: PathBuf, bytes: u64) -> Result<(), ProcedureError> {
        if self.files.len() == MANY {
            return Err(ProcedureError::failed(format!("more than {MANY} files; name fewer")));
        }
        self.files.push((path, bytes));
        Ok(())
    }

    fn leave_out(&mut self, why: String) {
        self.left_out += 1;
        self.example.get_or_insert(why);
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }
}

fn is_pattern(word: &Path) -> bool {
    word.to_string_lossy().contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_and_links_in_them_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("deep")).unwrap();
        for (name, length) in [("b.bin", 3), ("a.txt", 2), ("deep/c.bin", 5)] {
            std::fs::write(at(name), vec![0; length]).unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), at("deep/loop")).unwrap();
        let found = FileList::of(&[folder.path().to_owned()], false).unwrap();
        let names: Vec<_> = found.files.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(names, [at("a.txt"), at("b.bin"), at("deep/c.bin")]);
        assert_eq!((found.bytes(), found.left_out), (10, 1));
        let found = FileList::of(&[at("*.bin")], false).unwrap();
        assert_eq!(found.bytes(), 3);
        assert!(FileList::of(&[at("*.none")], false).is_err());
        assert!(FileList::of(&[at("none")], false).is_err());
        assert!(FileList::of(&[at("deep/lo*")], false).is_ok(), "a link that was named is followed");
    }

    #[test]
    fn a_name_that_looks_like_a_pattern_is_a_name_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a[1]*.bin");
        std::fs::write(&path, b"x").unwrap();
        assert_eq!(FileList::of(&[path], false).unwrap().files.len(), 1);
    }
}
