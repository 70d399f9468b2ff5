//! Power cuts while the program runs, on a disk that keeps only what was synced.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use fathom_lab::disk::{LabDisk, Survivors};
use fathom_lab::fuse::FuseMount;
use fathom_lab::processes;
use fathom_lab::seeded::Seeded;
use fathom_record::{Document, Record, RunState};

use crate::test_env::{RUN, SHORT, TestEnv};
use crate::{is_soak, scaled, stored, text, write_section};

/// The store on the disk.
const STORE: &str = "share/fathom/fathom.db";

/// What the program acknowledged, after how many changes of the disk.
struct PowerAcknowledged {
    changes: usize,
    what: What,
}

enum What {
    /// By a line of `--jsonl`.
    Record(Box<Record>),
    /// By "Kept as run" or by exit status 0.
    WholeRun,
}

#[test]
fn power_cut_keeps_printed_records() {
    fathom_lab::isolate_mounts!();
    let disk = LabDisk::recording();
    let folder = tempfile::tempdir().expect("a folder");
    let mount = FuseMount::new(&disk, folder.path()).expect("a mount");
    let env = TestEnv::with_store(&folder.path().join(STORE));
    let runs = [run(&env, &disk, "--jsonl"), run(&env, &disk, "--cycles")];
    assert!(env.running_processes().is_empty());
    drop(mount);
    let (changes, cuts) = (disk.changes(), scaled(12, 600));
    let (mut past, mut seeds) = (disk.past(), Seeded(5));
    let (mut rows, mut broken) = ([[0; 3]; 2], Vec::new());
    for cut in (0..cuts).map(|at| at * changes / (cuts - 1)) {
        past.go_to(cut);
        for (row, survivors) in rows.iter_mut().zip([Survivors::None, Survivors::Some(seeds.any())])
        {
            let left = past.after_power_cut(survivors);
            let count = runs.iter().flatten().filter(|one| one.changes <= cut).count();
            row[0] += 1;
            row[1] += count;
            match check(&left, cut, &runs) {
                Ok(()) => row[2] += count,
                Err(why) => {
                    broken.push(format!("after `{}` with {survivors:?}: {why}", past.last()));
                }
            }
            if is_soak() && cut % (cuts / 3) == 1 || cut == changes {
                use_again(&left);
            }
        }
    }
    let [none, some] = rows.map(|[cuts, before, kept]| format!("{cuts} | {before} | {kept}"));
    let page = format!(
        "## Power cuts\n\nTwo runs, {changes} changes of the disk.\n\n\
         | unsynced data that is kept | cuts | acknowledged before (a record or a whole run) \
         | kept |\n|---|---|---|---|\n| none | {none} |\n| a random part | {some} |\n"
    );
    write_section("5-power", &page);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Runs the program; what it acknowledged.
fn run(env: &TestEnv, disk: &LabDisk, format: &str) -> Vec<PowerAcknowledged> {
    let mut run = env.spawn(&[&RUN, &[format][..], &SHORT].concat());
    let mut acknowledged = Vec::new();
    for line in BufReader::new(run.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("a line");
        let what = match line.as_str() {
            line if line.starts_with('{') && line.contains("\"verdict\":") => {
                What::Record(serde_json::from_str(line).expect("a record"))
            }
            line if line.starts_with("Kept as run") => What::WholeRun,
            _ => continue,
        };
        acknowledged.push(PowerAcknowledged { changes: disk.changes(), what });
    }
    assert!(run.wait().expect("it ends").success());
    acknowledged.push(PowerAcknowledged { changes: disk.changes(), what: What::WholeRun });
    acknowledged
}

/// Checks that the disk has everything that was acknowledged before the cut.
fn check(
    left: &LabDisk,
    cut: usize,
    acknowledged: &[Vec<PowerAcknowledged>; 2],
) -> Result<(), String> {
    // In memory, where a sync is fast.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.map_err(|error| error.to_string())?;
    left.copy_to(folder.path()).map_err(|error| error.to_string())?;
    let before =
        |run: &Vec<PowerAcknowledged>| run.iter().take_while(|one| one.changes <= cut).count();
    let store = folder.path().join(STORE);
    let mut runs = match stored::runs(&store) {
        Err(_) if acknowledged.iter().all(|run| before(run) == 0) => return Ok(()),
        runs => runs?,
    };
    // Oldest first, as they were acknowledged.
    runs.reverse();
    for (at, run) in acknowledged.iter().enumerate().filter(|(_, run)| before(run) > 0) {
        let stored = runs.get(at).ok_or("a run is lost")?;
        check_run(stored, run, before(run))?;
    }
    Ok(())
}

/// Checks the first `count` of what a run acknowledged. A whole run has the last version of each
/// record, which may have been printed after the cut.
fn check_run(
    run: &Document,
    acknowledged: &[PowerAcknowledged],
    count: usize,
) -> Result<(), String> {
    let before = &acknowledged[..count];
    if before.iter().any(|one| matches!(one.what, What::WholeRun)) {
        if run.run.state != RunState::Complete {
            return Err("the end of a run is lost".to_owned());
        }
        let (stored, planned) = (run.records.len() as u64, run.run.planned);
        if stored != planned {
            return Err(format!("{stored} of {planned} records of a whole run"));
        }
    }
    let mut expected = stored::last_versions(acknowledged.iter().filter_map(record).cloned());
    expected.retain(|last| before.iter().filter_map(record).any(|one| one.name() == last.name()));
    stored::check(run, &expected)
}

fn record(one: &PowerAcknowledged) -> Option<&Record> {
    match &one.what {
        What::Record(record) => Some(record),
        What::WholeRun => None,
    }
}

/// The program works on the disk after the cut.
fn use_again(left: &LabDisk) {
    let folder = tempfile::tempdir().expect("a folder");
    let _mount = FuseMount::new(left, folder.path()).expect("a mount");
    let env = TestEnv::with_store(&folder.path().join(STORE));
    let succeeds = |command: &mut Command| {
        let output = env.redirect(command);
        let status = processes::ended_within(&mut command.spawn().expect("it starts"), 60);
        let output = text(&std::fs::read(output).expect("the output"));
        assert!(status.is_some_and(|status| status.success()), "{status:?}: {output}");
        output
    };
    succeeds(&mut env.fathom(&[&RUN, &SHORT[..1]].concat()));
    let runs = succeeds(&mut env.fathom(&["show", "--runs"]));
    assert!(runs.contains("complete"), "{runs}");
    succeeds(&mut env.fathom(&["show"]));
}
