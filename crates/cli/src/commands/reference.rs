//! `--reference`: figures of a published study.

use fathom_analysis::reference::{self as published, Reference};
use fathom_report::reference::{known, render};

use super::stored_run;
use crate::arguments::CompareArguments;
use crate::exit::{Status, UsageError, usage_error};

/// Lists the studies, for `--reference` without a name.
pub(super) fn list() -> anyhow::Result<Status> {
    super::print_text(&format!("Published studies: {}.\n", known(&published::all())))
}

pub(super) fn find(command: &str, name: &str) -> Result<Reference, UsageError> {
    published::find(name).ok_or_else(|| {
        let known = known(&published::all());
        UsageError(format!("{command} --reference {name}: unknown study; known: {known}"))
    })
}

/// `fathom compare --reference`: a run beside a study.
pub(super) fn compare(name: &str, arguments: &CompareArguments) -> anyhow::Result<Status> {
    if name.is_empty() {
        return list();
    }
    let reference = find("compare", name)?;
    let run = match arguments.runs.as_slice() {
        [] => "latest",
        [run] => run,
        runs => usage_error!(
            "compare --reference {name}: published figures are compared with one run, but {} were \
             named",
            runs.len()
        ),
    };
    let document = stored_run::document(run, false, &arguments.store)?;
    let beside = published::beside(&reference, &document);
    super::print(arguments.json, &beside, |layout| render(&beside, layout))
}
