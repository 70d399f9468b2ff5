//! Remedies for errors of the store and of a plan, which know no options or commands themselves.

use std::error::Error;
use std::io::ErrorKind;

use fathom_engine::{CaseSelector, PlanError};
use fathom_probes::REGISTRY;
use fathom_record::{Activity, is_own, system_cause};
use fathom_report::remote_option;
use fathom_service::ServiceError;
use fathom_store::{OLDEST, StoreError, VERSION};
use rustix::io::Errno;

const OTHER_STORE: &str = "choose another store with --store or FATHOM_STORE";

/// The error in one line, followed by its remedy if it has one.
pub fn with_remedy(error: &(dyn Error + 'static)) -> String {
    match remedy_for(error) {
        Some(remedy) => format!("{error}; {remedy}"),
        None => error.to_string(),
    }
}

/// An error with its causes and the first remedy, in one line.
pub fn line(error: &anyhow::Error) -> String {
    let text = |cause: &(dyn Error + 'static)| match cause.downcast_ref::<std::io::Error>() {
        // Of the system: another one has its own words, and perhaps its remedy.
        Some(io) if io.get_ref().is_none() => system_cause(io, Activity::Read).to_string(),
        Some(io) => io.to_string(),
        None => cause.to_string(),
    };
    let causes: Vec<String> = error.chain().map(text).collect();
    let remedy = error.chain().find_map(remedy_for);
    causes.into_iter().collect::<Vec<_>>().join(": ")
        + &remedy.map_or(String::new(), |it| format!("; {it}"))
}

fn remedy_for(error: &(dyn Error + 'static)) -> Option<String> {
    let for_store = || error.downcast_ref().and_then(for_store);
    let for_plan = || error.downcast_ref().and_then(for_plan);
    for_store().or_else(for_plan).or_else(|| error.downcast_ref().map(for_service))
}

fn for_service(error: &ServiceError) -> String {
    use ServiceError as E;
    match error {
        E::Folder { error: Errno::ACCESS, .. } => "run as a user that can read it".to_owned(),
        E::Folder { .. } => "name an existing directory".to_owned(),
        E::Openat2 { .. } => "it needs Linux 5.6, and a sandbox that allows it".to_owned(),
        E::Listen { error: Errno::ADDRINUSE, .. } => {
            "stop the program that uses it, or choose another port with --listen".to_owned()
        }
        E::Listen { error: Errno::ACCESS, .. } => {
            "choose a port above 1023 with --listen".to_owned()
        }
        E::Listen { .. } => "choose an address of this machine with --listen".to_owned(),
        E::NeedsToken { .. } => "add --token-file FILE".to_owned(),
        E::Congestion { .. } => "choose another with --congestion".to_owned(),
        E::TokenMode { path, .. } => format!("chmod 600 {}", path.display()),
        E::TokenFile { error, .. } if error.kind() == ErrorKind::NotFound => {
            "name a file in an existing directory with --token-file".to_owned()
        }
        E::TokenFile { .. } => {
            "name a readable file, or a new one in a writable folder, with --token-file".to_owned()
        }
        E::TokenKind { .. } | E::TokenText { .. } => {
            "name another file with --token-file; a missing one is made".to_owned()
        }
        E::Descriptors { .. } => "raise it (ulimit -n)".to_owned(),
        E::Start(_) => "check the limits of threads and memory".to_owned(),
    }
}

fn for_store(error: &StoreError) -> Option<String> {
    use StoreError as E;
    let or_other = |first: &str| Some(format!("{first}, or {OTHER_STORE}"));
    let only = |text: &str| Some(text.to_owned());
    match error {
        E::BadAddress { .. } => {
            only("name a file, or postgres://USER@HOST/DATABASE, with --store or FATHOM_STORE")
        }
        E::Server { .. } => or_other(
            "check that the server runs and can be reached, and what the address says: host, port, \
             sslmode; a password is taken from PGPASSWORD or ~/.pgpass",
        ),
        E::Encoding { .. } => only(
            "name another database, such as of CREATE DATABASE fathom ENCODING 'UTF8' TEMPLATE \
             template0",
        ),
        E::Rights { grant, .. } => or_other(&format!("have its owner execute `{grant}`")),
        E::Denied { .. } => or_other("check the role, its password and its rights"),
        E::OnNetwork { .. } => only(
            "name a file on a local disk with --store, or a PostgreSQL database that all share",
        ),
        E::NoHome => only("name a file with --store or FATHOM_STORE"),
        E::Missing { .. } => or_other("create one with `fathom run`"),
        E::NoFolder { .. } => or_other("create it (mkdir -p)"),
        E::IsDirectory { path } => {
            let inside = path.join("fathom.db");
            Some(format!("name a file in it, such as --store {}", inside.display()))
        }
        E::PermissionDenied { .. } => or_other("run as its owner"),
        E::Full { cause, .. } => or_other(cause.remedy.unwrap_or("free some space")),
        E::Busy { .. } => or_other("wait for that process"),
        E::OtherVersion { found, .. } if *found > VERSION => or_other("upgrade fathom"),
        E::OtherVersion { found, .. } if *found >= OLDEST => or_other("omit --no-migrate"),
        E::OtherVersion { .. } => or_other("use the fathom that created it"),
        E::NeedsRecovery { .. } => only(
            "copy it with the files beside it to a writable directory and name the copy with \
             --store",
        ),
        E::Corrupt { .. } => only("restore a backup, or move it away to start a new one"),
        E::Damaged { .. } => only("measure it again, or restore a backup of the store"),
        E::RunExists { .. } => only("start the run again"),
        E::NoSuchRun { .. } | E::NoSuchLatest { .. } => only("`fathom show --runs` lists them"),
        E::Ambiguous { .. } => only("name one by its id"),
        E::TooShort { .. } => only("give more digits, or use `latest`"),
        E::BadName { .. } => only(
            "use an id, its first digits, a label, `latest`, `latest~1` for the run before it, or \
             `latest:file` (or load, transfer, fetch, bench) for the latest run of such a command",
        ),
        E::Device { .. } => or_other("check the kernel log for device errors (dmesg)"),
        E::NotStorable { .. } => None,
        _ => only(OTHER_STORE),
    }
}

/// Suggests the nearest names, if any, and the command that lists all.
pub fn did_you_mean(nearest: &str, list: &str) -> String {
    if nearest.is_empty() { list.to_owned() } else { format!("did you mean {nearest}? {list}") }
}

/// Whether PATH has a program of this name.
pub fn is_program(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}

/// The command that measures the named cases of a metric.
pub fn measuring(word: &CaseSelector, id: &str) -> String {
    match REGISTRY.command_of(id) {
        Some(command) => command.line(),
        None => match remote_option(&word.text).as_str() {
            "" => format!("fathom run {}", word.quoted(id)),
            remote => format!("fathom run {}{remote}", word.clone().without("to").quoted(id)),
        },
    }
}

fn for_plan(error: &PlanError) -> Option<String> {
    Some(match error {
        PlanError::Unknown { name, .. } if is_own(name) => {
            format!("`fathom show {name}` shows results of commands and other programs")
        }
        PlanError::Unknown { name, nearest } if nearest.is_empty() && is_program(name) => {
            format!("`fathom bench -- {name}` times a program; `fathom list` lists metrics")
        }
        PlanError::Unknown { nearest, .. } => did_you_mean(nearest, "`fathom list` lists them all"),
        PlanError::ByHand { command, .. } => format!("measure it with `fathom {command}`"),
        PlanError::NothingRemote => "add `network`, or omit --remote".to_owned(),
        PlanError::CasesOfGroup { name, .. } => format!("`fathom list {name}` lists its metrics"),
        PlanError::NoSuchCase { text, .. } if !remote_option(text).is_empty() => {
            let word = CaseSelector::parse(text).ok()?;
            format!("measure it with `{}`", measuring(&word, &word.name))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn store_errors_name_the_store_option() {
        let path = || PathBuf::from("/a/b");
        let full = || system_cause(&Errno::NOSPC.into(), Activity::Other);
        let errors = [
            StoreError::NoHome,
            StoreError::Missing { path: path() },
            StoreError::IsDirectory { path: path() },
            StoreError::Other { action: "open", path: path(), reason: "read-only".into() },
            StoreError::Full { action: "write", path: path(), cause: full() },
            StoreError::NotAStore { path: path(), reason: "not a database".into() },
            StoreError::BadAddress { reason: "no database".into() },
            StoreError::Server { action: "connect to", path: path(), reason: "refused".into() },
            StoreError::Denied { action: "write", path: path(), reason: "no right".into() },
            StoreError::Rights { path: path(), grant: "GRANT".into() },
            StoreError::OnNetwork { action: "write", path: path(), kind: "nfs4".into() },
        ];
        for error in errors {
            let text = with_remedy(&error);
            assert!(text.contains("; ") && text.contains("--store"), "{text}");
        }
    }

    #[test]
    fn locked_store_is_waited_for() {
        let text = with_remedy(&StoreError::Busy { action: "open", path: "/a".into() });
        let end = "locked for 10 s by another process; wait for that process, or choose another";
        assert!(text.contains(end), "{text}");
    }

    #[test]
    fn newer_store_needs_an_upgrade() {
        let text = |found| with_remedy(&StoreError::OtherVersion { path: "/a".into(), found });
        assert!(text(VERSION + 1).contains("; upgrade fathom, or choose another store"));
        assert!(text(OLDEST - 1).contains("; use the fathom that created it, or choose"));
        assert!(text(OLDEST).contains("; omit --no-migrate, or choose"));
    }

    #[test]
    fn unknown_metric_suggests_names() {
        let text = |nearest: &str| {
            with_remedy(&PlanError::Unknown { name: "x".into(), nearest: nearest.into() })
        };
        assert!(text("").ends_with("`x`; `fathom list` lists them all"), "{}", text(""));
        assert!(text("`os`").contains("`x`; did you mean `os`? `fathom list`"));
    }
}
