//! docs/evidence/HTTP-PEERS.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, HTTP_PEERS};

use super::explain::{ExplainDifference, Explanation};
use super::observe::ObserveOutcome;
use super::servers::PROGRAMS;
use crate::corpus::{CorpusCase, THEMES};

pub(super) struct PageCompared {
    /// Cases that only concern our own resources and tokens.
    pub(super) skipped: Vec<CorpusCase>,
    pub(super) cases: Vec<CorpusCase>,
    pub(super) own: Vec<ObserveOutcome>,
    /// Of each peer.
    pub(super) outcomes: Vec<Vec<ObserveOutcome>>,
    /// Each with the index of its explanation.
    pub(super) differences: Vec<(ExplainDifference, usize)>,
    pub(super) explanations: Vec<Explanation>,
}

const PREFACE: &str = "\
[The corpus](../../crates/service/tests/corpus/README.md) is sent to `fathom serve`, nginx, Apache
httpd, lighttpd and Caddy over the same folder, each with
[a minimal configuration](../../crates/service/tests/peers) and its defaults otherwise. Every
difference has [an explanation](../../crates/service/tests/peers/explanations.txt): the target fails
if one has none, or if an explanation explains nothing.

An outcome is the statuses of all answers to a case, and what the next request on the connection
meets: `keep` (it is answered), `close`, or `wait` (it is read as the rest of the case, or not
answered). `:hidden` marks the answer to the request that is hidden in or behind another, `:outside`
a file outside the folder, `:other` a body that is not Fathom's; `/body` is a body after HEAD,
`headless` an answer without a head. Listings of folders are not compared.
";

/// Writes the page; every difference has an explanation by now.
pub(super) fn write(compared: &PageCompared) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let parts = [PREFACE.to_owned(), counts(compared), hidden(compared), explained(compared)];
    let contents = EvidenceContents {
        parameters: &[],
        origins: &[("", &EvidenceOrigin::here(&root))],
        criteria: &[Criterion::new("every difference has an explanation", true)],
        body: &parts.join("\n"),
    };
    HTTP_PEERS.write(&root, &contents).expect("a page");
}

fn counts(compared: &PageCompared) -> String {
    let total = compared.cases.len();
    let mut text = "\
| server | version | cases | as Fathom | RFC asks for Fathom's | for the peer's | allows both |\n\
|---|---|---|---|---|---|---|\n"
        .to_owned();
    for program in &PROGRAMS {
        let of_peer = compared.differences.iter().filter(|(one, _)| one.peer == program.name);
        let rights: Vec<&str> =
            of_peer.map(|(_, cause)| &*compared.explanations[*cause].right).collect();
        let count = |right: &str| rights.iter().filter(|one| **one == right).count();
        let version = program.version();
        let (name, same) = (program.name, total - rights.len());
        let (ours, theirs, both) = (count("ours"), count("theirs"), count("both"));
        let _ = writeln!(
            text,
            "| {name} | {version} | {total} | {same} | {ours} | {theirs} | {both} |"
        );
    }
    let themes = THEMES.iter().chain(&["targets"]).filter_map(|theme| {
        let count = compared.skipped.iter().filter(|case| case.theme == *theme).count();
        (count > 0).then(|| format!("{count} of `{theme}`"))
    });
    let themes = themes.collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        text,
        "\n{} cases are not compared, as they concern only the resources below `/.fathom` and the \
         tokens of Fathom: {themes}.",
        compared.skipped.len()
    );
    text
}

/// The cases whose hidden request not all servers answer.
fn hidden(compared: &PageCompared) -> String {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (at, case) in compared.cases.iter().enumerate() {
        let own = &compared.own[at];
        let theirs = compared.outcomes.iter().map(|outcomes| &outcomes[at]);
        if theirs.clone().any(|outcome| outcome.hidden() != own.hidden()) {
            let cells = theirs.map(|outcome| outcome.text(Some(own)));
            let cells: Vec<String> = std::iter::once(own.text(None)).chain(cells).collect();
            rows.entry(cells.join(" | ")).or_default().push(case.name.clone());
        }
    }
    let mut text = "\
## Hidden requests\n\n\
Cases whose hidden request is answered by some servers and not by others. Where one of them is a\n\
proxy before another, the two disagree on what is a request. An answer to it is right where the\n\
request is behind the end of the one before.\n\n"
        .to_owned();
    let names = PROGRAMS.each_ref().map(|program| program.name).join(" | ");
    let _ = writeln!(text, "| cases | Fathom | {names} |\n|---|---|---|---|---|---|");
    for (cells, names) in rows {
        let _ = writeln!(text, "| {} | {cells} |", names.join(", "));
    }
    text
}

fn explained(compared: &PageCompared) -> String {
    let mut text = "## Differences\n".to_owned();
    for (right, title) in [
        ("theirs", "The RFC asks for what the peer does"),
        ("ours", "The RFC asks for what Fathom does"),
        ("both", "The RFC allows both, or does not say"),
    ] {
        let names = PROGRAMS.each_ref().map(|program| program.name).join(" | ");
        let _ = writeln!(
            text,
            "\n### {title}\n\n| clause | what the peer does | {names} | for example |\n\
             |---|---|---|---|---|---|---|"
        );
        for (index, explanation) in compared.explanations.iter().enumerate() {
            if explanation.right == right {
                row(&mut text, compared, index);
            }
        }
    }
    text
}

/// How many cases of each peer an explanation covers, and one of them.
fn row(text: &mut String, compared: &PageCompared, index: usize) {
    let Explanation { clause, text: what, .. } = &compared.explanations[index];
    let differences = compared.differences.iter().filter(|(_, cause)| *cause == index);
    let covered: Vec<&ExplainDifference> = differences.map(|(difference, _)| difference).collect();
    let cells = PROGRAMS.each_ref().map(|program| {
        match covered.iter().filter(|one| one.peer == program.name).count() {
            0 => String::new(),
            count => count.to_string(),
        }
    });
    let ExplainDifference { peer, case, ours, theirs } = covered[0];
    let cells = cells.join(" | ");
    let _ = writeln!(text, "| {clause} | {what} | {cells} | {case}: {ours} → {theirs} ({peer}) |");
}
