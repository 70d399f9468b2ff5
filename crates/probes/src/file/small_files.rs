//! file.create, file.delete, file.list and file.fsync: small named files in the folder of the run.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fathom_fileio::{FileGenerator, residency};
use fathom_measure::sampler::Files;
use rustix::fs::{
    CWD, IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, mkdir, openat, stat, statvfs, unlink,
};
use rustix::io::Errno;

use super::{SMALL_BYTES, failed, not_created};
use crate::prelude::*;

/// One operation on small files.
pub struct SmallFileMetric {
    about: &'static About,
    sizes: &'static [i64],
    /// Files of a set.
    count: usize,
    cost_ns: f64,
    /// Name and detail of the check that `operation` makes.
    check: (&'static str, &'static str),
    /// Returns nanoseconds per file.
    operation: fn(&SmallFilePass, &Clock) -> Result<f64>,
}

pub static CREATE: SmallFileMetric = SmallFileMetric {
    about: &CREATE_ABOUT,
    sizes: &SMALL_BYTES,
    count: SET,
    cost_ns: 15e6,
    check: ("files", "64 files of the right size after each pass"),
    operation: |set, clock| {
        let start = clock.start();
        set.create()?;
        let stop = clock.stop();
        let (whole, count) = (set.whole(), set.paths.len());
        if whole != count {
            let text = format!("{whole} of {count} files have the right size");
            return Err(SamplerFault::WrongWork(text));
        }
        set.empty()?;
        Ok(clock.ns(start, stop) / count as f64)
    },
};
pub static DELETE: SmallFileMetric = SmallFileMetric {
    about: &DELETE_ABOUT,
    sizes: &SMALL_BYTES,
    count: SET,
    cost_ns: 15e6,
    check: ("files", "0 of 64 files left after each pass"),
    operation: |set, clock| {
        set.create()?;
        let start = clock.start();
        set.delete()?;
        let stop = clock.stop();
        let count = set.paths.len();
        match set.existing() {
            0 => Ok(clock.ns(start, stop) / count as f64),
            left => Err(SamplerFault::WrongWork(format!("{left} of {count} files are left"))),
        }
    },
};
pub static LIST: SmallFileMetric = SmallFileMetric {
    about: &LIST_ABOUT,
    sizes: &[0],
    count: SET,
    cost_ns: 15e6,
    check: ("names", "64 names, besides those of the folder and its parent, in each pass"),
    operation: |set, clock| {
        set.create()?;
        let folder = set.paths[0].parent().map(File::open).and_then(io::Result::ok);
        let folder = folder.ok_or_else(|| failed("open the folder", Errno::NOENT))?;
        let mut buffer = vec![0_u8; LIST_BUFFER];
        let mut read = || {
            let (fd, to) = (folder.as_raw_fd(), buffer.as_mut_ptr());
            // SAFETY: the kernel writes at most the length of the buffer to it.
            unsafe { libc::syscall(libc::SYS_getdents64, fd, to, LIST_BUFFER) }
        };
        let start = clock.start();
        let (first, end) = (read(), read());
        let stop = clock.stop();
        let names = names(&buffer[..usize::try_from(first).unwrap_or(0)]);
        if names != set.paths.len() + 2 || end != 0 {
            return Err(SamplerFault::WrongWork(format!("{names} names were read, then {end}")));
        }
        Ok(clock.ns(start, stop) / set.paths.len() as f64)
    },
};
pub static FSYNC: SmallFileMetric = SmallFileMetric {
    about: &FSYNC_ABOUT,
    sizes: &SMALL_BYTES,
    count: 1,
    cost_ns: 16e6,
    check: ("written", "no dirty page after each fsync, by cachestat where available"),
    operation: |set, clock| {
        let file = set.open(0)?;
        let ns = synced(set, &file, clock)?;
        set.empty()?;
        Ok(ns)
    },
};

/// Files of a set, but for file.fsync.
const SET: usize = 64;

/// As of the C library.
const LIST_BUFFER: usize = 32 << 10;
/// Where the length of an entry of getdents64(2) is.
const ENTRY_LENGTH: std::ops::Range<usize> = 16..18;

