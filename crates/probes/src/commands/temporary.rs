//! Temporary files of the `fathom file …` commands: their folder, size limits and content.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use fathom_fileio::FileGenerator;
use fathom_fileio::backing::Backing;
use fathom_fileio::folder::{self, Space, write_cause};
use fathom_fileio::memory::MemoryPages;
use fathom_fileio::scratch::Scratch;

use super::by_hand::{ByHandResult, printable, size};
use crate::prelude::*;

/// Bytes per write.
const PIECE: usize = 1 << 20;
/// Space left free: a twentieth of the disk, at most this.
const RESERVE: u64 = 4 << 30;
/// Sync interval: limits dirty pages, which count as memory of a control group.
const SYNC_BYTES: u64 = 16 << 20;
/// Asks the user before writing this much or more.
const ASK: u64 = 1 << 30;

/// A folder for temporary files.
pub(super) struct TemporaryFolder(folder::Folder);

impl TemporaryFolder {
    /// The given folder, that of FATHOM_FOLDER, or a default one that is not in memory.
    pub(super) fn choose(option: Option<&Path>) -> ByHandResult<Self> {
        folder::Folder::chosen(option, "--folder").map(Self).map_err(ProcedureError::failed)
    }

    /// As [`Folder::choose`], but refuses a given folder in memory too.
    pub(super) fn on_device(named: Option<&Path>) -> ByHandResult<Self> {
        let folder = Self::choose(named)?;
        match fathom_fileio::inspect(&folder.0.path).map(|found| found.backing()) {
            Ok(Backing::Memory(why) | Backing::Elsewhere(why)) => Err(ProcedureError::failed(
                format!("--folder {}: {why}; name one on a disk", printable(&folder.0.path)),
            )),
            _ => Ok(folder),
        }
    }

    /// Usable bytes: free space minus the reserve.
    pub(super) fn free(&self) -> ByHandResult<u64> {
        let Space { all, free } = self.space()?;
        Ok(free.saturating_sub((all / 20).min(RESERVE)))
    }

    fn space(&self) -> ByHandResult<Space> {
        let path = &self.0.path;
        folder::space(path).map_err(|error| {
            ProcedureError::failed(format!("statvfs {}: {error}", printable(path)))
        })
    }

    /// Half of the free space, which leaves the rest to other users.
    pub(super) fn limit(&self) -> ByHandResult<TemporaryLimit> {
        let of = format!("half of the free space in {}", printable(&self.0.path));
        Ok(TemporaryLimit { bytes: self.space()?.free / 2, of })
    }

    /// Fails if a file of this size exceeds the limit.
    pub(super) fn check(&self, bytes: u64) -> ByHandResult<()> {
        let limit = self.limit()?;
        if bytes <= limit.bytes {
            return Ok(());
        }
        Err(ProcedureError::failed(format!(
            "a file of {} exceeds {}, {}; use a smaller one, or another --folder",
            size(bytes),
            limit.of,
            size(limit.bytes)
        )))
    }

    pub(super) fn describe(&self) -> String {
        format!("{} ({})", printable(&self.0.path), self.0.file_system.name)
    }

    pub(super) fn join(&self, name: &Path) -> PathBuf {
        self.0.path.join(name)
    }
}

/// A limit and its origin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TemporaryLimit {
    pub(super) bytes: u64,
    pub(super) of: String,
}

/// Half of the available memory: a larger warm file would evict those of other processes.
pub(super) fn memory(host: &Host) -> Option<TemporaryLimit> {
    let available = (host.memory.available_bytes, "half of the available memory");
    let group = (host.cgroup.memory_limit_bytes, "half of the control group's memory limit");
    let known = [available, group].into_iter().filter_map(|(bytes, of)| Some((bytes? / 2, of)));
    known.min().map(|(bytes, of)| TemporaryLimit { bytes, of: of.to_owned() })
}

/// Announces a write of at most `most` bytes, and asks the user if it is large. Returns whether to
/// go on.
pub(super) fn announce(
    recorder: &mut dyn Recorder,
    folder: &TemporaryFolder,
    most: u64,
    what: &str,
    yes: bool,
) -> bool {
    let text = format!("writes {} at most to {}, {what}", size(most), folder.describe());
    recorder.confirm(&text, !yes && most >= ASK)
}

/// A temporary file of generated data.
pub(super) struct Temporary {
    scratch: Scratch,
    source: PathInfoSource,
    path: PathBuf,
    pub(super) bytes: u64,
}

