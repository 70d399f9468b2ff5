//! The mount that a path is on: its type, source and options.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::filesystem::{FileSystem, FilesystemClass};
use crate::inspect;
use crate::syscall::MOUNT_ID;

/// Types of FUSE whose server reads from other hosts, or from that of a virtual machine. The magic
/// number is the same for all.
const OVER_NETWORK: [&str; 8] = [
    "virtiofs",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph-fuse",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.gcsfuse",
    "fuse.juicefs",
];
/// Options that change what a read costs: protocol, sizes, caching, encryption.
const OPTIONS: [&str; 13] = [
    "vers", "rsize", "proto", "trans", "nconnect", "cache", "fsc", "sync", "noac", "actimeo",
    "sec", "seal", "max_read",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Such as `nfs4`, `fuse.sshfs`.
    pub kind: String,
    /// Such as `server:/export`.
    pub source: String,
    /// Those that change what a read costs.
    pub options: Vec<String>,
    pub is_network: bool,
}

impl Mount {
    /// `None` if the kernel does not say.
    pub fn holding(path: &Path) -> Option<Self> {
        // With a component behind it, a folder of autofs is mounted first.
        let path = path.join(".");
        let mask = StatxFlags::from_bits_retain(MOUNT_ID);
        let found = statx(CWD, &path, AtFlags::empty(), mask).ok()?;
        let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
        let is_known = found.stx_mask & MOUNT_ID != 0;
        let file_system = inspect(&path).ok()?.file_system;
        let mounts = String::from_utf8_lossy(&mounts);
        is_known.then(|| Self::parse(&mounts, found.stx_mnt_id, file_system))?
    }

    fn parse(mounts: &str, id: u64, file_system: FileSystem) -> Option<Self> {
        let id = id.to_string();
        let line = mounts.lines().find(|line| line.split(' ').next() == Some(&id))?;
        let (_, after) = line.split_once(" - ")?;
        let mut fields = after.split(' ').map(printable);
        let (kind, source, all) = (fields.next()?, fields.next()?, fields.next()?);
        let matters = |option: &&str| OPTIONS.contains(&option.split('=').next().unwrap_or(option));
        let options = all.split(',').filter(matters).map(str::to_owned).collect();
        let is_network =
            file_system.class == FilesystemClass::Network || OVER_NETWORK.contains(&kind.as_str());
        Some(Self { kind, source, options, is_network })
    }

    /// Type, source and options in a line.
    pub fn describe(&self) -> String {
        let kind = match self.kind.strip_prefix("fuse.") {
            Some(subtype) => format!("FUSE file system, subtype {subtype}"),
            None if self.kind.starts_with("fuse") => "FUSE file system".to_owned(),
            None => self.kind.clone(),
        };
        let unknown = if self.is_network { "" } else { ", not known as a network file system" };
        let options = match self.options.join(", ") {
            none if none.is_empty() => none,
            options => format!(" ({options})"),
        };
        format!("{kind}, source {}{options}{unknown}", self.source)
    }
}

/// A field of mountinfo, which has spaces as `\040`, for a terminal: who mounts may have chosen it.
fn printable(field: &str) -> String {
    let field = field.replace(r"\040", " ");
    field.replace(|c: char| c.is_control(), "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
21 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
210 21 0:44 / /mnt/b\\040c rw - nfs4 server:/b\\040c\x1b rw,vers=4.2,rsize=1048576,hard
22 21 0:45 / /mnt/s rw,nosuid - fuse.sshfs user@host:/ rw,user_id=0,max_read=65536
23 21 0:46 / /mnt/f rw - fuse program rw,user_id=0";

    fn described(id: u64, magic: u64) -> (String, bool) {
        let mount = Mount::parse(MOUNTS, id, FileSystem::of_magic(magic)).expect("a mount");
        (mount.describe(), mount.is_network)
    }

    #[test]
    fn mount_has_type_source_and_options_of_reads() {
        let (nfs, fuse) = (0x6969, 0x6573_5546);
        let text = "nfs4, source server:/b c? (vers=4.2, rsize=1048576)";
        assert_eq!(described(210, nfs), (text.to_owned(), true));
        let text = "FUSE file system, subtype sshfs, source user@host:/ (max_read=65536)";
        assert_eq!(described(22, fuse), (text.to_owned(), true));
        let text = "FUSE file system, source program, not known as a network file system";
        assert_eq!(described(23, fuse), (text.to_owned(), false));
        let text = "ext4, source /dev/vda1, not known as a network file system";
        assert_eq!(described(21, 0xef53), (text.to_owned(), false));
        assert_eq!(Mount::parse(MOUNTS, 2, FileSystem::of_magic(nfs)), None);
    }

    #[test]
    fn proc_is_found_by_its_mount() {
        let mount = Mount::holding(Path::new("/proc/self")).expect("a kernel since 5.8");
        assert_eq!((mount.kind.as_str(), mount.is_network), ("proc", false));
        assert_eq!(Mount::holding(Path::new("/nowhere")), None);
    }
}
