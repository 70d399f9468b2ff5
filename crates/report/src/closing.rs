//! The end of a run: counts, findings, and facts about the whole run.

use fathom_record::quantity::percent;
use fathom_record::{Agreement, Class, Document, Record, RunState, State, causes};
use serde::Serialize;

use crate::case::counted;
use crate::core_state::{basis_words, busy, core_state, left_out};
use crate::counts::{
    agreements, cause_words, counts_of, median_tolerance, states, without_prediction,
};
use crate::findings::{findings, sentence};
use crate::paint::{CARE, of_state, paint_lines};
use crate::remedy;
use crate::wrap::{NARROWEST, glued, wrapped};

/// Sentences about a whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Closing {
    /// Progress of a run that is not complete.
    pub(crate) progress: Option<String>,
    /// Records by state and agreement.
    pub(crate) counts: String,
    pub(crate) findings: Vec<String>,
    /// The verdict on the whole run, unless valid.
    pub(crate) verdict: Option<String>,
    /// Duration, state of the core, clock, tuned settings, notes.
    pub(crate) whole: Vec<String>,
}

impl Closing {
    pub(crate) fn from_document(document: &Document) -> Self {
        Self {
            progress: progress(document),
            counts: summary(document),
            findings: findings(document),
            verdict: run_verdict(document),
            whole: whole_run(document),
        }
    }
}

/// Counts, findings and facts about the whole run, after a blank line.
pub fn closing(document: &Document, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut text = String::from("\n");
    let paragraph = |words: &str| wrapped(words, width, "", "");
    let Closing { progress, counts, findings, verdict, whole } = Closing::from_document(document);
    if let Some(words) = progress {
        text += &paint_lines(CARE, &paragraph(&words));
    }
    text += &paragraph(&counts);
    for (i, finding) in findings.iter().enumerate() {
        text += &wrapped(finding, width, &format!("{}. ", i + 1), "   ");
    }
    if let Some(words) = verdict {
        text += &paint_lines(of_state(document.run.verdict.state), &paragraph(&words));
    }
    if !whole.is_empty() {
        text += &paragraph(&whole.join(" "));
    }
    text
}

/// The last lines of a stored run: its id, and the commands that show more of it.
pub fn kept(document: &Document, width: usize) -> String {
    let id = &document.run.id;
    let explain = glued("`fathom explain METRIC`");
    let show = |what: &str| glued(&format!("`fathom show {id}{what}`"));
    let is_overview = document.run.asked.is_empty() && document.run.procedure.is_none();
    let text = match is_overview {
        true => format!(
            "Kept as run {id}: {} (or another group or metric), {}, {explain}, {}.",
            show(" memory"),
            glued("`… --all`"),
            glued("`fathom doctor`")
        ),
        false => {
            let is_import = document.records.iter().any(|record| record.measured_by.is_some());
            let explain =
                if is_import { String::new() } else { format!(", {explain} explains a number") };
            format!("Kept as run {id}: {} prints it again{explain}.", show(""))
        }
    };
    wrapped(&text, width.max(NARROWEST), "", "")
}

/// Progress of a run that is not complete.
pub(crate) fn progress(document: &Document) -> Option<String> {
    let records = &document.records;
    let done = records.iter().filter(|record| !record.verdict.is_cut_short()).count();
    let planned = usize::try_from(document.run.planned).unwrap_or(usize::MAX);
    let amount = match planned.max(records.len()) {
        all if all > done && records.len() > done => {
            format!("{done} of {all} cases completed, {} partly", records.len() - done)
        }
        all if all > done => format!("{done} of {all} cases completed"),
        _ => format!("{} completed", counted(done, "case")),
    };
    match document.run.state {
        // A part of a run, as by `fathom show NAME --json`.
        RunState::Complete => (planned > records.len())
            .then(|| format!("{} of {planned} cases are missing.", planned - records.len())),
        // By a signal, or by what it measures or its store; the caller knows what is stored.
        RunState::Interrupted => Some(format!("The run ended early: {amount}.")),
        RunState::Running | RunState::Unknown => Some(format!(
            "Running, or its process was killed: {amount}; completed cases are stored."
        )),
    }
}

pub(crate) fn summary(document: &Document) -> String {
    let records = &document.records;
    if records.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    format!("{}.{}", counted_states(records), agreement(records))
}

/// `7 cases: 4 valid, 3 noisy (mostly CPU steal)`.
pub(crate) fn counted_states(records: &[Record]) -> String {
    let part = |(count, state): (u32, State)| {
        format!("{count} {}{}", state.word(), mostly(records, state))
    };
    let parts: Vec<String> = states(&counts_of(records)).map(part).collect();
    format!("{}: {}", counted(records.len(), "case"), parts.join(", "))
}

