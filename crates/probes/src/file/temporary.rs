//! Temporary files: where they may lie, how large they may be, and what they are filled with.
//! They have no name where the file system can do without, so that nothing is left of them
//! whatever ends this program.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use fathom_fileio::filesystem::FileSystem;
use fathom_fileio::folder::{self, Space};
use fathom_fileio::memory::Pages;
use fathom_fileio::scratch::Scratch;
use fathom_fileio::{Generator, Source};
use fathom_metric::{Event, ProcedureError, Recorder};
use fathom_record::Host;

use super::by_hand::{shown, size};

/// Bytes that are made and written at a time.
const PIECE: usize = 1 << 20;
/// A twentieth of the disk is left free, or so much.
const RESERVE: u64 = 4 << 30;
/// So much may be waiting to be written: a control group counts it as its memory.
const UNWRITTEN: u64 = 16 << 20;
/// From so much on, a person is asked first.
const ASK: u64 = 1 << 30;

/// A folder for temporary files.
pub(super) struct Folder(folder::Folder);

impl Folder {
    /// The folder that was named, or one that lies on no memory.
    ///
    /// # Errors
    /// Where it is no folder; where nobody named one and all lie in memory.
    pub(super) fn choose(named: Option<&Path>) -> Result<Self, ProcedureError> {
        let found = match named {
            Some(path) => {
                folder::Folder::at(path).map_err(|why| format!("--folder {}: {why}", shown(path)))
            }
            None => folder::Folder::usual().map_err(|why| format!("{why}; name one by --folder")),
        };
        found.map(Self).map_err(ProcedureError::failed)
    }

    /// The same, but on a device or where it cannot be told, also where one was named.
    ///
    /// # Errors
    /// As [`Folder::choose`], and where it lies in memory.
    pub(super) fn on_device(named: Option<&Path>) -> Result<Self, ProcedureError> {
        let folder = Self::choose(named)?;
        let FileSystem { name, .. } = folder.0.file_system;
        match folder.0.file_system.is_on_device() {
            Some(false) => Err(ProcedureError::failed(format!(
                "--folder {}: {name} keeps files in memory or elsewhere; name one on a disk",
                shown(&folder.0.path)
            ))),
            _ => Ok(folder),
        }
    }

    /// Bytes that may be written there: what is free, but for a reserve that is left to others.
    ///
    /// # Errors
    /// Where the file system does not say.
    pub(super) fn free(&self) -> Result<u64, ProcedureError> {
        let Space { all, free } = self.space()?;
        Ok(free.saturating_sub((all / 20).min(RESERVE)))
    }

    fn space(&self) -> Result<Space, ProcedureError> {
        let path = &self.0.path;
        folder::space(path).map_err(|error| {
            ProcedureError::failed(format!("ask {} for its space: {error}", shown(path)))
        })
    }

    /// Half of what is free: the rest is for others.
    ///
    /// # Errors
    /// Where the file system does not say.
    pub(super) fn room(&self) -> Result<Limit, ProcedureError> {
        let of = format!("half of what is free in {}", shown(&self.0.path));
        Ok(Limit { bytes: self.space()?.free / 2, of })
    }

    /// Refuses what there is no room for.
    ///
    /// # Errors
    /// With what is needed, what there is, and what to do.
    pub(super) fn check(&self, bytes: u64) -> Result<(), ProcedureError> {
        let room = self.room()?;
        if bytes <= room.bytes {
            return Ok(());
        }
        Err(ProcedureError::failed(format!(
            "a file of {} is more than {}, {}; give less, or another --folder",
            size(bytes),
            room.of,
            size(room.bytes)
        )))
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        format!("{} ({})", shown(&self.0.path), self.0.file_system.name)
    }

    /// A path in it.
    pub(super) fn join(&self, name: &Path) -> PathBuf {
        self.0.path.join(name)
    }
}

/// A limit with what sets it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    pub(super) bytes: u64,
    pub(super) of: String,
}

/// Half of the memory that may be had: a file that is to stay in it must not push out others.
pub(super) fn memory(host: &Host) -> Option<Limit> {
    let available = (host.memory.available_bytes, "half of the available memory");
    let group = (host.cgroup.memory_limit_bytes, "half of the control group's memory limit");
    let known = [available, group].into_iter().filter_map(|(bytes, of)| Some((bytes? / 2, of)));
    known.min().map(|(bytes, of)| Limit { bytes, of: of.to_owned() })
}

/// Says what is about to be done, and asks whether to, where it is much. Whether it may be done.
pub(super) fn announce(
    recorder: &mut dyn Recorder,
    folder: &Folder,
    most: u64,
    what: &str,
    yes: bool,
) -> bool {
    let text = format!("writes {} at most to {}, {what}", size(most), folder.words());
    recorder.confirm(&text, !yes && most >= ASK)
}

