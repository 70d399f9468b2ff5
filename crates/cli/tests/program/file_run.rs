//! The file metrics of `fathom run`: where they write, what is refused, and cleanup.

use std::path::{Path, PathBuf};
use std::process::Child;

use fathom_lab::processes::children;
use fathom_record::{Cause, State};
use rustix::process::Signal;

use crate::children::{assert_all_end, signal, spawn_piped, wait_until};
use crate::forbidden::{in_mount_namespace, is_measured, missing_records};
use crate::group::skipped;
use crate::test_env::{document, entries, json, of_metric, words};
use crate::{ProgramTestEnv, assert_failure, assert_usage_error, text};

/// A folder for test files on a disk.
fn folder_on_disk(env: &ProgramTestEnv) -> Option<PathBuf> {
    let folder = env.path().join("files");
    std::fs::create_dir(&folder).expect("a folder");
    let class = fathom_fileio::inspect(&folder).map(|found| found.file_system.class);
    if class.is_ok_and(|class| class == fathom_fileio::filesystem::FilesystemClass::Memory) {
        skipped("the folder for temporary files is in memory; set TMPDIR to one on a disk");
        return None;
    }
    Some(folder)
}

/// The command line of a run with this folder.
fn run_line(folder: &Path, more: &str) -> String {
    format!("run --only --folder {} {more}", folder.display())
}

const FILE: &str =
    "file.read.throughput{block=64K} file.write.throughput{block=64K} file.create{bytes=0}";

#[test]
fn file_metrics_are_measured_and_leave_no_file() {
    let env = ProgramTestEnv::new();
    let Some(folder) = folder_on_disk(&env) else { return };
    let document =
        document(&env.exec(&run_line(&folder, &format!("{FILE} --quick --processes 3 --json"))));
    let refused =
        |text: &str| text.contains("direct") || text.contains("larger than the free memory");
    for record in missing_records(&document) {
        let text = &record.verdict.reasons[0].text;
        assert!(refused(text), "{}: {text}", record.name());
    }
    for metric in ["read.throughput", "write.throughput", "create"] {
        let of = of_metric(&document, &format!("file.{metric}"));
        assert!(of.iter().any(|one| is_measured(&document, &one.name())), "file.{metric}");
    }
    assert!(entries(&folder).is_empty(), "{:?}", entries(&folder));
}

#[test]
fn announcement_names_folder_and_size() {
    let env = ProgramTestEnv::new();
    let Some(folder) = folder_on_disk(&env) else { return };
    let announced = |line: &str| words(&text(&env.exec(line).stderr)).join(" ");
    let said = announced(&run_line(&folder, "file.delete{bytes=10K} --quick --processes 3"));
    assert!(said.contains("Test files go to"), "{said}");
    assert!(said.contains("1.250 MiB at a time"), "{said}");
    let none = announced("run --only --quick --processes 3 cpu.clock.resolution");
    assert!(!none.contains("Test files"), "{none}");
}

#[test]
fn memory_folder_needs_allow_memory() {
    let env = ProgramTestEnv::new();
    let memory = Path::new("/dev/shm");
    let class = fathom_fileio::inspect(memory).map(|found| found.file_system.class);
    if !class.is_ok_and(|class| class == fathom_fileio::filesystem::FilesystemClass::Memory) {
        return skipped("/dev/shm is not in memory here");
    }
    let wanted = ["file.delete{bytes=0}", "file.read.latency{state=cold,file_bytes=4K}"];
    let refused = env.exec(&run_line(memory, wanted[0]));
    let why = "tmpfs keeps files in memory";
    assert_failure(&refused, &["/dev/shm", why, "--folder", "--allow-memory"]);
    let by_environment = env.fathom(&["run", wanted[0]]).env("FATHOM_FOLDER", memory).output();
    assert_failure(&by_environment.expect("it starts"), &["/dev/shm", "--folder"]);
    for line in ["file size --block 4K", "file calls", "transfer --sets small"] {
        let elsewhere = env.command(line).env("FATHOM_FOLDER", "/nonexistent").output();
        assert_failure(&elsewhere.expect("it starts"), &["FATHOM_FOLDER /nonexistent"]);
    }
    assert_usage_error(&env.run(&["run", "--allow-memory", wanted[0]]), &["--folder"]);
    let more = format!("{} --allow-memory --quick --processes 3 --json", wanted.join(" "));
    let document = document(&env.exec(&run_line(memory, &more)));
    assert!(is_measured(&document, wanted[0]));
    let cold = of_metric(&document, "file.read.latency")[0];
    assert_eq!(cold.verdict.state, State::Invalid, "{:?}", cold.verdict);
    assert!(cold.verdict.reasons[0].text.contains("requested cold, but WARM"));
}

