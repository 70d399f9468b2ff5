//! File system types by the magic number of statfs(2): their names and where they store data.

/// Where a file system stores its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesystemClass {
    /// On a block device of this machine.
    Disk,
    Memory,
    /// In the file systems below.
    Overlay,
    /// On another machine, or on the host of a virtual one.
    Network,
    /// Nowhere: the kernel generates it on read.
    Kernel,
    /// In a FUSE server.
    Program,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// `unknown` for an unlisted magic number.
    pub name: &'static str,
    pub class: FilesystemClass,
}

/// From `linux/magic.h`, and from the sources of file systems that it lacks. ext2 and ext3 share
/// the number and the code of ext4.
const KNOWN: &[(u64, &str, FilesystemClass)] = &[
    (0xef53, "ext4", FilesystemClass::Disk),
    (0x5846_5342, "xfs", FilesystemClass::Disk),
    (0x9123_683e, "btrfs", FilesystemClass::Disk),
    (0xf2f5_2010, "f2fs", FilesystemClass::Disk),
    (0x2fc1_2fc1, "zfs", FilesystemClass::Disk),
    (0xca45_1a4e, "bcachefs", FilesystemClass::Disk),
    (0x7371_7368, "squashfs", FilesystemClass::Disk),
    (0xe0f5_e1e2, "erofs", FilesystemClass::Disk),
    (0x9660, "iso9660", FilesystemClass::Disk),
    (0x1501_3346, "udf", FilesystemClass::Disk),
    (0x4d44, "fat", FilesystemClass::Disk),
    (0x2011_bab0, "exfat", FilesystemClass::Disk),
    (0x7366_746e, "ntfs3", FilesystemClass::Disk),
    (0x482b, "hfsplus", FilesystemClass::Disk),
    (0x3153_464a, "jfs", FilesystemClass::Disk),
    (0x5265_4973, "reiserfs", FilesystemClass::Disk),
    (0x3434, "nilfs", FilesystemClass::Disk),
    (0x0102_1994, "tmpfs", FilesystemClass::Memory),
    (0x8584_58f6, "ramfs", FilesystemClass::Memory),
    (0x9584_58f6, "hugetlbfs", FilesystemClass::Memory),
    (0x794c_7630, "overlay", FilesystemClass::Overlay),
    (0x6969, "nfs", FilesystemClass::Network),
    (0xff53_4d42, "cifs", FilesystemClass::Network),
    (0xfe53_4d42, "smb2", FilesystemClass::Network),
    (0x517b, "smb", FilesystemClass::Network),
    (0x00c3_6400, "ceph", FilesystemClass::Network),
    (0x0102_1997, "9p", FilesystemClass::Network),
    (0x5346_414f, "afs", FilesystemClass::Network),
    (0x0bd0_0bd0, "lustre", FilesystemClass::Network),
    (0x0116_1970, "gfs2", FilesystemClass::Network),
    (0x7461_636f, "ocfs2", FilesystemClass::Network),
    (0x4750_4653, "gpfs", FilesystemClass::Network),
    (0x786f_4256, "vboxsf", FilesystemClass::Network),
    (0x9fa0, "proc", FilesystemClass::Kernel),
    (0x6265_6572, "sysfs", FilesystemClass::Kernel),
    (0x6462_6720, "debugfs", FilesystemClass::Kernel),
    (0x7472_6163, "tracefs", FilesystemClass::Kernel),
    (0x7363_6673, "securityfs", FilesystemClass::Kernel),
    (0x0027_e0eb, "cgroup", FilesystemClass::Kernel),
    (0x6367_7270, "cgroup2", FilesystemClass::Kernel),
    (0x6265_6570, "configfs", FilesystemClass::Kernel),
    (0xde5e_81e4, "efivarfs", FilesystemClass::Kernel),
    (0xcafe_4a11, "bpf", FilesystemClass::Kernel),
    (0x1cd1, "devpts", FilesystemClass::Kernel),
    (0x5049_5045, "pipefs", FilesystemClass::Kernel),
    (0x6573_5546, "fuse", FilesystemClass::Program),
];

impl FileSystem {
    pub fn of_magic(magic: u64) -> Self {
        // Some numbers are sign-extended from 32 bits.
        let magic = magic & 0xffff_ffff;
        let known = KNOWN.iter().find(|(known, ..)| *known == magic);
        let (name, class) =
            known.map_or(("unknown", FilesystemClass::Unknown), |&(_, n, c)| (n, c));
        Self { name, class }
    }

    /// By its type in /proc/self/mountinfo.
    pub fn of_type(kind: &str) -> Self {
        let name = match kind {
            "ext2" | "ext3" => "ext4",
            "vfat" | "msdos" => "fat",
            "nilfs2" => "nilfs",
            "devtmpfs" => "tmpfs",
            "nfs4" => "nfs",
            "smb3" => "smb2",
            kind => kind,
        };
        let known = KNOWN.iter().find(|(_, known, _)| *known == name);
        Self::of_magic(known.map_or(0, |(magic, ..)| *magic))
    }

    /// Of the mount with this id in /proc/self/mountinfo. `None` if it is not there, or unlisted.
    pub fn of_mount(mounts: &str, id: u64) -> Option<Self> {
        let id = id.to_string();
        let line = mounts.lines().find(|line| line.split(' ').next() == Some(&id))?;
        let (_, kind) = line.split_once(" - ")?;
        let found = Self::of_type(kind.split(' ').next()?);
        (found.class != FilesystemClass::Unknown).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        for (at, (magic, name, _)) in KNOWN.iter().enumerate() {
            assert!(
                KNOWN[..at].iter().all(|(other, called, _)| other != magic && called != name),
                "{name}"
            );
            assert_eq!(FileSystem::of_magic(*magic).name, *name);
        }
    }

    #[test]
    fn types_of_mounts_have_a_class() {
        let class = |kind| FileSystem::of_type(kind).class;
        assert_eq!(["ext3", "vfat", "btrfs"].map(class), [FilesystemClass::Disk; 3]);
        assert_eq!(
            ["devtmpfs", "nfs4", "proc"].map(class),
            [FilesystemClass::Memory, FilesystemClass::Network, FilesystemClass::Kernel]
        );
        assert_eq!(["fuse.sshfs", "none"].map(class), [FilesystemClass::Unknown; 2]);
    }

    #[test]
    fn mount_is_found_by_its_id() {
        let mounts = "30 1 0:40 / /mnt/h rw,relatime - 9p host rw,trans=virtio\n\
                      301 1 0:41 / /dev/shm rw shared:2 - tmpfs shm rw\n\
                      31 1 0:42 / /x rw - new x rw";
        let name = |id| FileSystem::of_mount(mounts, id).map(|found| found.name);
        assert_eq!([30, 301, 31, 3].map(name), [Some("9p"), Some("tmpfs"), None, None]);
    }

    #[test]
    fn unlisted_number_is_unknown() {
        let unknown = FileSystem { name: "unknown", class: FilesystemClass::Unknown };
        assert_eq!(FileSystem::of_magic(1), unknown);
        assert_eq!(FileSystem::of_magic(0xffff_ffff_9123_683e).name, "btrfs");
    }
}
