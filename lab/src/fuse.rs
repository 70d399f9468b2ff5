//! Mounts a [`Disk`] with FUSE. `fuser` implements the protocol; libfuse is not needed.
//!
//! The kernel handles locks and page faults; every write reaches the disk immediately. Requests are
//! served one at a time (queue depth 1).
//!
//! The serving process must not map a file of the disk, as SQLite maps its WAL index: the serving
//! thread could wait for a page that only it can fill. Open a store on such a disk in a child.

use std::ffi::{CString, OsStr};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::disk::{DiskChange, LabDisk, ROOT};

/// The kernel does not cache names and attributes.
const TTL: Duration = Duration::ZERO;
/// Longer writes are split into several changes.
const WRITE_BYTES_MAX: u32 = 128 << 10;
const BLOCK_BYTES: u32 = 4096;

/// A mounted disk. Dropping it forces the unmount, as if the disk were pulled: later accesses fail.
#[derive(Debug)]
pub struct FuseMount {
    folder: PathBuf,
    session: Option<BackgroundSession>,
}

impl FuseMount {
    /// Mounts a disk on a folder, inside [`crate::mounts`].
    ///
    /// # Errors
    /// If `/dev/fuse` is missing or mounting is not permitted.
    pub fn new(disk: &LabDisk, folder: &Path) -> io::Result<Self> {
        Self::of_type(disk, folder, "fuse.fathom-lab")
    }

    /// As [`Mount::new`], with the type of another FUSE file system in mountinfo.
    ///
    /// # Errors
    /// As there.
    pub fn of_type(disk: &LabDisk, folder: &Path, kind: &str) -> io::Result<Self> {
        // Not mounted by `fuser`, which tries fusermount and cannot force the unmount.
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("fathom-lab", folder, kind, flags, options.as_c_str())?;
        let mut this = Self { folder: folder.to_owned(), session: None };
        let server = DiskServer(disk.clone(), Mutex::default());
        let acl = SessionACL::Owner;
        let session = Session::from_fd(server, device.into(), acl, Config::default())?;
        this.session = Some(session.spawn()?);
        Ok(this)
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        // FORCE: pending requests fail, and the session ends.
        let _ = unmount(&self.folder, UnmountFlags::FORCE | UnmountFlags::DETACH);
        if let Some(session) = self.session.take() {
            let _ = session.join();
        }
    }
}

/// Serves the disk to the kernel. Unimplemented requests fail with ENOSYS.
/// Reads of a disk that hangs wait here.
struct DiskServer(LabDisk, Mutex<Vec<ReplyData>>);

