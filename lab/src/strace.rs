//! Injecting system call failures with strace.

use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StraceFault {
    /// The call is skipped and fails with this error, such as `ENOSPC`.
    Error(&'static str),
    /// The process gets SIGKILL at the call.
    Kill,
    /// The process gets SIGINT at the call.
    Interrupt,
}

/// A fault at a system call. Calls are counted per name and process, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Injection {
    /// The system call's name.
    pub call: String,
    /// The number of the first call.
    pub at: usize,
    /// The number of consecutive calls; `None` is all from `at` on.
    pub times: Option<usize>,
    pub fault: StraceFault,
}

impl Injection {
    /// The fault at call `at` only.
    pub fn once(call: &str, at: usize, fault: StraceFault) -> Self {
        Self { call: call.to_owned(), at, times: Some(1), fault }
    }

    /// The argument of strace's `-e`.
    fn expression(&self) -> String {
        let Self { call, at, times, fault } = self;
        let fault = match fault {
            StraceFault::Error(name) => format!("error={name}"),
            StraceFault::Kill => "signal=KILL".to_owned(),
            StraceFault::Interrupt => "signal=INT".to_owned(),
        };
        let when = match times {
            None => format!("{at}+"),
            Some(1) => format!("{at}"),
            Some(times) => format!("{at}..{}", at + times - 1),
        };
        format!("inject={call}:{fault}:when={when}")
    }
}

/// `pwrite64 3 ENOSPC`, with `+` for all calls from there on.
impl std::fmt::Display for Injection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let times = match self.times {
            None => "+".to_owned(),
            Some(1) => String::new(),
            Some(times) => format!("×{times}"),
        };
        let fault = match self.fault {
            StraceFault::Error(name) => name,
            StraceFault::Kill => "KILL",
            StraceFault::Interrupt => "INT",
        };
        write!(f, "{} {}{times} {fault}", self.call, self.at)
    }
}

/// Why strace cannot inject faults here; `None` if it can.
pub fn obstacle() -> Option<String> {
    let trial = Command::new("strace")
        .args(["-o", "/dev/null", "-e", "trace=none", "-e", "inject=getpid:error=EIO", "true"])
        .stdin(Stdio::null())
        .output();
    match trial {
        Err(error) => Some(format!("strace: {error}; install strace")),
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            Some(format!("strace cannot trace here: {errors}"))
        }
    }
}

/// strace's arguments before the program's command line: inject `injection`, log the calls of the
/// first thread to `log` with the paths of descriptors. Without an injection all calls are logged.
///
/// With `own_child` the program is the caller's child, instead of strace.
pub fn arguments(injection: Option<&Injection>, log: &Path, own_child: bool) -> Vec<String> {
    let mut words: Vec<String> = vec!["-y".to_owned(), "-o".to_owned()];
    words.push(log.to_string_lossy().into_owned());
    words.extend(own_child.then(|| "-D".to_owned()));
    if let Some(injection) = injection {
        words.extend(["-e".to_owned(), format!("trace={}", injection.call)]);
        words.extend(["-e".to_owned(), injection.expression()]);
    }
    words
}

/// `command` under strace, with its environment, but not its redirections and working directory.
pub fn under(command: &Command, injection: Option<&Injection>, log: &Path) -> Command {
    let mut traced = Command::new("strace");
    traced.args(arguments(injection, log, false)).arg(command.get_program());
    traced.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    traced
}

/// A logged system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StraceCall {
    pub name: String,
    /// The number among calls of this name, from 1.
    pub number: usize,
    /// The log line.
    pub line: String,
}

/// The calls in a log of one thread.
pub fn calls(log: &Path) -> Vec<StraceCall> {
    let bytes = std::fs::read(log).unwrap_or_default();
    let mut counts = std::collections::BTreeMap::new();
    let mut calls = Vec::new();
    for line in String::from_utf8_lossy(&bytes).lines() {
        let name: String =
            line.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        // Lines of signals and the exit start with other characters.
        if name.is_empty() || !line[name.len()..].starts_with('(') {
            continue;
        }
        let number = counts.entry(name.clone()).or_insert(0);
        *number += 1;
        calls.push(StraceCall { name, number: *number, line: line.to_owned() });
    }
    calls
}

/// Whether the program reached the call, so that the fault was injected.
pub fn happened(injection: &Injection, log: &Path) -> bool {
    let calls = calls(log);
    match injection.fault {
        StraceFault::Error(_) => calls.iter().any(|call| call.line.ends_with("(INJECTED)")),
        // A call that was interrupted by a signal is not marked.
        StraceFault::Kill | StraceFault::Interrupt => calls.len() >= injection.at,
    }
}
