//! Kills at random moments, of the coordinator and of its workers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use fathom_lab::processes;
use fathom_lab::seeded::Seeded;
use fathom_record::{Cause, Record, RunState, State};
use rustix::process::Signal;

use crate::test_env::{RUN, SHORT, TestEnv, adopt_orphans, is_worker, signal};
use crate::{is_soak, scaled, stored, write_section};

/// A run that takes longer hangs.
const TIME_LIMIT_S: u64 = 60;

/// The records that a run printed before it was killed.
struct Acknowledged {
    run_id: String,
    records: Vec<Record>,
}

/// Starts a run on a given CPU, so that it does not spend time on choosing one.
fn short_run(env: &TestEnv, seeds: &mut Seeded) -> Child {
    let cpus = fathom_measure::affinity::allowed();
    let cpu = cpus[seeds.below(cpus.len() as u64) as usize].to_string();
    env.spawn(&[&RUN, &["--jsonl", "--cpu", &cpu][..], &SHORT].concat())
}

#[test]
fn killed_coordinator_keeps_printed_records() {
    // Only the kernel can end a stopped worker then, by its parent-death signal.
    adopt_orphans();
    let kills = scaled(4, 200);
    let mut seeds = Seeded(1);
    let mut env = TestEnv::new();
    let mut acknowledged = Vec::new();
    let (mut printed, mut stopped, mut new_stores) = (0, 0, 1);
    let (mut phases, mut broken) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for kill in 0..kills {
        // A new store now and then, so that a kill may hit its creation.
        if kill % 5 == 4 {
            check_all(&env, &acknowledged, &mut seeds);
            env = TestEnv::new();
            acknowledged.clear();
            new_stores += 1;
        }
        let mut run = short_run(&env, &mut seeds);
        let mut text = Vec::new();
        let moment = wait_for_moment(kill % 4, &mut seeds, &env, (&mut run, &mut text));
        stopped += if seeds.coin() { stop_workers(&run) } else { 0 };
        run.kill().expect("it is ours");
        run.stdout.take().expect("a pipe").read_to_end(&mut text).expect("its output");
        let records = stored::records(&String::from_utf8(text).expect("text"));
        run.wait().expect("it ends");
        let left = env.running_processes();
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        if !left.is_empty() {
            broken.push(format!("{moment}: {left:?} outlived the coordinator"));
        }
        printed += records.len();
        match check_killed(&env, &acknowledged, records) {
            Ok((phase, run)) => {
                *phases.entry(phase).or_default() += 1;
                acknowledged.extend(run);
            }
            Err(why) => broken.push(format!("{moment}: {why}")),
        }
    }
    check_all(&env, &acknowledged, &mut seeds);
    let page = format!(
        "## Kills of the coordinator\n\n{kills} kills, {stopped} workers stopped before, \
         {new_stores} new stores, {printed} records printed. The store then had: {phases:?}. \
         Broken promises, `integrity_check` included: {}.\n",
        broken.len()
    );
    write_section("1-kills", &page);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(printed > kills / 10, "the kills came before any record: {printed}");
}

fn read_stdout(run: &mut Child) -> String {
    let mut text = String::new();
    let mut stdout = run.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut text).expect("its output");
    text
}

/// Stops the workers, and counts them. Not a child that is still to become a worker by execve: it
/// may not have set its parent-death signal yet, and would then outlive the coordinator.
fn stop_workers(run: &Child) -> usize {
    let children = processes::children(run.id()).into_iter();
    let workers: Vec<u32> = children.filter(is_worker).collect();
    workers.iter().for_each(|worker| signal(*worker, Signal::STOP));
    workers.len()
}

/// Waits for a moment of one of four kinds: after the start, while a worker runs, after a record
/// was printed, or while the store is written. `text` gets what was read of the output.
fn wait_for_moment(
    kind: usize,
    seeds: &mut Seeded,
    env: &TestEnv,
    (run, text): (&mut Child, &mut Vec<u8>),
) -> String {
    match kind {
        0 => format!("{:?} after the start", pause(seeds, 500_000)),
        1 => {
            let workers = 1 + seeds.below(12) as usize;
            wait_for_workers(run, workers);
            format!("{:?} after worker {workers}", pause(seeds, 10_000))
        }
        2 => {
            wait_for_record(run, text);
            format!("{:?} after its first record", pause(seeds, 3000))
        }
        _ => {
            let changes = 1 + seeds.below(10);
            wait_for_changes(env.store(), run, changes);
            format!("{:?} after change {changes} of the store", pause(seeds, 1500))
        }
    }
}

/// Waits for a random time, in `make soak` only.
fn pause(seeds: &mut Seeded, micros_max: u64) -> Duration {
    let time = Duration::from_micros(scaled(0, 1) as u64 * seeds.below(micros_max));
    sleep(time);
    time
}

/// Reads the output until a record is in it, or the run ends.
fn wait_for_record(run: &mut Child, text: &mut Vec<u8>) {
    let stdout = run.stdout.as_mut().expect("a pipe");
    let mut bytes = [0; 4096];
    let has_record = |text: &[u8]| text.windows(10).any(|part| part == b"\"verdict\":");
    while !has_record(text) {
        match stdout.read(&mut bytes).expect("its output") {
            0 => return,
            count => text.extend(&bytes[..count]),
        }
    }
}

/// Polls every 100 µs until a condition holds or the run ends, for about a minute.
fn poll_run(run: &Child, mut is_so: impl FnMut() -> bool) {
    // mood: waits for an event in another process, which is reached once
    for _ in 0..600_000 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", run.id()));
        if is_so() || !stat.is_ok_and(|stat| !stat.contains(") Z ")) {
            return;
        }
        sleep(Duration::from_micros(100));
    }
}