impl DiskServer {
    fn attributes(&self, node: u64) -> Result<FileAttr, Errno> {
        let facts = self.0.query(|state| state.attributes(node))?;
        // The disk has no clock: the version serves as time.
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(facts.version);
        Ok(FileAttr {
            ino: INodeNo(node),
            size: facts.length,
            blocks: facts.length.div_ceil(512),
            atime: changed,
            mtime: changed,
            ctime: changed,
            crtime: changed,
            kind: kind(facts.is_folder),
            perm: facts.mode as u16,
            nlink: facts.links,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    fn create_node(
        &self,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        is_folder: bool,
    ) -> Result<FileAttr, Errno> {
        let change = DiskChange::Create { folder: folder.0, name: text(name)?, mode, is_folder };
        self.attributes(self.0.change(change)?)
    }

    fn remove(&self, folder: INodeNo, name: &OsStr, is_folder: bool) -> Result<u64, Errno> {
        self.0.change(DiskChange::Remove { folder: folder.0, name: text(name)?, is_folder })
    }

    fn open_flags(&self) -> FopenFlags {
        match (self.0.is_uncached(), self.0.hangs()) {
            (true, _) => FopenFlags::FOPEN_DIRECT_IO,
            (false, true) => FopenFlags::FOPEN_KEEP_CACHE,
            (false, false) => FopenFlags::empty(),
        }
    }
}

fn kind(is_folder: bool) -> FileType {
    if is_folder { FileType::Directory } else { FileType::RegularFile }
}

fn text(name: &OsStr) -> Result<String, Errno> {
    name.to_str().map(str::to_owned).ok_or(Errno::ILSEQ)
}

/// Replies with a result or its error. A macro, since the reply types share no trait.
macro_rules! answer {
    ($result:expr, $reply:ident, $good:pat => $answer:expr) => {
        match $result {
            Ok($good) => $answer,
            Err(error) => $reply.error(io::Error::from(error).into()),
        }
    };
}

impl Filesystem for DiskServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Less than a page disables readahead, so that reads can be counted.
        let refused = |_| Errno::INVAL;
        let readahead = if self.0.hangs() { 128 << 10 } else { 1 };
        config.set_max_readahead(readahead).map_err(refused)?;
        config.set_max_write(WRITE_BYTES_MAX).map_err(refused)?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let node = text(name).and_then(|name| self.0.query(|state| state.child(parent.0, &name)));
        let attributes = node.and_then(|node| self.attributes(node));
        answer!(attributes, reply, facts => reply.entry(&TTL, &facts, Generation(0)));
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(self.attributes(node.0), reply, facts => reply.attr(&TTL, &facts));
    }

    /// Sets mode and length; ignores owner and times.
    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        length: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let node = node.0;
        let resize = length.map(|length| DiskChange::Resize { node, length });
        let set_mode = mode.map(|mode| DiskChange::SetMode { node, mode: mode & 0o7777 });
        let mut changes = resize.into_iter().chain(set_mode);
        let changed = changes.try_for_each(|change| self.0.change(change).map(drop));
        let changed = changed.and_then(|()| self.attributes(node));
        answer!(changed, reply, facts => reply.attr(&TTL, &facts));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let created = self.create_node(parent, name, mode, true);
        answer!(created, reply, facts => reply.entry(&TTL, &facts, Generation(0)));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let (created, flags) = (self.create_node(parent, name, mode, false), self.open_flags());
        answer!(created, reply, facts =>
            reply.created(&TTL, &facts, Generation(0), FileHandle(0), flags));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(self.remove(parent, name, false), reply, _ => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(self.remove(parent, name, true), reply, _ => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(fuser::Errno::EINVAL);
        }
        let places = text(name).and_then(|name| Ok((name, text(new_name)?)));
        let renamed = places.and_then(|(from, to)| {
            self.0.change(DiskChange::Rename { from: (parent.0, from), to: (new_parent.0, to) })
        });
        answer!(renamed, reply, _ => reply.ok());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), self.open_flags());
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (read, delay) = self.0.read(node.0, at..at + u64::from(length));
        std::thread::sleep(delay);
        if self.0.hangs() {
            return self.1.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
        }
        answer!(read, reply, bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.0.change(DiskChange::Write { node: node.0, at, bytes: bytes.to_vec() });
        answer!(written, reply, _ => reply.written(bytes.len() as u32));
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(self.0.change(DiskChange::Sync { node: node.0 }), reply, _ => reply.ok());
    }

    fn fsyncdir(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, node, handle, data_only, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.0.query(|state| {
            let dots = [(".", node.0), ("..", ROOT)].into_iter();
            let names = state.folder(node.0)?.current.iter();
            let names = dots.chain(names.map(|(name, number)| (name.as_str(), *number)));
            for (next, (name, number)) in (1..).zip(names).skip(from as usize) {
                let kind = kind(state.attributes(number)?.is_folder);
                if reply.add(INodeNo(number), next, kind, name) {
                    break;
                }
            }
            Ok::<(), Errno>(())
        });
        answer!(listed, reply, () => reply.ok());
    }

    /// Reports a disk that is never full.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let many = 1 << 30;
        reply.statfs(many, many, many, many, many, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}

#[cfg(test)]
mod tests;
