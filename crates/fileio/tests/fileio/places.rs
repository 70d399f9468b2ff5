//! Path inspection, page cache residency and extents.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use fathom_fileio::filesystem::FilesystemClass;
use fathom_fileio::path_info::{Direct, FileKind, OpenError};
use fathom_fileio::read::NEVER_STOP;
use fathom_fileio::residency::{self, CacheKind, CountedBy, ResidencyState, UnknownReason};
use fathom_fileio::{PathInfoSource, extents, inspect};
use rustix::fs::{CWD, FallocateFlags, Mode, fallocate, mkfifoat};

#[test]
fn every_kind_of_path_is_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), b"abc").unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("broken")).unwrap();
    mkfifoat(CWD, at("fifo"), Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let file = inspect(&at("file")).unwrap();
    assert_eq!((file.kind, file.size, file.is_link), (FileKind::Regular, Some(3), false));
    let link = inspect(&at("link")).unwrap();
    assert_eq!((link.kind, link.size, link.is_link), (FileKind::Regular, Some(3), true));
    assert!(matches!(inspect(&at("broken")), Err(OpenError::Failed { .. })));
    // None of these blocks: opening the FIFO would wait for a writer.
    for (name, kind) in
        [("", FileKind::Directory), ("fifo", FileKind::Fifo), ("socket", FileKind::Socket)]
    {
        assert_eq!(inspect(&at(name)).unwrap().kind, kind);
        assert_eq!(inspect(&at(name)).unwrap().size, None);
        let error = PathInfoSource::open(&at(name)).unwrap_err();
        assert!(matches!(error, OpenError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains("name a regular file"), "{error}");
    }
    let zero = inspect(Path::new("/dev/zero")).unwrap();
    assert_eq!(
        (zero.kind, zero.size, zero.is_on_device()),
        (FileKind::Character, None, Some(false))
    );
    assert!(PathInfoSource::open(Path::new("/dev/zero")).is_ok());
    assert!(PathInfoSource::open(&at("link")).is_ok());
}

#[test]
fn generated_file_has_no_size() {
    let version = inspect(Path::new("/proc/version")).unwrap();
    assert_eq!((version.kind, version.size), (FileKind::Regular, None));
    assert_eq!(
        (version.file_system.name, version.file_system.class),
        ("proc", FilesystemClass::Kernel)
    );
    assert_eq!(version.is_on_device(), Some(false));
    let file = File::open("/proc/version").unwrap();
    assert_eq!(
        residency::residency_of(&file).state,
        ResidencyState::Unknown { why: UnknownReason::NoSize }
    );
}

#[test]
fn block_device_has_the_size_of_its_end() {
    let Some(name) = fs::read_dir("/sys/block").unwrap().flatten().find_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let path = format!("/dev/{name}");
        // No loop device: what holds its data may go at any time.
        (entry.path().join("device").exists()
            && fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0")
            && Path::new(&path).exists())
        .then_some(path)
    }) else {
        println!("skipped: no block device");
        return;
    };
    let disk = inspect(Path::new(&name)).unwrap();
    assert_eq!((disk.kind, disk.is_on_device()), (FileKind::Block, Some(true)));
    match File::open(&name) {
        Ok(mut file) => {
            let end = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
            assert_eq!(disk.size, Some(end));
        }
        Err(error) => println!("skipped: {name}: {error}"),
    }
}

#[test]
fn tmpfs_file_keeps_its_data_when_evicted() {
    let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        println!("skipped: no /dev/shm");
        return;
    };
    file.as_file().write_all_at(&[1; 100_000], 0).unwrap();
    let info = inspect(file.path()).unwrap();
    if info.file_system.name != "tmpfs" {
        println!("skipped: /dev/shm is {}", info.file_system.name);
        return;
    }
    assert_eq!(info.is_on_device(), Some(false));
    residency::evict(file.as_file()).unwrap();
    assert!(fs::read(file.path()).unwrap() == [1; 100_000]);
    let found = extents::extents_of(file.as_file()).unwrap();
    assert_eq!((found.method, found.data), (extents::ExtentMethod::Seek, 100_000));
}

/// A cached file of 4 MiB on a disk.
fn on_disk() -> Option<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let info = inspect(file.path()).unwrap();
    if info.is_on_device() != Some(true) {
        println!("skipped: the temporary folder is on {}", info.file_system.name);
        return None;
    }
    file.as_file().write_all_at(&vec![1; 4 << 20], 0).unwrap();
    Some(file)
}

