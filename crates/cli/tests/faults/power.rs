//! The power fails while the program runs, on a disk that keeps nothing but what was synced.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use fathom_lab::disk::{Disk, Survivors};
use fathom_lab::fuse::Mount;
use fathom_lab::seeded::Seeded;
use fathom_lab::{mounts, processes};
use fathom_record::{Document, Record, RunState};

use crate::test_env::{TestEnv, SHORT};
use crate::{count, kept, write_section};

/// Where the store lies on the disk.
const STORE: &str = "share/fathom/fathom.db";

/// What the program acknowledged, and how many changes the disk had seen when that was heard.
struct Acknowledged {
    changes: usize,
    what: What,
}

enum What {
    /// By a line of `--jsonl`.
    Record(Box<Record>),
    /// All of a run, by "Kept as run" or by exit status 0.
    Whole,
}

#[test]
fn power_cut_keeps_printed_records() {
    let name = "power::power_cut_keeps_printed_records";
    if !mounts::inside(name, |said| println!("{said}")) {
        return;
    }
    let disk = Disk::recording();
    let folder = tempfile::tempdir().expect("a folder");
    let mount = Mount::new(&disk, folder.path()).expect("a mount");
    let env = TestEnv::with_store(&folder.path().join(STORE));
    let heard = [printed(&env, &disk, "--jsonl"), printed(&env, &disk, "--cycles")];
    assert!(env.running_processes().is_empty());
    drop(mount);
    let (changes, cuts) = (disk.changes(), count(60, 600));
    let (mut past, mut seeds) = (disk.past(), Seeded(5));
    let (mut rows, mut broken) = ([[0; 3]; 2], Vec::new());
    for cut in (0..cuts).map(|at| at * changes / (cuts - 1)) {
        past.go_to(cut);
        for (row, survivors) in rows.iter_mut().zip([Survivors::None, Survivors::Some(seeds.any())])
        {
            let left = past.after_power_cut(survivors);
            let told = |why: String| format!("after `{}` with {survivors:?}: {why}", past.last());
            let words = heard.iter().flatten().filter(|one| one.changes <= cut).count();
            row[0] += 1;
            row[1] += words;
            match check(&left, cut, &heard) {
                Ok(()) => row[2] += words,
                Err(why) => broken.push(told(why)),
            }
            if cut % (cuts / 3) == 1 || cut == changes {
                use_again(&left);
            }
        }
    }
    let [none, some] = rows.map(|[cuts, told, kept]| format!("{cuts} | {told} | {kept}"));
    let page = format!(
        "## Power cuts\n\nTwo runs on a disk that saw {changes} changes.\n\n\
         | of what was not synced, left | cuts | words heard before (a record; a whole run) \
         | kept |\n|---|---|---|---|\n| nothing | {none} |\n| some, by chance | {some} |\n"
    );
    write_section("5-power", &page);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A run, and when the disk had seen what by the time each of its words was heard.
fn printed(env: &TestEnv, disk: &Disk, form: &str) -> Vec<Acknowledged> {
    let arguments = [&["run", "--quick", form][..], &SHORT].concat();
    let mut command = env.fathom(&arguments);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut heard = Vec::new();
    for line in BufReader::new(run.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("a line");
        let what = match line.as_str() {
            line if line.starts_with('{') => {
                What::Record(serde_json::from_str(line).expect("a record"))
            }
            line if line.starts_with("Kept as run") => What::Whole,
            _ => continue,
        };
        heard.push(Acknowledged { changes: disk.changes(), what });
    }
    assert!(run.wait().expect("it ends").success());
    heard.push(Acknowledged { changes: disk.changes(), what: What::Whole });
    heard
}

/// What was heard before the cut is there.
fn check(left: &Disk, cut: usize, heard: &[Vec<Acknowledged>; 2]) -> Result<(), String> {
    // In memory, where a sync costs nothing.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.map_err(|error| error.to_string())?;
    left.copy_to(folder.path()).map_err(|error| error.to_string())?;
    let before = |run: &Vec<Acknowledged>| run.iter().take_while(|one| one.changes <= cut).count();
    let store = folder.path().join(STORE);
    let mut runs = match stored::runs(&store) {
        Err(_) if heard.iter().all(|run| before(run) == 0) => return Ok(()),
        runs => runs?,
    };
    // Oldest first, as they were heard.
    runs.reverse();
    for (at, run) in heard.iter().enumerate().filter(|(_, run)| before(run) > 0) {
        let found = runs.get(at).ok_or("a run is lost")?;
        holds(found, &run[..before(run)])?;
    }
    Ok(())
}

fn holds(run: &Document, heard: &[Acknowledged]) -> Result<(), String> {
    let mut records = Vec::new();
    for one in heard {
        match &one.what {
            What::Record(record) => records.push((**record).clone()),
            What::Whole if run.run.state == RunState::Complete => {
                let (found, planned) = (run.records.len() as u64, run.run.planned);
                if found != planned {
                    return Err(format!("{found} of {planned} records of a whole run"));
                }
            }
            What::Whole => return Err("the end of a run is lost".to_owned()),
        }
    }
    stored::holds(run, &records)
}

/// The program itself finds its way on the disk that is left.
fn use_again(left: &Disk) {
    let folder = tempfile::tempdir().expect("a folder");
    let _mount = Mount::new(left, folder.path()).expect("a mount");
    let env = TestEnv::with_store(&folder.path().join(STORE));
    let succeeds = |command: &mut Command| {
        let said = env.redirect(command);
        let status = processes::ended_within(&mut command.spawn().expect("it starts"), 60);
        let said = std::fs::read_to_string(said).expect("what it said");
        assert!(status.is_some_and(|status| status.success()), "{status:?}: {said}");
        said
    };
    succeeds(&mut env.fathom(&["run", "--quick", "cpu.frequency"]));
    let runs = succeeds(&mut env.fathom(&["show", "--runs"]));
    assert!(runs.contains("complete"), "{runs}");
    succeeds(&mut env.fathom(&["show"]));
}
