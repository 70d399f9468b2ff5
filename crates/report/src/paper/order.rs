//! The chapters of a paper in their order.

use fathom_record::Document;

use super::block::Block;
use super::chapter::{self, metrics, of_metrics};
use super::chapters::CHAPTERS;
use super::{Describe, Sources, heading, study, text};

/// The chapters of all runs: those of the study in its order, the further results of each group,
/// other commands, and what was not measured.
pub(super) fn chapters(
    documents: &[Document],
    describe: Describe<'_>,
    sources: &mut Sources,
) -> Vec<Block> {
    let (runs, mut commands): (Vec<&Document>, Vec<&Document>) =
        documents.iter().partition(|it| it.run.procedure.is_none());
    // Chapters of several runs have the same titles.
    let of_run = |document: &Document| match runs.len() {
        1 => String::new(),
        _ => format!(", run {}", document.run.id),
    };
    let mut blocks = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    for chapter in &CHAPTERS {
        let before = blocks.len();
        for document in &runs {
            let own = document.records.iter().filter(|it| chapter.has(it.metric.as_str()));
            let metrics = metrics(own);
            if !metrics.is_empty() {
                blocks.push(heading(2, format!("{}{}", chapter.title, of_run(document))));
                blocks.extend(of_metrics(&metrics, document, chapter.figures, describe, sources));
            }
        }
        let is_of = |it: &&Document| it.run.procedure.as_deref() == chapter.procedure();
        for document in commands.extract_if(.., |it| is_of(it)) {
            blocks.extend(study::of_command(document, chapter.title, describe, sources));
        }
        if blocks.len() == before {
            missing.push(format!("{} (`{}`)", chapter.title, chapter.command));
        }
    }
    for document in &runs {
        blocks.extend(chapter::further(document, &of_run(document), describe, sources));
    }
    for document in commands {
        blocks.extend(study::of_command(document, "", describe, sources));
    }
    if !runs.is_empty() {
        blocks.extend(not_measured(documents, missing));
    }
    blocks
}

/// The chapters without results, and whether another host had a part, in one sentence.
fn not_measured(documents: &[Document], mut missing: Vec<String>) -> Vec<Block> {
    let mut hosts =
        documents.iter().flat_map(|it| &it.records).filter_map(|it| it.params.text("to"));
    if hosts.all(|to| to == LOOPBACK) {
        missing.push("network and files to another host (`fathom run --remote HOST`)".to_owned());
    }
    if missing.is_empty() {
        return Vec::new();
    }
    vec![heading(2, "Not measured"), text(format!("{}.", missing.join("; ")))]
}

/// The parameter `to` of what stays on this host.
const LOOPBACK: &str = "loopback";
