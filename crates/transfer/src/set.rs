//! Sets of files: those of the study, and folders of the user.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fathom_far::files::{BYTES_MAX, FILES_MAX, FileSum, sum};
use fathom_fileio::folder::{Folder, space, write_cause};
use fathom_fileio::residency::{self, ResidencyState};
use fathom_fileio::scratch::Scratch;
use fathom_fileio::{FileGenerator, XorSum};
use fathom_metric::ProcedureError;
use fathom_record::Unit;
use fathom_record::quantity::quantity;
use serde::{Deserialize, Serialize};

type SetOutcome<T> = std::result::Result<T, ProcedureError>;

/// A file to send, and what must arrive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetFile {
    pub path: PathBuf,
    pub sum: FileSum,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Set {
    pub name: String,
    pub files: Vec<SetFile>,
}

impl Set {
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.sum.bytes).sum()
    }

    /// Bytes of the largest file.
    pub fn largest(&self) -> u64 {
        self.files.iter().map(|file| file.sum.bytes).max().unwrap_or(0)
    }

    /// `10 files, 23.55 KiB: 9 × 2411 B, 2415 B`.
    pub fn describe(&self) -> String {
        let mut sizes: Vec<(u64, u64)> = Vec::new();
        for file in &self.files {
            match sizes.last_mut() {
                Some((bytes, count)) if *bytes == file.sum.bytes => *count += 1,
                _ => sizes.push((file.sum.bytes, 1)),
            }
        }
        const SHOWN: usize = 4;
        let size = |(bytes, count): &(u64, u64)| match count {
            1 => format!("{bytes} B"),
            count => format!("{count} × {bytes} B"),
        };
        let mut shown: Vec<String> = sizes.iter().take(SHOWN).map(size).collect();
        if sizes.len() > SHOWN {
            shown.push("…".to_owned());
        }
        let word = if self.files.len() == 1 { "file" } else { "files" };
        let all = quantity(self.bytes() as f64, Unit::Bytes);
        format!("{}: {} {word}, {all}: {}", self.name, self.files.len(), shown.join(", "))
    }

    /// Reads files that are not in the page cache as a whole. False if they do not stay there.
    pub fn warm(&self, stop: &AtomicBool) -> SetOutcome<bool> {
        let mut is_warm = true;
        for SetFile { path, .. } in &self.files {
            let file = File::open(path).map_err(|error| failed(path, error))?;
            let mut found = residency::residency_of(&file);
            if found.state != ResidencyState::Warm {
                found = residency::warm(&file, stop)?;
            }
            is_warm &= matches!(found.state, ResidencyState::Warm | ResidencyState::Unknown { .. });
        }
        Ok(is_warm)
    }
}

/// The sets of the study. How its sizes divide among the files is not published: evenly here, with
/// the rest in the last file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Study {
    Small,
    File,
    Video,
}

fathom_record::words!(Study.name.ALL, Small = "small", File = "file", Video = "video");

impl Study {
    /// 23.549 KB, 11.466 MB and 347.466 MB, where KB is 1024 bytes and MB 1024 KB.
    fn files_and_bytes(self) -> (u64, u64) {
        match self {
            Self::Small => (10, 24_114),
            Self::File => (1, 12_022_972),
            Self::Video => (2, 364_344_508),
        }
    }

