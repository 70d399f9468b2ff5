//! The screen of a run: of all metrics an overview, of some their table, of a command by hand its
//! tables; each begins with the answer.

use fathom_record::{Document, Params, Record, Run, State, matches};

use crate::answer::{by_metric, noisy_by_metric};
use crate::by_hand;
use crate::case::counted;
use crate::closing::{closing, kept};
use crate::core_state::busy;
use crate::layout::Layout;
use crate::opening::{labelled, opening};
use crate::overview::{self, cases_in_overview, overview};
use crate::table::Table;
use crate::trend::Trends;
use crate::wrap::{glued, wrapped};

/// Metrics named of those that have noisy results.
const METRICS_NAMED: usize = 12;

/// Whether the run is shown as an [`overview`]: all metrics, and nothing that needs the table.
pub fn has_overview(run: &Run, layout: &Layout) -> bool {
    run.asked.is_empty() && run.procedure.is_none() && !layout.all && !layout.cycles
}

/// A stored run as `fathom run` printed it: the answer, then an [`overview`], or the table with its
/// foot, [`opening`] and [`closing`].
pub fn show(document: &Document, layout: &Layout) -> String {
    show_with(document, layout, &Trends::NONE, None) + &kept(document, layout.width)
}

/// As [`show`], with the trends of an overview, and without the commands that show a stored run.
/// `besides`: what is bad among the results that are not shown.
pub fn show_with(
    document: &Document,
    layout: &Layout,
    trends: &Trends,
    besides: Option<&str>,
) -> String {
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
    let besides = besides.map_or(String::new(), |it| wrapped(it, layout.width, "", "  "));
    let answer =
        headline(document, layout.width) + &besides + &overview::answer(document, layout.width);
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

/// The best-known numbers of a run of one metric, or all if they are few. The answer of a command,
/// and of an import, has them already.
fn headline(document: &Document, width: usize) -> String {
    const FEW: usize = 2;
    let Document { records, host, .. } = document;
    let Some(first) = records.first().filter(|_| document.run.procedure.is_none()) else {
        return String::new();
    };
    let cases: Vec<&Params> = records.iter().map(|it| &it.params).collect();
    let known = match records.iter().all(|it| it.metric == first.metric) {
        true => cases_in_overview(first.metric.as_str(), &cases),
        false => Vec::new(),
    };
    let is_shown = |record: &&Record| records.len() <= FEW || known.contains(&record.params);
    let shown = records.iter().filter(is_shown).take(FEW);
    let sentences = shown.map(|it| by_hand::number_sentence(it, host));
    sentences.map(|text| wrapped(&text, width, "", "  ")).collect()
}

/// What is worse than on other such machines, or than predicted, of the groups of the shown
/// metrics, in the run that these were selected from.
pub fn besides(whole: &Document, shown: &[Record]) -> Option<String> {
    if busy(whole).is_some() {
        return None;
    }
    let is_of_group =
        |it: &&Record| shown.iter().any(|one| one.metric.group() == it.metric.group());
    let is_shown = |it: &&Record| shown.iter().any(|one| one.metric == it.metric);
    let others = whole.records.iter().filter(is_of_group).filter(|it| !is_shown(it)).cloned();
    let others = Document { records: others.collect(), ..whole.clone() };
    overview::worse(&others)
}

/// The noisy results of a run, each with its reason.
pub fn noisy(document: &Document, layout: &Layout) -> String {
    let is_noisy = |record: &&Record| record.verdict.state == State::Noisy;
    let records: Vec<Record> = document.records.iter().filter(is_noisy).cloned().collect();
    let counts = format!("{} of {}", records.len(), counted(document.records.len(), "result"));
    let mut head = busy(document).map_or(String::new(), |how| {
        wrapped(&format!("Measured on a {how}."), layout.width, "", "  ")
    });
    head += &wrapped(&format!("{counts} noisy."), layout.width, "", "  ");
    if records.is_empty() {
        return head;
    }
    head +=
        &labelled("metrics", &by_metric(&noisy_by_metric(&records), METRICS_NAMED), layout.width);
    head += &overview::next(document, layout.width);
    let mut table = Table::new(Layout { all: true, ..*layout }).on(&document.host);
    let [header, rows] = [table.header(), table.rows(&records)];
    format!("{head}\n{header}{rows}{}", table.foot()) + &about(document, layout.width)
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
