//! Kills at random moments, of the coordinator and of its workers.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use fathom_lab::processes;
use fathom_lab::seeded::Seeded;
use fathom_record::{Record, RunState, State};
use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Place, SHORT};
use crate::{amount, kept};

/// No run here lasts longer.
const PATIENCE_S: u64 = 60;

/// What one run printed before it was killed: the journal outside of the store.
struct Heard {
    run_id: String,
    records: Vec<Record>,
}

fn signal(pid: u32, signal: Signal) {
    // It may have ended just now.
    let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, signal));
}

/// A run on a CPU that is told, so that none is looked for.
fn short_run(place: &Place, seeds: &mut Seeded) -> Child {
    let cpus = fathom_measure::affinity::allowed();
    let cpu = cpus[seeds.below(cpus.len() as u64) as usize].to_string();
    let arguments = [&["run", "--quick", "--jsonl", "--cpu", &cpu][..], &SHORT].concat();
    let mut command = place.fathom(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
}

#[test]
fn a_killed_coordinator_loses_nothing_it_printed_and_leaves_no_worker() {
    // Orphans come to this process: a worker that is stopped is ended by nobody but the kernel,
    // by the promise that it does not outlive its coordinator.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a subreaper");
    let kills = amount(20, 200);
    let mut seeds = Seeded(1);
    let mut place = Place::new();
    let (mut journal, mut printed, mut young) = (Vec::new(), 0, 0);
    for kill in 0..kills {
        // A new store now and then, to be killed while it is made.
        if kill % 5 == 4 {
            check(&place, &journal, &mut seeds);
            place = Place::new();
            journal = Vec::new();
            young += 1;
        }
        let mut run = short_run(&place, &mut seeds);
        let moment = await_moment(&mut seeds, &place, &run);
        if seeds.coin() {
            processes::children(run.id()).iter().for_each(|worker| signal(*worker, Signal::STOP));
        }
        run.kill().expect("it is ours");
        let mut text = String::new();
        let mut output = run.stdout.take().expect("a pipe");
        output.read_to_string(&mut text).expect("what it printed");
        run.wait().expect("it ends");
        // The kernel's signal is on its way when the coordinator has gone: two seconds at most.
        let mut left = place.left_running();
        for _ in 0..200 {
            if left.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            left = place.left_running();
        }
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        assert!(left.is_empty(), "{moment}: {left:?} outlived the coordinator");
        let records = kept::records(&text);
        printed += records.len();
        if let Some(heard) = check_killed(&place, &journal, records, &moment) {
            journal.push(heard);
        }
    }
    check(&place, &journal, &mut seeds);
    println!("{kills} kills of the coordinator, {young} new stores, {printed} records printed");
    assert!(printed > kills / 10, "the kills came before there was anything to lose: {printed}");
}

/// Waits for a moment: at the start, while the store is written, or after something was printed.
fn await_moment(seeds: &mut Seeded, place: &Place, run: &Child) -> String {
    match seeds.below(4) {
        0 => {
            let moment = Duration::from_micros(seeds.below(500_000));
            sleep(moment);
            format!("{moment:?} after the start")
        }
        _ => {
            let changes = 1 + seeds.below(14);
            let moment = Duration::from_micros(seeds.below(1500));
            await_changes(place.store(), run, changes);
            sleep(moment);
            format!("{moment:?} after change {changes} of the store")
        }
    }
}

/// Waits until the store and its log were seen to change so often, or the run ended.
fn await_changes(store: &Path, run: &Child, changes: u64) {
    let log = store.with_extension("db-wal");
    let facts = || {
        [store, &log]
            .map(|path| path.metadata().ok().map(|facts| (facts.len(), facts.modified().ok())))
    };
    let (mut seen, mut before) = (0, facts());
    // 300,000 times 100 µs, and more on a busy machine.
    for _ in 0..300_000 {
        let now = facts();
        seen += u64::from(now != before);
        before = now;
        let ended = std::fs::read_to_string(format!("/proc/{}/stat", run.id()));
        if seen >= changes || !ended.is_ok_and(|stat| !stat.contains(") Z ")) {
            return;
        }
        sleep(Duration::from_micros(100));
    }
}

/// What a run left that was killed just now. `None` where it had not begun.
fn check_killed(
    place: &Place,
    journal: &[Heard],
    records: Vec<Record>,
    moment: &str,
) -> Option<Heard> {
    // What a killed maker of a store leaves is empty, or no file at all.
    if journal.is_empty() && kept::runs(place.store()).is_err_and(|why| why.contains("no store")) {
        assert!(records.is_empty(), "{moment}: printed without a store");
        return None;
    }
    let runs = kept::runs(place.store()).unwrap_or_else(|error| panic!("{moment}: {error}"));
    let known: BTreeSet<&str> = journal.iter().map(|heard| heard.run_id.as_str()).collect();
    let mut new = runs.iter().filter(|run| !known.contains(run.run.id.as_str()));
    let Some(run) = new.next() else {
        assert!(records.is_empty(), "{moment}: the run is lost with what it printed");
        return None;
    };
    assert!(new.next().is_none(), "{moment}: one run is kept as two");
    kept::holds(run, &records).unwrap_or_else(|error| panic!("{moment}: {error}"));
    let whole = run.records.len() as u64 == run.run.planned;
    let state = run.run.state;
    let expected = state == RunState::Interrupted || (state == RunState::Complete && whole);
    assert!(expected, "{moment}: {state:?} with {} records", run.records.len());
    Some(Heard { run_id: run.run.id.clone(), records })
}

/// All runs at one store, killed one after the other, and the next one.
fn check(place: &Place, journal: &[Heard], seeds: &mut Seeded) {
    let mut run = short_run(place, seeds);
    let status = processes::ended_within(&mut run, PATIENCE_S).expect("a run that ends");
    assert!(status.success(), "the next run fails");
    let runs = kept::runs(place.store()).expect("a store");
    for heard in journal {
        let run = runs.iter().find(|run| run.run.id == heard.run_id).expect("the run");
        kept::holds(run, &heard.records).expect("what it printed");
    }
    assert_eq!(runs[0].run.state, RunState::Complete);
    assert_eq!(place.left_lying(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_killed_worker_costs_its_metric_and_nothing_else() {
    let kills = amount(20, 200);
    let mut seeds = Seeded(2);
    let place = Place::new();
    let mut met = 0;
    for _ in 0..kills {
        let mut run = short_run(&place, &mut seeds);
        let moment = Duration::from_micros(seeds.below(400_000));
        sleep(moment);
        let victim = await_worker(&run);
        victim.iter().for_each(|pid| signal(*pid, Signal::KILL));
        let mut text = String::new();
        let mut output = run.stdout.take().expect("a pipe");
        output.read_to_string(&mut text).expect("what it printed");
        let status = processes::ended_within(&mut run, PATIENCE_S).expect("a run that ends");
        assert!(status.success(), "{moment:?}: {status}");
        let left = place.left_running();
        assert!(left.is_empty(), "{moment:?}: {left:?} outlived the run");
        let records = kept::records(&text);
        let runs = kept::runs(place.store()).unwrap_or_else(|error| panic!("{moment:?}: {error}"));
        kept::holds(&runs[0], &records).unwrap_or_else(|error| panic!("{moment:?}: {error}"));
        assert_eq!((runs[0].run.state, records.len()), (RunState::Complete, SHORT.len()));
        assert_eq!(runs[0].records.len(), SHORT.len());
        let failed = records.iter().filter(|record| record.verdict.state == State::Failed);
        let failed: Vec<&Record> = failed.collect();
        assert!(failed.len() <= 1, "{moment:?}: one kill, {} metrics failed", failed.len());
        for record in failed {
            let text = &record.verdict.reasons[0].text;
            assert!(text.contains("was killed"), "{moment:?}: {text}");
            met += 1;
        }
    }
    println!("{kills} kills of a worker, {met} before it had answered");
    assert!(met > kills / 3, "the kills came too late: {met}");
    assert_eq!(place.left_lying(), Vec::<std::path::PathBuf>::new());
}

/// The worker that runs, or the next one; none where the run ended.
fn await_worker(run: &Child) -> Option<u32> {
    for _ in 0..20_000 {
        let workers = processes::children(run.id());
        let ended = std::fs::read_to_string(format!("/proc/{}/stat", run.id()));
        if !workers.is_empty() || !ended.is_ok_and(|stat| !stat.contains(") Z ")) {
            return workers.first().copied();
        }
        sleep(Duration::from_micros(200));
    }
    None
}

/// A worker's child that is stopped notices nothing, and is not waited for by anybody.
#[test]
fn the_children_of_a_killed_worker_end_with_it() {
    for _ in 0..amount(2, 20) {
        let place = Place::new();
        let arguments = ["run", "--quick", "--jsonl", "os.switch.process"];
        let mut command = place.fathom(&arguments);
        let mut run =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut family = None;
        for _ in 0..30_000 {
            let worker = processes::children(run.id()).first().copied();
            let child = worker.and_then(|pid| processes::children(pid).first().copied());
            family = worker.zip(child);
            if family.is_some() {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        let (worker, child) = family.expect("a worker with a child");
        signal(child, Signal::STOP);
        signal(worker, Signal::KILL);
        // The coordinator is still there: only the kill of the group can end the stopped one.
        signal(run.id(), Signal::INT);
        let status = processes::ended_within(&mut run, PATIENCE_S).expect("a run that ends");
        assert_eq!(status.code(), Some(130), "{status}");
        let left = place.left_running();
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        assert!(left.is_empty(), "{left:?} outlived its worker");
    }
}
