//! Kills at random moments, of the coordinator and of its workers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use fathom_lab::processes;
use fathom_lab::seeded::Seeded;
use fathom_record::{Record, RunState, State};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::test_env::{TestEnv, SHORT};
use crate::{count, kept, write_section};

/// No run here lasts longer.
const PATIENCE_S: u64 = 60;

/// What one run printed before it was killed: the journal outside of the store.
struct Acknowledged {
    run_id: String,
    records: Vec<Record>,
}

fn signal(pid: u32, signal: Signal) {
    // It may have ended just now.
    let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, signal));
}

/// A run on a CPU that is told, so that none is looked for.
fn short_run(env: &TestEnv, seeds: &mut Seeded) -> Child {
    let cpus = fathom_measure::affinity::allowed();
    let cpu = cpus[seeds.below(cpus.len() as u64) as usize].to_string();
    let arguments = [&["run", "--quick", "--jsonl", "--cpu", &cpu][..], &SHORT].concat();
    let mut command = env.fathom(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// What kills of the coordinator found, at moments of one kind.
#[derive(Default)]
struct Row {
    kills: usize,
    stopped: usize,
    printed: usize,
    lost: usize,
    twice: usize,
}

#[test]
fn killed_coordinator_keeps_printed_records() {
    // Orphans come to this process: a worker that is stopped is ended by nobody but the kernel,
    // by the promise that it does not outlive its coordinator.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a subreaper");
    let kills = count(20, 200);
    let mut seeds = Seeded(1);
    let mut env = TestEnv::new();
    let (mut journal, mut young) = (Vec::new(), 0);
    let (mut rows, mut broken) = (BTreeMap::<String, Row>::new(), Vec::new());
    for kill in 0..kills {
        // A new store now and then, to be killed while it is made.
        if kill % 5 == 4 {
            check(&env, &journal, &mut seeds);
            env = TestEnv::new();
            journal = Vec::new();
            young += 1;
        }
        let mut run = short_run(&env, &mut seeds);
        let moment = await_moment(&mut seeds, &env, &run);
        let stopped = if seeds.coin() { stop_workers(&run) } else { 0 };
        run.kill().expect("it is ours");
        let mut text = String::new();
        let mut output = run.stdout.take().expect("a pipe");
        output.read_to_string(&mut text).expect("what it printed");
        run.wait().expect("it ends");
        let left = env.running_processes();
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        if !left.is_empty() {
            broken.push(format!("{moment}: {left:?} outlived the coordinator"));
        }
        let records = stored::records(&text);
        let printed = records.len();
        let mut found = check_killed(&env, &journal, records);
        broken.extend(found.broken.drain(..).map(|why| format!("{moment}: {why}")));
        let row = rows.entry(found.phase).or_default();
        let [twice, lost] = found.wrong;
        row.kills += 1;
        row.stopped += stopped;
        row.printed += printed;
        row.twice += twice;
        row.lost += lost;
        journal.extend(found.heard);
    }
    check(&env, &journal, &mut seeds);
    let printed: usize = rows.values().map(|row| row.printed).sum();
    write_section("1-kills", &format!("{}\n{young} of the stores were new.\n", table(&rows, &broken)));
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(printed > kills / 10, "the kills came before there was anything to lose: {printed}");
}

fn table(rows: &BTreeMap<String, Row>, broken: &[String]) -> String {
    let mut text = "## Kills of the coordinator\n\n\
        | what the store held after the kill | kills | workers stopped before | records printed \
        | lost | twice |\n|---|---|---|---|---|---|\n"
        .to_owned();
    let mut all = Row::default();
    let line = |name: &str, row: &Row| {
        let Row { kills, stopped, printed, lost, twice } = row;
        format!("| {name} | {kills} | {stopped} | {printed} | {lost} | {twice} |\n")
    };
    for (name, row) in rows {
        text.push_str(&line(name, row));
        all.kills += row.kills;
        all.stopped += row.stopped;
        all.printed += row.printed;
        all.lost += row.lost;
        all.twice += row.twice;
    }
    let broken = broken.len();
    text + &line("all", &all)
        + &format!("\nPromises broken, `integrity_check` included: {broken}.\n")
}

/// Stops the workers, and says how many. Not one that is no program yet: the kernel makes it by
/// fork and ties it to its coordinator only then, and nothing can be promised for one that is
/// stopped in between.
fn stop_workers(run: &Child) -> usize {
    let is_program = |pid: &&u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.ends_with(b"\0worker\0")
    };
    let workers = processes::children(run.id());
    let workers: Vec<&u32> = workers.iter().filter(is_program).collect();
    workers.iter().for_each(|worker| signal(**worker, Signal::STOP));
    workers.len()
}

/// Awaits a moment: at the start, while a worker runs, when something was printed, or while the
/// store is written.
fn await_moment(seeds: &mut Seeded, env: &TestEnv, run: &Child) -> String {
    match seeds.below(4) {
        0 => {
            let moment = Duration::from_micros(seeds.below(500_000));
            sleep(moment);
            format!("{moment:?} after the start")
        }
        1 => {
            let workers = 1 + seeds.below(12) as usize;
            let moment = Duration::from_micros(seeds.below(10_000));
            await_workers(run, workers);
            sleep(moment);
            format!("{moment:?} after worker {workers}")
        }
        2 => {
            let moment = Duration::from_micros(seeds.below(3000));
            await_word(run);
            sleep(moment);
            format!("{moment:?} after its first word")
        }
        _ => {
            let changes = 1 + seeds.below(10);
            let moment = Duration::from_micros(seeds.below(1500));
            await_changes(env.store(), run, changes);
            sleep(moment);
            format!("{moment:?} after change {changes} of the store")
        }
    }
}

/// Waits until the run prints something, or ends.
fn await_word(run: &Child) {
    let mut wait = [PollFd::new(run.stdout.as_ref().expect("a pipe"), PollFlags::IN)];
    let patience = Timespec { tv_sec: PATIENCE_S as i64, tv_nsec: 0 };
    poll(&mut wait, Some(&patience)).expect("a wait");
}

/// Looks every 100 µs until it is there, or the run ended; about 30 s, and more on a busy machine.
fn look_until(run: &Child, mut it_is_there: impl FnMut() -> bool) {
    for _ in 0..300_000 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", run.id()));
        if it_is_there() || !stat.is_ok_and(|stat| !stat.contains(") Z ")) {
            return;
        }
        sleep(Duration::from_micros(100));
    }
}

