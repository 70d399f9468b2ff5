//! File systems by the number that statfs(2) gives: their names, and where their bytes live.

/// Where the bytes of a file system live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// On a block device of this machine.
    Disk,
    Memory,
    /// In layers of other file systems.
    Overlay,
    /// On another machine, or on the host of a virtual one.
    Network,
    /// Nowhere: the kernel writes them while they are read.
    Kernel,
    Program,
    Unknown,
}

/// The file system that something lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    pub magic: u64,
    /// Its name; `unknown` for a number that is in no table.
    pub name: &'static str,
    pub class: Class,
}

/// From `linux/magic.h` and the sources of those file systems that are not in it. ext2 and ext3
/// have the number of ext4, whose code serves all three today.
const KNOWN: &[(u64, &str, Class)] = &[
    (0xef53, "ext4", Class::Disk),
    (0x5846_5342, "xfs", Class::Disk),
    (0x9123_683e, "btrfs", Class::Disk),
    (0xf2f5_2010, "f2fs", Class::Disk),
    (0x2fc1_2fc1, "zfs", Class::Disk),
    (0xca45_1a4e, "bcachefs", Class::Disk),
    (0x7371_7368, "squashfs", Class::Disk),
    (0xe0f5_e1e2, "erofs", Class::Disk),
    (0x9660, "iso9660", Class::Disk),
    (0x1501_3346, "udf", Class::Disk),
    (0x4d44, "fat", Class::Disk),
    (0x2011_bab0, "exfat", Class::Disk),
    (0x7366_746e, "ntfs3", Class::Disk),
    (0x482b, "hfsplus", Class::Disk),
    (0x3153_464a, "jfs", Class::Disk),
    (0x5265_4973, "reiserfs", Class::Disk),
    (0x3434, "nilfs", Class::Disk),
    (0x0102_1994, "tmpfs", Class::Memory),
    (0x8584_58f6, "ramfs", Class::Memory),
    (0x9584_58f6, "hugetlbfs", Class::Memory),
    (0x794c_7630, "overlay", Class::Overlay),
    (0x6969, "nfs", Class::Network),
    (0xff53_4d42, "cifs", Class::Network),
    (0xfe53_4d42, "smb2", Class::Network),
    (0x517b, "smb", Class::Network),
    (0x00c3_6400, "ceph", Class::Network),
    (0x0102_1997, "9p", Class::Network),
    (0x5346_414f, "afs", Class::Network),
    (0x0bd0_0bd0, "lustre", Class::Network),
    (0x0116_1970, "gfs2", Class::Network),
    (0x7461_636f, "ocfs2", Class::Network),
    (0x4750_4653, "gpfs", Class::Network),
    (0x786f_4256, "vboxsf", Class::Network),
    (0x9fa0, "proc", Class::Kernel),
    (0x6265_6572, "sysfs", Class::Kernel),
    (0x6462_6720, "debugfs", Class::Kernel),
    (0x7472_6163, "tracefs", Class::Kernel),
    (0x7363_6673, "securityfs", Class::Kernel),
    (0x0027_e0eb, "cgroup", Class::Kernel),
    (0x6367_7270, "cgroup2", Class::Kernel),
    (0x6265_6570, "configfs", Class::Kernel),
    (0xde5e_81e4, "efivarfs", Class::Kernel),
    (0xcafe_4a11, "bpf", Class::Kernel),
    (0x1cd1, "devpts", Class::Kernel),
    (0x5049_5045, "pipefs", Class::Kernel),
    (0x6573_5546, "fuse", Class::Program),
];

impl FileSystem {
    /// The file system of a number.
    pub fn of_magic(magic: u64) -> Self {
        // Some of these numbers have a sign where a word has 32 bits.
        let magic = magic & 0xffff_ffff;
        let known = KNOWN.iter().find(|(known, ..)| *known == magic);
        let (name, class) = known.map_or(("unknown", Class::Unknown), |&(_, n, c)| (n, c));
        Self { magic, name, class }
    }

    /// Whether its bytes are on a device of this machine; none where that cannot be told, as on an
    /// overlay or where a program is the file system.
    pub fn is_on_device(&self) -> Option<bool> {
        match self.class {
            Class::Disk => Some(true),
            Class::Memory | Class::Kernel | Class::Network => Some(false),
            Class::Overlay | Class::Program | Class::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_and_name_stands_in_the_table_once() {
        for (at, (magic, name, _)) in KNOWN.iter().enumerate() {
            assert!(
                KNOWN[..at].iter().all(|(other, called, _)| other != magic && called != name),
                "{name}"
            );
            assert_eq!(FileSystem::of_magic(*magic).name, *name);
        }
    }

    #[test]
    fn an_unknown_number_is_said_to_be_unknown() {
        let unknown = FileSystem { magic: 1, name: "unknown", class: Class::Unknown };
        assert_eq!(FileSystem::of_magic(1), unknown);
        assert_eq!(FileSystem::of_magic(0xffff_ffff_9123_683e).name, "btrfs");
    }
}
