//! How a process ended, in words.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// A longer line is not read by anybody.
const LINE_MAX_CHARS: usize = 300;

/// The exit status or the signal: `ended with status 7`.
pub fn exit_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(libc::SIGKILL)) => "was killed (by a person, or for lack of memory)".to_owned(),
        (None, Some(signal)) => format!("was killed by signal {signal} ({})", signal_name(signal)),
        (None, None) => "ended for an unknown reason".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => "segmentation fault",
        libc::SIGBUS => "bus error",
        libc::SIGILL => "illegal instruction",
        libc::SIGSYS => "forbidden system call",
        libc::SIGABRT => "abort",
        libc::SIGTERM => "terminated",
        _ => "see `kill -l`",
    }
}

/// The last line of an output that says something.
pub fn last_words(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    // The note after a panic is how to get a backtrace.
    let says = |line: &&str| !line.is_empty() && !line.starts_with("note:");
    let line = text.lines().map(str::trim).rfind(says)?;
    Some(line.chars().take(LINE_MAX_CHARS).collect())
}