/// Names in a buffer of getdents64(2).
fn names(mut entries: &[u8]) -> usize {
    let mut count = 0;
    while let Some(length) = entries.get(ENTRY_LENGTH) {
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let Some(rest) = entries.get(length.max(1)..) else { break };
        (entries, count) = (rest, count + 1);
    }
    count
}

/// Passes whose files stay until the visit ends: all, but for those of the trimmed protocol.
const KEPT: usize = 32;

/// Bytes of the blocks that one file of each size takes.
const ALL_SIZES: u64 = (4 + 4 + 12) << 10;

static CREATE_ABOUT: About = About {
    id: "file.create",
    title: "file creation",
    timed: "creating 64 files in an empty folder: open, one write of all bytes, close; divided by \
            64",
    not_timed: "generating names and data; deleting the files",
    model: "a bound: ≥ os.syscall{call=open_close}. The cost of the file system's journal is not \
            published",
    source: "lmbench, lat_fs: the sizes; Linux fs/namei.c: lookup_open",
    pitfalls: &[
        "an existing file would be opened, not created: O_EXCL fails then",
        "the files are in memory, not on the device: file.fsync measures that",
        "a large folder takes longer to search: each pass has a folder of its own",
        "ext4 without a journal looks past each inode that was freed within the last minutes: \
         deletions by earlier visits made a creation up to eight times as dear. Each visit has a \
         folder in a group of inodes without such, and the run deletes its files at its end",
        "the size of each file is verified after the pass",
    ],
    parameters: &[Parameter::new("bytes", "0, 1K, 4K, 10K", "per file")],
    disk: Some(MetricDisk { large: 0, own: SET as u64 * ALL_SIZES }),
    ..super::OF_RUNS
};

static DELETE_ABOUT: About = About {
    id: "file.delete",
    title: "file deletion",
    timed: "unlinking 64 files in the order of their creation, which frees them; divided by 64",
    not_timed: "creating the files, just before",
    model: "a bound: ≥ os.syscall{call=getppid}. No value: freeing an inode and its blocks is \
            known from this metric alone",
    source: "lmbench, lat_fs: the sizes; Linux fs/namei.c: vfs_unlink, and evict of the inode",
    pitfalls: &[
        "an open or hard-linked file is not freed: each file is closed and has one name",
        "the data was never written back, so no blocks are freed on the device, as for the \
         temporary files of a build",
        "the deletion is verified after each pass",
    ],
    parameters: &[Parameter::new("bytes", "0, 1K, 4K, 10K", "per file")],
    disk: Some(MetricDisk { large: 0, own: SET as u64 * ALL_SIZES }),
    ..super::OF_RUNS
};

static LIST_ABOUT: About = About {
    id: "file.list",
    title: "folder listing",
    timed: "reading the 64 names of a folder by getdents64(2), once, and the call that finds the \
            end; divided by 64",
    not_timed: "creating the files, just before, which leaves the folder in memory; opening the \
                folder",
    model: "a bound: 64 names take two system calls, ≥ 2 × os.syscall{call=getppid} ÷ 64. No \
            value: what a name takes depends on the file system",
    source: "Linux fs/readdir.c: filldir64 copies each name; fs/ext4/dir.c: ext4_readdir",
    pitfalls: &[
        "the names are read once: a second time the file system may have them sorted",
        "large folders are read in several calls, each of up to 32 KiB of names",
        "the names are counted after each pass",
    ],
    parameters: &[Parameter::new("bytes", "0", "of each file")],
    disk: Some(MetricDisk { large: 0, own: SET as u64 * ALL_SIZES }),
    ..super::OF_RUNS
};