#[test]
fn evict_writes_back_and_warm_reads_all() {
    let Some(file) = on_disk() else { return };
    let (path, file) = (file.path(), file.as_file());
    let left = residency::evict(file).unwrap();
    assert_eq!((left.bytes, left.dirty, left.writeback), (4 << 20, 0, 0));
    assert_ne!(left.counted_by, CountedBy::Neither);
    assert_eq!(residency::warm(file, &NEVER_STOP).unwrap().bytes, 4 << 20);
    assert!(fs::read(path).unwrap() == vec![1; 4 << 20]);
    // Pages that nobody has read.
    let hole = tempfile::tempfile().unwrap();
    hole.set_len(1 << 20).unwrap();
    let cold = residency::residency_of(&hole);
    assert_eq!((cold.state, cold.cached, cold.bytes), (ResidencyState::Cold, 0, 1 << 20));
}

#[test]
#[ignore = "lab: pages must stay cached or evicted"]
fn evict_and_warm_reach_their_states() {
    let Some(file) = on_disk() else { return };
    let file = file.as_file();
    // Large enough that writeback has not finished when the first pages are to be dropped.
    file.write_all_at(&vec![2; 64 << 20], 0).unwrap();
    let written = residency::residency_of(file);
    assert_eq!((written.state, written.bytes), (ResidencyState::Warm, 64 << 20));
    assert!(written.dirty + written.writeback > 0, "not synced yet: {written:?}");
    let cold = residency::evict(file).unwrap();
    assert_eq!((cold.state, cold.cached, cold.dirty), (ResidencyState::Cold, 0, 0));
    // One page plus readahead.
    file.read_exact_at(&mut [0; 1], 2 << 20).unwrap();
    let some = residency::residency_of(file);
    assert!(
        matches!(some.state, ResidencyState::Mixed { share } if share > 0.0 && share < 1.0),
        "{some:?}"
    );
    assert!(some.cached > 0 && some.cached < 64 << 20);
    let warm = residency::warm(file, &NEVER_STOP).unwrap();
    assert_eq!((warm.state, warm.cached), (ResidencyState::Warm, 64 << 20));
    assert_eq!(residency::evict(file).unwrap().state, ResidencyState::Cold);
}

#[test]
fn empty_files_and_directories_have_no_pages() {
    let file = tempfile::tempfile().unwrap();
    assert_eq!(
        residency::residency_of(&file).state,
        ResidencyState::Unknown { why: UnknownReason::Empty }
    );
    let folder = File::open(std::env::temp_dir()).unwrap();
    assert_eq!(
        residency::residency_of(&folder).state,
        ResidencyState::Unknown { why: UnknownReason::NoPages }
    );
}

#[test]
fn residency_of_foreign_file_is_unknown() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: changing the user needs root");
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    // A hole that nobody has read has no pages.
    file.as_file().set_len(65536).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode).unwrap();
    // The uid belongs to the thread, which ends here. The temporary file stays with this thread:
    // user nobody could not remove it.
    let path = file.path().to_owned();
    let seen = std::thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let Ok(file) = File::open(path) else { return None };
        let seen = residency::residency_of(&file);
        assert_ne!(
            seen.state,
            ResidencyState::Warm,
            "mincore reports all pages resident: {seen:?}"
        );
        Some(seen)
    });
    match seen.join().unwrap() {
        // Some kernels check no permission in cachestat.
        Some(seen) if seen.counted_by == CountedBy::Cachestat => {
            assert_eq!(seen.state, ResidencyState::Cold);
        }
        Some(seen) => {
            assert_eq!(seen.state, ResidencyState::Unknown { why: UnknownReason::NoPermission })
        }
        None => println!("skipped: other users cannot open temporary files"),
    }
}

/// Mounts an overlay in this folder, with a file of 1 MiB in its lower layer.
fn mount_overlay(folder: &Path) -> bool {
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::write(folder.join("lower/file"), vec![1; 1 << 20]).unwrap();
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| folder.join(name));
    let [lower, upper, work] = [lower.display(), upper.display(), work.display()];
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let options = std::ffi::CString::new(options).unwrap();
    let none = rustix::mount::MountFlags::empty();
    let merged = folder.join("merged");
    let mounted = rustix::mount::mount("overlay", merged, "overlay", none, options.as_c_str());
    if let Err(error) = mounted {
        println!("skipped: mount an overlay: {error}");
    }
    mounted.is_ok()
}

