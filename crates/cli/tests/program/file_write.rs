//! `fathom file write` as a person uses it: what is written is what is read, and what goes wrong
//! leaves nothing behind.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fathom_lab::mounts;
use fathom_record::Document;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process};

use crate::file_read::skipped_or_said;
use crate::group::skipped;
use crate::{Place, is_refused, text};

/// Names in a folder, without the store's.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> =
        entries.map(name).filter(|name| !name.starts_with("fathom")).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_what_is_read() {
    let place = Place::new();
    for (name, block, count, sync) in
        [("a", "1000", "17", "none"), ("b", "64K", "3", "data"), ("c", "1", "100", "every")]
    {
        let path = place.path().join(name);
        let path = path.to_str().expect("a name");
        let arguments = ["file", "write", path, "--block", block, "--count", count, "--sync", sync];
        let output = place.run(&[&arguments[..], &["--json"]].concat());
        let written: Document = serde_json::from_slice(&output.stdout).expect("a document");
        let written = &written.records[0];
        assert_eq!(written.metric.as_str(), "file.write.throughput");
        let output = place.run(&["file", "read", path, "--block", "777", "--json"]);
        let read: Document = serde_json::from_slice(&output.stdout).expect("a document");
        for name in ["XOR-32", "position sum", "bytes"] {
            assert_eq!(written.checks.get(name), read.records[0].checks.get(name), "{name}");
        }
    }
}

#[test]
fn data_sync_and_close_are_told_apart_and_the_headline_is_all_of_them() {
    let place = Place::new();
    let path = place.path().join("data");
    let path = path.to_str().expect("a name");
    let arguments = ["file", "write", path, "--block", "64K", "--count", "16", "--sync", "data"];
    let output = place.run(&arguments);
    let said = text(&output.stdout);
    for part in ["data ", "sync ", "close ", "total ", "giving it its", "XOR-32", "MiB/s"] {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
    let kept = place.latest();
    let record = &kept.records[0];
    let ns = |name: &str| {
        let text = record.checks.get(name).expect("a part");
        text.trim_end_matches(" ns").parse::<f64>().expect("a time")
    };
    let total = ns("data") + ns("sync") + ns("close");
    let rate = record.summary.as_ref().expect("a summary").median;
    assert!((rate * total / 1e9 / 1_048_576.0 - 1.0).abs() < 1e-3, "{rate} {total}");
    assert!(ns("sync") > 0.0);
}

#[test]
fn a_sync_where_no_device_is_cannot_be_believed_without_a_word() {
    let place = Place::new();
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("there is no /dev/shm to write to");
    };
    let path = folder.path().join("data");
    if fathom_fileio::look(folder.path()).is_ok_and(|at| at.file_system.name != "tmpfs") {
        return skipped("/dev/shm is no tmpfs here");
    }
    let path = path.to_str().expect("a name");
    let arguments = ["file", "write", path, "--block", "64K", "--count", "4", "--sync", "data"];
    let said = text(&place.run(&arguments).stdout);
    assert!(said.contains("noisy") && said.contains("tmpfs is no device"), "{said}");
}

#[test]
fn what_is_there_is_replaced_only_by_force() {
    let place = Place::new();
    let path = place.path().join("there");
    fs::write(&path, b"mine").expect("a file");
    let name = path.to_str().expect("a name");
    let arguments = ["file", "write", name, "--block", "4K", "--count", "2"];
    is_refused(&place.run(&arguments), &["there", "--force"]);
    assert_eq!(fs::read(&path).expect("a file"), b"mine");
    let output = place.run(&[&arguments[..], &["--force"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(fs::metadata(&path).expect("a file").len(), 8192);
}

#[test]
fn mistakes_are_one_line_and_leave_nothing() {
    let place = Place::new();
    let folder = place.path().join("folder");
    fs::create_dir(&folder).expect("a folder");
    let folder = folder.to_str().expect("a name");
    let nowhere = place.path().join("no/where");
    let nowhere = nowhere.to_str().expect("a name");
    let free = place.path().join("free");
    let free = free.to_str().expect("a name");
    let cases: [(&[&str], &[&str]); 5] = [
        (&[folder, "--block", "1", "--count", "1"], &["directory"]),
        (&[nowhere, "--block", "1", "--count", "1"], &["No such file"]),
        (&[free, "--block", "0", "--count", "1"], &["0 bytes"]),
        (&[free, "--block", "1G", "--count", "1e12"], &["2^63"]),
        (&[free, "--block", "1"], &["--count"]),
    ];
    for (arguments, parts) in cases {
        is_refused(&place.run(&[&["file", "write"], arguments].concat()), parts);
    }
    assert_eq!(names(place.path()), ["folder"]);
}

#[test]
fn ctrl_c_and_a_kill_leave_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let place = Place::new();
        let path = place.path().join("large");
        let path = path.to_str().expect("a name");
        let arguments = ["file", "write", path, "--block", "4K", "--count", "1e6"];
        let mut command = place.fathom(&[&arguments[..], &["--sync", "every"]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(500));
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        match signal {
            Signal::KILL => assert_eq!(output.status.signal(), Some(9)),
            _ => {
                assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
                assert!(text(&output.stderr).contains("nothing is left"));
            }
        }
        assert_eq!(names(place.path()), [""; 0], "{signal:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_the_disk_is_full() {
    let test = "file_write::what_does_not_fit_is_refused_before_the_disk_is_full";
    if !mounts::inside(test, skipped_or_said) {
        return;
    }
    let place = Place::new();
    let small = tempfile::tempdir().expect("a folder");
    mount("none", small.path(), "tmpfs", MountFlags::empty(), c"size=1m").expect("a mount");
    let path = small.path().join("data");
    let path = path.to_str().expect("a name");
    let output = place.run(&["file", "write", path, "--block", "64K", "--count", "1000"]);
    is_refused(&output, &["62.50 MiB are to be written", "1 MiB are free"]);
    assert_eq!(names(small.path()), [""; 0]);
}

#[test]
fn a_file_system_for_reading_only_is_refused() {
    let test = "file_write::a_file_system_for_reading_only_is_refused";
    if !mounts::inside(test, skipped_or_said) {
        return;
    }
    let place = Place::new();
    let fixed = tempfile::tempdir().expect("a folder");
    mount("none", fixed.path(), "tmpfs", MountFlags::RDONLY, c"size=1m").expect("a mount");
    let path = fixed.path().join("data");
    let path = path.to_str().expect("a name");
    let output = place.run(&["file", "write", path, "--block", "64K", "--count", "1"]);
    is_refused(&output, &["Read-only file system"]);
}

#[test]
fn a_limit_on_the_size_of_files_ends_it_with_nothing_left() {
    let place = Place::new();
    let path = place.path().join("data");
    let path = path.to_str().expect("a name");
    let mut command = place.fathom(&["file", "write", path, "--block", "64K", "--count", "1000"]);
    let limit = || {
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        // SAFETY: the limit outlives the call.
        match unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: one system call between fork and exec, and no heap.
    unsafe { command.pre_exec(limit) };
    let output = command.output().expect("it starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?} {said}", output.status);
    assert!(said.contains("File too large") && said.contains("nothing is left"), "{said}");
    assert_eq!(names(place.path()), [""; 0]);
}
