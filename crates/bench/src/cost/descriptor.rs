//! What is behind a descriptor of another process.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use libc::pid_t;

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
