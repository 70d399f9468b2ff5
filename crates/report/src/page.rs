//! The HTML report: the built page of `web/` with the data of runs inserted as JSON. This module
//! provides the data, and makes sure that no text in them is interpreted as HTML or script.

use std::io;

use fathom_analysis::compare::Comparison;
use fathom_analysis::evidence::shown_agreement;
use fathom_analysis::history::HistorySeries;
use fathom_analysis::reference::Beneath;
use fathom_record::{Document, Reason, Record, Sample};
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use crate::answer::Answer;
use crate::closing::Closing;
use crate::counts::cause_words;
use crate::model::{no_model, no_model_word};
use crate::remedy;
use crate::tiles::{Tile, tiles};
use crate::wrap::visible;

/// Identifies a report: every report contains it near its beginning.
pub const MARK: &str = "<meta name=\"generator\" content=\"fathom report\"";
/// The mark is within this many bytes of the beginning.
pub const MARK_WITHIN: usize = 512;
/// The content security policy of the built page: it loads nothing.
pub const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src \
                          'unsafe-inline'; img-src data:";
/// What the policy of a page without data allows as well.
pub const FETCHING: &str = "connect-src 'self'";
/// The placeholder for the data in the built page.
const PLACEHOLDER: &str = "__FATHOM_RUNS__";
/// Raw values are thinned until the whole page is at most this large.
const PAGE_BYTES: usize = 1_400_000;
/// Fewer values per process than this are not worth showing.
const VALUES_MIN: usize = 4;
/// At most this many values per process, however much room there is.
const VALUES_MAX: usize = 1 << 10;

/// The data of the page.
#[derive(Serialize)]
struct Contents<'a> {
    /// The runs, each as printed by `fathom show --json`.
    documents: &'a [Document],
    /// The answer of each run, which the page begins with.
    answers: Vec<Answer>,
    /// The closing sentences of each run.
    closing: Vec<Closing>,
    /// The results that the page begins with, for each run.
    tiles: Vec<Vec<Tile>>,
    /// Texts of each record of each run, in the order of the records.
    words: Vec<Vec<Words>>,
    /// The second run compared with the first, as printed by `fathom compare --json`.
    comparison: Option<&'a Comparison>,
    /// Published figures to draw under those of the runs.
    study: Option<&'a Beneath<'a>>,
    /// The raw values of each run.
    samples: Vec<Values>,
    /// Whether raw values were left out because the page would be too large.
    left_out: bool,
}

impl Contents<'_> {
    /// Says of the last records of the first run that they are of other runs.
    fn add_origins(&mut self, origins: &[String]) {
        let (Some(words), Some(tiles)) = (self.words.first_mut(), self.tiles.first_mut()) else {
            return;
        };
        let own = words.len().saturating_sub(origins.len());
        for (one, origin) in words[own..].iter_mut().zip(origins) {
            one.reasons.insert(0, Why { text: format!("from run {origin}"), next: None });
        }
        for tile in tiles.iter_mut().filter(|tile| tile.record >= own) {
            tile.title += &format!(" (run {})", origins[tile.record - own]);
        }
    }
}

/// Texts for the data of a record.
#[derive(Serialize)]
struct Words {
    /// The reasons of the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<Why>,
    /// Why there is no prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_model: Option<String>,
    /// What stands in the place of the prediction.
    no_model_word: Option<&'static str>,
}

/// A reason and its remedy.
#[derive(Serialize)]
struct Why {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Words {
    fn from_record(record: &Record) -> Self {
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
            no_model_word: record.no_model.as_ref().map(no_model_word),
        }
    }
}

/// The raw values of one process, in four significant figures.
#[derive(Serialize)]
struct PageProcess {
    /// Only every n-th value is included.
    every: usize,
    values: Vec<f64>,
    /// Indices of values from disturbed rounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disturbed: Vec<usize>,
}

/// Raw values of a run: the processes of each record, in the order of the records. Empty if left
/// out.
type Values = Vec<Vec<PageProcess>>;

/// The page with these data.
pub fn page(template: &str, data: &str) -> String {
    let (before, after) = template.split_once(PLACEHOLDER).expect("the page has a placeholder");
    format!("{before}{data}{after}")
}

/// The page without data: it fetches those of its address from the server that sent it.
pub fn fetching(template: &str) -> String {
    page(&template.replacen(POLICY, &format!("{POLICY}; {FETCHING}"), 1), "null")
}

