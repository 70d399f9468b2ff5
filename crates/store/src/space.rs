//! Where a store lies, and whether it can grow there.

use std::path::{Path, PathBuf};

/// Whether the file system has no free block.
pub(crate) fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(folder_of(path)).is_ok_and(|facts| facts.f_bavail == 0)
}

/// Whether the file system has free blocks, but no free inode.
pub(crate) fn lacks_inodes(path: &Path) -> bool {
    rustix::fs::statvfs(folder_of(path))
        .is_ok_and(|facts| facts.f_files > 0 && facts.f_favail == 0 && facts.f_bavail > 0)
}

/// Whether this process may open no more files: a store takes those of its database, its log, its
/// shared index and its folder.
pub(crate) fn lacks_descriptors() -> bool {
    let opened: Vec<_> = (0..4).map(|_| std::fs::File::open("/dev/null")).collect();
    opened
        .iter()
        .flat_map(|it| it.as_ref().err())
        .any(|error| rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::MFILE))
}

/// Whether the store or its log has grown to the limit on file size, less the largest write.
pub(crate) fn reaches_size_limit(path: &Path) -> bool {
    const WRITE_MAX: u64 = 64 << 10;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |facts| facts.len());
    let log = beside(path, "-wal");
    limit.is_some_and(|limit| length(path).max(length(&log)) + WRITE_MAX > limit)
}

pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    beside.into()
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
