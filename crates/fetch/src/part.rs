//! The unfinished file and its state: `NAME.part` and `NAME.part.state` beside `NAME`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use fathom_fileio::folder::write_cause;
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, flock, openat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Longest state that is read.
const STATE_BYTES_MAX: usize = 64 << 10;

/// What is needed to resume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchState {
    pub url: String,
    /// A strong one; without it there is no resumption.
    pub etag: Option<String>,
    pub bytes: Option<u64>,
    /// Ranges that are not received.
    pub missing: Vec<(u64, u64)>,
    /// Of the kernel's present boot: the page cache has what was written since.
    boot: String,
    /// The file was on the disk when this was written.
    is_synced: bool,
}

/// A folder and the name of a file in it.
pub struct FetchPlace {
    folder: OwnedFd,
    pub name: String,
    /// The path, for messages.
    pub shown: String,
}

impl FetchPlace {
    pub fn new(folder: &Path, name: String) -> Result<Self, String> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, folder, flags, Mode::empty()).map_err(|error| {
            format!("folder {}: {}", folder.display(), write_cause(folder, error))
        })?;
        let shown = match folder == Path::new(".") {
            true => name.clone(),
            false => folder.join(&name).display().to_string(),
        };
        Ok(Self { folder: opened, name, shown })
    }

    fn stat(&self, name: &str) -> Option<Stat> {
        statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Length of an existing file of this name.
    ///
    /// # Errors
    /// If it is not a regular file: such a one is never replaced.
    pub fn existing(&self) -> Result<Option<u64>, String> {
        let Some(stat) = self.stat(&self.name) else { return Ok(None) };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(Some(stat.st_size as u64)),
            FileType::Directory => "a folder",
            FileType::Symlink => "a symlink",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            _ => "a FIFO or socket",
        };
        let shown = &self.shown;
        Err(format!("{shown} is {kind}; fetch replaces regular files only: name another by -o"))
    }

    /// Whether this is the name of an unfinished file, or of its state.
    pub fn is_unfinished(&self) -> bool {
        let part = self.name.strip_suffix(".state").unwrap_or(&self.name);
        let has = |name: &str| self.stat(name).is_some();
        part.ends_with(".part") && has(part) && has(&format!("{part}.state"))
    }

    /// Opens a regular file of this user and this name alone, or makes it. `true`: it is new.
    fn open(&self, suffix: &str, mode: u32) -> Result<(File, bool), String> {
        let name = format!("{}{suffix}", self.name);
        let failed = |what: &dyn std::fmt::Display| format!("{}{suffix}: {what}", self.shown);
        let refused = |error| failed(&write_cause(self.shown.as_ref(), error));
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let new = openat(
            &self.folder,
            &name,
            flags | OFlags::CREATE | OFlags::EXCL,
            Mode::from_raw_mode(mode),
        );
        let (file, is_new) = match new {
            Ok(file) => (File::from(file), true),
            Err(Errno::EXIST) => {
                let old = openat(&self.folder, &name, flags, Mode::empty());
                let old = old.map_err(|error| match error {
                    Errno::LOOP => failed(&"a symlink; remove it"),
                    error => refused(error),
                });
                (File::from(old?), false)
            }
            Err(error) => return Err(refused(error)),
        };
        let stat = file.metadata().map_err(|error| failed(&error))?;
        let own = rustix::process::geteuid().as_raw();
        if !stat.is_file() || stat.uid() != own || stat.nlink() != 1 {
            return Err(failed(&"not a regular file of this user with one name; remove it"));
        }
        Ok((file, is_new))
    }

    fn remove(&self, suffix: &str) {
        let _ = unlinkat(&self.folder, format!("{}{suffix}", self.name), AtFlags::empty());
    }
}

pub struct Part {
    pub place: FetchPlace,
    pub file: File,
    state: File,
    boot: String,
}

