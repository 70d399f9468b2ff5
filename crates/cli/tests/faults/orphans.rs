//! No worker outlives its coordinator, no child its worker: also one that is stopped, or that never
//! comes to do anything about it.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use fathom_engine::VisitRequest;
use fathom_engine::worker::Workers;
use fathom_lab::processes;
use rustix::process::{Pid, Signal, kill_process};

use crate::count;
use crate::test_env::TestEnv;

/// Set where this program is the coordinator: what its worker is.
const PART: &str = "FATHOM_TEST_TIE";

/// No run here lasts longer.
const PATIENCE_S: u64 = 60;

/// Looks for something that comes soon, a millisecond apart.
const LOOKS: usize = 30_000;

fn signal(pid: u32, signal: Signal) {
    // It may have ended just now.
    let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, signal));
}

fn awaited<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    (0..LOOKS).find_map(|_| {
        let found = look();
        if found.is_none() {
            sleep(Duration::from_millis(1));
        }
        found
    })
}

/// Orphans come to this process, which lies in their session: the kernel then shows no mercy to
/// those that are stopped, as it would if they came to the first process of all.
fn take_orphans() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a subreaper");
}

fn nothing_is_left(env: &TestEnv, of_what: &str) {
    let left = env.running_processes();
    left.iter().for_each(|pid| signal(*pid, Signal::KILL));
    assert!(left.is_empty(), "{left:?} outlived {of_what}");
}

/// A coordinator, played by this program.
fn coordinator_with(part: &str, env: &TestEnv) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(["ties::coordinator", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env("FATHOM_STORE", env.store());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// A visit that lasts.
fn request() -> VisitRequest {
    let mut request = crate::worker_calls::request(("os.switch.process", "set_bytes", 0));
    request.settings.rounds = 1000;
    request.settings.batch_floor_ns = 1e7;
    request.settings.time_limit_ns = 60e9;
    request
}

/// The coordinator. Without a part it is an empty test.
#[test]
fn coordinator() {
    match std::env::var(PART).as_deref() {
        Ok("a worker that does nothing") => {
            let arguments = ["-c", "kill -STOP $$; exec sleep 1000"].map(str::to_owned).into();
            let program = PathBuf::from("/bin/sh");
            let workers = Workers { program, arguments, grace_ns: 1e12 };
            let (stop, _never) = UnixStream::pair().expect("a pair");
            workers.visit(&request(), &stop);
        }
        // As the program starts where its file gives capabilities: the kernel forgot the tie.
        Ok("a worker that nobody tied") => {
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

/// What is in the state of a process: `T` where it is stopped.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[test]
fn stopped_worker_dies_with_its_coordinator() {
    take_orphans();
    let env = TestEnv::new();
    let mut run = coordinator_with("a worker that does nothing", &env);
    let stopped =
        awaited(|| processes::descendants(run.id()).into_iter().find(|pid| is_stopped(*pid)));
    run.kill().expect("it is ours");
    run.wait().expect("it ends");
    assert!(stopped.is_some(), "the worker was never there");
    nothing_is_left(&env, "the coordinator");
}

#[test]
fn worker_and_children_die_with_coordinator() {
    take_orphans();
    let env = TestEnv::new();
    let mut run = coordinator_with("a worker that nobody tied", &env);
    // With a child it is past its begin.
    let family = awaited(|| Some(processes::descendants(run.id())).filter(|all| all.len() > 1));
    // The child ties itself in its first two system calls.
    sleep(Duration::from_millis(300));
    family.iter().flatten().for_each(|pid| signal(*pid, Signal::STOP));
    let stopped = awaited(|| family.iter().flatten().all(|pid| is_stopped(*pid)).then_some(()));
    run.kill().expect("it is ours");
    run.wait().expect("it ends");
    assert!(family.is_some() && stopped.is_some(), "there was never a worker with a child");
    nothing_is_left(&env, "the coordinator");
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(said.contains("the coordinator has ended"), "{said}");
}

/// A worker's child that is stopped notices nothing, and is not waited for by anybody.
#[test]
fn children_of_killed_worker_die() {
    for _ in 0..amount(2, 20) {
        let env = TestEnv::new();
        let arguments = ["run", "--quick", "--jsonl", "os.switch.process"];
        let mut command = env.fathom(&arguments);
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
        let left = env.running_processes();
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        assert!(left.is_empty(), "{left:?} outlived its worker");
    }
}

/// What a process holds open, and as which descriptor.
fn open_in(pid: u32) -> Vec<(u32, String)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let known = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
    });
    known.collect()
}

/// A worker that held the pipe by which a person stops the run, or another worker's, would keep it
/// from being seen to end; one that held the store would drop its locks.
#[test]
fn worker_inherits_only_its_three_pipes() {
    let env = TestEnv::new();
    let mut command = env.fathom(&["run", "--quick", "--jsonl", "os.switch.process"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let is_program = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.ends_with(b"\0worker\0")
    };
    let held = awaited(|| {
        let worker = processes::children(run.id()).into_iter().find(is_program)?;
        let held = [open_in(run.id()), open_in(worker)];
        // Both lived until they were looked at.
        held.iter().all(|all| all.len() > 2).then_some(held)
    });
    signal(run.id(), Signal::INT);
    processes::ended_within(&mut run, PATIENCE_S).expect("a run that ends");
    let [coordinators, workers] = held.expect("a worker");
    // What this program was started with goes on to both, and what has no name of its own (timers,
    // counters) looks alike in both.
    let ours = open_in(std::process::id());
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