    fn sizes(self) -> Vec<u64> {
        let (files, bytes) = self.files_and_bytes();
        let mut sizes = vec![bytes / files; files as usize];
        sizes[files as usize - 1] += bytes % files;
        sizes
    }
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferSource {
    Study(Study),
    Folder(PathBuf),
}

/// The made files. They have no names, so that nothing is left of them; the sending ends open them
/// as descriptors of this process.
pub type TransferMade = Vec<Scratch>;

fn failed(path: &Path, error: impl std::fmt::Display) -> ProcedureError {
    ProcedureError::failed(format!("{}: {error}", path.display()))
}

/// The folder for files that are made or received.
pub fn folder(option: Option<&Path>) -> SetOutcome<PathBuf> {
    Folder::chosen(option, "--folder").map(|folder| folder.path).map_err(ProcedureError::failed)
}

/// Fails if the sets, once sent and once received, do not fit.
pub fn check_space(folder: &Path, sources: &[TransferSource]) -> SetOutcome<()> {
    let made: u64 = sources
        .iter()
        .map(|source| match source {
            TransferSource::Study(study) => study.files_and_bytes().1,
            TransferSource::Folder(_) => 0,
        })
        .sum();
    let free = space(folder).map_err(|error| failed(folder, error))?.free;
    let needed = 2 * made;
    if needed <= free / 2 {
        return Ok(());
    }
    let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    Err(ProcedureError::failed(format!(
        "{}: needs {}, which exceeds half of the free space, {}; use smaller --sets, or another \
         --folder",
        folder.display(),
        size(needed),
        size(free)
    )))
}

const PIECE: usize = 1 << 20;

/// Makes the sets of the study, and reads those of the user.
pub fn prepare(
    sources: &[TransferSource],
    folder: &Path,
    stop: &AtomicBool,
) -> SetOutcome<(Vec<Set>, TransferMade)> {
    let mut made = Vec::new();
    let mut sets: Vec<Set> = Vec::new();
    for source in sources {
        let set = match source {
            TransferSource::Study(study) => make(*study, folder, &mut made)?,
            TransferSource::Folder(path) => read(path)?,
        };
        if sets.iter().any(|known| known.name == set.name) {
            let text = format!("two sets have the name {}; name one of them", set.name);
            return Err(ProcedureError::failed(text));
        }
        sets.push(set);
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
    Ok((sets, made))
}

fn make(study: Study, folder: &Path, made: &mut TransferMade) -> SetOutcome<Set> {
    let name = study.name();
    let generator = FileGenerator::new(study.files_and_bytes().1);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    let mut files = Vec::new();
    for bytes in study.sizes() {
        let mut sum = XorSum::default();
        let of_folder = |error: std::io::Error| failed(folder, write_cause(folder, error));
        let scratch = Scratch::new(folder).map_err(|error| of_folder(error.into()))?;
        let mut file = scratch.file();
        while sum.bytes < bytes {
            let piece = &mut piece[..(bytes - sum.bytes).min(PIECE as u64) as usize];
            generator.fill(at + sum.bytes, piece);
            file.write_all(piece).map_err(of_folder)?;
            sum.add(sum.bytes, piece);
        }
        // Written back now, not during a transfer.
        file.sync_all().map_err(of_folder)?;
        at += bytes;
        let (process, number) = (std::process::id(), file.as_raw_fd());
        let path = PathBuf::from(format!("/proc/{process}/fd/{number}"));
        files.push(SetFile { path, sum: sum.into() });
        made.push(scratch);
    }
    Ok(Set { name: name.to_owned(), files })
}

/// The regular files of a folder, without those of its folders.
fn read(folder: &Path) -> SetOutcome<Set> {
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(folder, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    if paths.is_empty() || paths.len() > FILES_MAX as usize {
        let got = format!("has {} files, expected 1 to {FILES_MAX}", paths.len());
        return Err(failed(folder, got));
    }
    let of = |path: PathBuf| {
        let file = File::open(&path).map_err(|error| failed(&path, error))?;
        let sum = sum(&file).map_err(|error| failed(&path, error))?.into();
        Ok(SetFile { path, sum })
    };
    let files: SetOutcome<Vec<SetFile>> = paths.into_iter().map(of).collect();
    let name = folder.canonicalize().ok();
    let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    let name: String = name.unwrap_or_default().chars().filter(is_allowed).collect();
    let name = if name.is_empty() { "folder".to_owned() } else { name };
    // No name of a set of the study has it.
    let set = Set { name: format!("{name}/"), files: files? };
    if set.bytes() == 0 || set.bytes() > BYTES_MAX {
        let got = format!("has {} bytes, expected 1 to 64 GiB", set.bytes());
        return Err(failed(folder, got));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_sets_have_the_published_sizes_and_go_away() {
        let folder = tempfile::tempdir().unwrap();
        let sources = [TransferSource::Study(Study::Small), TransferSource::Study(Study::File)];
        let (sets, made) = prepare(&sources, folder.path(), &AtomicBool::new(false)).unwrap();
        let kb = |set: &Set| (set.bytes() as f64 / 1024.0 * 1000.0).round() / 1000.0;
        assert_eq!(sets.iter().map(kb).collect::<Vec<f64>>(), [23.549, 11_741.184]);
        assert_eq!(sets[0].describe(), "small: 10 files, 23.55 KiB: 9 × 2411 B, 2415 B");
        for file in sets.iter().flat_map(|set| &set.files) {
            let found: FileSum = sum(&File::open(&file.path).unwrap()).unwrap().into();
            assert_eq!(found, file.sum);
        }
        // The kernel may evict them at once.
        let _ = sets[0].warm(&AtomicBool::new(false)).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no names");
        drop(made);
        assert!(File::open(&sets[0].files[0].path).is_err());
    }

    #[test]
    fn folder_of_the_user_is_read_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("0 files"));
        fs::write(folder.path().join("b"), "").unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("0 bytes"));
        fs::write(folder.path().join("a"), "abcd").unwrap();
        fs::create_dir(folder.path().join("c")).unwrap();
        let set = read(folder.path()).unwrap();
        let bytes: Vec<u64> = set.files.iter().map(|file| file.sum.bytes).collect();
        assert_eq!((bytes, set.files[0].sum.xor), (vec![4, 0], 0x6463_6261));
        assert!(read(&folder.path().join("d")).is_err());
    }
}