/// A temporary file of generated data.
pub(super) struct Temporary {
    scratch: Scratch,
    source: Source,
    path: PathBuf,
    bytes: u64,
}

impl Temporary {
    /// An empty one.
    ///
    /// # Errors
    /// Where none can be made there.
    pub(super) fn new(folder: &Folder) -> Result<Self, ProcedureError> {
        let place = shown(&folder.0.path);
        let scratch = Scratch::new(&folder.0.path)
            .map_err(|error| ProcedureError::failed(format!("make a file in {place}: {error}")))?;
        let path = folder.join(Path::new("(temporary)"));
        let source =
            Source::of(scratch.file().try_clone()?, &path).map_err(ProcedureError::failed)?;
        Ok(Self { scratch, source, path, bytes: 0 })
    }

    /// Makes it so large, on the device; false where it was told to stop before.
    ///
    /// # Errors
    /// Where there is no space, or the device fails.
    pub(super) fn resize(
        &mut self,
        bytes: u64,
        recorder: &mut dyn Recorder,
    ) -> Result<bool, ProcedureError> {
        let place = shown(self.path.parent().unwrap_or(Path::new(".")));
        let failed = |error: std::io::Error| {
            let wanted = size(bytes);
            ProcedureError::failed(format!(
                "write {wanted} to a temporary file in {place}: {error}; nothing is left"
            ))
        };
        let file = self.scratch.file();
        if bytes < self.bytes {
            file.set_len(bytes).map_err(failed)?;
            self.bytes = bytes;
        }
        let mut piece = Pages::new(PIECE)?;
        let generator = Generator::new(0);
        while self.bytes < bytes {
            if recorder.stop().now().load(Ordering::Relaxed) {
                return Ok(false);
            }
            let length = (bytes - self.bytes).min(PIECE as u64) as usize;
            generator.fill(self.bytes, &mut piece[..length]);
            file.write_all_at(&piece[..length], self.bytes).map_err(failed)?;
            self.bytes += length as u64;
            if self.bytes.is_multiple_of(UNWRITTEN) {
                file.sync_data().map_err(failed)?;
                let what = format!("writing {}", size(bytes));
                recorder.event(Event::Progress { done: self.bytes, all: bytes, what: &what });
            }
        }
        // What is still being written would be in the way of what is read.
        file.sync_data().map_err(failed)?;
        // What it is by now: a file without bytes is another kind of source.
        self.source = Source::of(file.try_clone()?, &self.path).map_err(ProcedureError::failed)?;
        Ok(true)
    }

    /// How large it is.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file itself.
    pub(super) fn file(&self) -> &File {
        self.scratch.file()
    }

    /// For reading, alone.
    pub(super) fn into_source(self) -> Source {
        self.source
    }

    /// For reading.
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Gives it a name for good.
    ///
    /// # Errors
    /// Where the name is in use, or cannot be given.
    pub(super) fn keep(self, path: &Path) -> Result<(), ProcedureError> {
        self.scratch
            .publish(path, false)
            .map_err(|error| ProcedureError::failed(format!("name {}: {error}", shown(path))))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::scripted::Scripted;

    #[test]
    fn half_of_the_tighter_memory_may_be_filled() {
        let mut host = Host::default();
        assert_eq!(memory(&host), None);
        host.memory.available_bytes = Some(8 << 30);
        assert_eq!(memory(&host).map(|limit| limit.bytes), Some(4 << 30));
        host.cgroup.memory_limit_bytes = Some(1 << 30);
        let limit = memory(&host).expect("two are known");
        assert_eq!(limit.bytes, 512 << 20);
        assert!(limit.of.contains("control group"), "{}", limit.of);
    }

    #[test]
    fn a_stop_ends_the_writing() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = Folder::choose(Some(folder.path())).expect("a folder");
        let mut file = Temporary::new(&folder).expect("a file");
        let mut recorder = Scripted::new();
        recorder.stops();
        let is_made = file.resize(64 << 20, &mut recorder);
        assert!(!is_made.expect("nothing is written") && file.bytes == 0);
    }

    #[test]
    fn a_file_grows_and_shrinks_and_holds_the_same_data_throughout() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = Folder::choose(Some(folder.path())).expect("a folder");
        let mut file = Temporary::new(&folder).expect("a file");
        let mut recorder = Scripted::new();
        let mut sum_of = |bytes: u64| {
            assert!(file.resize(bytes, &mut recorder).expect("space"));
            assert_eq!(file.source().subject().size, Some(bytes));
            let mut content = vec![0; bytes as usize];
            file.source().file().read_exact_at(&mut content, 0).expect("all of it");
            let mut wanted = vec![1; bytes as usize];
            Generator::new(0).fill(0, &mut wanted);
            assert!(content == wanted, "other data at {bytes} bytes");
        };
        [3_000_001, 1_000, 2_500_000].into_iter().for_each(&mut sum_of);
    }
}