static FSYNC_ABOUT: About = About {
    id: "file.fsync",
    title: "small file write and fsync",
    timed: "one write of all bytes of a new file, if any, and fsync",
    not_timed: "creating, closing and deleting the file; fsync of the folder, without which its \
                name may be lost",
    model: "a bound: ≥ os.syscall{call=getppid}, twice if it has bytes. No published figure for \
            the device",
    source: "Linux fs/sync.c: vfs_fsync; fs/ext4/fsync.c: journal commit and flush of the device \
             cache",
    pitfalls: &[
        "a device may acknowledge data that is only in its volatile cache: no program can detect \
         that, but a few microseconds are too fast for flash or disk",
        "a virtual disk may ignore flushes",
        "fsync waits for other writes to the same journal: on a busy machine those dominate",
        "cachestat verifies after each fsync that no page is dirty",
    ],
    parameters: &[Parameter::new("bytes", "0, 1K, 4K, 10K", "of the file")],
    noise_limit: 0.30,
    disk: Some(MetricDisk { large: 0, own: ALL_SIZES }),
    ..super::OF_RUNS
};

metric!(SmallFileMetric.about);

impl Probe for SmallFileMetric {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        let case = |bytes| ProbeCase { params: Params::one("bytes", bytes), cost_ns: self.cost_ns };
        self.sizes.iter().copied().map(case).collect()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        match (self.about.id, case.params.integer("bytes")) {
            ("file.create", _) => {
                let source = "open and close, plus the creation";
                at_least("os.syscall", &Params::one("call", "open_close"), source, known)
            }
            ("file.delete", _) => {
                let source = "the same entry and exit, plus lookup and removal of the name";
                at_least_getppid(1.0, source, known)
            }
            ("file.list", _) => {
                at_least_getppid(2.0 / SET as f64, "two system calls for 64 names", known)
            }
            (_, Some(0)) => {
                at_least_getppid(1.0, "the same entry and exit, plus the file system", known)
            }
            _ => at_least_getppid(2.0, "two system calls, plus file system and device", known),
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let files = sampler.files()?;
        let sizes = cases.iter().map(|case| case.params.integer("bytes").unwrap_or(0));
        let folder = Apart::within(&files.folder)?;
        let mut sets: Vec<SmallFiles> = sizes
            .map(|bytes| SmallFiles::from_folder(&folder, &files, self.count, bytes))
            .collect();
        let works = sets.iter_mut().enumerate().map(|(index, set)| {
            let operation = |clock: &Clock| (self.operation)(set.next()?, clock);
            single(index, self.count as u64, operation)
        });
        sampler.run(works.collect());
        let (name, detail) = self.check;
        (0..cases.len()).for_each(|index| sampler.check(index, name, true, detail));
        Ok(())
    }
}

/// Writes and syncs a file. Returns nanoseconds.
fn synced(set: &SmallFilePass, file: &File, clock: &Clock) -> Result<f64> {
    let start = clock.start();
    set.write(file)?;
    rustix::fs::fsync(file).map_err(|error| failed("fsync", error))?;
    let stop = clock.stop();
    let is = residency::residency_of(file);
    // `dirty` is 0 if only mincore counted.
    if is.dirty > 0 {
        let text = format!("{} of {} bytes are dirty after fsync", is.dirty, is.bytes);
        return Err(SamplerFault::WrongWork(text));
    }
    Ok(clock.ns(start, stop))
}

/// A folder of a visit, in a group of inodes of its own where the file system has groups (ext2 to
/// ext4). The run removes it with its own folder: freed inodes would make later visits slower.
pub(super) struct Apart(pub(super) PathBuf);

/// Folders that a visit tries, at most.
const FOLDERS: u32 = 16;
/// The first file of a folder has an inode this close to the folder's where no freed ones lie
/// between.
const CLOSE: u64 = 8;
/// With fewer free inodes a visit deletes its files: a run makes about a hundred thousand.
const INODES_LEFT: u64 = 1_000_000;

