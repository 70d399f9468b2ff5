//! The file group of `fathom run`: where it writes, what it refuses, and that nothing stays.

use std::path::{Path, PathBuf};
use std::process::Child;

use fathom_record::{Cause, State};
use rustix::process::Signal;

use crate::children::{all_end, children, eventually, piped, signal};
use crate::forbidden::{has_number, within, without_number};
use crate::group::skipped;
use crate::place::{document, json, left, unwrapped};
use crate::{Place, fails, is_refused, text};

/// A folder for files in the place, which must lie on a device.
fn folder(place: &Place) -> Option<PathBuf> {
    let folder = place.path().join("files");
    std::fs::create_dir(&folder).expect("a folder");
    let class = fathom_fileio::inspect(&folder).map(|found| found.file_system.class);
    if class.is_ok_and(|class| class == fathom_fileio::filesystem::Class::Memory) {
        skipped("the folder for temporary files is in memory; set TMPDIR to one on a device");
        return None;
    }
    Some(folder)
}

/// The line of a run with this folder, and more.
fn asked(folder: &Path, more: &str) -> String {
    format!("run --only --folder {} {more}", folder.display())
}

#[test]
fn every_metric_of_files_has_a_number_and_the_folder_is_as_it_was() {
    let place = Place::new();
    let Some(folder) = folder(&place) else { return };
    let document = document(&place.ask(&asked(&folder, "file --quick --json")));
    let refused = |text: &str| text.contains("direct") || text.contains("larger than the free memory");
    for record in without_number(&document) {
        let text = &record.verdict.reasons[0].text;
        assert!(refused(text), "{}: {text}", record.name());
    }
    for metric in ["call", "read.throughput", "read.latency", "write.throughput", "create"] {
        let is_there = document.records.iter().any(|record| {
            record.metric.as_str() == format!("file.{metric}") && record.verdict.shows_number()
        });
        assert!(is_there, "file.{metric}");
    }
    let cold = document.records.iter().find(|record| record.params.text("state") == Some("cold"));
    let told = &cold.expect("a cold case").checks["in memory"];
    assert!(told.contains("COLD: 0 of"), "{told}");
    assert!(left(&folder).is_empty(), "{:?}", left(&folder));
}

#[test]
fn it_says_beforehand_where_it_writes_and_how_much() {
    let place = Place::new();
    let Some(folder) = folder(&place) else { return };
    // A long name is broken over lines.
    let said = unwrapped(&place.ask(&asked(&folder, "file.delete --quick")));
    let at = said.find("Files are written to").expect("an announcement");
    assert!(at < said.find("file.delete file deletion").expect("a row"), "{said}");
    assert!(said.contains("1.250 MiB at a time"), "{said}");
    let none = place.ask("run --only --quick cpu.clock.resolution");
    assert!(!text(&none.stdout).contains("Files"), "{}", text(&none.stdout));
}

#[test]
fn a_folder_in_memory_is_refused_unless_that_is_wanted() {
    let place = Place::new();
    let memory = Path::new("/dev/shm");
    let class = fathom_fileio::inspect(memory).map(|found| found.file_system.class);
    if !class.is_ok_and(|class| class == fathom_fileio::filesystem::Class::Memory) {
        return skipped("/dev/shm is not in memory here");
    }
    let wanted = ["file.call{call=read1}", "file.read.latency{state=cold,file_bytes=4K}"];
    let refused = place.ask(&asked(memory, wanted[0]));
    let why = "tmpfs keeps files in memory";
    fails(&refused, &["/dev/shm", why, "--folder", "--allow-memory"]);
    let by_environment = place.fathom(&["run", wanted[0]]).env("FATHOM_FOLDER", memory).output();
    fails(&by_environment.expect("it starts"), &["/dev/shm", "--folder"]);
    is_refused(&place.run(&["run", "--allow-memory", wanted[0]]), &["--folder"]);
    let more = format!("{} --allow-memory --quick --json", wanted.join(" "));
    let document = document(&place.ask(&asked(memory, &more)));
    assert!(has_number(&document, wanted[0]));
    let cold = document.records.last().expect("a record");
    assert_eq!(cold.verdict.state, State::Invalid, "{:?}", cold.verdict);
    assert!(cold.verdict.reasons[0].text.contains("requested cold, but WARM"));
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    let place = Place::new();
    let nowhere = place.path().join("nowhere");
    fails(&place.ask(&asked(&nowhere, "file.call")), &["nowhere", "No such file"]);
    fails(&place.ask(&asked(&place.store(), "file.call")), &["fathom.db"]);
}

#[test]
fn a_disk_without_room_is_not_filled() {
    let place = Place::new();
    let folder = place.path().join("files");
    std::fs::create_dir(&folder).expect("a folder");
    let mount = format!("mount -t tmpfs -o size=8m none {}", folder.display());
    let more = "file.read.latency{state=warm,file_bytes=64M} --allow-memory --quick --json";
    let Some(output) = within(&place, &mount, &asked(&folder, more)) else { return };
    let document: fathom_record::Document = json(&output);
    for record in &document.records {
        let reason = &record.verdict.reasons[0];
        assert_eq!((record.verdict.state, reason.cause), (State::Unavailable, Cause::Missing));
        for part in ["needs 130", "there are 8"] {
            assert!(reason.text.contains(part), "{part}: {}", reason.text);
        }
        assert_eq!(reason.remedy, Some(fathom_record::Remedy::FreeSpace));
    }
    assert!(!document.records.is_empty());
}

/// A run that makes and syncs small files for a long time.
fn long_run(place: &Place, folder: &Path) -> Child {
    piped(place.asked(&asked(folder, "file.create --thorough --json")))
}

/// The files in a run's own folder.
fn files_under_way(folder: &Path) -> usize {
    let runs = left(folder).into_iter();
    runs.filter_map(|run| Some(std::fs::read_dir(run).ok()?.count())).sum()
}

#[test]
fn a_killed_worker_leaves_no_file() {
    let place = Place::new();
    let Some(folder) = folder(&place) else { return };
    let child = long_run(&place, &folder);
    eventually("no worker makes files", || files_under_way(&folder) > 0);
    for worker in children(child.id()) {
        signal(worker, Signal::KILL);
    }
    let document: fathom_record::Document = json(&child.wait_with_output().expect("it ends"));
    let killed = |reason: &fathom_record::Reason| reason.cause == Cause::Crashed;
    assert!(document.records.iter().any(|one| one.verdict.reasons.iter().any(killed)));
    assert!(left(&folder).is_empty(), "{:?}", left(&folder));
}

#[test]
fn what_a_killed_run_leaves_the_next_one_takes_away() {
    let place = Place::new();
    let Some(folder) = folder(&place) else { return };
    std::fs::write(folder.join("letter"), "foreign").expect("a file");
    let mut child = long_run(&place, &folder);
    eventually("no worker makes files", || {
        folder
            .read_dir()
            .is_ok_and(|mut runs| runs.any(|run| run.is_ok_and(|it| it.path().is_dir())))
            && !children(child.id()).is_empty()
    });
    let workers = children(child.id());
    signal(child.id(), Signal::KILL);
    child.wait().expect("it was killed");
    all_end(&workers);
    assert_eq!(left(&folder).len(), 2, "the letter, and the folder of the run");
    place.said(&asked(&folder, "file.delete{bytes=0} --quick"));
    assert_eq!(left(&folder), [folder.join("letter")]);
}