/// Waits until this many workers were seen, or the run ends.
fn wait_for_workers(run: &Child, count: usize) {
    let mut seen = BTreeSet::new();
    poll_run(run, || {
        seen.extend(processes::children(run.id()));
        seen.len() >= count
    });
}

/// Waits until this many changes of the store and its log were seen, or the run ends.
fn wait_for_changes(store: &Path, run: &Child, changes: u64) {
    let log = store.with_extension("db-wal");
    let facts = || {
        [store, &log]
            .map(|path| path.metadata().ok().map(|facts| (facts.len(), facts.modified().ok())))
    };
    let (mut seen, mut before) = (0, facts());
    poll_run(run, || {
        let now = facts();
        seen += u64::from(now != before);
        before = now;
        seen >= changes
    });
}

/// Checks the store after a kill; how far the run had come, and the run if it is in the store.
fn check_killed(
    env: &TestEnv,
    acknowledged: &[Acknowledged],
    records: Vec<Record>,
) -> Result<(&'static str, Option<Acknowledged>), String> {
    let absent = |what: &'static str| match records.is_empty() {
        true => Ok((what, None)),
        false => Err(format!("all printed records are lost: {what}")),
    };
    let runs = match stored::runs(env.store()) {
        // A kill during the creation of the store leaves an empty file or none.
        Err(why) if acknowledged.is_empty() && why.contains("no store") => {
            return absent("no store");
        }
        runs => runs?,
    };
    let known: BTreeSet<&str> = acknowledged.iter().map(|one| one.run_id.as_str()).collect();
    let mut new = runs.iter().filter(|run| !known.contains(run.run.id.as_str()));
    let Some(run) = new.next() else { return absent("no run") };
    if new.next().is_some() {
        return Err("one run is stored as two".to_owned());
    }
    stored::check(run, &records)?;
    let (count, state) = (run.records.len(), run.run.state);
    let phase = match (state, count) {
        (RunState::Complete, _) if count as u64 == run.run.planned => "the complete run",
        (RunState::Interrupted, 0) => "the run without a record",
        (RunState::Interrupted, _) => "some records of the run",
        _ => return Err(format!("{state:?} with {count} records")),
    };
    Ok((phase, Some(Acknowledged { run_id: run.run.id.clone(), records })))
}

/// Checks all runs of a store after another run.
fn check_all(env: &TestEnv, acknowledged: &[Acknowledged], seeds: &mut Seeded) {
    let mut run = short_run(env, seeds);
    let status = processes::ended_within(&mut run, TIME_LIMIT_S).expect("a run that ends");
    assert!(status.success(), "the next run fails");
    let runs = stored::runs(env.store()).expect("a store");
    for one in acknowledged {
        let run = runs.iter().find(|run| run.run.id == one.run_id).expect("the run");
        stored::check(run, &one.records).expect("the acknowledged records");
    }
    assert_eq!(runs[0].run.state, RunState::Complete);
    assert_eq!(env.stray_files(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn killed_worker_fails_only_its_metric() {
    let kills = scaled(2, 200);
    let mut seeds = Seeded(2);
    let env = TestEnv::new();
    let mut failures = 0;
    for _ in 0..kills {
        let mut run = short_run(&env, &mut seeds);
        let moment = pause(&mut seeds, 400_000);
        let worker = wait_for_worker(&run);
        worker.iter().for_each(|pid| signal(*pid, Signal::KILL));
        let text = read_stdout(&mut run);
        let status = processes::ended_within(&mut run, TIME_LIMIT_S).expect("a run that ends");
        assert!(status.success(), "{moment:?}: {status}");
        env.assert_no_process_left();
        let records = stored::records(&text);
        let runs = stored::runs(env.store()).unwrap_or_else(|error| panic!("{moment:?}: {error}"));
        stored::check(&runs[0], &records).unwrap_or_else(|error| panic!("{moment:?}: {error}"));
        assert_eq!((runs[0].run.state, records.len()), (RunState::Complete, SHORT.len()));
        assert_eq!(runs[0].records.len(), SHORT.len());
        let failed = records.iter().filter(|record| record.verdict.state == State::Failed);
        let failed: Vec<&Record> = failed.collect();
        assert!(failed.len() <= 1, "{moment:?}: one kill, {} metrics failed", failed.len());
        for record in failed {
            let reason = &record.verdict.reasons[0];
            assert_eq!(reason.cause, Cause::Crashed, "{moment:?}");
            assert!(reason.text.contains("was killed"), "{moment:?}: {}", reason.text);
            failures += 1;
        }
    }
    let page = format!(
        "## Kills of a worker\n\n\
         | kills | before its answer: only its metric failed | after it: nothing lost |\n\
         |---|---|---|\n| {kills} | {failures} | {} |\n\n\
         {} runs, all complete with all of their records, each once.\n",
        kills - failures,
        stored::runs(env.store()).expect("a store").len()
    );
    write_section("2-worker-kills", &page);
    // Beside load an answer may be there before the kill.
    assert!(!is_soak() || failures > kills / 3, "the kills came too late: {failures}");
    assert_eq!(env.stray_files(), Vec::<std::path::PathBuf>::new());
}

/// The running worker, or the next one; `None` if the run ends.
fn wait_for_worker(run: &Child) -> Option<u32> {
    let mut workers = Vec::new();
    poll_run(run, || {
        workers = processes::children(run.id());
        !workers.is_empty()
    });
    workers.first().copied()
}
