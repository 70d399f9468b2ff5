//! No worker outlives its coordinator and no child its worker, even if it is stopped.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use fathom_engine::VisitRequest;
use fathom_engine::worker::Workers;
use fathom_lab::processes;
use rustix::process::Signal;

use crate::scaled;
use crate::test_env::{TestEnv, adopt_orphans, is_worker, signal, stop, wait_for};

/// Set in the process that is the coordinator: the kind of its worker.
const PART: &str = "FATHOM_TEST_WORKER";

/// A run that takes longer hangs.
const TIME_LIMIT_S: u64 = 60;

/// Starts this program as a coordinator.
fn spawn_coordinator(part: &str, env: &TestEnv) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(["orphans::coordinator", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env("FATHOM_STORE", env.store());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// A long visit.
fn request() -> VisitRequest {
    let mut request = crate::worker_calls::request(("os.switch.process", "set_bytes", 0));
    request.settings.rounds = 1000;
    request.settings.batch_floor_ns = 1e7;
    request.settings.time_limit_ns = 60e9;
    request
}

/// The coordinator; does nothing unless [`PART`] is set.
#[test]
fn coordinator() {
    match std::env::var(PART).as_deref() {
        Ok("stopped") => {
            let arguments = ["-c", "kill -STOP $$; exec sleep 1000"].map(str::to_owned).into();
            let program = PathBuf::from("/bin/sh");
            let workers = Workers { program, arguments, grace_ns: 1e12 };
            let (stop, _never) = UnixStream::pair().expect("a pair");
            workers.visit(&request(), &stop);
        }
        // Without a parent-death signal, as if the program had file capabilities: exec clears it.
        Ok("without parent-death signal") => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
            command.arg("worker").stdin(Stdio::piped());
            let mut worker = command.spawn().expect("it starts");
            let line = serde_json::to_vec(&request()).expect("a line");
            worker.stdin.take().expect("a pipe").write_all(&line).expect("a reader");
            worker.wait().expect("it ends");
        }
        _ => {}
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// How often a process waited: its voluntary context switches.
fn waits_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn stopped_worker_dies_with_its_coordinator() {
    adopt_orphans();
    let env = TestEnv::new();
    let mut run = spawn_coordinator("stopped", &env);
    let stopped =
        wait_for(|| processes::descendants(run.id()).into_iter().find(|pid| is_stopped(*pid)));
    run.kill().expect("it is ours");
    run.wait().expect("it ends");
    assert!(stopped.is_some(), "no worker");
    env.assert_no_process_left();
}

#[test]
fn worker_and_children_die_with_coordinator() {
    adopt_orphans();
    let env = TestEnv::new();
    let mut run = spawn_coordinator("without parent-death signal", &env);
    // A worker with a child has set its own parent-death signal.
    let family = wait_for(|| Some(processes::descendants(run.id())).filter(|all| all.len() > 1));
    // The child sets its own in its first two system calls, before it waits for its worker.
    let child = family.as_ref().and_then(|all| all.last().copied()).expect("a worker with a child");
    let has_waited = wait_for(|| (waits_of(child) > 10).then_some(()));
    assert!(has_waited.is_some(), "the child does not work");
    family.iter().flatten().for_each(|pid| signal(*pid, Signal::STOP));
    let stopped = wait_for(|| family.iter().flatten().all(|pid| is_stopped(*pid)).then_some(()));
    run.kill().expect("it is ours");
    run.wait().expect("it ends");
    assert!(stopped.is_some(), "a process cannot be stopped");
    env.assert_no_process_left();
}

#[test]
fn worker_of_dead_coordinator_exits() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
    command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut worker = command.spawn().expect("it starts");
    let request = VisitRequest { coordinator: 1, ..request() };
    let line = serde_json::to_vec(&request).expect("a line");
    worker.stdin.take().expect("a pipe").write_all(&line).expect("a reader");
    let output = worker.wait_with_output().expect("it ends");
    let message = crate::text(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{message}");
    assert!(message.contains("the coordinator has ended"), "{message}");
}

/// A stopped child cannot notice the end of its worker, and nobody waits for it.
#[test]
fn children_of_killed_worker_die() {
    for _ in 0..scaled(1, 20) {
        let env = TestEnv::new();
        let mut run = env.spawn(&["run", "--quick", "--jsonl", "os.switch.process"]);
        let family = wait_for(|| {
            let worker = processes::children(run.id()).first().copied()?;
            Some((worker, processes::children(worker).first().copied()?))
        });
        let (worker, child) = family.expect("a worker with a child");
        signal(child, Signal::STOP);
        // It would otherwise end its run before it is interrupted.
        stop(&run);
        signal(worker, Signal::KILL);
        // The coordinator lives: only killing the process group ends the stopped child.
        signal(run.id(), Signal::INT);
        signal(run.id(), Signal::CONT);
        let status = processes::ended_within(&mut run, TIME_LIMIT_S).expect("a run that ends");
        assert_eq!(status.code(), Some(130), "{status}");
        env.assert_no_process_left();
    }
}

/// The open descriptors of a process, with what they refer to.
fn descriptors_of(pid: u32) -> Vec<(u32, String)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let known = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
    });
    known.collect()
}

/// A worker that inherited the pipe of the signal handlers, or one of another worker, would keep it
/// open; one that inherited the store would drop its locks on exit.
#[test]
fn worker_inherits_only_its_three_pipes() {
    let env = TestEnv::new();
    let mut run = env.spawn(&["run", "--quick", "--jsonl", "os.switch.process"]);
    let held = wait_for(|| {
        let worker = processes::children(run.id()).into_iter().find(is_worker)?;
        let held = [descriptors_of(run.id()), descriptors_of(worker)];
        // Both must still live.
        held.iter().all(|all| all.len() > 2).then_some(held)
    });
    signal(run.id(), Signal::INT);
    processes::ended_within(&mut run, TIME_LIMIT_S).expect("a run that ends");
    let [coordinators, workers] = held.expect("a worker");
    // Descriptors of this program are inherited by both; those without a name of their own (timers,
    // counters) cannot be distinguished.
    let ours = descriptors_of(std::process::id());
    let holds = |all: &[(u32, String)], what: &str| all.iter().any(|(_, other)| other == what);
    let has_no_name = |what: &str| {
        ["/dev/", "/proc/", "/sys/", "anon_inode:"].iter().any(|begin| what.starts_with(begin))
    };
    let inherited = workers.iter().filter(|(number, what)| {
        *number > 2 && !has_no_name(what) && holds(&coordinators, what) && !holds(&ours, what)
    });
    assert_eq!(inherited.collect::<Vec<_>>(), Vec::<&(u32, String)>::new());
    let pipes = workers.iter().filter(|(number, what)| *number < 3 && what.starts_with("pipe:"));
    assert!(pipes.count() > 1, "{workers:?}");
}
