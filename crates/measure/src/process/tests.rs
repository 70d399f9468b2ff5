//! Processes that end in unusual ways.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};

use super::*;

fn shell(script: &str) -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(&mut command).expect("a shell")
}

/// Collects without a stop signal.
fn collect(running: &mut Running, seconds: u64) -> Result<String, CollectError> {
    let (stop, _never): (OwnedFd, OwnedFd) = rustix::pipe::pipe().expect("a pipe");
    let limits = Limits { time_ns: seconds * 1_000_000_000, output_bytes: 1 << 20 };
    running.collect(limits, stop.as_fd()).map(exit_text)
}

#[test]
fn early_close_of_stdout_is_not_the_end() {
    for has_pidfd in [true, false] {
        let mut running = shell("exec >&-; sleep 0.2; echo late >&2; exit 3");
        if !has_pidfd {
            running.forget_pidfd();
        }
        assert_eq!(collect(&mut running, 60).expect("it ends"), "exited with status 3");
        assert_eq!(running.output[1], b"late\n");
    }
}

#[test]
fn child_that_holds_stderr_is_killed() {
    let mut running = shell("sleep 600 >/dev/null & echo $!");
    assert_eq!(collect(&mut running, 60).expect("it ends"), "exited with status 0");
    let child = String::from_utf8_lossy(&running.output[0]).trim().to_owned();
    let is_gone = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    assert!(is_gone, "{child} is left");
}

#[test]
fn timeout_keeps_the_output() {
    let mut running = shell("echo answer; exec >&-; sleep 600");
    let error = collect(&mut running, 1).expect_err("a timeout");
    assert_eq!(error.to_string(), "timed out after 1 s, was killed");
    assert_eq!(running.output[0], b"answer\n");
}

#[test]
fn last_words_skip_the_note_after_a_panic() {
    let panic = b"thread panicked at x:\nout of range\nnote: run with `RUST_BACKTRACE=1`\n\n";
    assert_eq!(last_words(panic).as_deref(), Some("out of range"));
    assert_eq!(last_words(b" \n"), None);
}