#[test]
fn full_disk_makes_file_metrics_unavailable() {
    let env = ProgramTestEnv::new();
    let folder = env.path().join("files");
    std::fs::create_dir(&folder).expect("a folder");
    let mount = format!("mount -t tmpfs -o size=8m none {}", folder.display());
    let more = "file.read.latency{state=warm,file_bytes=64M} --allow-memory --quick --json";
    let Some(output) = in_mount_namespace(&env, &mount, &run_line(&folder, more)) else { return };
    let document: fathom_record::Document = json(&output);
    for record in &document.records {
        let reason = &record.verdict.reasons[0];
        assert_eq!((record.verdict.state, reason.cause), (State::Unavailable, Cause::Missing));
        for part in ["needs 130", "which has 8"] {
            assert!(reason.text.contains(part), "{part}: {}", reason.text);
        }
        assert_eq!(reason.remedy, Some(fathom_record::Remedy::FreeSpace));
    }
    assert!(!document.records.is_empty());
}

/// Starts a long run that creates and syncs small files.
fn long_run(env: &ProgramTestEnv, folder: &Path) -> Child {
    spawn_piped(env.command(&run_line(folder, "file.create --thorough --json")))
}

/// How many files the folders of runs have.
fn count_files(folder: &Path) -> usize {
    let runs = entries(folder).into_iter();
    runs.filter_map(|run| Some(std::fs::read_dir(run).ok()?.count())).sum()
}

#[test]
fn killed_worker_leaves_no_file() {
    let env = ProgramTestEnv::new();
    let Some(folder) = folder_on_disk(&env) else { return };
    let child = long_run(&env, &folder);
    wait_until("no worker creates files", || count_files(&folder) > 0);
    for worker in children(child.id()) {
        signal(worker, Signal::KILL);
    }
    let document: fathom_record::Document = json(&child.wait_with_output().expect("it ends"));
    let killed = |reason: &fathom_record::Reason| reason.cause == Cause::Crashed;
    assert!(document.records.iter().any(|one| one.verdict.reasons.iter().any(killed)));
    assert!(entries(&folder).is_empty(), "{:?}", entries(&folder));
}

#[test]
fn next_run_removes_files_of_killed_run() {
    let env = ProgramTestEnv::new();
    let Some(folder) = folder_on_disk(&env) else { return };
    std::fs::write(folder.join("letter"), "foreign").expect("a file");
    let mut child = long_run(&env, &folder);
    wait_until("no worker creates files", || {
        folder
            .read_dir()
            .is_ok_and(|mut runs| runs.any(|run| run.is_ok_and(|it| it.path().is_dir())))
            && !children(child.id()).is_empty()
    });
    let workers = children(child.id());
    signal(child.id(), Signal::KILL);
    child.wait().expect("it was killed");
    assert_all_end(&workers);
    assert_eq!(entries(&folder).len(), 2, "the letter and the folder of the run");
    env.stdout(&run_line(&folder, "file.delete{bytes=0} --processes 3 --quick"));
    assert_eq!(entries(&folder), [folder.join("letter")]);
}
