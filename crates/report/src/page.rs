//! Runs as one page for a browser: the built page of `web/` with the runs' JSON put into it. What
//! the page makes of them is written there; here stand only the data, and that no text in them
//! can be taken for a part of the page.

use fathom_analysis::compare::Comparison;
use fathom_analysis::reference::Beneath;
use fathom_record::{Document, Reason, Record, Sample};
use serde::Serialize;

use crate::closing::Told;
use crate::counts::{cause_words, causes};
use crate::model::no_model;
use crate::remedy;

/// What every page of ours has near its beginning, so that it can be told from other files.
pub const MARK: &str = "<meta name=\"generator\" content=\"fathom report\"";
/// The mark lies within so many bytes.
pub const MARK_WITHIN: usize = 512;
/// Where the data belong in the built page.
const PLACE: &str = "__FATHOM_RUNS__";
/// A page holds no more raw values than fit into so many bytes with all the rest, where these fit.
const PAGE_BYTES: usize = 1_400_000;
/// Each process keeps at least so many values, or none are shown.
const VALUES_MIN: usize = 4;
/// And at most so many, however much room there is.
const VALUES_MAX: usize = 1 << 10;

/// What the page is given.
#[derive(Serialize)]
struct Contents<'a> {
    /// The runs, each as `fathom show --json` prints it.
    documents: &'a [Document],
    /// What is to be said of each.
    told: Vec<Told>,
    /// Why numbers are noisy or missing in each, the most frequent first.
    causes: Vec<Vec<Counted>>,
    /// What is to be said of each record of each, in the order of the records.
    words: Vec<Vec<Words>>,
    /// The second against the first, as `fathom compare --json` prints it.
    comparison: Option<&'a Comparison>,
    /// Published figures that lie under those of the runs.
    study: Option<&'a Beneath<'a>>,
    /// The raw values of each run.
    samples: Vec<Values>,
    /// Whether there are raw values that the page has no room for.
    left_out: bool,
}

/// So many records of a run are in a state for one cause.
#[derive(Serialize)]
struct Counted {
    state: &'static str,
    cause: &'static str,
    count: usize,
    /// What to do, by the first of them that says so.
    next: Option<String>,
}

/// What is data in a record, and words on the page.
#[derive(Serialize)]
struct Words {
    /// Why the verdict is what it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<Why>,
    /// Why there is no prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_model: Option<String>,
}

