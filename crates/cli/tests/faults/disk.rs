//! Disks without room, stores of other versions, and several writers at once.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use fathom_lab::{mounts, processes};
use fathom_record::RunState;
use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Place, SHORT};
use crate::{amount, kept, tell};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A command with the store at a path, whatever the environment says.
fn output(place: &Place, arguments: &[&str]) -> Output {
    place.fathom(arguments).output().expect("it starts")
}

/// Takes all the room that is left, but for some bytes.
fn fill(filler: &Path, but: u64) {
    let mut file = std::fs::File::create(filler).expect("a file");
    while file.write_all(&[1; 4096]).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
    let length = file.metadata().expect("facts").len();
    file.set_len(length.saturating_sub(but)).expect("a shorter file");
}

#[test]
fn on_a_full_disk_what_is_kept_stands_and_what_is_not_is_told() {
    let name = "disk::on_a_full_disk_what_is_kept_stands_and_what_is_not_is_told";
    if !mounts::inside(name, |said| println!("{said}")) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "none"])
        .arg(folder.path())
        .status();
    assert!(mounted.is_ok_and(|status| status.success()), "a small disk");
    let place = Place::keeping_at(&folder.path().join("fathom.db"));
    let filler = folder.path().join("filler");
    assert!(output(&place, &["run", "--quick", SHORT[0]]).status.success());
    let first = kept::runs(place.store()).expect("a store").remove(0);
    let (mut endings, mut partly, mut changed, mut claims) = ([0; 2], 0, 0, 0);
    for (at, room) in
        (0..amount(8, 40)).map(|at| (at, 4096 * at as u64 * 40 / amount(8, 40) as u64))
    {
        fill(&filler, room);
        let form = if at % 2 == 0 { "--jsonl" } else { "--cycles" };
        let run = output(&place, &["run", "--quick", form, SHORT[0]]);
        let said = text(&run.stdout) + &text(&run.stderr);
        let code = run.status.code().expect("an exit");
        endings[code as usize] += 1;
        partly += usize::from(said.contains("no longer kept"));
        // Reading needs no room.
        for arguments in [&["show"][..], &["show", "--runs"], &["explain", SHORT[0]]] {
            let shown = output(&place, arguments);
            assert!(shown.status.success(), "with {room} bytes: {}", text(&shown.stderr));
        }
        std::fs::remove_file(&filler).expect("the filler");
        let runs = kept::runs(place.store()).expect("a store");
        if !runs.contains(&first) {
            println!("with {room} bytes: the first run is not as it was");
            changed += 1;
        }
        let whole = runs.len() > 1 && runs[0].run.ended.is_some();
        assert!(said.contains(SHORT[0]), "with {room} bytes nothing was measured: {said}");
        if code != 0 {
            assert!(said.contains("no space left on the device"), "with {room} bytes: {said}");
            assert!(!whole, "with {room} bytes it failed, and the run is whole");
        }
        if !whole && (code == 0 || said.contains("Kept as run")) {
            println!("with {room} bytes: {said}");
            claims += 1;
        }
        // As at the begin, but for what a bigger file keeps.
        restore(&place, &first.run.id);
    }
    let page = format!(
        "## A full disk\n\n\
         | rooms, from none on | all kept (0) | not kept, and said so (1) | first run changed \
         | claims of what is not kept |\n\
         |---|---|---|---|---|\n| {} | {} | {} | {changed} | {claims} |\n",
        endings[0] + endings[1],
        endings[0],
        endings[1]
    );
    tell("6-disk", &page);
    assert_eq!((changed, claims), (0, 0), "{page}");
    assert!(partly > 0 && endings[1] > partly, "at the begin and later: {partly} of {endings:?}");
    assert!(output(&place, &["run", "--quick", SHORT[0]]).status.success());
    std::fs::remove_file(place.store()).expect("the store");
    interrupted_on_a_full_disk(&place, &filler);
}

/// Takes all runs but one out of the store.
fn restore(place: &Place, run_id: &str) {
    let connection = rusqlite::Connection::open(place.store()).expect("a store");
    connection
        .execute_batch(&format!(
            "DELETE FROM samples WHERE record IN (SELECT record.number FROM record JOIN run
                 ON run.number = record.run WHERE run.id <> '{run_id}');
             DELETE FROM record WHERE run IN (SELECT number FROM run WHERE id <> '{run_id}');
             DELETE FROM run WHERE id <> '{run_id}'; VACUUM"
        ))
        .expect("a smaller store");
}

