//! A temporary folder for test files: on a disk with enough room, and removed afterwards.
//!
//! Files are unnamed (O_TMPFILE) where the file system supports it. Those that need a name are in a
//! folder of the run, which the run locks while it lives: the next run removes a folder that a
//! killed run left, and leaves one in use alone.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use fathom_fileio::FileGenerator;
use fathom_fileio::folder::{self, FolderError, Space, write_cause};
use fathom_fileio::mount::Mount;
use fathom_fileio::scratch::Scratch;
use fathom_measure::sampler::{Files, ResourceMissing};
use fathom_metric::MetricDisk;
use fathom_record::Remedy;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::interrupt::Interrupt;

/// The name of a run's folder is this, its pid and a number.
const PREFIX: &str = ".fathom-run-";
const NAMES_TRIED: u32 = 100;
/// The free space must be this multiple of what is written: a nearly full disk is slower.
const ROOM_FACTOR: u64 = 2;
const WRITE_BYTES: usize = 1 << 20;
const SEED: u64 = 1;

/// What a command needs for its test files.
pub(super) struct ScratchFolderRequest<'r> {
    /// The value of `--folder`.
    pub(super) folder: Option<&'r Path>,
    pub(super) allow_memory: bool,
    pub(super) disk: MetricDisk,
    /// Fail if there is no usable folder.
    pub(super) required: bool,
    /// What is skipped without a folder, such as "File metrics".
    pub(super) subject: &'static str,
}

/// The test files of a command, or why there are none. Dropping this removes them.
pub(super) struct TestFiles<T> {
    pub(super) files: Result<T, ResourceMissing>,
    /// Where the files are and how large, or why they are missing.
    pub(super) announcement: Option<String>,
    /// Its path and file system.
    pub(super) folder: Option<String>,
    _folder: Option<RunFolder>,
}

impl<T> TestFiles<T> {
    /// For a command that needs no files.
    pub(super) fn none(reason: &str) -> Self {
        let missing = ResourceMissing { reason: reason.to_owned(), remedy: None };
        Self { files: Err(missing), announcement: None, folder: None, _folder: None }
    }

    /// Selects a folder and lets `create` put files into it. `amount` completes the announcement.
    ///
    /// # Errors
    /// If files are required and the folder is not usable.
    pub(super) fn prepare(
        request: &ScratchFolderRequest<'_>,
        amount: &str,
        create: impl FnOnce(&Path) -> io::Result<(RunFolder, T)>,
    ) -> anyhow::Result<Self> {
        let parent = match parent_folder(request.folder, request.allow_memory) {
            Err(missing) if request.required => bail!(missing_text(&missing)),
            parent => parent,
        };
        let prepared = parent.and_then(|parent| {
            let path = parent.path.display();
            check_room(&parent.path, request.disk)?;
            let (folder, files) = create(&parent.path).map_err(|error| {
                let cause = write_cause(&parent.path, error);
                // Another folder helps against no limit of the process.
                let remedy = cause
                    .remedy
                    .map_or(Remedy::OtherFolder, |action| Remedy::Do { action: action.to_owned() });
                missing(format!("write to {path}: {}", cause.text), remedy)
            })?;
            let name = parent.file_system.name;
            let doubt = doubt(&parent.path).map_or_else(String::new, |why| {
                let remedy = fathom_report::remedy::words(&Remedy::OtherFolder);
                format!(" Cold and direct reads will be noisy: {why}; {remedy}.")
            });
            let place = format!("{path} ({name})");
            let announcement = Some(format!("Test files go to {place}{amount}.{doubt}"));
            let _folder = Some(folder);
            Ok(Self { files: Ok(files), announcement, folder: Some(place), _folder })
        });
        Ok(prepared.unwrap_or_else(|missing| {
            let text = format!("{} are skipped: {}.", request.subject, missing_text(&missing));
            Self { files: Err(missing), announcement: Some(text), folder: None, _folder: None }
        }))
    }
}

/// Why reads of files in a folder may reach no device.
fn doubt(folder: &Path) -> Option<String> {
    fathom_fileio::inspect(folder).ok()?.backing().doubt().map(str::to_owned)
}

fn missing(reason: String, remedy: Remedy) -> ResourceMissing {
    ResourceMissing { reason, remedy: Some(remedy) }
}

