//! Whether a machine can be measured well: from its lasting facts, its momentary ones and its
//! clock to findings, each with its effect on the numbers and its remedy.
//!
//! Every [`Rule`] looks at one topic and gives exactly one finding, so that what was looked at and
//! found in order is said too, and what could not be read is never taken for good. A severity is
//! chosen by what it does to the numbers: an ordinary quiet machine, a virtual one included, has
//! nothing above a note.

mod background;
mod clock;
mod cpus;
mod frequency;
mod limits;
mod load;
mod memory;
mod permissions;
mod quota;
mod rule;
mod system;

use fathom_record::{Finding, Severity};

pub use rule::{Rule, Subject};

/// Every rule, in the order in which findings of one severity are told.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        load::RULES,
        quota::RULES,
        clock::RULES,
        frequency::RULES,
        cpus::RULES,
        memory::RULES,
        background::RULES,
        system::RULES,
        limits::RULES,
        permissions::RULES,
    ]
    .into_iter()
    .flatten()
}

/// All findings, the weightiest first, within a severity in the order of the rules.
pub fn diagnose(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules().map(|rule| rule.apply(subject)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The weightiest severity; good where there is nothing.
pub fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or_default()
}
