//! The doctor: from facts of the host, its current condition and its clock to findings, each with
//! its effect on measurements and its remedy.
//!
//! Every [`Rule`] gives exactly one finding, so that good results are listed, too, and an unread
//! fact is never reported as good. The severity depends on the effect on measurements: a quiet
//! machine, even a virtual one, has no finding above a note.

mod background;
mod clock;
mod cpus;
mod frequency;
mod limits;
mod load;
mod memory;
mod network;
mod permissions;
mod quota;
mod rule;
mod system;

use fathom_record::diagnosis::Acceptable;
use fathom_record::{Finding, Fix, Severity};

pub use load::BUSY_SEVERE;
pub use rule::{Rule, Subject};

/// All rules, in the order in which findings of one severity are listed.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        load::RULES,
        quota::RULES,
        clock::RULES,
        frequency::RULES,
        cpus::RULES,
        memory::RULES,
        background::RULES,
        network::RULES,
        system::RULES,
        limits::RULES,
        permissions::RULES,
    ]
    .into_iter()
    .flatten()
}

/// All findings, most severe first, within a severity in the order of the rules.
pub fn diagnose(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules().map(|rule| rule.apply(subject)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Findings about the load of other programs: no more than notes where that load is expected.
pub fn expect_busy(findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|one| load::OF_OTHERS.contains(&one.id.as_str())) {
        if finding.severity > Severity::Note {
            finding.severity = Severity::Note;
            finding.remedy = Some(Fix::Nothing { why: Acceptable::ExpectedLoad });
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
}

/// The worst severity; good without findings.
pub fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or_default()
}
