//! Stores on full, read-only and forbidden file systems, which are mounted in a mount namespace of
//! the test; it ends with the child that runs in it.

use std::path::Path;
use std::process::Command;

use fathom_lab::disk::LabDisk;
use fathom_lab::fuse::FuseMount;
use fathom_record::Document;
use fathom_store::{Store, StoreError};
use rusqlite::Connection;

use crate::{children, example};

const RUN: &str = "0000019514ab3c5d";

/// A name with characters that have a meaning in a URI.
const REST: &str = "at rest?#%41é";

/// The command that enters a mount namespace; inside a user namespace if not root.
fn namespace() -> Vec<&'static str> {
    match rustix::process::geteuid().is_root() {
        true => vec!["unshare", "--mount"],
        false => vec!["unshare", "--user", "--map-root-user", "--mount"],
    }
}

/// Runs a child as `part` with the mounts of `script`, in which `$0` is `folder`. Skips, with a
/// message, where mounting is not allowed.
fn play(script: &str, folder: &Path, part: [&str; 2]) {
    let folder = folder.to_str().unwrap();
    let mut before = namespace();
    let try_out = ["sh", "-c", "mount -t tmpfs none \"$0\"", folder];
    let allowed = Command::new(before[0]).args(&before[1..]).args(try_out).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        children::skipped("mounting a file system needs root or user namespaces");
        return;
    }
    let script = format!("{script} && exec \"$@\"");
    before.extend(["sh", "-c", &script, folder]);
    let mut child = children::command(&before, &part).spawn().unwrap();
    let output: Vec<String> = children::lines_of(&mut child).collect();
    assert!(child.wait().unwrap().success(), "the child failed, see above");
    assert_eq!(output.last().map(String::as_str), Some("done"));
}

#[test]
fn full_disk_keeps_finished_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fathom.db");
    let script = "mount -t tmpfs -o size=2048k none \"$0\"";
    play(script, folder.path(), ["fill", path.to_str().unwrap()]);
}

/// Runs in a file system of 2 MiB.
pub(crate) fn fill(path: &Path) {
    let filler = path.with_file_name("filler");
    std::fs::write(&filler, vec![0; 512 << 10]).unwrap();
    let rested = path.with_file_name("rested.db");
    drop(Store::open(&rested).unwrap());
    let mut stored = 3;
    let mut store = example::store_at(path, RUN, stored);
    // As left by a writer that is killed now: a log without its index.
    let killed = path.with_file_name("killed.db");
    for suffix in ["", "-wal"] {
        let of = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(of(path), of(&killed)).unwrap();
    }
    let error = loop {
        match example::add(&mut store, RUN, &example::record(stored)) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(stored > 3, "no record was stored before the disk was full");
    let expected = |path: &Path, action: &str| {
        format!("{action} {}: no space left on the device", path.display())
    };
    assert_eq!(error.to_string(), expected(path, "write"));
    is_intact(path, &store.document(RUN, true).unwrap(), stored);

    // To the last byte: no room for the small files of a reader or of another store.
    let last = path.with_file_name("last");
    let mut room = std::fs::File::create(last).unwrap();
    while std::io::Write::write_all(&mut room, &[0; 512]).is_ok() {}
    for other in [&path.with_file_name("new.db"), &rested] {
        let error = Store::open(other).unwrap_err();
        assert_eq!(error.to_string(), expected(other, "open"));
    }
    assert!(!path.with_file_name("new.db").exists(), "no file without tables is left");
    // Reading needs no room.
    assert!(Store::open_existing(&rested).unwrap().runs().unwrap().is_empty());
    for (path, stored) in [(path, stored), (&killed, 3)] {
        let document = Store::open_existing(path).unwrap().document(RUN, true).unwrap();
        let expected = example::records(stored);
        assert!(document.records == expected, "{}: not what was stored", path.display());
    }

    // A run killed on the full disk, opened by the next program.
    std::mem::forget(store);
    std::fs::remove_file(&filler).unwrap();
    let mut store = Store::open(path).unwrap();
    is_intact(path, &store.document(RUN, true).unwrap(), stored);
    example::add(&mut store, RUN, &example::record(stored)).unwrap();
    is_intact(path, &store.document(RUN, true).unwrap(), stored + 1);
}

/// The outline has the same content as the whole run.
fn has_history(store: &Store) {
    let whole = store.document(RUN, false).unwrap();
    assert!(!whole.records.is_empty());
    assert_eq!(example::history(store), [example::outline(whole)]);
}

fn is_intact(path: &Path, document: &Document, records: u64) {
    let expected = example::records(records);
    assert!(document.records == expected, "the records are not those acknowledged");
    example::is_whole(path);
}

/// Stores in a folder that is then mounted read-only: closed; with the log of a killed writer; with
/// a live writer; and with a transaction interrupted by a kill.
#[test]
fn store_on_read_only_file_system_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let store_in = |name: &str| {
        let path = folder.path().join(name).join("fathom.db");
        std::fs::create_dir(folder.path().join(name)).unwrap();
        let store = example::store_at(&path, RUN, 3);
        (path, store)
    };
    drop(store_in(REST));
    let (path, _writer) = store_in("work");
    let killed = folder.path().join("killed");
    std::fs::create_dir(&killed).unwrap();
    for name in ["fathom.db", "fathom.db-wal"] {
        std::fs::copy(path.with_file_name(name), killed.join(name)).unwrap();
    }
    half_changed(&path, &folder.path().join("half"));
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
    let part = ["read only", folder.path().to_str().unwrap()];
    play(script, folder.path(), part);
}

