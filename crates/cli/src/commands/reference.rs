//! `--reference`: a study that somebody published, by its name; and of `fathom compare`, a run
//! beside its figures.

use fathom_analysis::reference::{self as published, Reference};
use fathom_report::reference::{known, render};

use super::stored;
use crate::arguments::CompareArguments;
use crate::exit::{Status, Usage, refuse};

/// The studies there are, for who names none.
pub(super) fn list() -> anyhow::Result<Status> {
    super::print_text(&format!("There are {}.\n", known(&published::all())))
}

/// The study that a command asks for.
pub(super) fn find(command: &str, name: &str) -> Result<Reference, Usage> {
    published::find(name).ok_or_else(|| {
        let known = known(&published::all());
        Usage(format!("{command} --reference {name}: no such figures; there are {known}"))
    })
}

pub(super) fn beside(name: &str, arguments: &CompareArguments) -> anyhow::Result<Status> {
    if name.is_empty() {
        return list();
    }
    let reference = find("compare", name)?;
    let run = match arguments.runs.as_slice() {
        [] => "latest",
        [run] => run,
        runs => refuse!(
            "compare --reference {name}: one run stands beside published figures, {} were named",
            runs.len()
        ),
    };
    let document = stored::document(run, false, &arguments.store)?;
    let beside = published::beside(&reference, &document);
    super::print(arguments.json, &beside, |layout| render(&beside, layout))
}
