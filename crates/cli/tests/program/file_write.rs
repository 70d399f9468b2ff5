//! `fathom file write`: contents, timing and cleanup.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use fathom_record::Document;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, Signal};

use crate::children::{send, spawn_until_io};
use crate::limits::{at_most, under};
use crate::test_env::{
    TestEnvFolder, assert_contains, assert_message, assert_status, entries, json, median,
};
use crate::{ProgramTestEnv, text};

/// The names in a folder, without those of the store.
fn names(folder: &Path) -> Vec<String> {
    let paths = entries(folder);
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str()).map(str::to_owned);
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("fathom")).collect();
    names.sort();
    names
}

#[test]
fn written_checksum_matches_read_checksum() {
    let env = ProgramTestEnv::new();
    for (name, block, count, sync) in
        [("a", "1000", "17", "none"), ("b", "64K", "3", "data"), ("c", "1", "100", "every")]
    {
        let path = env.path_text(name);
        let how = format!("--block {block} --count {count} --sync {sync}");
        let written: Document = json(&env.exec(&format!("file write {path} {how} --json")));
        let written = &written.records[0];
        assert_eq!(written.metric.as_str(), "file.write.throughput");
        assert_eq!(written.quantity_of("sync").is_some(), sync != "none", "{sync}");
        let read: Document = json(&env.exec(&format!("file read {path} --block 777 --json")));
        for name in ["XOR-32", "position sum", "bytes"] {
            assert_eq!(written.checks.get(name), read.records[0].checks.get(name), "{name}");
        }
    }
}

#[test]
fn headline_includes_sync_and_close() {
    let env = ProgramTestEnv::new();
    let path = env.path_text("data");
    let output = env.exec(&format!("file write {path} --block 64K --count 16 --sync data"));
    let parts = ["data ", "sync ", "close ", "total ", "naming the file", "XOR-32", "iB/s"];
    assert_contains(&text(&output.stdout), &parts);
    let kept = env.latest();
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
fn sync_on_tmpfs_is_named() {
    let env = ProgramTestEnv::new();
    let Some(folder) = TestEnvFolder::in_memory() else { return };
    let write = format!("file write {}/data --block 64K --count 4 --sync data", folder.path_text());
    assert_contains(&text(&env.exec(&write).stdout), &["tmpfs is not on a device"]);
}

#[test]
fn signals_leave_no_file() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let env = ProgramTestEnv::new();
        let path = env.path_text("large");
        let write = format!("file write {path} --block 4K --count 1e6 --sync every");
        let child = spawn_until_io(&env, &write, "wchar", 64 << 10);
        send(&child, signal);
        let output = child.wait_with_output().expect("it ends");
        match signal {
            Signal::KILL => assert_eq!(output.status.signal(), Some(9)),
            _ => {
                assert_status(&output, 130);
                assert_contains(&text(&output.stderr), &["nothing is left"]);
            }
        }
        assert_eq!(names(env.path()), [""; 0], "{signal:?}");
    }
}

#[test]
fn too_large_file_is_refused_first() {
    fathom_lab::isolate_mounts!();
    let env = ProgramTestEnv::new();
    let small = tempfile::tempdir().expect("a folder");
    mount("none", small.path(), "tmpfs", MountFlags::empty(), c"size=1m").expect("a mount");
    let refused = "62.50 MiB to write | 1 MiB free";
    let at = small.path().display();
    env.assert_failures("file write", &format!("{at}/data --block 64K --count 1000 | {refused}"));
    assert_eq!(names(small.path()), [""; 0]);
}

#[test]
fn read_only_file_system_fails() {
    fathom_lab::isolate_mounts!();
    let env = ProgramTestEnv::new();
    let fixed = tempfile::tempdir().expect("a folder");
    mount("none", fixed.path(), "tmpfs", MountFlags::RDONLY, c"size=1m").expect("a mount");
    let at = fixed.path().display();
    let refused = "Read-only file system";
    env.assert_failures("file write", &format!("{at}/data --block 64K --count 1 | {refused}"));
}

#[test]
fn file_size_limit_leaves_no_file() {
    let env = ProgramTestEnv::new();
    let write = format!("file write {} --block 64K --count 1000", env.path_text("data"));
    let output = under(env.command(&write), at_most(Resource::Fsize, 1 << 20));
    assert_message(&output, 1, &["File too large", "nothing is left"]);
    assert_eq!(names(env.path()), [""; 0]);
}
