//! What a path is, how much of a file is in memory, and where its bytes lie.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as the tests themselves do")]
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use fathom_fileio::filesystem::Class;
use fathom_fileio::read::NEVER;
use fathom_fileio::residency::{self, Blind, Drop, State, Witness};
use fathom_fileio::subject::{Direct, Kind, OpenError};
use fathom_fileio::{Source, extents, look};
use fathom_lab::mounts;
use rustix::fs::{CWD, FallocateFlags, Mode, fallocate, mkfifoat};

fn inside(test: &str) -> bool {
    mounts::inside(test, |said| println!("{said}"))
}

#[test]
fn each_kind_of_path_has_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), b"abc").unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("broken")).unwrap();
    mkfifoat(CWD, at("fifo"), Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let file = look(&at("file")).unwrap();
    assert_eq!((file.kind, file.size, file.is_link), (Kind::Regular, Some(3), false));
    let link = look(&at("link")).unwrap();
    assert_eq!((link.kind, link.size, link.is_link), (Kind::Regular, Some(3), true));
    assert!(matches!(look(&at("broken")), Err(OpenError::Failed { .. })));
    // Each of these is answered at once: opening the FIFO would wait for a writer.
    for (name, kind) in [("", Kind::Directory), ("fifo", Kind::Fifo), ("socket", Kind::Socket)] {
        assert_eq!(look(&at(name)).unwrap().kind, kind);
        assert_eq!(look(&at(name)).unwrap().size, None);
        let error = Source::open(&at(name)).unwrap_err();
        assert!(matches!(error, OpenError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains("name a regular file"), "{error}");
    }
    let zero = look(Path::new("/dev/zero")).unwrap();
    assert_eq!((zero.kind, zero.size, zero.is_on_device()), (Kind::Character, None, Some(false)));
    assert!(Source::open(Path::new("/dev/zero")).is_ok());
    assert!(Source::open(&at("link")).is_ok());
}

#[test]
fn a_file_of_the_kernel_has_no_size_beforehand() {
    let version = look(Path::new("/proc/version")).unwrap();
    assert_eq!((version.kind, version.size), (Kind::Regular, None));
    assert_eq!((version.file_system.name, version.file_system.class), ("proc", Class::Kernel));
    assert_eq!(version.is_on_device(), Some(false));
    let file = File::open("/proc/version").unwrap();
    assert!(matches!(residency::of(&file).state, State::Unknown { why: Blind::Empty }));
}

#[test]
fn a_disk_has_the_size_that_the_kernel_says() {
    let Some(name) = fs::read_dir("/sys/block").unwrap().flatten().find_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let path = format!("/dev/{name}");
        (fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0")
            && Path::new(&path).exists())
        .then_some(path)
    }) else {
        println!("skipped: there is no disk");
        return;
    };
    let disk = look(Path::new(&name)).unwrap();
    assert_eq!((disk.kind, disk.is_on_device()), (Kind::Block, Some(true)));
    match File::open(&name) {
        Ok(mut file) => {
            let end = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
            assert_eq!(disk.size, Some(end));
        }
        Err(error) => println!("skipped: {name}: {error}"),
    }
}

#[test]
fn memory_is_no_device_and_its_files_are_always_warm() {
    let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        println!("skipped: there is no /dev/shm");
        return;
    };
    file.as_file().write_all_at(&[1; 100_000], 0).unwrap();
    let subject = look(file.path()).unwrap();
    if subject.file_system.name != "tmpfs" {
        println!("skipped: /dev/shm is {}", subject.file_system.name);
        return;
    }
    assert_eq!(subject.is_on_device(), Some(false));
    let left = residency::evict(file.as_file()).unwrap();
    assert_eq!((left.state, left.cached), (State::Warm, 100_000));
    let found = extents::of(file.as_file()).unwrap();
    assert_eq!((found.by, found.data), (extents::By::Seek, 100_000));
}

/// A file of 4 MiB on a disk, in memory.
fn on_disk() -> Option<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let subject = look(file.path()).unwrap();
    if subject.is_on_device() != Some(true) {
        println!("skipped: temporary files lie on {}", subject.file_system.name);
        return None;
    }
    file.as_file().write_all_at(&vec![1; 4 << 20], 0).unwrap();
    Some(file)
}

#[test]
fn cold_and_warm_are_made_and_proved() {
    let Some(file) = on_disk() else { return };
    let file = file.as_file();
    let written = residency::of(file);
    assert_eq!((written.state, written.bytes), (State::Warm, 4 << 20));
    // A busy machine may have begun to write it back already.
    assert!(written.dirty + written.writeback > 0, "it was not synced: {written:?}");
    let cold = residency::evict(file).unwrap();
    assert_eq!((cold.state, cold.cached, cold.dirty), (State::Cold, 0, 0));
    // One page, and what the kernel reads ahead of it.
    file.read_exact_at(&mut [0; 1], 2 << 20).unwrap();
    let some = residency::of(file);
    assert!(matches!(some.state, State::Mixed { share } if share > 0.0 && share < 1.0), "{some:?}");
    assert!(some.cached > 0 && some.cached < 4 << 20);
    let warm = residency::warm(file, &NEVER).unwrap();
    assert_eq!((warm.state, warm.cached), (State::Warm, 4 << 20));
    assert_ne!(warm.witness, Witness::Nobody);
    assert_eq!(residency::evict(file).unwrap().state, State::Cold);
}

