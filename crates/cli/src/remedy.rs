//! What to do about errors of the store and of a plan. They state facts; the options and commands
//! that help are this program's.

use std::error::Error;

use fathom_engine::PlanError;
use fathom_store::{StoreError, VERSION};

const ELSEWHERE: &str = "choose another place with --store or FATHOM_STORE";

/// The error in one line, with its remedy where there is one.
pub fn in_full(error: &(dyn Error + 'static)) -> String {
    match of(error) {
        Some(remedy) => format!("{error}; {remedy}"),
        None => error.to_string(),
    }
}

/// What to do about an error.
pub fn of(error: &(dyn Error + 'static)) -> Option<String> {
    let of_store = || error.downcast_ref().and_then(of_store);
    of_store().or_else(|| error.downcast_ref().and_then(of_plan))
}

fn of_store(error: &StoreError) -> Option<String> {
    use StoreError as E;
    let or_elsewhere = |first: &str| Some(format!("{first}, or {ELSEWHERE}"));
    let only = |text: &str| Some(text.to_owned());
    match error {
        E::NoHome => only("name a file with --store or FATHOM_STORE"),
        E::Missing { .. } => or_elsewhere("make one with `fathom run`"),
        E::NoFolder { .. } => or_elsewhere("create it (mkdir -p)"),
        E::IsDirectory { path } => {
            let inside = path.join("fathom.db");
            Some(format!("name a file in it, such as --store {}", inside.display()))
        }
        E::PermissionDenied { .. } => or_elsewhere("run as its owner"),
        E::Full { .. } => or_elsewhere("free some space"),
        E::Busy { .. } => or_elsewhere("wait for that process"),
        E::OtherVersion { found, .. } if *found > VERSION => or_elsewhere("upgrade fathom"),
        E::OtherVersion { .. } => or_elsewhere("use the fathom that made it"),
        E::NeedsRecovery { .. } => only(
            "copy it with the files beside it to a place that can be written and name that with \
             --store",
        ),
        E::Corrupt { .. } => only("restore a copy, or move it away and start anew"),
        E::Damaged { .. } => only("measure it again, or restore a copy of the store"),
        E::RunExists { .. } => only("start the run again"),
        E::NoSuchRun { .. } => only("`fathom show --runs` lists them"),
        E::Ambiguous { .. } => only("name one by its id"),
        E::TooShort { .. } => only("give more of it, or say `latest`"),
        E::BadName { .. } => only(
            "give its id, the first digits of it, its label, `latest`, or `latest~1` for the one \
             before",
        ),
        E::Device { .. } => or_elsewhere("see what the kernel says of the device (dmesg)"),
        E::NotStorable { .. } => None,
        _ => only(ELSEWHERE),
    }
}

/// The names most like an unknown one, where there are such, and what lists them all.
pub fn did_you_mean(nearest: &str, list: &str) -> String {
    if nearest.is_empty() { list.to_owned() } else { format!("did you mean {nearest}? {list}") }
}

fn of_plan(error: &PlanError) -> Option<String> {
    Some(match error {
        PlanError::Unknown { nearest, .. } => did_you_mean(nearest, "`fathom list` names them all"),
        PlanError::ByHand { command, .. } => format!("measure it with `fathom {command}`"),
        PlanError::CasesOfGroup { name, .. } => format!("`fathom list {name}` names its metrics"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn refused_place_names_store_option() {
        let path = || PathBuf::from("/a/b");
        let errors = [
            StoreError::NoHome,
            StoreError::Missing { path: path() },
            StoreError::IsDirectory { path: path() },
            StoreError::Other { action: "open", path: path(), reason: "read-only".into() },
            StoreError::Full { action: "write", path: path() },
            StoreError::NotAStore { path: path(), reason: "not a database".into() },
        ];
        for error in errors {
            let text = in_full(&error);
            assert!(text.contains("; ") && text.contains("--store"), "{text}");
        }
    }

    #[test]
    fn newer_store_asks_for_upgrade() {
        let of = |found| in_full(&StoreError::OtherVersion { path: "/a".into(), found });
        assert!(of(VERSION + 1).contains("; upgrade fathom, or choose another place"));
        assert!(of(VERSION - 1).contains("; use the fathom that made it, or choose"));
    }

    #[test]
    fn unknown_metric_names_list_command() {
        let error =
            |nearest: &str| PlanError::Unknown { name: "x".into(), nearest: nearest.into() };
        let lists = "no metric or group is called `x`; `fathom list` names them all";
        assert_eq!(in_full(&error("")), lists);
        assert!(in_full(&error("`os`")).contains("`x`; did you mean `os`? `fathom list`"));
    }
}