/// Leaves in `folder` what a power cut leaves of `path` in the middle of a change, with a rollback
/// journal.
fn half_changed(path: &Path, folder: &Path) {
    let scratch = folder.with_extension("scratch.db");
    std::fs::create_dir(folder).unwrap();
    let source = Connection::open(path).unwrap();
    source.execute("VACUUM INTO ?1", [scratch.to_str().unwrap()]).unwrap();
    let torn = Connection::open(&scratch).unwrap();
    // With room for one page in memory, the change reaches the file before the commit.
    let change = "PRAGMA cache_size = 1; BEGIN; UPDATE samples SET body = zeroblob(90000)";
    torn.execute_batch(change).unwrap();
    for suffix in ["", "-journal"] {
        let from = format!("{}{suffix}", scratch.display());
        std::fs::copy(from, folder.join(format!("fathom.db{suffix}"))).unwrap();
    }
}

/// Runs where no store is writable.
pub(crate) fn read_only(folder: &Path) {
    assert!(std::fs::write(folder.join("x"), "").is_err(), "the folder is writable");
    for name in [REST, "killed", "work"] {
        let path = folder.join(name).join("fathom.db");
        let store = Store::open_existing(&path).unwrap();
        has_history(&store);
        let document = store.document(RUN, true).unwrap();
        assert!(document.records == example::records(3), "{name}: not what was stored");
        is_refused(&path, "read-only file system");
    }
    let error = Store::open_existing(&folder.join("half/fathom.db")).unwrap_err();
    assert!(matches!(error, StoreError::NeedsRecovery { .. }), "{error}");
    is_refused(&folder.join("fathom.db"), "read-only file system");
}

fn is_refused(path: &Path, why: &str) {
    // `examine` reports the same.
    for error in [Store::open(path).map(drop), Store::examine(path)] {
        let message = error.unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}

/// Locks and shared memory of SQLite do not work between the machines that mount it.
#[test]
fn store_on_a_network_file_system_is_only_read() {
    fathom_lab::isolate_mounts!();
    let (_local, local_path, store) = example::store_with(RUN, 2);
    drop(store);
    let folder = tempfile::tempdir().unwrap();
    let _mount = FuseMount::of_type(&LabDisk::new(), folder.path(), "fuse.sshfs").unwrap();
    let [path, new] = ["fathom.db", "new.db"].map(|name| folder.path().join(name));
    std::fs::write(&path, std::fs::read(&local_path).unwrap()).unwrap();
    for path in [&path, &new] {
        is_refused(
            path,
            "on fuse.sshfs, a network file system, where SQLite can destroy the store",
        );
    }
    assert!(!new.exists());
    let read = || Store::open_existing(&path).and_then(|store| store.document(RUN, true));
    assert_eq!(read().unwrap().records, example::records(2));
    // A writer on another machine may be in the middle of a change.
    for suffix in ["-wal", "-journal"] {
        let beside = folder.path().join(format!("fathom.db{suffix}"));
        std::fs::write(&beside, "").unwrap();
        let error = read().unwrap_err();
        assert!(matches!(error, StoreError::OnNetwork { .. }), "{error}");
        std::fs::remove_file(&beside).unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a file was left beside it");
}

/// Removes write permission from a folder, and restores it when dropped.
struct Forbidden<'a>(&'a Path);

impl<'a> Forbidden<'a> {
    /// `None` where that is impossible. Mode bits do not bind root; the immutable flag does.
    fn new(folder: &'a Path) -> Option<Self> {
        Self::set(folder, "+i", "0500").then_some(Self(folder))
    }

    fn set(folder: &Path, flag: &str, mode: &str) -> bool {
        let (program, word) = match rustix::process::geteuid().is_root() {
            true => ("chattr", flag),
            false => ("chmod", mode),
        };
        let output = Command::new(program).arg(word).arg(folder).output();
        output.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Forbidden<'_> {
    fn drop(&mut self) {
        Self::set(self.0, "-i", "0700");
    }
}

#[test]
fn forbidden_folder_is_named_and_readable() {
    let (folder, path, store) = example::store_with(RUN, 2);
    drop(store);
    let Some(forbidden) = Forbidden::new(folder.path()) else {
        children::skipped("chattr +i needs root and a file system that knows it");
        return;
    };
    for name in ["fathom.db", "new.db"] {
        is_refused(&folder.path().join(name), "permission denied");
    }
    let document = Store::open_existing(&path).unwrap().document(RUN, true).unwrap();
    assert_eq!(document.records.len(), 2);
    drop(forbidden);
    Store::open(&path).unwrap();
}