/// So much that it is not written before the first pages are to be dropped.
#[test]
fn what_was_just_written_is_written_out_before_it_is_dropped() {
    let Some(file) = on_disk() else { return };
    let file = file.as_file();
    for part in 0..64 {
        file.write_all_at(&vec![part as u8; 1 << 20], part << 20).unwrap();
    }
    let dirty = residency::of(file);
    assert!(dirty.dirty > 0, "{dirty:?}");
    let cold = residency::evict(file).unwrap();
    assert_eq!((cold.state, cold.cached), (State::Cold, 0), "{cold:?}");
}

#[test]
fn empty_files_and_directories_have_no_pages() {
    let file = tempfile::tempfile().unwrap();
    assert_eq!(residency::of(&file).state, State::Unknown { why: Blind::Empty });
    let folder = File::open(std::env::temp_dir()).unwrap();
    assert_eq!(residency::of(&folder).state, State::Unknown { why: Blind::NoPages });
}

#[test]
fn a_file_that_is_not_ours_keeps_its_secret() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: becoming somebody else needs root");
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all_at(&[1; 65536], 0).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode).unwrap();
    residency::evict(file.as_file()).unwrap();
    let cold = residency::of(file.as_file()).state;
    // Identity belongs to a thread for the kernel; this one ends with it. The name stays here:
    // nobody may not take the file away.
    let path = file.path().to_owned();
    let seen = std::thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let Ok(file) = File::open(path) else { return None };
        let seen = residency::of(&file);
        assert_ne!(seen.state, State::Warm, "mincore calls all pages resident: {seen:?}");
        Some(seen)
    });
    match seen.join().unwrap() {
        // A kernel whose cachestat asks for no permission tells the truth.
        Some(seen) if seen.witness == Witness::Cachestat => assert_eq!(seen.state, cold),
        Some(seen) => assert_eq!(seen.state, State::Unknown { why: Blind::NotOurs }),
        None => println!("skipped: somebody else cannot reach temporary files"),
    }
}

#[test]
fn an_overlay_is_not_taken_for_cold() {
    if !inside("an_overlay_is_not_taken_for_cold") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("lower/file"), vec![1; 1 << 20]).unwrap();
    let shown = |name: &str| at(name).display().to_string();
    let (lower, upper, work) = (shown("lower"), shown("upper"), shown("work"));
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let options = std::ffi::CString::new(options).unwrap();
    let none = rustix::mount::MountFlags::empty();
    let merged = at("merged");
    if let Err(error) =
        rustix::mount::mount("overlay", &merged, "overlay", none, options.as_c_str())
    {
        println!("skipped: mount an overlay: {error}");
        return;
    }
    let subject = look(&at("merged/file")).unwrap();
    assert_eq!((subject.file_system.name, subject.is_on_device()), ("overlay", None));
    let file = File::open(at("merged/file")).unwrap();
    let warm = residency::warm(&file, &NEVER).unwrap();
    assert_eq!((warm.state, warm.cached), (State::Warm, 1 << 20));
    let cold = residency::evict(&File::open(at("lower/file")).unwrap()).unwrap();
    assert_eq!(cold.state, residency::of(&file).state, "the layer below tells the same");
    // A single page must not pass for an inaccuracy either.
    fs::write(at("lower/page"), [1]).unwrap();
    let page = File::open(at("merged/page")).unwrap();
    assert_eq!(residency::warm(&page, &NEVER).unwrap().state, State::Warm);
    drop((file, page));
    rustix::mount::unmount(&merged, rustix::mount::UnmountFlags::DETACH).unwrap();
}

#[test]
fn holes_and_unwritten_space_are_no_data() {
    let Some(file) = on_disk() else { return };
    let file = file.as_file();
    // While its pages are being written the file system may tell neither kind of them.
    file.sync_all().unwrap();
    let written = extents::of(file).unwrap();
    assert_eq!((written.data, written.holes, written.unwritten), (4 << 20, 0, 0));
    file.set_len(16 << 20).unwrap();
    file.sync_all().unwrap();
    let longer = extents::of(file).unwrap();
    assert_eq!((longer.data, longer.holes), (4 << 20, 12 << 20));
    assert!((longer.share() - 0.25).abs() < 1e-9);
    match fallocate(file, FallocateFlags::empty(), 8 << 20, 4 << 20) {
        Ok(()) => {
            let reserved = extents::of(file).unwrap();
            assert_eq!(reserved.data, 4 << 20);
            let unwritten = match reserved.by {
                extents::By::Fiemap => 4 << 20,
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
    let many = extents::of(&many).unwrap();
    assert_eq!((many.data, many.pieces), (300 * 4096, 300), "more than one answer holds");
}

#[test]
fn direct_reads_have_an_alignment_or_a_refusal() {
    let Some(file) = on_disk() else { return };
    match look(file.path()).unwrap().direct {
        Direct::Aligned { memory, offset } => {
            assert!(memory.is_power_of_two() && offset.is_power_of_two());
            assert!(offset >= 512);
        }
        Direct::Refused => println!("skipped: direct reads are refused here"),
        Direct::Unsaid => println!("skipped: this kernel does not say"),
    }
    assert_eq!(look(Path::new("/proc")).unwrap().direct, Direct::Refused);
}

#[test]
fn only_root_drops_the_caches_of_all() {
    if !rustix::process::geteuid().is_root() {
        assert!(residency::drop_caches(Drop::Names).is_err());
        return;
    }
    // Names only, and seen from a user without the right: pages are what others measure.
    let refused = std::thread::spawn(|| {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        residency::drop_caches(Drop::Names).unwrap_err().kind()
    });
    assert_eq!(refused.join().unwrap(), std::io::ErrorKind::PermissionDenied);
}
