//! What a disk answers to each request of the kernel.

use rustix::io::Errno;

use super::wire::{self, Answer, Request};
use crate::disk::{Change, Content, Disk, ROOT};

// `enum fuse_opcode` of `linux/fuse.h`.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const MKDIR: u32 = 9;
const UNLINK: u32 = 10;
const RMDIR: u32 = 11;
const RENAME: u32 = 12;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const FSYNCDIR: u32 = 30;
const CREATE: u32 = 35;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const BATCH_FORGET: u32 = 42;
const RENAME2: u32 = 45;

/// `FATTR_MODE` and `FATTR_SIZE`.
const SETS_MODE: u32 = 1;
const SETS_LENGTH: u32 = 8;
/// `FUSE_BIG_WRITES`, in the answer to INIT: more than a page at once.
const BIG_WRITES: u32 = 1 << 5;
/// `FOPEN_DIRECT_IO`.
const UNCACHED: u32 = 1;

/// The answer to a request; none where none is wanted.
pub(super) fn to(disk: &Disk, bytes: &[u8]) -> Option<Vec<u8>> {
    let request = Request::of(bytes)?;
    if matches!(request.operation, FORGET | BATCH_FORGET | INTERRUPT) {
        return None;
    }
    Some(wire::message(request.unique, answer(disk, &request)))
}

fn answer(disk: &Disk, request: &Request<'_>) -> Result<Answer, Errno> {
    let node = request.node;
    match request.operation {
        INIT => Ok(welcome()),
        LOOKUP => {
            let (name, _) = request.text(0)?;
            entry(disk, disk.look(|state| state.child(node, &name))?)
        }
        GETATTR => attributes(disk, node),
        SETATTR => set_attributes(disk, request),
        STATFS => Ok(Answer::default().room()),
        OPEN => Ok(opened(disk)),
        OPENDIR => Ok(Answer::default().zeros(16)),
        READ => read(disk, request),
        READDIR => names(disk, request),
        WRITE => write(disk, request),
        FSYNC | FSYNCDIR => disk.change(Change::Sync { node }).map(nothing),
        CREATE | MKDIR => create(disk, request),
        UNLINK | RMDIR => {
            let (name, _) = request.text(0)?;
            let is_folder = request.operation == RMDIR;
            disk.change(Change::Remove { folder: node, name, is_folder }).map(nothing)
        }
        RENAME => rename(disk, request, 8),
        RENAME2 if request.u32(8) == 0 => rename(disk, request, 16),
        FLUSH | RELEASE | RELEASEDIR | DESTROY => Ok(Answer::default()),
        _ => Err(Errno::NOSYS),
    }
}

fn nothing(_: u64) -> Answer {
    Answer::default()
}

/// `fuse_init_out`. Nothing is read ahead, so that a read is a read.
fn welcome() -> Answer {
    let (major, minor) = wire::VERSION;
    let this = Answer::default().u32(major).u32(minor).u32(0).u32(BIG_WRITES);
    this.zeros(4).u32(wire::WRITE_MAX).u32(1).zeros(36)
}

fn entry(disk: &Disk, node: u64) -> Result<Answer, Errno> {
    disk.look(|state| state.attributes(node)).map(|facts| Answer::default().entry(node, facts))
}

/// `fuse_attr_out`: nothing of it may be remembered by the kernel.
fn attributes(disk: &Disk, node: u64) -> Result<Answer, Errno> {
    let facts = disk.look(|state| state.attributes(node))?;
    Ok(Answer::default().zeros(16).attributes(node, facts))
}

/// Mode and length; owners and times are taken for granted.
fn set_attributes(disk: &Disk, request: &Request<'_>) -> Result<Answer, Errno> {
    let (node, which) = (request.node, request.u32(0));
    if which & SETS_LENGTH != 0 {
        disk.change(Change::Resize { node, length: request.u64(16) })?;
    }
    if which & SETS_MODE != 0 {
        disk.change(Change::SetMode { node, mode: request.u32(68) & 0o7777 })?;
    }
    attributes(disk, node)
}

/// `fuse_open_out`.
fn opened(disk: &Disk) -> Answer {
    let flags = if disk.is_uncached() { UNCACHED } else { 0 };
    Answer::default().u64(0).u32(flags).u32(0)
}

fn read(disk: &Disk, request: &Request<'_>) -> Result<Answer, Errno> {
    let (at, length) = (request.u64(8), request.u32(16));
    let (bytes, delay) = disk.read(request.node, at..at + u64::from(length));
    std::thread::sleep(delay);
    bytes.map(Answer)
}

fn write(disk: &Disk, request: &Request<'_>) -> Result<Answer, Errno> {
    let (node, at, length) = (request.node, request.u64(8), request.u32(16));
    let bytes = request.body.get(40..40 + length as usize).ok_or(Errno::INVAL)?.to_vec();
    disk.change(Change::Write { node, at, bytes })?;
    Ok(Answer::default().u32(length).u32(0))
}

fn create(disk: &Disk, request: &Request<'_>) -> Result<Answer, Errno> {
    let is_folder = request.operation == MKDIR;
    // `fuse_mkdir_in` is two numbers, `fuse_create_in` four; the mode is the first or the second.
    let (name_at, mode_at) = if is_folder { (8, 0) } else { (16, 4) };
    let (name, _) = request.text(name_at)?;
    let change =
        Change::Create { folder: request.node, name, mode: request.u32(mode_at), is_folder };
    let mut answer = entry(disk, disk.change(change)?)?;
    if !is_folder {
        answer.0.extend(opened(disk).0);
    }
    Ok(answer)
}

fn rename(disk: &Disk, request: &Request<'_>, names_at: usize) -> Result<Answer, Errno> {
    let (from, next) = request.text(names_at)?;
    let (to, _) = request.text(next)?;
    let change = Change::Rename { from: (request.node, from), to: (request.u64(0), to) };
    disk.change(change).map(nothing)
}

/// The names of a folder from a place on, as many as are asked for.
fn names(disk: &Disk, request: &Request<'_>) -> Result<Answer, Errno> {
    let (from, room) = (request.u64(8) as usize, request.u32(16) as usize);
    disk.look(|state| {
        let dots = [(".", request.node), ("..", ROOT)].into_iter();
        let folder = state.folder(request.node)?;
        let names = folder.seen.iter().map(|(name, node)| (name.as_str(), *node));
        let mut answer = Answer::default();
        for (at, (name, node)) in dots.chain(names).enumerate().skip(from) {
            let is_folder = matches!(state.node(node)?.content, Content::Folder(_));
            let one = Answer::default().name(node, at as u64 + 1, name, is_folder);
            if answer.0.len() + one.0.len() > room {
                break;
            }
            answer.0.extend(one.0);
        }
        Ok(answer)
    })
}