fn unmount(path: &Path) {
    rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH).unwrap();
}

#[test]
fn overlay_is_on_what_holds_its_folders() {
    fathom_lab::isolate_mounts!();
    let folder = tempfile::tempdir().unwrap();
    if !mount_overlay(folder.path()) {
        return;
    }
    let merged = folder.path().join("merged");
    let info = inspect(&merged.join("file")).unwrap();
    let below = inspect(folder.path()).unwrap();
    assert_eq!((info.file_system.name, info.is_on_device()), ("overlay", below.is_on_device()));
    let file = File::open(merged.join("file")).unwrap();
    assert_eq!(residency::warm(&file, &NEVER_STOP).unwrap().bytes, 1 << 20);
    drop(file);
    unmount(&merged);
}

#[test]
#[ignore = "lab: pages must stay cached or evicted"]
fn overlay_is_not_reported_cold() {
    fathom_lab::isolate_mounts!();
    let folder = tempfile::tempdir().unwrap();
    if !mount_overlay(folder.path()) {
        return;
    }
    let at = |name: &str| folder.path().join(name);
    let file = File::open(at("merged/file")).unwrap();
    let warm = residency::warm(&file, &NEVER_STOP).unwrap();
    assert_eq!((warm.state, warm.cached), (ResidencyState::Warm, 1 << 20));
    let cold = residency::evict(&File::open(at("lower/file")).unwrap()).unwrap();
    assert_eq!(cold.state, residency::residency_of(&file).state, "same as the lower layer");
    // A single page must not count as tolerance.
    fs::write(at("lower/page"), [1]).unwrap();
    let page = File::open(at("merged/page")).unwrap();
    assert_eq!(residency::warm(&page, &NEVER_STOP).unwrap().state, ResidencyState::Warm);
    drop((file, page));
    unmount(&at("merged"));
}

#[test]
fn holes_and_unwritten_extents_are_not_data() {
    let Some(file) = on_disk() else { return };
    let file = file.as_file();
    // Delayed allocation: extents are known after writeback.
    file.sync_all().unwrap();
    let written = extents::extents_of(file).unwrap();
    assert_eq!((written.data, written.holes, written.unwritten), (4 << 20, 0, 0));
    file.set_len(16 << 20).unwrap();
    file.sync_all().unwrap();
    let longer = extents::extents_of(file).unwrap();
    assert_eq!((longer.data, longer.holes), (4 << 20, 12 << 20));
    assert!((longer.share() - 0.25).abs() < 1e-9);
    match fallocate(file, FallocateFlags::empty(), 8 << 20, 4 << 20) {
        Ok(()) => {
            let reserved = extents::extents_of(file).unwrap();
            assert_eq!(reserved.data, 4 << 20);
            let unwritten = match reserved.method {
                extents::ExtentMethod::Fiemap => 4 << 20,
                _ => 0,
            };
            assert_eq!((reserved.unwritten, reserved.holes), (unwritten, (12 << 20) - unwritten));
        }
        Err(error) => println!("skipped: reserve space: {error}"),
    }
    let many = tempfile::tempfile().unwrap();
    for piece in 0..300 {
        many.write_all_at(&[1; 4096], piece * 65536).unwrap();
    }
    many.sync_all().unwrap();
    assert_eq!(extents::extents_of(&many).unwrap().data, 300 * 4096, "more than one FIEMAP call");
}

#[test]
fn direct_io_alignment_is_reported() {
    let Some(file) = on_disk() else { return };
    match inspect(file.path()).unwrap().direct {
        Direct::Aligned { memory, offset } => {
            assert!(memory.is_power_of_two() && offset.is_power_of_two());
            assert!(offset >= 512);
        }
        Direct::Refused => println!("skipped: no direct I/O here"),
        Direct::Unknown => println!("skipped: the kernel does not report it"),
    }
    assert_eq!(inspect(Path::new("/proc")).unwrap().direct, Direct::Refused);
}

#[test]
fn dropping_caches_needs_root() {
    if !rustix::process::geteuid().is_root() {
        assert!(residency::drop_caches(CacheKind::Slab).is_err());
        return;
    }
    // Slab only, and as another user: other tests depend on cached pages.
    let refused = std::thread::spawn(|| {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        residency::drop_caches(CacheKind::Slab).unwrap_err().kind()
    });
    assert_eq!(refused.join().unwrap(), std::io::ErrorKind::PermissionDenied);
}