/// The reason and the remedy.
pub(super) fn missing_text(missing: &ResourceMissing) -> String {
    match &missing.remedy {
        Some(remedy) => format!("{}; {}", missing.reason, fathom_report::remedy::words(remedy)),
        None => missing.reason.clone(),
    }
}

/// The folder of `--folder` or FATHOM_FOLDER, else the first usual one on a disk.
fn parent_folder(
    folder: Option<&Path>,
    allow_memory: bool,
) -> Result<folder::Folder, ResourceMissing> {
    let Some(path) = folder::named(folder) else {
        let usual = folder::Folder::usual();
        return usual.map_err(|why| missing(why.to_string(), Remedy::OtherFolder));
    };
    let allow_memory = folder.is_some() && allow_memory;
    folder::Folder::at(&path).and_then(|folder| folder.keeping_files(allow_memory)).map_err(|why| {
        let remedy = match why {
            FolderError::InMemory(_) => Remedy::OtherFolderOrMemory,
            _ => Remedy::OtherFolder,
        };
        missing(format!("{}: {why}", path.display()), remedy)
    })
}

/// Whether test files go to a network file system.
pub(super) fn is_on_network(folder: Option<&Path>) -> bool {
    let folder = parent_folder(folder, false).ok();
    folder.and_then(|folder| Mount::holding(&folder.path)).is_some_and(|mount| mount.is_network)
}

fn check_room(folder: &Path, disk: MetricDisk) -> Result<(), ResourceMissing> {
    // A file system that does not report its free space fails later with ENOSPC.
    let Ok(Space { free, .. }) = folder::space(folder) else { return Ok(()) };
    let needed = ROOM_FACTOR * (disk.large + disk.own);
    if free >= needed {
        return Ok(());
    }
    let (needed, free, folder) = (size(needed), size(free), folder.display());
    Err(missing(format!("needs {needed} free in {folder}, which has {free}"), Remedy::FreeSpace))
}

/// The locked folder of a run, with its large file.
pub(super) struct RunFolder {
    path: PathBuf,
    large: Option<Scratch>,
    /// Marks the folder as in use.
    _lock: Option<File>,
}

impl RunFolder {
    /// Removes the folders of killed runs and creates a new one, with a file of `large` bytes.
    pub(super) fn new(parent: &Path, large: u64, interrupt: &Interrupt) -> io::Result<Self> {
        remove_stale(parent);
        let (path, lock) = create_locked(parent)?;
        let mut folder = Self { path, large: None, _lock: lock };
        if large > 0 {
            let scratch = Scratch::new(&folder.path)?;
            fill(scratch.file(), large, interrupt)?;
            folder.large = Some(scratch);
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The files as workers open them.
    pub(super) fn files(&self) -> Files {
        let number = self.large.as_ref().map_or(-1, |large| large.file().as_raw_fd());
        let large = PathBuf::from(format!("/proc/{}/fd/{number}", std::process::id()));
        Files { folder: self.path.clone(), large, seed: SEED, doubt: doubt(&self.path) }
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        self.large = None;
        remove(&self.path);
    }
}

/// Creates a folder under an unused name and locks it.
fn create_locked(parent: &Path) -> io::Result<(PathBuf, Option<File>)> {
    for number in 0..NAMES_TRIED {
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Err(Errno::EXIST) => continue,
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
        // Between mkdir and flock another run may have removed it as stale.
        match open_locked(&path) {
            Ok(lock) if is_same(&path, &lock) => return Ok((path, Some(lock))),
            Ok(_) | Err(Errno::WOULDBLOCK | Errno::NOENT) => {}
            // No locks on this file system: the folder never counts as stale.
            Err(_) => return Ok((path, None)),
        }
    }
    Err(Errno::EXIST.into())
}

/// Opens a folder and locks it until the descriptor is closed.
fn open_locked(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

/// Whether a path still leads to the opened folder.
fn is_same(path: &Path, opened: &File) -> bool {
    let same = |(here, there): (std::fs::Metadata, std::fs::Metadata)| {
        (here.dev(), here.ino()) == (there.dev(), there.ino())
    };
    path.symlink_metadata().ok().zip(opened.metadata().ok()).is_some_and(same)
}

/// Removes the unlocked folders of this user's killed runs.
fn remove_stale(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let own = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_run = entry.file_name().to_str().is_some_and(|name| is_generated(name, PREFIX));
        let is_ours = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == own);
        if is_run
            && is_ours
            && let Ok(_lock) = open_locked(&entry.path())
        {
            remove(&entry.path());
        }
    }
}

/// Removes a run's folder with the files and folders of its visits. Others stay, and then so does
/// the folder.
fn remove(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = |name| is_generated(name, "f-") || is_generated(name, ".fathom-");
        if name.to_str().is_some_and(is_ours) {
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()),
                _ => std::fs::remove_file(entry.path()),
            };
        }
    }
    let _ = rustix::fs::rmdir(folder);
}

