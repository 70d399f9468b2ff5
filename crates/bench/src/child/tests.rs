//! Runs of real programs: statuses, redirections, limits, and that nothing is left behind.

use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;

use super::*;

const MINUTE_NS: u64 = 60_000_000_000;

struct Fixture {
    clock: Clock,
    input: std::fs::File,
    output: std::fs::File,
    limit_ns: u64,
    stop: AtomicBool,
}

impl Fixture {
    fn new() -> Self {
        let source = fathom_measure::clock::ClockSource::MonotonicRaw;
        let specification = fathom_measure::clock::Specification::uncalibrated(source);
        Self {
            clock: Clock::from_specification(specification),
            input: std::fs::File::open("/dev/null").expect("a device"),
            output: tempfile::tempfile().expect("a file"),
            limit_ns: MINUTE_NS,
            stop: AtomicBool::new(false),
        }
    }

    fn shell(&self, script: &str) -> Result<ChildUsage, ChildError> {
        let words = ["sh", "-c", script].map(str::to_owned);
        self.run(&ChildProgram::new(Path::new("/bin/sh"), &words).expect("no zero byte"))
    }

    fn run(&self, program: &ChildProgram) -> Result<ChildUsage, ChildError> {
        let around = Surroundings {
            input: self.input.as_fd(),
            output: self.output.as_fd(),
            errors: self.output.as_fd(),
            cpu: None,
            limit_ns: self.limit_ns,
            terminal: None,
        };
        Launcher::new().run(program, around, &self.clock, &self.stop)
    }

    fn written(&self) -> String {
        let mut file = &self.output;
        let mut text = String::new();
        file.rewind().expect("a file");
        file.read_to_string(&mut text).expect("text");
        text
    }
}

/// Whether this thread has a child, running or not reaped: other tests have theirs.
fn has_children() -> bool {
    // SAFETY: asks without reaping; a zeroed structure is valid.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WNOTHREAD;
        libc::waitid(libc::P_ALL, 0, &raw mut info, options) == 0
    }
}

#[test]
fn status_output_and_counters_are_of_the_run() {
    let fixture = Fixture::new();
    let usage = fixture.shell("echo out; echo err >&2; exit 7").expect("a run");
    assert_eq!(usage.status.code(), Some(7));
    assert_eq!(fixture.written(), "out\nerr\n");
    assert!(usage.wall_ns > 0.0 && usage.minor_faults > 0 && usage.memory_bytes > 0);
    assert!(usage.io.is_none_or(|io| io.written == 8), "{:?}", usage.io);
    let usage = fixture.shell("kill -9 $$").expect("a run");
    assert_eq!(usage.status.signal(), Some(9));
}

#[test]
fn time_of_waited_children_is_counted() {
    let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let usage = Fixture::new().shell(&format!("sh -c '{spin}'; true")).expect("a run");
    assert!(usage.user_ns + usage.system_ns > 0.0);
    assert!(usage.status.success());
}

#[test]
fn missing_program_is_an_error_and_leaves_no_child() {
    let fixture = Fixture::new();
    for (path, errno) in [("/nonexistent/x", libc::ENOENT), ("/", libc::EACCES)] {
        let program = ChildProgram::new(Path::new(path), &["x".to_owned()]).expect("no zero byte");
        match fixture.run(&program) {
            Err(ChildError::Start(error)) => assert_eq!(error.raw_os_error(), Some(errno)),
            other => panic!("{path}: {other:?}"),
        }
    }
    assert!(!has_children());
}

#[test]
fn late_run_is_killed_and_reaped() {
    let fixture = Fixture { limit_ns: 1, ..Fixture::new() };
    let ended = fixture.shell("sleep 600");
    assert!(matches!(ended, Err(ChildError::TimedOut(_))), "{ended:?}");
    let fixture = Fixture { stop: AtomicBool::new(true), ..Fixture::new() };
    let ended = fixture.shell("sleep 600");
    assert!(matches!(ended, Err(ChildError::Stopped)), "{ended:?}");
    assert!(!has_children());
}

#[test]
fn what_a_run_leaves_behind_is_killed() {
    // The read end is at its end once nothing holds the other one.
    let (end, held) = rustix::pipe::pipe().expect("a pipe");
    let fixture = Fixture { output: std::fs::File::from(held), ..Fixture::new() };
    let usage = fixture.shell("sleep 600 & exit 0").expect("a run");
    assert!(usage.status.success());
    drop(fixture);
    let mut rest = Vec::new();
    std::fs::File::from(end).read_to_end(&mut rest).expect("its end");
    assert!(rest.is_empty());
}

#[test]
fn signals_have_their_defaults_in_the_child() {
    // SIGPIPE, which this process ignores, and SIGINT are neither ignored nor blocked.
    let fixture = Fixture::new();
    let usage = fixture.shell("grep -E 'Sig(Blk|Ign)' /proc/self/status").expect("a run");
    assert!(usage.status.success());
    for line in fixture.written().lines() {
        let mask = line.split_whitespace().nth(1).expect("a mask");
        let mask = u64::from_str_radix(mask, 16).expect("a mask");
        let bits = (1 << (libc::SIGPIPE - 1)) | (1 << (libc::SIGINT - 1));
        assert_eq!(mask & bits, 0, "{line}");
    }
}

#[test]
fn io_needs_every_line() {
    let text = "rchar: 5\nwchar: 6\nsyscr: 1\nsyscw: 1\nread_bytes: 7\nwrite_bytes: 8\n";
    let io = ChildIo { read: 5, written: 6, device_read: 7, device_written: 8 };
    assert_eq!(parse_io(text), Some(io));
    assert_eq!(parse_io("rchar: 5\n"), None);
}
