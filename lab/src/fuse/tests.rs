//! The disk mounted by FUSE.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use fathom_measure::clock::monotonic_raw_ns;

use super::FuseMount;
use crate::disk::{Faults, LabDisk, Survivors};

fn mounted(disk: &LabDisk) -> (FuseMount, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (FuseMount::new(disk, folder.path()).unwrap(), folder)
}

/// A file's content after a power cut.
fn left(disk: &LabDisk, name: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    disk.after_power_cut(Survivors::None).copy_to(folder.path()).unwrap();
    fs::read(folder.path().join(name)).ok()
}

#[test]
fn ordinary_file_operations_work() {
    crate::isolate_mounts!();
    let disk = LabDisk::recording();
    let (mount, folder) = mounted(&disk);
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    let long: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
    fs::write(at("a/b/c"), &long).unwrap();
    assert_eq!(fs::read(at("a/b/c")).unwrap(), long);
    let file = OpenOptions::new().read(true).write(true).open(at("a/b/c")).unwrap();
    file.write_all_at(b"xyz", 500_000).unwrap();
    file.set_len(600_000).unwrap();
    let mut part = [0; 5];
    file.read_exact_at(&mut part, 499_999).unwrap();
    assert_eq!(&part[1..4], b"xyz");
    assert_eq!(file.metadata().unwrap().len(), 600_000);
    fs::rename(at("a/b/c"), at("a/d")).unwrap();
    assert_eq!(fs::read_dir(at("a")).unwrap().count(), 2);
    assert!(fs::remove_dir(at("a")).is_err(), "not empty");
    fs::remove_dir(at("a/b")).unwrap();
    fs::remove_file(at("a/d")).unwrap();
    assert_eq!(fs::read_dir(at("a")).unwrap().count(), 0);
    file.read_exact_at(&mut part, 499_999).unwrap();
    assert_eq!(&part[1..4], b"xyz", "open but unlinked");
    assert!(File::open(at("nothing")).is_err());
    for number in 0..1000 {
        fs::write(at(&format!("a file with number {number}")), "").unwrap();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1001, "more than one readdir");
    drop(mount);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "unmounted");
}

#[test]
fn only_sync_makes_data_durable() {
    crate::isolate_mounts!();
    let disk = LabDisk::recording();
    let (_mount, folder) = mounted(&disk);
    let path = folder.path().join("a");
    let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(left(&disk, "a"), None, "the name is not synced");
    File::open(folder.path()).unwrap().sync_all().unwrap();
    assert_eq!(left(&disk, "a").unwrap(), b"first");
    let synced = disk.changes();
    file.write_all_at(b"FI", 0).unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"FIrst");
    assert_eq!(left(&disk, "a").unwrap(), b"first");
    let mut past = disk.past();
    past.go_to(synced);
    assert_eq!(past.last(), "sync node 1");
    past.go_to(disk.changes());
    assert_eq!(past.last(), "write 2 bytes at 0 of a");
}

#[test]
fn read_delay_and_read_errors_are_injected() {
    crate::isolate_mounts!();
    let disk = LabDisk::new();
    let (_mount, folder) = mounted(&disk);
    let path = folder.path().join("a");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let read_delay = Duration::from_millis(2);
    disk.misbehave(Faults { read_delay, uncached: true, ..Faults::default() });
    let file = File::open(&path).unwrap();
    let (begun, reads) = (monotonic_raw_ns(), disk.reads());
    for block in 0..5 {
        file.read_exact_at(&mut [0; 4096], block * 4096).unwrap();
    }
    assert_eq!(disk.reads() - reads, 5, "no page cache, no readahead");
    // mood: a lower bound, which a slow machine only exceeds
    assert!(monotonic_raw_ns() - begun >= 5 * 2_000_000);
    let unreadable = Some(("a".to_owned(), 8192..8193));
    disk.misbehave(Faults { unreadable, ..Faults::default() });
    let file = File::open(&path).unwrap();
    let read = |block: u64| file.read_exact_at(&mut [0; 4096], block * 4096);
    assert_eq!(read(2).unwrap_err().raw_os_error(), Some(5));
    assert!(read(1).is_ok() && read(3).is_ok());
}