/// The data of the page of these runs as JSON, with a comparison of the second with the first, and
/// a study beneath. `origins` has the [`crate::origin`] of the last records of the first run, where
/// those are of other runs; `histories` those of the [`crate::tiles::records`] of each run. Raw
/// values are included if the records have them, thinned if there are too many beside a template of
/// this length.
pub fn data(
    template_bytes: usize,
    documents: &[Document],
    origins: &[String],
    histories: &[Vec<Option<HistorySeries>>],
    comparison: Option<&Comparison>,
    study: Option<&Beneath<'_>>,
) -> String {
    let bare: Vec<Document> = documents.iter().map(without_samples).collect();
    let tiles: Vec<Vec<Tile>> =
        bare.iter().zip(histories).map(|(run, all)| tiles(&run.records, all)).collect();
    // Of its own results: those of other runs have an answer of their own.
    let answer = |((at, run), tiles): ((usize, &Document), &Vec<Tile>)| {
        let others = if at == 0 { origins.len() } else { 0 };
        let own = run.records.len().saturating_sub(others);
        let records = run.records[..own].to_vec();
        Answer::from_document(&Document { records, ..run.clone() }, tiles)
    };
    let mut contents = Contents {
        documents: &bare,
        answers: (0..).zip(&bare).zip(&tiles).map(answer).collect(),
        closing: documents.iter().map(Closing::from_document).collect(),
        tiles,
        words: documents
            .iter()
            .map(|it| it.records.iter().map(Words::from_record).collect())
            .collect(),
        comparison,
        study,
        samples: documents.iter().map(|_| Values::new()).collect(),
        left_out: false,
    };
    contents.add_origins(origins);
    let length = json(&contents).len() + template_bytes;
    let room = PAGE_BYTES.saturating_sub(length) / documents.len().max(1);
    contents.samples = documents.iter().map(|document| values(document, room)).collect();
    let mut there = documents.iter().flat_map(|document| &document.records);
    contents.left_out =
        contents.samples.iter().all(Vec::is_empty) && there.any(|record| record.samples.is_some());
    json(&contents)
}

/// Writes hidden characters as text that the page shows, such as `\u202e`.
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // The fragment has no escape of JSON.
        writer.write_all(visible(fragment).replace('\\', "\\\\").as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::AsciiControl(byte) => {
                let shown = visible(char::from(byte).encode_utf8(&mut [0; 4])).into_owned();
                writer.write_all(format!("\\{shown}").as_bytes())
            }
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

/// JSON that is safe inside a script element: it cannot end the script, begin a comment, or end a
/// line of JavaScript.
pub fn json(data: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Visible);
    data.serialize(&mut serializer).expect("plain data has a JSON form");
    let text = String::from_utf8(text).expect("JSON is text");
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e");
    text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn without_samples(document: &Document) -> Document {
    let bare = |it: &Record| Record { samples: None, agreement: shown_agreement(it), ..it.clone() };
    Document { records: document.records.iter().map(bare).collect(), ..document.clone() }
}

/// As many raw values as fit into `room` bytes: an even selection from each process.
fn values(document: &Document, room: usize) -> Values {
    let thinned = |most: usize| -> Values {
        document.records.iter().map(|record| processes(record, most)).collect()
    };
    let most = std::iter::successors(Some(VALUES_MAX), |most| Some(most / 2));
    let most = most.take_while(|most| *most >= VALUES_MIN);
    most.map(thinned).find(|values| json(values).len() <= room).unwrap_or_default()
}

fn processes(record: &Record, most: usize) -> Vec<PageProcess> {
    let shown = record.samples.iter().flatten().filter(|_| record.verdict.shows_number());
    shown.map(|sample| process(sample, most)).collect()
}

fn process(sample: &Sample, most: usize) -> PageProcess {
    let every = sample.values.len().div_ceil(most).max(1);
    let values = sample.values.iter().step_by(every).map(|value| rounded(*value)).collect();
    let disturbed = sample.disturbed.iter().map(|index| *index as usize);
    let disturbed = disturbed.filter(|index| index % every == 0).map(|index| index / every);
    PageProcess { every, values, disturbed: disturbed.collect() }
}

/// Four significant figures.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_the_script() {
        let text = json(&["</script><!--", "a\u{2028}b\u{2029}c", "&amp;"]);
        assert_eq!(text, r#"["\u003c/script\u003e\u003c!--","a\u2028b\u2029c","&amp;"]"#);
        let back: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, ["</script><!--", "a\u{2028}b\u{2029}c", "&amp;"]);
    }

    #[test]
    fn page_without_data_may_fetch_from_its_server_only() {
        let head = format!("<meta content=\"{POLICY}\"><script>");
        let page = fetching(&format!("{head}{PLACEHOLDER}</script>"));
        let allowed = format!("{POLICY}; connect-src 'self'");
        assert_eq!(page, format!("<meta content=\"{allowed}\"><script>null</script>"));
    }

    #[test]
    fn hidden_characters_are_shown() {
        let back: Vec<String> =
            serde_json::from_str(&json(&["a\u{202e}b\u{1b}[2J\u{9b}", "c\\d\"\n"])).unwrap();
        assert_eq!(back, [r"a\u202eb\u001b[2J\u009b", "c\\d\"\n"]);
    }

    #[test]
    fn thinned_values_keep_their_disturbed_marks() {
        let values: Vec<f64> = (0..10).map(|at| 1000.06 + f64::from(at)).collect();
        let sample = Sample { values, disturbed: vec![3, 4, 8], ..Sample::default() };
        let thinned = process(&sample, 3);
        assert_eq!((thinned.every, thinned.values), (4, vec![1000.0, 1004.0, 1008.0]));
        assert_eq!(thinned.disturbed, [1, 2]);
        assert_eq!(process(&sample, 10).disturbed, [3, 4, 8]);
    }
}
