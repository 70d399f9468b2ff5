//! Running programs: started, watched and signalled, and what is left of them.

use std::io::{BufRead as _, BufReader};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use fathom_lab::processes;
use fathom_measure::condition::RUN_MARK;
use fathom_store::Store;
use rustix::process::{Pid, Signal, kill_process};

use crate::test_env::{ProgramTestEnv, TestEnvFolder};

/// The longest wait for an event that must happen.
const WAIT_S: u64 = 300;

pub(crate) fn spawn_piped(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Starts a command and waits for a line of output that contains `part`.
pub(crate) fn spawn_until_line(env: &ProgramTestEnv, line: &str, part: &str) -> Child {
    let mut command = env.command(line);
    command.env("FATHOM_TEST_ENV", env.path());
    let mut child = spawn_piped(command);
    while !next_line(&mut child).contains(part) {}
    child
}

pub(crate) fn next_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut lines = BufReader::with_capacity(1, child.stdout.as_mut().expect("a pipe"));
    assert_ne!(lines.read_line(&mut line).expect("lines"), 0, "it has ended");
    line
}

/// Starts a command and waits until a counter of `/proc/PID/io` exceeds a value.
pub(crate) fn spawn_until_io(env: &ProgramTestEnv, line: &str, counter: &str, value: u64) -> Child {
    let child = spawn_piped(env.command(line));
    wait_for_io(&child, counter, value);
    child
}

/// Waits until a counter of `/proc/PID/io` exceeds a value.
pub(crate) fn wait_for_io(child: &Child, counter: &str, value: u64) {
    wait_until("too little I/O", || io(child, counter) > value);
}

/// A counter of `/proc/PID/io`.
pub(crate) fn io(child: &Child, counter: &str) -> u64 {
    let path = format!("/proc/{}/io", child.id());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix(counter)?.strip_prefix(": "));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Takes the name that one run of the machine has. As root in a network of this thread and its
/// children, where no other run has it; else once none has it.
pub(crate) fn hold_run_mark() -> UnixListener {
    // SAFETY: takes no pointer, and what else this process has open stays as it is.
    let _ = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    let address = SocketAddr::from_abstract_name(RUN_MARK).expect("a name");
    let mut bound = None;
    wait_until("other runs are active all the time", || {
        bound = UnixListener::bind_addr(&address).ok();
        bound.is_some()
    });
    bound.expect("bound above")
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// Sends a signal to a process, which may have ended.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid as i32).expect("a pid"), signal);
}

/// Sends a signal and waits for the end.
pub(crate) fn signal_and_wait(mut child: Child, signal: Signal) -> ExitStatus {
    send(&child, signal);
    child.wait().expect("a child")
}

/// Asserts that a signal ends a command with exit status 130.
pub(crate) fn assert_interrupted(child: Child, signal: Signal) {
    let status = signal_and_wait(child, signal);
    assert_eq!(status.code(), Some(130), "{status}");
}

/// Asserts that no process of [`spawn_until_line`] is left.
pub(crate) fn assert_no_process_left(env: &ProgramTestEnv) {
    let marker = format!("FATHOM_TEST_ENV={}", env.path().display());
    assert_eq!(processes::left_after(&marker, WAIT_S), [0_u32; 0], "processes are left");
}

/// Asserts that SIGKILL after a line with `part` leaves no process and no file.
pub(crate) fn assert_kill_leaves_nothing(line: &str, part: &str) {
    let Some(disk) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let mut child = spawn_until_line(&env, &format!("{line} --folder {}", disk.path_text()), part);
    wait_for_io(&child, "wchar", 16 << 20);
    assert!(child.try_wait().expect("a child").is_none(), "it ended before the kill");
    signal_and_wait(child, Signal::KILL);
    assert_no_process_left(&env);
    assert!(disk.is_empty(), "files are left");
}

/// Polls until it is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut pauses = 0;
    while !is_so() {
        assert!(pauses < WAIT_S * 500, "{what}");
        pauses += 1;
        // mood: the one wait for the state of other processes
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the store has a record.
pub(crate) fn wait_for_record(env: &ProgramTestEnv) {
    wait_until("no record is stored", || {
        let runs = Store::open_existing(&env.store()).and_then(|store| store.runs());
        runs.is_ok_and(|runs| runs.first().is_some_and(|run| run.counts.total() > 0))
    });
}

/// Asserts that these processes end.
pub(crate) fn assert_all_end(pids: &[u32]) {
    // A zombie has ended; its parent may be slow to reap it.
    let runs = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    wait_until("a worker is left", || !pids.iter().any(runs));
}
