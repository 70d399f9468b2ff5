//! A folder for files that are measured: on a device, with room, and left as it was found.
//!
//! Files have no names where the file system can do so, and those that must have one lie in a
//! folder of the run's own. The run locks it for as long as it lives, so that the next one can
//! tell a folder that a killed run left behind from one in use, and take it away.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use fathom_fileio::Generator;
use fathom_fileio::folder::{self, FolderError, Space};
use fathom_fileio::scratch::Scratch;
use fathom_measure::sampler::{Files, Missing};
use fathom_metric::Disk;
use fathom_record::Remedy;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::interrupt::Interrupt;

/// How the folder of a run is called; the rest is its process and a number.
const PREFIX: &str = ".fathom-run-";
/// Names are tried until one is free.
const TRIES: u32 = 100;
/// So many times what is written must be free: a disk that is nearly full is another disk.
const ROOM: u64 = 2;
/// Bytes written at a time.
const STEP: usize = 1 << 20;
const SEED: u64 = 1;

/// What is asked of a place for files.
pub(super) struct Wanted<'w> {
    /// The folder that was named.
    pub(super) folder: Option<&'w Path>,
    /// That one may lie in memory.
    pub(super) allow_memory: bool,
    /// What is to have room.
    pub(super) disk: Disk,
    /// Without a folder the command fails.
    pub(super) must: bool,
    /// What is not done without files: measured, compared.
    pub(super) done: &'static str,
}

/// A place for files, which goes with this.
pub(super) struct Place<T> {
    /// The files, or why there are none.
    pub(super) files: Result<T, Missing>,
    /// What is written where, for people.
    pub(super) said: Option<String>,
    _folder: Option<Folder>,
}

impl<T> Place<T> {
    /// No place, and nothing that needs one.
    pub(super) fn none(reason: &str) -> Self {
        let missing = Missing { reason: reason.to_owned(), remedy: None };
        Self { files: Err(missing), said: None, _folder: None }
    }

    /// Makes a place ready. `amount` says what is written there, and `make` gets it a folder.
    ///
    /// # Errors
    /// Where the folder is not usable and must be.
    pub(super) fn prepare(
        wanted: &Wanted<'_>,
        amount: &str,
        make: impl FnOnce(&Path) -> io::Result<(Folder, T)>,
    ) -> anyhow::Result<Self> {
        let parent = match chosen(wanted) {
            Err(missing) if wanted.must => bail!(in_full(&missing)),
            found => found,
        };
        let made = parent.and_then(|parent| {
            let shown = parent.path.display();
            has_room(&parent.path, wanted.disk)?;
            let (folder, files) = make(&parent.path).map_err(|error| {
                missing(format!("write to {shown}: {error}"), Remedy::OtherFolder)
            })?;
            let name = parent.file_system.name;
            let said = Some(format!("Files are written to {shown} ({name}){amount}."));
            Ok(Self { files: Ok(files), said, _folder: Some(folder) })
        });
        Ok(made.unwrap_or_else(|missing| {
            let said = Some(format!("No files are {}: {}.", wanted.done, in_full(&missing)));
            Self { files: Err(missing), said, _folder: None }
        }))
    }
}

fn missing(reason: String, remedy: Remedy) -> Missing {
    Missing { reason, remedy: Some(remedy) }
}

/// What is missing, and what would give it.
pub(super) fn in_full(missing: &Missing) -> String {
    match &missing.remedy {
        Some(remedy) => format!("{}; {}", missing.reason, fathom_report::remedy::words(remedy)),
        None => missing.reason.clone(),
    }
}

/// The folder that was named, or the first usual one that lies on a device.
fn chosen(wanted: &Wanted<'_>) -> Result<folder::Folder, Missing> {
    let by_environment = || std::env::var_os("FATHOM_FOLDER").filter(|path| !path.is_empty());
    let named = wanted.folder.map(Path::to_owned).or_else(|| by_environment().map(PathBuf::from));
    let Some(path) = named else {
        let usual = folder::Folder::usual();
        return usual.map_err(|why| missing(why.to_string(), Remedy::OtherFolder));
    };
    let may_be_memory = wanted.folder.is_some() && wanted.allow_memory;
    folder::Folder::at(&path).and_then(|folder| folder.keeping_files(may_be_memory)).map_err(
        |why| {
            let remedy = match why {
                FolderError::InMemory(_) => Remedy::OtherFolderOrMemory,
                _ => Remedy::OtherFolder,
            };
            missing(format!("{}: {why}", path.display()), remedy)
        },
    )
}

fn has_room(folder: &Path, disk: Disk) -> Result<(), Missing> {
    // What cannot tell how much is free will tell when it is full.
    let Ok(Space { free, .. }) = folder::space(folder) else { return Ok(()) };
    let needed = ROOM * (disk.large + disk.own);
    if free >= needed {
        return Ok(());
    }
    let (needed, free, folder) = (size(needed), size(free), folder.display());
    let text = format!("needs {needed} free in {folder}, and there are {free}");
    Err(missing(text, Remedy::FreeSpace))
}

/// The folder of this run's own, with the large file.
pub(super) struct Folder {
    path: PathBuf,
    large: Option<Scratch>,
    /// Says that the run lives.
    _lock: Option<File>,
}

