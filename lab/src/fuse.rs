//! Mounts a [`Disk`] by the kernel's FUSE protocol, spoken straight over `/dev/fuse`.
//!
//! Locks and mapped pages are the kernel's own affair; every write reaches the disk at once. One
//! request is served at a time, as by a disk with one head.
//!
//! The process that serves a disk must not map a file of it, as SQLite does with the index of its
//! log: the thread that serves could then wait for the memory that the other one holds while it
//! waits for the disk. A store on such a disk is opened by a child.

mod answer;
mod wire;

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::disk::Disk;

/// A mounted disk. Dropping it takes it away at once, as if it were pulled out: what still uses it
/// meets errors.
#[derive(Debug)]
pub struct Mount {
    folder: PathBuf,
    server: Option<JoinHandle<()>>,
}

impl Mount {
    /// Mounts a disk on a folder. Call it within [`crate::mounts`].
    ///
    /// # Errors
    /// Where there is no `/dev/fuse`, or mounting is not allowed.
    pub fn new(disk: &Disk, folder: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        let device = options.read(true).write(true);
        let device = device.custom_flags(rustix::fs::OFlags::CLOEXEC.bits() as i32);
        let device = device.open("/dev/fuse")?;
        let words = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let words = CString::new(words)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("fathom-lab", folder, "fuse.fathom-lab", flags, words.as_c_str())?;
        let disk = disk.clone();
        let server = std::thread::spawn(move || serve(device, &disk));
        Ok(Self { folder: folder.to_owned(), server: Some(server) })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // By force, so that what waits for an answer is let go and the server ends.
        let _ = unmount(&self.folder, UnmountFlags::FORCE | UnmountFlags::DETACH);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Answers until the mount is gone.
fn serve(mut device: File, disk: &Disk) {
    let mut buffer = vec![0; wire::REQUEST_MAX];
    loop {
        match device.read(&mut buffer) {
            Ok(length) => {
                let Some(answer) = answer::to(disk, &buffer[..length]) else { continue };
                // A request that was given up meanwhile takes no answer.
                let _ = device.write_all(&answer);
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                _ => return,
            },
        }
    }
}