/// One reason, and what to do next.
#[derive(Serialize)]
struct Why {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Words {
    fn of(record: &Record) -> Self {
        let why = |reason: &Reason| Why {
            text: match reason.text.as_str() {
                "" => cause_words(reason.cause).to_owned(),
                text => text.to_owned(),
            },
            next: reason.remedy.as_ref().map(remedy::words),
        };
        Self {
            reasons: record.verdict.reasons.iter().map(why).collect(),
            no_model: record.no_model.as_ref().map(no_model),
        }
    }
}

/// The raw values of one process, in four figures.
#[derive(Serialize)]
struct Process {
    /// Every so many-th value of it is here.
    every: usize,
    values: Vec<f64>,
    /// Indices of those whose round a counter says was disturbed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disturbed: Vec<usize>,
}

/// Raw values of a run: the processes of each record, in the order of the records; empty where
/// there are none.
type Values = Vec<Vec<Process>>;

/// The page with these runs, with what became of the second since the first, and with a study under
/// them. Raw values appear where the records hold them, of long runs every second, fourth, … value.
///
/// # Panics
/// Never in practice: a document is plain data, and the tests look at the built page.
pub fn page(
    template: &str,
    documents: &[Document],
    comparison: Option<&Comparison>,
    study: Option<&Beneath<'_>>,
) -> String {
    let (before, after) = template.split_once(PLACE).expect("the page has a place for the data");
    let bare: Vec<Document> = documents.iter().map(without_samples).collect();
    let mut contents = Contents {
        documents: &bare,
        told: documents.iter().map(Told::of).collect(),
        causes: documents.iter().map(counted).collect(),
        words: documents.iter().map(|it| it.records.iter().map(Words::of).collect()).collect(),
        comparison,
        study,
        samples: documents.iter().map(|_| Values::new()).collect(),
        left_out: false,
    };
    let length = |contents: &Contents<'_>| json(contents).len() + template.len();
    let room = PAGE_BYTES.saturating_sub(length(&contents)) / documents.len().max(1);
    contents.samples = documents.iter().map(|document| values(document, room)).collect();
    let mut there = documents.iter().flat_map(|document| &document.records);
    contents.left_out =
        contents.samples.iter().all(Vec::is_empty) && there.any(|record| record.samples.is_some());
    format!("{before}{}{after}", json(&contents))
}

/// JSON that is safe between the tags of a script: nothing in it can end the script, begin a
/// comment, or end a line of JavaScript.
fn json(data: &impl Serialize) -> String {
    let text = serde_json::to_string(data).expect("a document is plain data");
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e");
    text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn without_samples(document: &Document) -> Document {
    let bare = |record: &Record| Record { samples: None, ..record.clone() };
    Document { records: document.records.iter().map(bare).collect(), ..document.clone() }
}

fn counted(document: &Document) -> Vec<Counted> {
    use fathom_record::State::{Failed, Invalid, Noisy, Unavailable};
    let records = &document.records;
    let mut all = Vec::new();
    for state in [Noisy, Invalid, Unavailable, Failed] {
        for (cause, count) in causes(records, state) {
            let of_cause = records
                .iter()
                .filter(|record| record.verdict.state == state)
                .filter_map(|record| record.verdict.reasons.first())
                .filter(|reason| reason.cause == cause);
            let next = remedy::first(of_cause);
            all.push(Counted { state: state.word(), cause: cause_words(cause), count, next });
        }
    }
    all
}

/// As many of the raw values as fit into `room`, of those that may be shown: of each process at
/// most so many, evenly from its beginning to its end.
fn values(document: &Document, room: usize) -> Values {
    let thinned = |most: usize| -> Values {
        document.records.iter().map(|record| processes(record, most)).collect()
    };
    let most = std::iter::successors(Some(VALUES_MAX), |most| Some(most / 2));
    let most = most.take_while(|most| *most >= VALUES_MIN);
    most.map(thinned).find(|values| json(values).len() <= room).unwrap_or_default()
}

fn processes(record: &Record, most: usize) -> Vec<Process> {
    let shown = record.samples.iter().flatten().filter(|_| record.verdict.shows_number());
    shown.map(|sample| process(sample, most)).collect()
}

fn process(sample: &Sample, most: usize) -> Process {
    let every = sample.values.len().div_ceil(most).max(1);
    let values = sample.values.iter().step_by(every).map(|value| rounded(*value)).collect();
    let disturbed = sample.disturbed.iter().map(|index| *index as usize);
    let disturbed = disturbed.filter(|index| index % every == 0).map(|index| index / every);
    Process { every, values, disturbed: disturbed.collect() }
}

/// A value in four significant figures.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_leave_the_script() {
        let text = json(&["</script><!--", "a\u{2028}b\u{2029}c", "&amp;"]);
        assert_eq!(text, r#"["\u003c/script\u003e\u003c!--","a\u2028b\u2029c","&amp;"]"#);
        let back: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, ["</script><!--", "a\u{2028}b\u{2029}c", "&amp;"]);
    }

    #[test]
    fn values_are_thinned_evenly_and_keep_their_marks() {
        let values: Vec<f64> = (0..10).map(|at| 1000.06 + f64::from(at)).collect();
        let sample = Sample { values, disturbed: vec![3, 4, 8], ..Sample::default() };
        let thinned = process(&sample, 3);
        assert_eq!((thinned.every, thinned.values), (4, vec![1000.0, 1004.0, 1008.0]));
        assert_eq!(thinned.disturbed, [1, 2]);
        assert_eq!(process(&sample, 10).disturbed, [3, 4, 8]);
    }

    #[test]
    fn four_figures_remain() {
        assert_eq!(
            [123.456, 0.000_123_456, 1.0, 987_654_321.0].map(rounded),
            [123.5, 0.000_123_5, 1.0, 987_700_000.0]
        );
    }
}