impl Folder {
    /// A new one, with a large file where one is wanted; what killed runs left there goes first.
    pub(super) fn new(parent: &Path, large: u64, interrupt: &Interrupt) -> io::Result<Self> {
        sweep(parent);
        let (path, lock) = made(parent)?;
        let mut folder = Self { path, large: None, _lock: lock };
        if large > 0 {
            let scratch = Scratch::new(&folder.path)?;
            fill(scratch.file(), large, interrupt)?;
            folder.large = Some(scratch);
        }
        Ok(folder)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// For workers.
    pub(super) fn files(&self) -> Files {
        let number = self.large.as_ref().map_or(-1, |large| large.file().as_raw_fd());
        let large = PathBuf::from(format!("/proc/{}/fd/{number}", std::process::id()));
        Files { folder: self.path.clone(), large, seed: SEED }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.large = None;
        remove(&self.path);
    }
}

/// A new folder under a name that nobody has, locked.
fn made(parent: &Path) -> io::Result<(PathBuf, Option<File>)> {
    for number in 0..TRIES {
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Err(Errno::EXIST) => continue,
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
        // Another run may have taken it for left behind before it was locked.
        match locked(&path) {
            Ok(lock) if is_still(&path, &lock) => return Ok((path, Some(lock))),
            Ok(_) | Err(Errno::WOULDBLOCK | Errno::NOENT) => {}
            // A file system without locks: it is in use for ever then.
            Err(_) => return Ok((path, None)),
        }
    }
    Err(Errno::EXIST.into())
}

/// A folder, opened and locked for as long as it is open.
fn locked(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

/// Whether a path still leads to what was opened.
fn is_still(path: &Path, opened: &File) -> bool {
    let same = |(here, there): (std::fs::Metadata, std::fs::Metadata)| {
        (here.dev(), here.ino()) == (there.dev(), there.ino())
    };
    path.symlink_metadata().ok().zip(opened.metadata().ok()).is_some_and(same)
}

/// Takes away what killed runs of this user left in a folder: what is called like a run's folder,
/// and is locked by nobody.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let own = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_of_run = entry.file_name().to_str().is_some_and(|name| is_own(name, PREFIX));
        let is_ours = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == own);
        if is_of_run
            && is_ours
            && let Ok(_lock) = locked(&entry.path())
        {
            remove(&entry.path());
        }
    }
}

/// Takes away a run's folder with what visits left in it. Anything else in it stays, and so does
/// the folder then.
fn remove(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| is_own(name, "f-") || is_own(name, ".fathom-")) {
            let _ = rustix::fs::unlink(entry.path());
        }
    }
    let _ = rustix::fs::rmdir(folder);
}

/// Whether a name is a prefix and numbers.
fn is_own(name: &str, prefix: &str) -> bool {
    let is_numbers = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && is_numbers(rest))
}

/// Writes the data of the large file, and brings it to its device.
pub(super) fn fill(mut file: &File, bytes: u64, interrupt: &Interrupt) -> io::Result<()> {
    let generator = Generator::new(SEED);
    let mut block = vec![0; STEP];
    for at in (0..bytes).step_by(STEP) {
        if interrupt.arrived() {
            return Err(Errno::INTR.into());
        }
        let length = (bytes - at).min(STEP as u64) as usize;
        generator.fill(at, &mut block[..length]);
        file.write_all(&block[..length])?;
    }
    Ok(rustix::fs::fdatasync(file)?)
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    fathom_report::quantity(bytes as f64, fathom_record::Unit::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> =
            names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_killed_run_left_is_taken_away_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for folder in [".fathom-run-1-0", ".fathom-run-2-0", ".fathom-run-x", ".fathom-run-3-0"] {
            std::fs::create_dir(at(folder)).unwrap();
            std::fs::write(at(folder).join("f-1-0-2"), "ours").unwrap();
        }
        std::fs::write(at(".fathom-run-1-0/.fathom-1-0"), "ours").unwrap();
        std::fs::write(at(".fathom-run-2-0/letter"), "foreign").unwrap();
        std::fs::write(at(".fathom-run-4-0"), "a file").unwrap();
        let _alive = locked(&at(".fathom-run-3-0")).unwrap();
        sweep(place.path());
        let stays = [".fathom-run-2-0", ".fathom-run-3-0", ".fathom-run-4-0", ".fathom-run-x"];
        assert_eq!(left(place.path()), stays);
        assert_eq!(left(&at(".fathom-run-2-0")), ["letter"]);
        assert_eq!(left(&at(".fathom-run-3-0")), ["f-1-0-2"]);
    }

    #[test]
    fn a_folder_of_a_living_run_is_locked_and_goes_with_it() {
        let place = tempfile::tempdir().unwrap();
        let (path, lock) = made(place.path()).unwrap();
        let folder = Folder { path: path.clone(), large: None, _lock: lock };
        std::fs::write(path.join("f-1-0"), "left by a worker").unwrap();
        assert_eq!(locked(&path).err(), Some(Errno::WOULDBLOCK));
        drop(folder);
        assert!(left(place.path()).is_empty());
    }

    #[test]
    fn room_is_asked_for_twice_over() {
        let place = tempfile::tempdir().unwrap();
        let free = folder::space(place.path()).unwrap().free;
        let asked = |large| has_room(place.path(), Disk { large, own: 0 });
        // Others write to the same disk meanwhile.
        assert!(asked(free / 4).is_ok());
        let missing = asked(free / 4 * 3).expect_err("it has no room");
        assert!(missing.reason.starts_with("needs"), "{missing:?}");
        assert_eq!(missing.remedy, Some(Remedy::FreeSpace));
    }
}
