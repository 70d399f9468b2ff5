//! `fathom file write` as a person uses it: what is written is what is read, and what goes wrong
//! leaves nothing behind.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use fathom_lab::mounts;
use fathom_record::Document;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, Signal};

use crate::children::{piped, send};
use crate::file_read::skipped_or_said;
use crate::limits::{at_most, under};
use crate::place::{Folder, ends_with, json, left, median, says};
use crate::{Place, fails, text};

/// Names in a folder, without the store's.
fn names(folder: &Path) -> Vec<String> {
    let paths = left(folder);
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str()).map(str::to_owned);
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("fathom")).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_what_is_read() {
    let place = Place::new();
    for (name, block, count, sync) in
        [("a", "1000", "17", "none"), ("b", "64K", "3", "data"), ("c", "1", "100", "every")]
    {
        let path = place.name(name);
        let how = format!("--block {block} --count {count} --sync {sync}");
        let written: Document = json(&place.ask(&format!("file write {path} {how} --json")));
        let written = &written.records[0];
        assert_eq!(written.metric.as_str(), "file.write.throughput");
        let read: Document = json(&place.ask(&format!("file read {path} --block 777 --json")));
        for name in ["XOR-32", "position sum", "bytes"] {
            assert_eq!(written.checks.get(name), read.records[0].checks.get(name), "{name}");
        }
    }
}

#[test]
fn data_sync_and_close_are_told_apart_and_the_headline_is_all_of_them() {
    let place = Place::new();
    let path = place.name("data");
    let output = place.ask(&format!("file write {path} --block 64K --count 16 --sync data"));
    let parts = ["data ", "sync ", "close ", "total ", "naming the file", "XOR-32", "MiB/s"];
    says(&text(&output.stdout), &parts);
    let kept = place.latest();
    let record = &kept.records[0];
    let ns = |name: &str| {
        let text = record.checks.get(name).expect("a part");
        text.trim_end_matches(" ns").parse::<f64>().expect("a time")
    };
    let total = ns("data") + ns("sync") + ns("close");
    let rate = median(record);
    assert!((rate * total / 1e9 / 1_048_576.0 - 1.0).abs() < 1e-3, "{rate} {total}");
    assert!(ns("sync") > 0.0);
}

#[test]
fn a_sync_where_no_device_is_cannot_be_believed_without_a_word() {
    let place = Place::new();
    let Some(folder) = Folder::in_memory() else { return };
    let write = format!("file write {}/data --block 64K --count 4 --sync data", folder.name());
    says(&text(&place.ask(&write).stdout), &["noisy", "tmpfs is not on a device"]);
}

#[test]
fn what_is_there_is_replaced_only_by_force() {
    let place = Place::new();
    let path = place.path().join("there");
    fs::write(&path, b"mine").expect("a file");
    let write = format!("file write {} --block 4K --count 2", path.display());
    fails(&place.ask(&write), &["there", "--force"]);
    assert_eq!(fs::read(&path).expect("a file"), b"mine");
    place.said(&format!("{write} --force"));
    assert_eq!(fs::metadata(&path).expect("a file").len(), 8192);
}

#[test]
fn mistakes_are_one_line_and_leave_nothing() {
    let place = Place::new();
    fs::create_dir(place.file("folder")).expect("a folder");
    let here = place.path().display();
    let table = format!(
        "{here}/folder --block 1 --count 1 | directory
        {here}/no/where --block 1 --count 1 | No such file"
    );
    place.fails("file write", &table);
    let table = format!(
        "{here}/free --block 0 --count 1 | `0` | 1 to
        {here}/free --block 1G --count 1e12 | 2^63
        {here}/free --block 1 | --count"
    );
    place.refuses("file write", &table);
    assert_eq!(names(place.path()), ["folder"]);
}

#[test]
fn ctrl_c_and_a_kill_leave_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let place = Place::new();
        let path = place.name("large");
        let write = format!("file write {path} --block 4K --count 1e6 --sync every");
        let child = piped(place.asked(&write));
        std::thread::sleep(Duration::from_millis(500));
        send(&child, signal);
        let output = child.wait_with_output().expect("it ends");
        match signal {
            Signal::KILL => assert_eq!(output.status.signal(), Some(9)),
            _ => {
                ends_with(&output, 130);
                says(&text(&output.stderr), &["nothing is left"]);
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
    let refused = "62.50 MiB to write | 1 MiB free";
    let at = small.path().display();
    place.fails("file write", &format!("{at}/data --block 64K --count 1000 | {refused}"));
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
    let at = fixed.path().display();
    let refused = "Read-only file system";
    place.fails("file write", &format!("{at}/data --block 64K --count 1 | {refused}"));
}

#[test]
fn a_limit_on_the_size_of_files_ends_it_with_nothing_left() {
    let place = Place::new();
    let write = format!("file write {} --block 64K --count 1000", place.name("data"));
    let output = under(place.asked(&write), at_most(Resource::Fsize, 1 << 20));
    ends_with(&output, 1);
    says(&text(&output.stderr), &["File too large", "nothing is left"]);
    assert_eq!(names(place.path()), [""; 0]);
}
