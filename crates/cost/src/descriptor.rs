//! What is behind a descriptor of another process.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use libc::pid_t;
use rustix::param::page_size;

use super::count::Place;

/// The kinds of file systems whose files the kernel makes as they are read.
const PROC: u64 = 0x9fa0;
const SYSFS: u64 = 0x6265_6572;
const CGROUP: u64 = 0x6367_7270;

/// The descriptors of a process that were looked at. A number is looked at again once it is closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptors(HashMap<i32, Place>);

impl Descriptors {
    pub(super) fn place(&mut self, thread: pid_t, number: i32) -> Place {
        *self.0.entry(number).or_insert_with(|| place(thread, number))
    }

    /// After close, or dup2 onto it.
    pub(super) fn forget(&mut self, number: i32) {
        self.0.remove(&number);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

fn place(thread: pid_t, number: i32) -> Place {
    let path = format!("/proc/{thread}/fd/{number}");
    let Ok(target) = fs::read_link(&path) else { return Place::Other };
    let target = target.to_string_lossy();
    if let Some(rest) = target.strip_prefix("socket:[") {
        let is_unix = is_unix_socket(thread, rest.trim_end_matches(']'));
        return if is_unix { Place::UnixSocket } else { Place::Socket };
    }
    if target.starts_with("anon_inode:") {
        return Place::Other;
    }
    let Ok(of_file) = fs::metadata(&path) else { return Place::Other };
    let kind = of_file.file_type();
    match () {
        () if kind.is_fifo() => Place::Pipe,
        () if kind.is_char_device() => Place::Device,
        () if of_file.dev() >> 8 == 0 && is_of_kernel(&path) => Place::Proc,
        () => Place::File,
    }
}

fn is_of_kernel(path: &str) -> bool {
    let kind = rustix::fs::statfs(path).map(|it| it.f_type as u64);
    matches!(kind, Ok(PROC | SYSFS | CGROUP))
}

fn is_unix_socket(thread: pid_t, inode: &str) -> bool {
    // The seventh column, before the path.
    let all = fs::read_to_string(format!("/proc/{thread}/net/unix")).unwrap_or_default();
    all.lines().any(|line| line.split_whitespace().nth(6) == Some(inode))
}

/// The pages of a regular file that a path of another process names, relative to a descriptor or
/// its folder; 0 if other names keep the file, if `is_last` asks for that.
pub(super) fn pages_of(thread: pid_t, folder: i32, address: u64, is_last: bool) -> u64 {
    let Some(path) = path_at(thread, address) else { return 0 };
    let base = match folder {
        _ if path.is_absolute() => format!("/proc/{thread}/root"),
        libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
        number => format!("/proc/{thread}/fd/{number}"),
    };
    let below = path.strip_prefix("/").unwrap_or(&path);
    let file = fs::symlink_metadata(Path::new(&base).join(below)).ok();
    let file = file.filter(|file| file.is_file() && (!is_last || file.nlink() == 1));
    file.map_or(0, |file| file.len().div_ceil(page_size() as u64))
}

/// The path at an address of another process.
fn path_at(thread: pid_t, address: u64) -> Option<PathBuf> {
    let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
    let mut bytes = vec![0; libc::PATH_MAX as usize];
    let count = memory.read_at(&mut bytes, address).ok()?;
    let end = bytes[..count].iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(PathBuf::from(OsString::from_vec(bytes)))
}