/// Waits until so many workers were seen, or the run ended.
fn await_workers(run: &Child, count: usize) {
    let mut seen = BTreeSet::new();
    look_until(run, || {
        seen.extend(processes::children(run.id()));
        seen.len() >= count
    });
}

/// Waits until the store and its log were seen to change so often, or the run ended.
fn await_changes(store: &Path, run: &Child, changes: u64) {
    let log = store.with_extension("db-wal");
    let facts = || {
        [store, &log]
            .map(|path| path.metadata().ok().map(|facts| (facts.len(), facts.modified().ok())))
    };
    let (mut seen, mut before) = (0, facts());
    look_until(run, || {
        let now = facts();
        seen += u64::from(now != before);
        before = now;
        seen >= changes
    });
}

/// What was found after a kill.
#[derive(Default)]
struct Found {
    /// How far the run had come, by what is kept of it.
    phase: String,
    /// Records that are there twice, and records that are lost.
    wrong: [usize; 2],
    broken: Vec<String>,
    heard: Option<Acknowledged>,
}

/// What a run left that was killed just now.
fn check_killed(env: &TestEnv, journal: &[Acknowledged], records: Vec<Record>) -> Found {
    let without = |phase: &str, why: Option<String>| {
        let lost = (!records.is_empty()).then(|| format!("all that was printed is lost: {phase}"));
        let wrong = [0, records.len()];
        Found {
            phase: phase.to_owned(),
            wrong,
            broken: why.into_iter().chain(lost).collect(),
            heard: None,
        }
    };
    let runs = match stored::runs(env.store()) {
        // What a killed maker of a store leaves is empty, or no file at all.
        Err(why) if journal.is_empty() && why.contains("no store") => {
            return without("nothing", None);
        }
        Err(why) => return without("what cannot be read", Some(why)),
        Ok(runs) => runs,
    };
    let known: BTreeSet<&str> = journal.iter().map(|heard| heard.run_id.as_str()).collect();
    let mut new = runs.iter().filter(|run| !known.contains(run.run.id.as_str()));
    let Some(run) = new.next() else { return without("no such run", None) };
    let mut broken = Vec::new();
    if new.next().is_some() {
        broken.push("one run is kept as two".to_owned());
    }
    broken.extend(stored::holds(run, &records).err());
    let (count, state) = (run.records.len(), run.run.state);
    let whole = count as u64 == run.run.planned;
    if !(state == RunState::Interrupted || (state == RunState::Complete && whole)) {
        broken.push(format!("{state:?} with {count} records"));
    }
    let phase = match state {
        RunState::Complete => "the whole run".to_owned(),
        _ => format!("the run with {count} of {} records", run.run.planned),
    };
    let wrong = stored::tally(run, &records).map(|list| list.len());
    let heard = Some(Acknowledged { run_id: run.run.id.clone(), records });
    Found { phase, wrong, broken, heard }
}