/// Whether a name is a prefix followed by numbers.
fn is_generated(name: &str, prefix: &str) -> bool {
    let is_numbers = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && is_numbers(rest))
}

/// Writes the generated data of the large file and syncs it to the disk.
pub(super) fn fill(mut file: &File, bytes: u64, interrupt: &Interrupt) -> io::Result<()> {
    let generator = FileGenerator::new(SEED);
    let mut block = vec![0; WRITE_BYTES];
    for at in (0..bytes).step_by(WRITE_BYTES) {
        if interrupt.arrived() {
            return Err(Errno::INTR.into());
        }
        let length = (bytes - at).min(WRITE_BYTES as u64) as usize;
        generator.fill(at, &mut block[..length]);
        file.write_all(&block[..length])?;
    }
    Ok(rustix::fs::fdatasync(file)?)
}

/// A number of bytes with its unit.
pub(super) fn size(bytes: u64) -> String {
    fathom_report::quantity(bytes as f64, fathom_record::Unit::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_stale_folders_of_runs_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        for folder in [".fathom-run-1-0", ".fathom-run-2-0", ".fathom-run-x", ".fathom-run-3-0"] {
            std::fs::create_dir(at(folder)).unwrap();
            std::fs::write(at(folder).join("f-1-0-2"), "ours").unwrap();
        }
        std::fs::write(at(".fathom-run-1-0/.fathom-1-0"), "ours").unwrap();
        std::fs::create_dir(at(".fathom-run-1-0/f-17")).unwrap();
        std::fs::write(at(".fathom-run-1-0/f-17/file"), "ours").unwrap();
        std::fs::write(at(".fathom-run-2-0/letter"), "foreign").unwrap();
        std::fs::write(at(".fathom-run-4-0"), "a file").unwrap();
        let _alive = open_locked(&at(".fathom-run-3-0")).unwrap();
        remove_stale(parent.path());
        let stays = [".fathom-run-2-0", ".fathom-run-3-0", ".fathom-run-4-0", ".fathom-run-x"];
        assert_eq!(entries(parent.path()), stays);
        assert_eq!(entries(&at(".fathom-run-2-0")), ["letter"]);
        assert_eq!(entries(&at(".fathom-run-3-0")), ["f-1-0-2"]);
    }

    #[test]
    fn run_folder_is_locked_until_removed() {
        let parent = tempfile::tempdir().unwrap();
        let (path, lock) = create_locked(parent.path()).unwrap();
        let folder = RunFolder { path: path.clone(), large: None, _lock: lock };
        std::fs::create_dir_all(path.join("f-1-0/4096/1")).unwrap();
        std::fs::write(path.join("f-1-0/4096/1/7"), "left by a worker").unwrap();
        assert_eq!(open_locked(&path).err(), Some(Errno::WOULDBLOCK));
        drop(folder);
        assert!(entries(parent.path()).is_empty());
    }

    #[test]
    fn twice_the_written_size_must_be_free() {
        let folder = tempfile::tempdir().unwrap();
        let free = folder::space(folder.path()).unwrap().free;
        let check = |large| check_room(folder.path(), MetricDisk { large, own: 0 });
        // Well below and above half, since other processes write to the same disk.
        assert!(check(free / 4).is_ok());
        let missing = check(free / 4 * 3).expect_err("not enough room");
        assert!(missing.reason.starts_with("needs"), "{missing:?}");
        assert_eq!(missing.remedy, Some(Remedy::FreeSpace));
    }
}
