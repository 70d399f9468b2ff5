//! Exit status and last output of a process as text.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

const LINE_MAX_CHARS: usize = 300;

/// The exit status or the signal, such as `exited with status 7`.
pub fn exit_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(libc::SIGKILL)) => "was killed (by a user or the OOM killer)".to_owned(),
        (None, Some(signal)) => format!("was killed by signal {signal} ({})", signal_name(signal)),
        (None, None) => "ended with an unknown status".to_owned(),
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

/// The first line of an output with the word `error`, as compilers write it.
pub fn first_error(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().map(str::trim).find(|line| line.to_lowercase().contains("error"))?;
    Some(line.chars().take(LINE_MAX_CHARS).collect())
}

/// The last line of an output, without the note on backtraces after a panic.
pub fn last_words(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let is_message = |line: &&str| !line.is_empty() && !line.starts_with("note:");
    let line = text.lines().map(str::trim).rfind(is_message)?;
    Some(line.chars().take(LINE_MAX_CHARS).collect())
}
