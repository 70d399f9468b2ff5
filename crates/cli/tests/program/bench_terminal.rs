//! `fathom bench` on a terminal, with hooks and commands that read it, and commands that are
//! stopped.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::Child;

use fathom_record::{RunState, State};
use rustix::process::{Pid, Signal, kill_process};

use crate::children::{send, spawn_piped, wait_until};
use crate::test_env::{ProgramTestEnv, assert_contains, assert_status, text};

/// Starts the program as the leader of a session on a new terminal, of which this is the other end.
fn on_terminal(env: &ProgramTestEnv, arguments: &[&str]) -> (Child, File) {
    let (mut ours, mut theirs) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both numbers are written before they are used, as descriptors of nobody else.
    let (ours, theirs) = unsafe {
        assert_eq!(
            libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast()),
            0
        );
        (File::from_raw_fd(ours), File::from_raw_fd(theirs))
    };
    let mut command = env.fathom(arguments);
    // SAFETY: system calls only.
    unsafe {
        command.pre_exec(move || {
            let is_leader = libc::setsid() >= 0;
            let has_terminal = libc::ioctl(theirs.as_raw_fd(), libc::TIOCSCTTY, 0) == 0;
            assert!(is_leader && has_terminal);
            Ok(())
        });
    }
    (spawn_piped(command), ours)
}

#[test]
fn hook_asks_on_the_terminal_and_a_run_is_refused() {
    let env = ProgramTestEnv::new();
    let hook = "echo asked >> log; read x </dev/tty; test $x = secret";
    let (child, mut terminal) =
        on_terminal(&env, &["bench", "true", "--runs", "2", "--prepare", hook]);
    terminal.write_all(b"secret\nsecret\n").expect("a terminal");
    let output = child.wait_with_output().expect("it ends");
    assert_status(&output, 0);
    assert_eq!(fs::read_to_string(env.file("log")).expect("asked"), "asked\nasked\n");
    let (child, _terminal) =
        on_terminal(&env, &["bench", "sh -c 'read x </dev/tty'", "--runs", "2"]);
    let output = child.wait_with_output().expect("it ends");
    assert_status(&output, 1);
    assert_contains(&text(&output.stderr), &["waits for the terminal", "--setup"]);
}

#[test]
fn ctrl_c_at_a_hook_ends_the_bench() {
    let env = ProgramTestEnv::new();
    // As one that asks for a password.
    let hook = "stty -echo </dev/tty; echo asked > log; read x </dev/tty";
    let line = ["bench", "true", "--runs", "2", "--setup", hook];
    let (child, mut terminal) = on_terminal(&env, &line);
    wait_until("not asked", || fs::exists(env.file("log")).expect("a folder"));
    terminal.write_all(b"\x03").expect("a terminal");
    let output = child.wait_with_output().expect("it ends");
    assert_status(&output, 130);
    let modes = rustix::termios::tcgetattr(&terminal).expect("a terminal");
    assert!(modes.local_modes.contains(rustix::termios::LocalModes::ECHO), "echoes as before");
}

#[test]
fn stopped_and_continued_run_is_named() {
    let env = ProgramTestEnv::new();
    let command = "sh -c 'echo $$ > pid; until test -e go; do sleep 0.01; done'";
    let child = spawn_piped(env.fathom(&["bench", command, "-n", "waits", "--runs", "1"]));
    let pid = || fs::read_to_string(env.file("pid")).unwrap_or_default();
    wait_until("no run", || pid().ends_with('\n'));
    let run = Pid::from_raw(pid().trim().parse().expect("an id")).expect("an id");
    kill_process(run, Signal::STOP).expect("it runs");
    // It waits anew after each look at its child.
    let waits = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count")
    };
    let before = waits();
    wait_until("no look", || waits() > before + 2);
    kill_process(run, Signal::CONT).expect("it runs");
    fs::write(env.file("go"), "").expect("a file");
    assert_status(&child.wait_with_output().expect("it ends"), 0);
    let record = env.document_of("latest:bench").records.swap_remove(0);
    let reason = &record.verdict.reasons[0];
    assert_eq!(record.verdict.state, State::Noisy);
    assert_eq!(reason.text, "1 of 1 runs stopped by a signal and continued");
}

#[test]
fn ctrl_c_in_the_pilot_keeps_its_runs() {
    let env = ProgramTestEnv::new();
    let command = "sh -c 'echo x >> log; test $(wc -l < log) -lt 3 || exec sleep 600'";
    let child = spawn_piped(env.fathom(&["bench", command, "-n", "late"]));
    let runs = || fs::read_to_string(env.file("log")).unwrap_or_default().lines().count();
    wait_until("no third run", || runs() == 3);
    send(&child, Signal::INT);
    assert_status(&child.wait_with_output().expect("it ends"), 130);
    let document = env.document_of("latest:bench");
    assert_eq!(document.run.state, RunState::Interrupted);
    assert_eq!(document.records[0].summary.as_ref().expect("a summary").n, 2);
}
