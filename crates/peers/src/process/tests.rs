use std::os::fd::AsFd as _;

use fathom_measure::affinity::allowed;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::*;

/// More than any program here needs.
const LONG_NS: u64 = 3_600_000_000_000;

/// Runs a command on these CPUs, or on all.
fn run_on(cpus: Option<u32>, invocation: &Invocation, limit_ns: u64) -> Result<Output, RunError> {
    let (stop, _writer) = rustix::pipe::pipe().expect("a pipe");
    let cpus = cpus.map_or_else(allowed, |cpu| vec![cpu]);
    Runner { stop: stop.as_fd(), limit_ns, cpus }.run(invocation)
}

fn shell(script: &str) -> Invocation {
    Invocation::new("sh", ["-c", script])
}

fn run(script: &str) -> Result<Output, RunError> {
    run_on(None, &shell(script), LONG_NS)
}

fn reason(outcome: Result<Output, RunError>) -> String {
    match outcome {
        Err(RunError::Failed(why)) => why,
        other => panic!("it did not fail: {other:?}"),
    }
}

/// Waits until a process has ended.
fn wait_for_end(pid: &str) {
    let pid = pid.parse().ok().and_then(Pid::from_raw).expect("a process");
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let mut waits = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    poll(&mut waits, None).expect("it ends");
}

#[test]
fn output_is_complete_and_in_the_c_locale() {
    let output = run("echo $LC_ALL; echo more >&2; sleep 0.05").unwrap();
    assert_eq!((output.out.as_str(), output.err.as_str()), ("C\n", "more\n"));
    assert!(output.ns > 50e6, "wall time: {}", output.ns);
}

#[test]
fn input_and_removed_variables_reach_the_program() {
    let mut invocation = Invocation::new("/bin/sh", ["-c", "read a; echo $a ${HOME-none}"]);
    invocation.input = "given\n";
    invocation.without = &["HOME"];
    assert_eq!(run_on(None, &invocation, LONG_NS).unwrap().out, "given none\n");
}

#[test]
fn program_runs_on_the_given_cpus() {
    let one = allowed()[0];
    let list = Invocation::new("grep", ["Cpus_allowed_list", "/proc/self/status"]);
    let output = run_on(Some(one), &list, LONG_NS).unwrap().out;
    assert_eq!(output.split_whitespace().last(), Some(one.to_string().as_str()), "{output}");
}

#[test]
fn failure_quotes_the_last_line() {
    let why = reason(run("echo no such benchmark >&2; exit 3"));
    assert!(why.starts_with("sh: ") && why.ends_with("status 3: no such benchmark"), "{why}");
    assert!(reason(run("kill -SEGV $$")).contains("signal 11"));
    assert!(reason(run("head -c 9000000 /dev/zero")).contains("4 MiB"));
    let why = reason(run_on(None, &Invocation::new("no-such-program", ["x"]), LONG_NS));
    assert!(why.starts_with("no-such-program: cannot start: "), "{why}");
}

#[test]
fn hanging_program_is_killed() {
    let why = reason(run_on(None, &Invocation::new("sleep", ["3600"]), 500_000_000));
    assert!(why.contains("0.5 s"), "{why}");
}

#[test]
fn stopped_program_is_killed_with_all_children() {
    let folder = tempfile::tempdir().expect("a folder");
    let [pids, ready, stop] = ["pids", "ready", "stop"].map(|name| folder.path().join(name));
    for fifo in [&ready, &stop] {
        rustix::fs::mkfifoat(rustix::fs::CWD, fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
    }
    let stop = std::fs::File::options().read(true).write(true).open(stop).expect("a FIFO");
    // One child in its process group, one in another session; all ignore SIGTERM. Once both have
    // started, the user stops the program.
    let child = "trap \"\" TERM; echo $$ >> pids; echo >&3; sleep 3600; :";
    let script = format!(
        "cd {}; trap '' TERM; exec 3<>ready; echo $$ > pids; sh -c '{child}' & \
         setsid sh -c '{child}' & read a <&3; read b <&3; echo > stop; sleep 3600; :",
        folder.path().display()
    );
    let runner = Runner { stop: stop.as_fd(), limit_ns: LONG_NS, cpus: allowed() };
    assert_eq!(runner.run(&shell(&script)), Err(RunError::Stopped));
    let list = std::fs::read_to_string(&pids).expect("they started");
    assert_eq!(list.lines().count(), 3, "{list}");
    list.lines().for_each(wait_for_end);
}

#[test]
fn child_that_outlives_its_program_is_killed() {
    let output = run("sleep 3600 > /dev/null 2>&1 & echo $!").unwrap();
    wait_for_end(output.out.trim());
}

#[test]
fn lost_time_is_part_of_the_run() {
    let one = allowed()[0];
    let output = run_on(Some(one), &shell(":"), LONG_NS).unwrap();
    let share = output.lost_ns.map(|ns| ns / output.ns);
    assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{share:?}");
}

#[test]
#[ignore = "lab: the scheduler must preempt"]
fn preemption_is_counted() {
    // Two CPU-bound processes on one CPU.
    let count = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let script = format!("({count}) & {count}; wait");
    let output = run_on(Some(allowed()[0]), &shell(&script), LONG_NS).unwrap();
    assert!(output.preempted > 5, "{output:?}");
}

#[test]
fn user_stops_a_program() {
    let (stop, writer) = rustix::pipe::pipe().expect("a pipe");
    rustix::io::write(&writer, b"!").expect("space in the pipe");
    let runner = Runner { stop: stop.as_fd(), limit_ns: LONG_NS, cpus: allowed() };
    let outcome = runner.run(&Invocation::new("sleep", ["3600"]));
    assert_eq!(outcome, Err(RunError::Stopped));
}

#[test]
fn command_is_quoted_for_a_shell() {
    let invocation = Invocation::new("fathom", ["run", "os.syscall{call=stat}", "it's", ""]);
    assert_eq!(invocation.to_string(), r"fathom run 'os.syscall{call=stat}' 'it'\''s' ''");
}
