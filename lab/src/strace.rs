//! System calls that fail when and how a test wants, by strace.

use std::path::Path;
use std::process::{Command, Stdio};

/// What strace is told to do to a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It is not made, and fails with this error, such as `ENOSPC`.
    Error(&'static str),
    /// The process is killed at it.
    Kill,
    /// The process is asked to stop (SIGINT) at it.
    Interrupt,
}

/// One fault of one call. Calls are counted per name and process, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Injection {
    /// The system call's name.
    pub call: String,
    /// Which one of them.
    pub at: usize,
    /// How many in a row; `None` is every one from there on.
    pub times: Option<usize>,
    /// What happens.
    pub fault: Fault,
}

impl Injection {
    /// The fault at call `at` and at no other.
    pub fn once(call: &str, at: usize, fault: Fault) -> Self {
        Self { call: call.to_owned(), at, times: Some(1), fault }
    }

    /// As strace is told.
    fn expression(&self) -> String {
        let Self { call, at, times, fault } = self;
        let fault = match fault {
            Fault::Error(name) => format!("error={name}"),
            Fault::Kill => "signal=KILL".to_owned(),
            Fault::Interrupt => "signal=INT".to_owned(),
        };
        let when = match times {
            None => format!("{at}+"),
            Some(1) => format!("{at}"),
            Some(times) => format!("{at}..{}", at + times - 1),
        };
        format!("inject={call}:{fault}:when={when}")
    }
}

/// `pwrite64 3 ENOSPC`, with `+` for every one from there on.
impl std::fmt::Display for Injection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let times = match self.times {
            None => "+".to_owned(),
            Some(1) => String::new(),
            Some(times) => format!("×{times}"),
        };
        let fault = match self.fault {
            Fault::Error(name) => name,
            Fault::Kill => "KILL",
            Fault::Interrupt => "INT",
        };
        write!(f, "{} {}{times} {fault}", self.call, self.at)
    }
}

/// Why no call can be made to fail here, if so.
pub fn obstacle() -> Option<String> {
    let trial = Command::new("strace")
        .args(["-o", "/dev/null", "-e", "trace=none", "-e", "inject=getpid:error=EIO", "true"])
        .stdin(Stdio::null())
        .output();
    match trial {
        Err(error) => Some(format!("strace: {error}; install strace")),
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            Some(format!("strace may not trace here: {said}"))
        }
    }
}

/// The arguments by which strace runs a program with `injection` and writes its calls to `log`:
/// those of its first thread alone, with the paths of its descriptors. Without an injection all
/// calls are written. The program's own words follow.
///
/// As `own_child` the program stays a child of the caller, which strace then is no longer.
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

/// `command` under strace, with its environment. Its output and folder are not taken over.
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

/// One system call that a program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Which one of this name, from 1.
    pub number: usize,
    /// The whole line of the log.
    pub line: String,
}

/// The calls of a log of one thread, in order.
pub fn calls(log: &Path) -> Vec<Call> {
    let bytes = std::fs::read(log).unwrap_or_default();
    let mut counts = std::collections::BTreeMap::new();
    let mut calls = Vec::new();
    for line in String::from_utf8_lossy(&bytes).lines() {
        let name: String =
            line.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        // Signals and the exit begin with other characters.
        if name.is_empty() || !line[name.len()..].starts_with('(') {
            continue;
        }
        let number = counts.entry(name.clone()).or_insert(0);
        *number += 1;
        calls.push(Call { name, number: *number, line: line.to_owned() });
    }
    calls
}

/// Whether a fault happened: whether the program came to that call at all.
pub fn happened(injection: &Injection, log: &Path) -> bool {
    let calls = calls(log);
    match injection.fault {
        Fault::Error(_) => calls.iter().any(|call| call.line.ends_with("(INJECTED)")),
        // A killed call has no result to be marked.
        Fault::Kill | Fault::Interrupt => calls.len() >= injection.at,
    }
}