impl Temporary {
    pub(super) fn new(folder: &TemporaryFolder) -> ByHandResult<Self> {
        let place = printable(&folder.0.path);
        let scratch = Scratch::new(&folder.0.path).map_err(|error| {
            let cause = write_cause(&folder.0.path, error);
            ProcedureError::failed(format!("create a file in {place}: {cause}"))
        })?;
        let path = folder.join(Path::new("(temporary)"));
        let source = PathInfoSource::from_file(scratch.file().try_clone()?, &path)
            .map_err(ProcedureError::failed)?;
        Ok(Self { scratch, source, path, bytes: 0 })
    }

    /// Resizes and syncs it. Returns false if stopped.
    pub(super) fn resize(&mut self, bytes: u64, recorder: &mut dyn Recorder) -> ByHandResult<bool> {
        self.resize_while(bytes, |done| {
            if done.is_multiple_of(SYNC_BYTES) {
                // The bar is of what is measured.
                let what = format!("writing {}, {} %", size(bytes), 100 * done / bytes.max(1));
                recorder.event(Event::Progress { done: 0, all: 1, what: &what });
            }
            !recorder.stop().now().load(Ordering::Relaxed)
        })
    }

    /// Calls `goes_on` with the present size before each piece, until it returns false.
    fn resize_while(
        &mut self,
        bytes: u64,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> ByHandResult<bool> {
        let place = printable(self.path.parent().unwrap_or(Path::new(".")));
        let failed = |error: std::io::Error| {
            let (bytes, cause) = (size(bytes), write_cause(&self.path, error));
            ProcedureError::failed(format!(
                "write {bytes} to a temporary file in {place}, of which nothing is left: {cause}"
            ))
        };
        let file = self.scratch.file();
        if bytes < self.bytes {
            file.set_len(bytes).map_err(failed)?;
            self.bytes = bytes;
        }
        let mut piece = MemoryPages::new(PIECE)?;
        let generator = FileGenerator::new(0);
        while self.bytes < bytes {
            if !goes_on(self.bytes) {
                return Ok(false);
            }
            let length = (bytes - self.bytes).min(PIECE as u64) as usize;
            generator.fill(self.bytes, &mut piece[..length]);
            file.write_all_at(&piece[..length], self.bytes).map_err(failed)?;
            self.bytes += length as u64;
            if self.bytes.is_multiple_of(SYNC_BYTES) {
                file.sync_data().map_err(failed)?;
            }
        }
        // Writeback would compete with the reads.
        file.sync_data().map_err(failed)?;
        // Reopened, because `Source` keeps the size.
        self.source = PathInfoSource::from_file(file.try_clone()?, &self.path)
            .map_err(ProcedureError::failed)?;
        Ok(true)
    }

    pub(super) fn file(&self) -> &File {
        self.scratch.file()
    }

    pub(super) fn into_source(self) -> PathInfoSource {
        self.source
    }

    pub(super) fn source(&self) -> &PathInfoSource {
        &self.source
    }

    /// Gives it a permanent name.
    pub(super) fn keep(self, path: &Path) -> ByHandResult<()> {
        self.scratch.publish(path, false).map_err(|error| {
            ProcedureError::failed(format!(
                "name {}: {}",
                printable(path),
                write_cause(path, error)
            ))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_half_of_the_lower_memory() {
        let mut host = Host::default();
        assert_eq!(memory(&host), None);
        host.memory.available_bytes = Some(8 << 30);
        assert_eq!(memory(&host).map(|limit| limit.bytes), Some(4 << 30));
        host.cgroup.memory_limit_bytes = Some(1 << 30);
        let limit = memory(&host).expect("both are known");
        assert_eq!(limit.bytes, 512 << 20);
        assert!(limit.of.contains("control group"), "{}", limit.of);
    }

    #[test]
    fn stop_ends_the_write() {
        let folder = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::choose(Some(folder.path())).unwrap();
        let mut file = Temporary::new(&folder).unwrap();
        let is_complete = file.resize_while(64 << 20, |_| false);
        assert!(!is_complete.unwrap() && file.bytes == 0);
    }

    #[test]
    fn resized_file_keeps_its_data() {
        let folder = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::choose(Some(folder.path())).unwrap();
        let mut file = Temporary::new(&folder).unwrap();
        for bytes in [3_000_001, 1_000, 2_500_000] {
            assert!(file.resize_while(bytes, |_| true).unwrap());
            assert_eq!(file.source().info().size, Some(bytes));
            let mut content = vec![0; bytes as usize];
            file.source().file().read_exact_at(&mut content, 0).unwrap();
            let mut expected = vec![1; bytes as usize];
            FileGenerator::new(0).fill(0, &mut expected);
            assert!(content == expected, "{bytes} bytes");
        }
    }
}
