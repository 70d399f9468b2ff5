//! The program while it runs: started, watched, signalled, and what is left of it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use fathom_lab::processes;
use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Folder, Place, text, words};

/// Starts a command whose outputs are read.
pub(crate) fn piped(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Starts a command and reads its output up to a line that contains `sign`.
pub(crate) fn started(place: &Place, line: &str, sign: &str) -> Child {
    let mut command = place.asked(line);
    command.env("FATHOM_TEST_PLACE", place.path());
    let mut child = piped(command);
    while !next_line(&mut child).contains(sign) {}
    child
}

/// The next line that a child prints.
pub(crate) fn next_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut lines = BufReader::with_capacity(1, child.stdout.as_mut().expect("a pipe"));
    assert_ne!(lines.read_line(&mut line).expect("lines"), 0, "it has ended");
    line
}

/// What a process has read and written so far.
pub(crate) struct Io {
    /// Reads.
    pub(crate) calls: u64,
    /// Bytes that it wrote.
    pub(crate) written: u64,
}

impl Io {
    fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        Self { calls: number("syscr:"), written: number("wchar:") }
    }
}

/// Starts a command and waits until it has read or written as much as this wants.
pub(crate) fn begun(place: &Place, line: &str, enough: impl Fn(&Io) -> bool) -> Child {
    let child = piped(place.asked(line));
    let mut looks = 0;
    while !enough(&Io::of(child.id())) {
        looks += 1;
        assert!(looks < 6000, "it did too little in a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it is there");
}

/// Sends a signal to a process, which may have ended just now; whether it was there.
pub(crate) fn signal(pid: u32, signal: Signal) -> bool {
    kill_process(Pid::from_raw(pid as i32).expect("a process"), signal).is_ok()
}

/// How a command ends after a signal.
pub(crate) fn signalled(mut child: Child, signal: Signal) -> ExitStatus {
    send(&child, signal);
    processes::ended_within(&mut child, 30).expect("it ends within half a minute")
}

/// Asserts that a command that is asked to stop does so, and says so.
pub(crate) fn is_interrupted(child: Child, signal: Signal) {
    let status = signalled(child, signal);
    assert_eq!(status.code(), Some(130), "{status}");
}

/// Asserts that no process is left of those which were [`started`] here.
pub(crate) fn none_is_left(place: &Place) {
    let marker = format!("FATHOM_TEST_PLACE={}", place.path().display());
    assert_eq!(processes::left_after(&marker, 10), [0_u32; 0], "processes are left");
}

/// Kills a command in the middle of what it does: no process and no file is left.
pub(crate) fn killed_leaves_nothing(line: &str, sign: &str) {
    let Some(disk) = Folder::on_disk() else { return };
    let place = Place::new();
    let mut child = started(&place, &format!("{line} --folder {}", disk.name()), sign);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("a child").is_none(), "it ended before it was killed");
    send(&child, Signal::KILL);
    child.wait().expect("it ends");
    none_is_left(&place);
    assert!(disk.is_empty(), "files are left");
}

/// The processes whose parent is `pid`.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let output = Command::new("pgrep").args(["-P", &pid.to_string()]).output().expect("pgrep");
    words(&text(&output.stdout)).iter().filter_map(|line| line.parse().ok()).collect()
}

/// Counters, for ten seconds at most, until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    // 5,000 times 2 ms.
    for patience in (0..5000).rev() {
        if is_so() {
            return;
        }
        assert!(patience > 0, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The state letter and what else the kernel says of a process; empty where it is gone.
fn stat(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
}

pub(crate) fn exists(pid: u32) -> bool {
    // A zombie is no running process; its parent may be slow to reap it.
    let stat = stat(pid);
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Asserts that all of these processes end.
pub(crate) fn all_end(pids: &[u32]) {
    eventually("a worker is left", || !pids.iter().any(|pid| exists(*pid)));
}

/// Stops a process, and tells whether it was still there to be stopped.
fn is_held(pid: u32) -> bool {
    signal(pid, Signal::STOP)
        && (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            stat(pid).contains(") T ")
        })
}

/// The workers of a run, the first of them stopped: each lives for some milliseconds, and must not
/// leave of itself meanwhile.
pub(crate) fn held_workers(run: &Child) -> Vec<u32> {
    let mut workers = Vec::new();
    eventually("no worker", || {
        workers = children(run.id());
        workers.first().is_some_and(|worker| is_held(*worker))
    });
    workers
}
