//! Processes that end in unusual ways.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};

use super::*;
use crate::clock::monotonic_raw_ns;

const MINUTE_NS: u64 = 60_000_000_000;

/// No wait for an event lasts longer.
fn until_ns() -> u64 {
    monotonic_raw_ns() + MINUTE_NS
}

fn shell(script: &str) -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(&mut command).expect("a shell")
}

/// Collects without a stop signal.
fn collect(running: &mut Running, time_ns: u64) -> Result<String, CollectError> {
    let (stop, _never): (OwnedFd, OwnedFd) = rustix::pipe::pipe().expect("a pipe");
    let limits = OutputLimits { time_ns, output_bytes: 1 << 20 };
    running.collect(limits, stop.as_fd()).map(exit_text)
}

#[test]
fn early_close_of_stdout_is_not_the_end() {
    for has_pidfd in [true, false] {
        let mut running = shell("exec >&-; sleep 0.2; echo late >&2; exit 3");
        if !has_pidfd {
            running.forget_pidfd();
        }
        assert_eq!(collect(&mut running, MINUTE_NS).expect("it ends"), "exited with status 3");
        assert_eq!(running.output[1], b"late\n");
    }
}

#[test]
fn child_that_holds_stderr_is_killed() {
    // Inherited: its end is the end of the last process that holds it.
    let (end, held) = rustix::pipe::pipe().expect("a pipe");
    let mut running = shell("sleep 600 >/dev/null &");
    drop(held);
    assert_eq!(collect(&mut running, MINUTE_NS).expect("it ends"), "exited with status 0");
    assert_eq!(output::readable([end.as_fd()], until_ns()), Ok([true]));
}

#[test]
fn timeout_keeps_the_output() {
    let mut running = shell("echo answer; exec >&-; sleep 600");
    let stdout = running.stdout().expect("a pipe");
    assert_eq!(output::readable([stdout.as_fd()], until_ns()), Ok([true]));
    let error = collect(&mut running, 50_000_000).expect_err("a timeout");
    assert_eq!(error.to_string(), "timed out after 0.05 s, was killed");
    assert_eq!(running.output[0], b"answer\n");
}

/// Neighbours make a process late; only one that neither runs nor waits, or waits forever, hangs.
#[test]
fn limit_stretches_by_the_wait_for_a_cpu() {
    let limits = OutputLimits { time_ns: 10, output_bytes: 0 };
    assert_eq!([0, 60, 10_000].map(|waited_ns| limits.beside(waited_ns)), [10, 70, 90]);
}

#[test]
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn child_that_shares_a_cpu_waits_for_it() {
    if !std::path::Path::new("/proc/self/schedstat").exists() {
        println!("skipped: this kernel counts no waits for a CPU");
        return;
    }
    let cpu = crate::affinity::allowed()[0];
    let script = "while :; do :; done & while :; do :; done";
    let command = || {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::null());
        Ok(command)
    };
    let running = Running::start_tied(command, &[cpu]).expect("a shell");
    let waits = |_| {
        // mood: until the kernel has counted a wait, however busy the machine is
        std::thread::sleep(std::time::Duration::from_millis(1));
        run_queue_ns(running.id()) > 1_000_000
    };
    assert!((0..60_000).any(waits), "two loops on one CPU wait for each other");
}

#[test]
fn last_words_skip_the_note_after_a_panic() {
    let panic = b"thread panicked at x:\nout of range\nnote: run with `RUST_BACKTRACE=1`\n\n";
    assert_eq!(last_words(panic).as_deref(), Some("out of range"));
    assert_eq!(last_words(b" \n"), None);
    let compiler = b"In file a.c:\na.c:1:5: error: expected ';'\n    1 | int a\n";
    assert_eq!(first_error(compiler).as_deref(), Some("a.c:1:5: error: expected ';'"));
    assert_eq!(first_error(b"no such file"), None);
}