/// All runs at one store, killed one after the other, and the next one.
fn check(env: &TestEnv, journal: &[Acknowledged], seeds: &mut Seeded) {
    let mut run = short_run(env, seeds);
    let status = processes::ended_within(&mut run, PATIENCE_S).expect("a run that ends");
    assert!(status.success(), "the next run fails");
    let runs = stored::runs(env.store()).expect("a store");
    for heard in journal {
        let run = runs.iter().find(|run| run.run.id == heard.run_id).expect("the run");
        stored::holds(run, &heard.records).expect("what it printed");
    }
    assert_eq!(runs[0].run.state, RunState::Complete);
    assert_eq!(env.stray_files(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn killed_worker_fails_only_its_metric() {
    let kills = count(20, 200);
    let mut seeds = Seeded(2);
    let env = TestEnv::new();
    let mut met = 0;
    for _ in 0..kills {
        let mut run = short_run(&env, &mut seeds);
        let moment = Duration::from_micros(seeds.below(400_000));
        sleep(moment);
        let victim = await_worker(&run);
        victim.iter().for_each(|pid| signal(*pid, Signal::KILL));
        let mut text = String::new();
        let mut output = run.stdout.take().expect("a pipe");
        output.read_to_string(&mut text).expect("what it printed");
        let status = processes::ended_within(&mut run, PATIENCE_S).expect("a run that ends");
        assert!(status.success(), "{moment:?}: {status}");
        let left = env.running_processes();
        assert!(left.is_empty(), "{moment:?}: {left:?} outlived the run");
        let records = stored::records(&text);
        let runs = stored::runs(env.store()).unwrap_or_else(|error| panic!("{moment:?}: {error}"));
        stored::holds(&runs[0], &records).unwrap_or_else(|error| panic!("{moment:?}: {error}"));
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
    let page = format!(
        "## Kills of a worker\n\n\
         | kills | before it answered: its metric failed, and no other | later: nothing lost |\n\
         |---|---|---|\n| {kills} | {met} | {} |\n\n\
         {} runs, all complete with all of their records, each once.\n",
        kills - met,
        stored::runs(env.store()).expect("a store").len()
    );
    write_section("2-worker-kills", &page);
    assert!(met > kills / 3, "the kills came too late: {met}");
    assert_eq!(env.stray_files(), Vec::<std::path::PathBuf>::new());
}

/// The worker that runs, or the next one; none where the run ended.
fn await_worker(run: &Child) -> Option<u32> {
    let mut workers = Vec::new();
    look_until(run, || {
        workers = processes::children(run.id());
        !workers.is_empty()
    });
    workers.first().copied()
}
