//! `fathom load --make`: a set of files with incompressible content.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fathom_fileio::folder::{self, write_cause};
use fathom_fileio::{FileGenerator, XorSum};
use fathom_metric::{Ending, Event, ProcedureError};
use fathom_record::Unit;
use fathom_record::quantity::quantity;

use crate::options::LoadSet;

const PIECE: usize = 1 << 20;
/// Share of the free space that stays free.
const RESERVE: u64 = 10;

/// Files `f0`, `f1`, … of a set, removed again unless it becomes complete.
struct Making<'f> {
    folder: &'f Path,
    made: Vec<PathBuf>,
    made_folder: bool,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        for path in &self.made {
            let _ = fs::remove_file(path);
        }
        if self.made_folder {
            let _ = fs::remove_dir(self.folder);
        }
    }
}

fn failed(path: &Path, what: impl std::fmt::Display) -> ProcedureError {
    ProcedureError::failed(format!("{}: {what}", path.display()))
}

fn size(bytes: u64) -> String {
    quantity(bytes as f64, Unit::Bytes)
}

/// Receives an event, if there is one, and returns whether to go on.
pub type Watch<'w> = dyn FnMut(Option<Event<'_>>) -> bool + 'w;

/// Makes the files that are missing.
pub fn make(set: LoadSet, dir: &Path, watch: &mut Watch<'_>) -> Result<Ending, ProcedureError> {
    let present = check(set, dir)?;
    let bytes = (set.files - present.len() as u64) * set.bytes;
    let text = format!(
        "{} files of {} bytes in {}, {} to write",
        set.files,
        set.bytes,
        dir.display(),
        size(bytes)
    );
    watch(Some(Event::Plan(&text)));
    let mut making = Making { folder: dir, made: Vec::new(), made_folder: !dir.exists() };
    fs::create_dir_all(dir).map_err(|error| failed(dir, write_cause(dir, error)))?;
    let generator = FileGenerator::new(set.bytes);
    let mut piece = vec![0; PIECE.min(set.bytes as usize)];
    let mut written = 0;
    for number in (0..set.files).filter(|number| !present.contains(number)) {
        let path = dir.join(name(number));
        let mut file =
            File::create_new(&path).map_err(|error| failed(&path, write_cause(&path, error)))?;
        making.made.push(path.clone());
        let mut at = 0;
        while at < set.bytes {
            if !watch(None) {
                return Ok(Ending::Stopped);
            }
            let length = (set.bytes - at).min(PIECE as u64) as usize;
            generator.fill(number * set.bytes + at, &mut piece[..length]);
            file.write_all(&piece[..length])
                .map_err(|error| failed(&path, write_cause(&path, error)))?;
            at += length as u64;
            written += length as u64;
            if written % (64 << 20) < length as u64 {
                let what = "writing";
                watch(Some(Event::Progress { done: written, all: bytes, what }));
            }
        }
    }
    let handle = File::open(dir).map_err(|error| failed(dir, error))?;
    let what = "waiting for the disk";
    watch(Some(Event::Progress { done: written, all: bytes, what }));
    rustix::fs::syncfs(&handle).map_err(|error| failed(dir, std::io::Error::from(error)))?;
    if !watch(None) {
        return Ok(Ending::Stopped);
    }
    making.made.clear();
    making.made_folder = false;
    Ok(Ending::Done)
}

/// The number of a file, by its name.
pub fn number(file: &str) -> Option<u64> {
    let number = file.strip_prefix('f')?.parse().ok()?;
    (name(number) == file).then_some(number)
}

/// The sums of a file of a set of files of this length.
pub fn sum(number: u64, bytes: u64) -> XorSum {
    let generator = FileGenerator::new(bytes);
    let mut piece = vec![0; PIECE.min(bytes as usize)];
    let mut sum = XorSum::default();
    while sum.bytes < bytes {
        let (at, length) = (sum.bytes, (bytes - sum.bytes).min(PIECE as u64) as usize);
        generator.fill(number * bytes + at, &mut piece[..length]);
        sum.add(at, &piece[..length]);
    }
    sum
}

fn name(number: u64) -> String {
    format!("f{number}")
}

/// The numbers of the files of this set that exist.
///
/// # Errors
/// If the folder has other files, or the disk has too little space.
fn check(set: LoadSet, dir: &Path) -> Result<Vec<u64>, ProcedureError> {
    let mut present = Vec::new();
    if dir.exists() {
        let entries = fs::read_dir(dir).map_err(|error| failed(dir, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed(dir, error))?;
            let found = entry.file_name();
            let number = found.to_str().and_then(number);
            let is_whole = entry.metadata().is_ok_and(|it| it.is_file() && it.len() == set.bytes);
            match number.filter(|&number| number < set.files) {
                Some(number) if is_whole => present.push(number),
                _ => {
                    let other = found.to_string_lossy().into_owned();
                    let text = format!("has another file, {other}; choose an empty folder");
                    return Err(failed(dir, text));
                }
            }
        }
    }
    let needed = (set.files - present.len() as u64) * set.bytes;
    let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let space =
        folder::space(existing).map_err(|error| failed(existing, std::io::Error::from(error)))?;
    let most = space.free - space.free / RESERVE;
    if needed > most {
        let text = format!(
            "{} needed, {} of {} free may be used; make fewer or smaller files",
            size(needed),
            size(most),
            size(space.free)
        );
        return Err(failed(dir, text));
    }
    Ok(present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_has_exact_sizes_and_different_contents() {
        let dir = tempfile::tempdir().unwrap();
        let (set, into) = (LoadSet { files: 3, bytes: 1_500_001 }, dir.path().join("set"));
        assert_eq!(make(set, &into, &mut |_| true).unwrap(), Ending::Done);
        let read = |at: u64| fs::read(into.join(name(at))).unwrap();
        assert!((0..3).all(|at| read(at).len() == 1_500_001));
        assert!((0..3).all(|at| XorSum::over(&read(at)) == sum(at, set.bytes)));
        assert!(read(0) != read(1) && read(0)[1 << 20..] != read(0)[..1_500_001 - (1 << 20)]);
        fs::remove_file(into.join("f1")).unwrap();
        assert_eq!(make(set, &into, &mut |_| true).unwrap(), Ending::Done);
        assert_eq!(read(1).len(), 1_500_001, "made again");
    }

    #[test]
    fn stop_removes_what_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let into = dir.path().join("set");
        let set = LoadSet { files: 100, bytes: 1 << 20 };
        let mut most = 0;
        let mut watch = |_: Option<Event<'_>>| {
            most = most.max(fs::read_dir(&into).map_or(0, Iterator::count));
            most < 5
        };
        assert_eq!(make(set, &into, &mut watch).unwrap(), Ending::Stopped);
        assert_eq!((most, into.exists()), (5, false));
    }

    #[test]
    fn folder_with_other_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let set = LoadSet { files: 2, bytes: 10 };
        for (other, content) in [("notes.txt", "0123456789"), ("f1", "short"), ("f2", "0123456789")]
        {
            fs::write(dir.path().join(other), content).unwrap();
            let error = make(set, dir.path(), &mut |_| true).unwrap_err().to_string();
            assert!(error.contains(&format!("another file, {other}")), "{error}");
            assert_eq!(fs::read_to_string(dir.path().join(other)).unwrap(), content);
            fs::remove_file(dir.path().join(other)).unwrap();
        }
        let huge = LoadSet { files: 1 << 20, bytes: 1 << 40 };
        let error = make(huge, dir.path(), &mut |_| true).unwrap_err().to_string();
        assert!(error.contains("free may be used"), "{error}");
    }
}