/// The most frequent cause of a state, in parentheses.
fn mostly(records: &[Record], state: State) -> String {
    // A reason of a valid record is a remark.
    let causes = if state == State::Valid { Vec::new() } else { causes(records, state) };
    match causes.first() {
        None => String::new(),
        Some((cause, _)) if causes.len() == 1 => format!(" ({})", cause_words(*cause)),
        Some((cause, 1)) => format!(" ({} and others)", cause_words(*cause)),
        Some((cause, _)) => format!(" (mostly {})", cause_words(*cause)),
    }
}

/// Agreement with predictions in a sentence, by class.
pub(crate) fn agreement<'a>(records: impl IntoIterator<Item = &'a Record> + Clone) -> String {
    let clause = |class: Class, kind: &str| {
        let counts = agreements(records.clone(), class);
        let all: usize = counts.iter().sum();
        let [holds, fails] = match class {
            Class::Bound => [Agreement::Met, Agreement::Violated],
            Class::Value | Class::SelfConsistency => [Agreement::Within, Agreement::Outside],
        };
        let mut text = format!("{} of {} {}", counts[0], counted(all, kind), holds.word());
        let tolerance = median_tolerance(records.clone()).filter(|_| class == Class::Value);
        if let Some(tolerance) = tolerance {
            text += &format!(" (median tolerance ± {})", glued(&percent(tolerance)));
        }
        for (count, agreement) in counts[1..].iter().zip([fails, Agreement::Inconclusive]) {
            if *count > 0 {
                text += &format!(", {count} {}", agreement.word());
            }
        }
        (all > 0).then_some(text)
    };
    let (without, noisy) = without_prediction(records.clone());
    let without = (without > 0).then(|| format!("{without} without a model"));
    let noisy = (noisy > 0).then(|| format!("{noisy} with a noisy input"));
    let clauses: Vec<String> = [
        clause(Class::Value, "predicted value"),
        clause(Class::SelfConsistency, "self-consistency check"),
        clause(Class::Bound, "bound"),
        without,
        noisy,
    ]
    .into_iter()
    .flatten()
    .collect();
    match clauses.join("; ") {
        text if text.is_empty() => text,
        text => format!(" {text}."),
    }
}

pub(crate) fn run_verdict(document: &Document) -> Option<String> {
    let verdict = &document.run.verdict;
    if verdict.state == State::Valid {
        return None;
    }
    let mut text = format!("The run is {}", verdict.state.word());
    for (i, reason) in verdict.reasons.iter().enumerate() {
        text += if i == 0 { ": " } else { "; " };
        text += &reason.text;
        if let Some(remedy) = &reason.remedy {
            text += &format!(" → {}", remedy::words(remedy));
        }
    }
    Some(sentence(text))
}

/// Duration, state of the core, clock deviation, what `--tune` changed, and notes.
fn whole_run(document: &Document) -> Vec<String> {
    let run = &document.run;
    let mut sentences = Vec::new();
    if let Some(duration) = run.duration_ns.map(duration) {
        sentences.push(format!("Duration: {duration}."));
    }
    sentences.extend(run.reference.map(|reference| {
        let state = format!("Reference loop: {}", core_state(&reference, busy(document).is_some()));
        sentence(format!("{state}; to itself it was {}", basis_words(&reference)))
    }));
    sentences.extend(left_out(run).map(sentence));
    let deviations: Vec<String> =
        [(run.clock.raw_ppm, "CLOCK_MONOTONIC_RAW"), (run.clock.monotonic_ppm, "CLOCK_MONOTONIC")]
            .into_iter()
            .filter_map(|(ppm, other)| {
                // + 0.0 turns −0.0 into 0.0.
                let ppm = (ppm? * 10.0).round() / 10.0 + 0.0;
                let ppm = glued(&format!("{ppm:+.1} ppm").replace('-', "−"));
                Some(format!("{ppm} against {other}"))
            })
            .collect();
    if !deviations.is_empty() {
        sentences.push(format!("Clock drift: {}.", deviations.join(", ")));
    }
    if let Some(step) = run.clock.wall_step_ns {
        let how = match step {
            0.0 => "stepped and stepped back".to_owned(),
            step => glued(&format!("stepped by {:+.1} s", step / 1e9).replace('-', "−")),
        };
        sentences.push(format!("Note: the wall clock was {how}; durations are unaffected."));
    }
    if !run.tuned.is_empty() {
        sentences.push(format!("Tuned during the run: {}.", run.tuned.join("; ")));
    }
    sentences.extend(run.imposed.iter().map(|fault| sentence(format!("Test setting: {fault}"))));
    sentences.extend(run.notes.iter().map(|note| sentence(format!("Note: {note}"))));
    sentences
}

pub(crate) fn duration(ns: f64) -> String {
    let seconds = ns / 1e9;
    let whole = seconds.round() as u64;
    glued(&match whole {
        0..10 => format!("{seconds:.1} s"),
        10..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
    })
}
