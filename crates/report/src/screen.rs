//! The screen of a run: of all metrics an overview, of some their table, of a command by hand its
//! tables; each begins with the answer.

use fathom_record::{Document, Record, Run, matches};

use crate::by_hand;
use crate::case::counted;
use crate::closing::{closing, kept};
use crate::layout::Layout;
use crate::opening::opening;
use crate::overview::{self, overview};
use crate::table::Table;
use crate::trend::Trends;
use crate::wrap::{glued, wrapped};

/// Whether the run is shown as an [`overview`]: all metrics, and nothing that needs the table.
pub fn has_overview(run: &Run, layout: &Layout) -> bool {
    run.asked.is_empty() && run.procedure.is_none() && !layout.all && !layout.cycles
}

/// A stored run as `fathom run` printed it: the answer, then an [`overview`], or the table with its
/// foot, [`opening`] and [`closing`].
pub fn show(document: &Document, layout: &Layout) -> String {
    show_with(document, layout, &Trends::NONE) + &kept(document, layout.width)
}

/// As [`show`], with the trends of an overview, and without the commands that show a stored run.
pub fn show_with(document: &Document, layout: &Layout, trends: &Trends) -> String {
    if has_overview(&document.run, layout) {
        return overview(document, layout.width, trends);
    }
    let is_import = document.records.iter().any(|record| record.measured_by.is_some());
    if document.run.procedure.is_some() && !is_import {
        let screen = by_hand_screen(document, layout.width);
        return screen + &about(document, layout.width) + &closing(document, layout.width);
    }
    let wanted = if layout.all { None } else { wanted(document) };
    let inputs = wanted.as_ref().map_or(0, |it| document.records.len() - it.records.len());
    let document = wanted.as_ref().unwrap_or(document);
    let mut table = Table::new(*layout).on(&document.host);
    let answer = overview::answer(document, layout.width);
    let [header, rows] = [table.header(), table.rows(&document.records)];
    let mut text = format!("{answer}\n{header}{rows}{}", table.foot());
    if inputs > 0 {
        let (others, id) = (counted(inputs, "other result"), &document.run.id);
        let all = glued(&format!("`fathom show {id} --all`"));
        let words = format!("{others}, which the predictions need: {all}");
        text += &format!("\n{}", wrapped(&words, layout.width, "", "  "));
    }
    text + &about(document, layout.width) + &closing(document, layout.width)
}

/// Where and how it was measured: below the numbers, which are wanted first.
fn about(document: &Document, width: usize) -> String {
    format!("\n{}\n", opening(document, width).trim_end_matches('\n'))
}

/// A run of some metrics without what was measured for their predictions; `None` if that is all.
fn wanted(document: &Document) -> Option<Document> {
    let asked = &document.run.asked;
    let is_wanted = |record: &Record| {
        let mut names = asked.iter().map(|it| it.split('{').next().unwrap_or_default());
        names.any(|name| matches(record.metric.as_str(), name))
    };
    let records: Vec<Record> =
        document.records.iter().filter(|it| is_wanted(it)).cloned().collect();
    let is_part = !records.is_empty() && records.len() < document.records.len();
    is_part.then(|| {
        let mut wanted = Document { records, ..document.clone() };
        let missing = document.run.planned.saturating_sub(document.records.len() as u64);
        wanted.run.planned = wanted.records.len() as u64 + missing;
        wanted
    })
}

/// A run of a procedure as its command ends with it: the answer, then what it follows from.
pub fn by_hand_screen(document: &Document, width: usize) -> String {
    format!("{}\n{}", overview::answer(document, width), by_hand::evidence(document, width))
}