/// A person stops a run that has just lost its store: nobody may say that it is kept.
fn interrupted_on_a_full_disk(place: &Place, filler: &Path) {
    let mut command = place.fathom(&["run", "--quick", "cpu"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // The run has begun when it has a worker.
    for _ in 0..10_000 {
        if !processes::children(run.id()).is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    fill(filler, 0);
    let mut said = String::new();
    std::io::Read::read_to_string(run.stderr.as_mut().expect("a pipe"), &mut said).ok();
    let _ = Pid::from_raw(run.id() as i32).map(|pid| kill_process(pid, Signal::INT));
    let output = run.wait_with_output().expect("it ends");
    let said = said + &text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no longer kept"), "{said}");
    assert!(
        !said.contains("Kept as run") && !said.contains("completed cases are stored"),
        "{said}"
    );
}

#[test]
fn a_newer_store_is_refused_by_every_command_and_left_as_it_is() {
    let place = Place::new();
    assert!(output(&place, &["run", "--quick", SHORT[0]]).status.success());
    let connection = rusqlite::Connection::open(place.store()).expect("a store");
    let newer = fathom_store::VERSION + 1;
    connection.pragma_update(None, "user_version", newer).expect("a newer store");
    drop(connection);
    let before = std::fs::read(place.store()).expect("a file");
    let output_of = |arguments| {
        let output = output(&place, arguments);
        let said = text(&output.stderr);
        // Other runs on this machine are no matter of the store.
        let is_ours = |line: &&str| !line.contains("another fathom run measures");
        let said: String = said.split_inclusive('\n').filter(is_ours).collect();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let expected = format!("a store of version {newer}");
        for part in [&expected, "upgrade fathom", "--store"] {
            assert!(said.contains(part), "{arguments:?}: {said}");
        }
        assert_eq!(std::fs::read(place.store()).expect("a file"), before, "{arguments:?}");
        assert!(place.left_lying().is_empty(), "{arguments:?}");
        (text(&output.stdout), said)
    };
    let (printed, said) = output_of(&["run", "--quick", SHORT[0]]);
    assert!(printed.contains(SHORT[0]) && said.lines().count() == 2, "{printed}{said}");
    let commands: [&[&str]; 5] = [
        &["show"],
        &["show", "--runs"],
        &["compare", "latest", "latest"],
        &["explain", SHORT[0], "--run", "latest"],
        &["explain", SHORT[0]],
    ];
    for arguments in commands {
        let (_, said) = output_of(arguments);
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
}

#[test]
fn runs_that_begin_at_once_on_a_new_store_keep_all_they_print() {
    let rounds = amount(2, 20);
    let [mut printed_all, mut kept_all] = [0, 0];
    for _ in 0..rounds {
        let place = Place::new();
        let arguments = [&["run", "--quick", "--jsonl"][..], &SHORT].concat();
        let runs: Vec<_> = (0..3)
            .map(|_| {
                let mut command = place.fathom(&arguments);
                command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
            })
            .collect();
        let printed: Vec<_> = runs
            .into_iter()
            .map(|run| {
                let output = run.wait_with_output().expect("it ends");
                assert!(output.status.success());
                kept::records(&text(&output.stdout))
            })
            .collect();
        let found = kept::runs(place.store()).expect("a store");
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|run| run.run.state == RunState::Complete));
        for records in printed {
            assert_eq!(records.len(), SHORT.len());
            printed_all += records.len();
            let holders = found.iter().filter(|run| kept::holds(run, &records).is_ok()).count();
            kept_all += holders * records.len();
        }
        assert!(place.left_lying().is_empty());
    }
    let page = format!(
        "## Several writers of one new store\n\n\
         | rounds of three runs at once | records printed | kept, each in one run |\n\
         |---|---|---|\n| {rounds} | {printed_all} | {kept_all} |\n"
    );
    tell("7-writers", &page);
    assert_eq!(printed_all, kept_all);
}