impl Apart {
    pub(super) fn within(parent: &Path) -> Result<Self> {
        let spread =
            |folder: File| ioctl_setflags(&folder, ioctl_getflags(&folder)? | IFlags::TOPDIR);
        // Other file systems have no such flag.
        let _ = File::open(parent).map(spread);
        let (mut number, mut tried) = (0, 0);
        loop {
            // The name of a file of a visit: the run removes what killed workers left.
            let path = parent.join(format!("f-{}-{number}", std::process::id()));
            number += 1;
            if path.exists() {
                continue;
            }
            made(&path)?;
            tried += 1;
            let first = path.join("first");
            new_file(&first)?;
            let inode = |path| stat(path).map_err(|error| failed("stat", error));
            // Each folder stays, so that the next is in another group.
            if inode(&first)?.st_ino.abs_diff(inode(&path)?.st_ino) <= CLOSE || tried == FOLDERS {
                return Ok(Self(path));
            }
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // Other programs need inodes, too.
        if statvfs(&self.0).is_ok_and(|it| it.f_favail < INODES_LEFT) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

fn made(folder: &Path) -> Result<()> {
    mkdir(folder, Mode::RWXU).map_err(|error| not_created("create a folder", folder, error))
}

fn new_file(path: &Path) -> Result<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR);
    file.map(File::from).map_err(|error| not_created("create a file", path, error))
}

/// Small files of one size: a set for each pass.
pub(super) struct SmallFiles {
    folder: PathBuf,
    count: usize,
    data: Rc<[u8]>,
    /// The latest passes, the last one last.
    passes: VecDeque<SmallFilePass>,
    next: usize,
}

impl SmallFiles {
    /// Creates no file yet.
    pub(super) fn from_folder(folder: &Apart, files: &Files, count: usize, bytes: i64) -> Self {
        let mut data = vec![0; usize::try_from(bytes).unwrap_or(0)];
        FileGenerator::new(files.seed).fill(0, &mut data);
        let folder = folder.0.join(bytes.to_string());
        Self { folder, count, data: data.into(), passes: VecDeque::new(), next: 0 }
    }

    /// The set of the next pass, in a new folder. Deletes the oldest if there are too many.
    pub(super) fn next(&mut self) -> Result<&SmallFilePass> {
        if self.next == 0 {
            made(&self.folder)?;
        }
        let folder = self.folder.join(self.next.to_string());
        made(&folder)?;
        self.next += 1;
        let paths = (0..self.count).map(|number| folder.join(number.to_string())).collect();
        self.passes.push_back(SmallFilePass { paths, data: Rc::clone(&self.data) });
        if self.passes.len() > KEPT {
            for path in self.passes.pop_front().iter().flat_map(|oldest| &oldest.paths) {
                let _ = unlink(path);
            }
        }
        Ok(&self.passes[self.passes.len() - 1])
    }
}

/// The files of one pass.
pub(super) struct SmallFilePass {
    paths: Vec<PathBuf>,
    data: Rc<[u8]>,
}

impl SmallFilePass {
    /// Creates one file, empty.
    pub(super) fn open(&self, number: usize) -> Result<File> {
        new_file(&self.paths[number])
    }

    /// Writes the data with one call.
    pub(super) fn write(&self, file: &File) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        match rustix::io::write(file, &self.data) {
            Ok(written) if written == self.data.len() => Ok(()),
            Ok(written) => {
                let text = format!("{written} of {} bytes were written", self.data.len());
                Err(SamplerFault::WrongWork(text))
            }
            Err(error) => Err(failed("write a file", error)),
        }
    }

    /// Opens, writes and closes each file.
    pub(super) fn create(&self) -> Result<()> {
        (0..self.paths.len()).try_for_each(|number| self.write(&self.open(number)?))
    }

    pub(super) fn delete(&self) -> Result<()> {
        let mut paths = self.paths.iter();
        paths.try_for_each(unlink).map_err(|error| failed("delete a file", error))
    }

    /// Frees the blocks of all files, but not their inodes.
    pub(super) fn empty(&self) -> Result<()> {
        let paths = self.paths.iter().filter(|_| !self.data.is_empty());
        let emptied = paths.map(|path| File::options().write(true).open(path)?.set_len(0));
        emptied.collect::<io::Result<()>>().map_err(|error| failed("truncate a file", error))
    }

    /// Number of existing files of the right size.
    pub(super) fn whole(&self) -> usize {
        let is_whole =
            |path: &&PathBuf| stat(*path).is_ok_and(|it| it.st_size == self.data.len() as i64);
        self.paths.iter().filter(is_whole).count()
    }

    /// Number of existing files.
    pub(super) fn existing(&self) -> usize {
        self.paths.iter().filter(|path| stat(*path).err() != Some(Errno::NOENT)).count()
    }
}