impl Part {
    /// Opens the unfinished file of `place`, or makes it, with its state if that can be trusted,
    /// and else why not.
    pub fn open(
        place: FetchPlace,
        is_forced: bool,
    ) -> Result<(Self, Result<FetchState, String>), String> {
        let (file, is_new) = place.open(".part", 0o666)?;
        let [shown, shown_state] = [".part", ".part.state"].map(|it| place.shown.clone() + it);
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| format!("{shown}: another process downloads it"))?;
        // The other process may have renamed it before it let go of the lock.
        let stat = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
        let named = place.stat(&format!("{}.part", place.name));
        if named.is_none_or(|named| named.st_ino != stat.ino()) {
            return Err(format!("{shown}: another process has just finished it"));
        }
        let (state, has_no_state) = place.open(".part.state", 0o600)?;
        let is_foreign_part = !is_new && has_no_state && stat.len() > 0;
        let foreign = match is_foreign_part {
            true => Some(&shown),
            false => is_foreign(&state).then_some(&shown_state),
        };
        if let Some(foreign) = foreign.filter(|_| !is_forced) {
            // What was made here.
            if is_new {
                place.remove(".part");
            }
            if has_no_state {
                place.remove(".part.state");
            }
            return Err(format!(
                "{foreign} exists and is not of `fathom fetch`; remove it, or replace it by --force"
            ));
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let part = Self { place, file, state, boot: boot.trim().to_owned() };
        let kept = part.read();
        Ok((part, kept))
    }

    fn read(&self) -> Result<FetchState, String> {
        let state = read(&self.state).ok_or("its state is not readable")?;
        let bytes = state.bytes.unwrap_or(0);
        let received_to = match state.missing.last() {
            Some((from, to)) if *to == bytes => *from,
            _ => bytes,
        };
        let length = self.file.metadata().map_or(0, |file| file.len());
        let is_whole = state.missing.iter().all(|(from, to)| from < to && *to <= bytes);
        if !is_whole || (state.etag.is_some() && length < received_to) {
            return Err("it is shorter than its state says".to_owned());
        }
        match state.is_synced || (state.boot == self.boot && !self.boot.is_empty()) {
            true => Ok(state),
            false => Err("the system was restarted since".to_owned()),
        }
    }

    /// Writes the state. It is one page and replaced in place, so that a kill leaves the old or the
    /// new one, and a full disk does not matter.
    pub fn save(&self, state: &FetchState, syncs: bool) -> std::io::Result<()> {
        if syncs {
            self.file.sync_data()?;
        }
        let state = FetchState { boot: self.boot.clone(), is_synced: syncs, ..state.clone() };
        let mut text = serde_json::to_vec(&state)?;
        // Blanks cover a longer one before it.
        let before = usize::try_from(self.state.metadata()?.len()).unwrap_or(0);
        text.resize(text.len().next_multiple_of(4096).max(before), b' ');
        self.state.write_all_at(&text, 0)?;
        if syncs { self.state.sync_data() } else { Ok(()) }
    }

    /// Removes an empty file with its state.
    pub fn remove(&self) {
        self.place.remove(".part.state");
        self.place.remove(".part");
    }

    /// Gives the complete file its name.
    pub fn finish(self, replaces: bool) -> Result<FetchPlace, String> {
        let Self { place, file, .. } = self;
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            format!("{what} {}: {error}; the whole file is {}.part", place.shown, place.shown)
        };
        file.sync_all().map_err(|error| failed("fsync", &error))?;
        place.existing().map_err(|why| failed("rename to", &why))?;
        let part = format!("{}.part", place.name);
        let renamed = match replaces {
            true => renameat(&place.folder, &part, &place.folder, &place.name),
            false => {
                let flags = RenameFlags::NOREPLACE;
                match renameat_with(&place.folder, &part, &place.folder, &place.name, flags) {
                    // A file system without this flag.
                    Err(Errno::INVAL) if place.stat(&place.name).is_none() => {
                        renameat(&place.folder, &part, &place.folder, &place.name)
                    }
                    other => other,
                }
            }
        };
        renamed.map_err(|error| failed("rename to", &error))?;
        place.remove(".part.state");
        rustix::fs::fsync(&place.folder).map_err(|error| failed("fsync the folder of", &error))?;
        Ok(place)
    }
}

fn read(state: &File) -> Option<FetchState> {
    let mut text = vec![0; STATE_BYTES_MAX];
    let count = state.read_at(&mut text, 0).ok()?;
    serde_json::from_slice(&text[..count]).ok()
}

/// Whether a file of this name is not a state, nor empty, as one that was just made.
fn is_foreign(state: &File) -> bool {
    state.metadata().is_ok_and(|stat| stat.len() > 0) && read(state).is_none()
}
