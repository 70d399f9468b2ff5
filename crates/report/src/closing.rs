//! What a run says after its last number: the paragraph a person can use.

use fathom_record::quantity::percent;
use fathom_record::{
    Agreement, Document, Record, Reference, ReferenceBasis, RunState, State, Stratum,
};
use serde::Serialize;

use crate::case::cases;
use crate::counts::{agreements, cause_words, causes, counts_of, states, without_model};
use crate::findings::{ended, findings};
use crate::paint::{CARE, of_state, paint_lines};
use crate::remedy;
use crate::wrap::{NARROWEST, glued, wrapped};

/// What is to be said of a run as a whole, in sentences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Told {
    /// What was done of what, for a run that did not come to its end.
    progress: Option<String>,
    /// How many were valid, noisy, unavailable.
    counts: String,
    /// What is most remarkable.
    findings: Vec<String>,
    /// What spoils the run as a whole.
    verdict: Option<String>,
    /// How long it took, how its clock stood, what was tuned, and its notes.
    whole: Vec<String>,
}

impl Told {
    /// Of this run.
    pub(crate) fn of(document: &Document) -> Self {
        Self {
            progress: progress(document),
            counts: summary(document),
            findings: findings(&document.records),
            verdict: run_verdict(document),
            whole: whole_run(document),
        }
    }
}

/// How many were valid, noisy, unavailable; what is most remarkable; what holds for the run as a
/// whole; and how to see it again. Begins with a blank line.
pub fn closing(document: &Document, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut text = String::from("\n");
    let paragraph = |words: &str| wrapped(words, width, "", "");
    let Told { progress, counts, findings, verdict, whole } = Told::of(document);
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

/// That so many rows are no longer as they were printed; empty for none.
pub fn changed(document: &Document, rows: usize, width: usize) -> String {
    if rows == 0 {
        return String::new();
    }
    let text = format!(
        "{} above changed when all visits were classified again by all reference loops: {}.",
        if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") },
        glued(&format!("`fathom show {}`", document.run.id)),
    );
    paint_lines(CARE, &wrapped(&text, width.max(NARROWEST), "", ""))
}

/// Where the run is kept and how to see it again: the last lines of a run that is.
pub fn kept(document: &Document, width: usize) -> String {
    let text = format!(
        "Kept as run {}; {} shows it again, {} says what is behind a number.",
        document.run.id,
        glued(&format!("`fathom show {}`", document.run.id)),
        glued("`fathom explain METRIC`"),
    );
    wrapped(&text, width.max(NARROWEST), "", "")
}

/// What was done of what, for a run that did not come to its end.
fn progress(document: &Document) -> Option<String> {
    let records = &document.records;
    let done = records.iter().filter(|record| !record.verdict.is_cut_short()).count();
    let planned = usize::try_from(document.run.planned).unwrap_or(usize::MAX);
    // A run made before the plan was kept says no more than its records do.
    let amount = match planned.max(records.len()) {
        all if all > done && records.len() > done => {
            format!("{done} of {all} cases were done, {} in part", records.len() - done)
        }
        all if all > done => format!("{done} of {all} cases were done"),
        _ => format!("{done} cases were done until then"),
    };
    match document.run.state {
        RunState::Complete => None,
        RunState::Interrupted => {
            // Whether it is kept is for whoever keeps it to say.
            Some(format!("The run was interrupted: {amount}."))
        }
        RunState::Running => Some(format!(
            "The run goes on, or its process died: {amount}, and what was done is kept."
        )),
    }
}

/// The counts, in sentences.
fn summary(document: &Document) -> String {
    let records = &document.records;
    if records.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    let part = |(count, state): (u32, State)| {
        format!("{count} {}{}", state.word(), mostly(records, state))
    };
    let parts: Vec<String> = states(&counts_of(records)).map(part).collect();
    format!("{}: {}.{}", cases(records.len()), parts.join(", "), agreement(records))
}

/// The most frequent cause of a state, in brackets.
fn mostly(records: &[Record], state: State) -> String {
    let causes = causes(records, state);
    match causes.first() {
        None => String::new(),
        Some((cause, _)) if causes.len() == 1 => format!(" ({})", cause_words(*cause)),
        Some((cause, 1)) => format!(" ({} and others)", cause_words(*cause)),
        Some((cause, _)) => format!(" (mostly {})", cause_words(*cause)),
    }
}

/// How the numbers stand to their predictions, in a sentence: values and bounds apart.
fn agreement(records: &[Record]) -> String {
    let clause = |ordinal: bool, kind: &str| {
        let counts = agreements(records, ordinal);
        let all: usize = counts.iter().sum();
        let plural = if all == 1 { "" } else { "s" };
        let [holds, fails] = match ordinal {
            true => [Agreement::Met, Agreement::Violated],
            false => [Agreement::Within, Agreement::Outside],
        };
        let mut text = format!("of {all} {kind}{plural} {} {}", counts[0], holds.word());
        for (count, agreement) in counts[1..].iter().zip([fails, Agreement::Inconclusive]) {
            if *count > 0 {
                text += &format!(", {count} {}", agreement.word());
            }
        }
        (all > 0).then_some(text)
    };
    let without = without_model(records);
    let without = (without > 0).then(|| format!("{without} have no model"));
    let clauses: Vec<String> = [clause(false, "predicted value"), clause(true, "bound"), without]
        .into_iter()
        .flatten()
        .collect();
    match clauses.join("; ") {
        text if text.is_empty() => text,
        text => format!(" {}{}.", text[..1].to_uppercase(), &text[1..]),
    }
}

/// What spoils the run as a whole.
fn run_verdict(document: &Document) -> Option<String> {
    let verdict = &document.run.verdict;
    if verdict.state == State::Valid {
        return None;
    }
    let mut text = format!("The run as a whole is {}", verdict.state.word());
    for (i, reason) in verdict.reasons.iter().enumerate() {
        text += if i == 0 { ": " } else { "; " };
        text += &reason.text;
        if let Some(remedy) = &reason.remedy {
            text += &format!(" → {}", remedy::words(remedy));
        }
    }
    Some(ended(text))
}

/// How many visits met a core at full speed, and how many cases rest on such visits alone.
fn clean_share(reference: &Reference, records: &[Record]) -> String {
    let Reference { basis, visits, clean, .. } = *reference;
    let speed = match basis {
        ReferenceBasis::HighestFrequency => "core at its highest frequency",
        ReferenceBasis::EarlierRuns => "core as fast as in earlier runs",
        ReferenceBasis::ThisRun => "core at its fastest in this run",
    };
    let of = |wanted: bool| {
        let stratum = |record: &&Record| {
            let summary = record.summary.as_ref()?;
            (summary.as_found.is_some()).then_some(summary.stratum != Stratum::AsFound)
        };
        records.iter().filter(|record| stratum(record) == Some(wanted)).count()
    };
    let share = percent(f64::from(clean) / f64::from(visits.max(1)));
    format!(
        "{} of visits were clean ({speed}): {} by clean visits alone, {} as found.",
        glued(&share),
        cases(of(true)),
        of(false)
    )
}

/// How long the run took, how its clock stood, what `--tune` changed, and its notes.
fn whole_run(document: &Document) -> Vec<String> {
    let run = &document.run;
    let mut sentences = Vec::new();
    if let Some(duration) = run.duration_ns.map(duration) {
        sentences.push(format!("The run took {duration}."));
    }
    sentences.extend(run.reference.map(|reference| clean_share(&reference, &document.records)));
    let deviations: Vec<String> =
        [(run.clock.raw_ppm, "CLOCK_MONOTONIC_RAW"), (run.clock.monotonic_ppm, "CLOCK_MONOTONIC")]
            .into_iter()
            .filter_map(|(ppm, other)| {
                // 0.0 is added so that no tiny negative reads as −0.0.
                let ppm = (ppm? * 10.0).round() / 10.0 + 0.0;
                let ppm = glued(&format!("{ppm:+.1} ppm").replace('-', "−"));
                Some(format!("{ppm} against {other}"))
            })
            .collect();
    if !deviations.is_empty() {
        sentences.push(format!("Over it, its clock went {}.", deviations.join(" and ")));
    }
    if let Some(step) = run.clock.wall_step_ns {
        let how = match step {
            0.0 => "stepped and put back".to_owned(),
            step => glued(&format!("stepped by {:+.1} s", step / 1e9).replace('-', "−")),
        };
        sentences.push(format!("Note: the wall clock was {how}; durations are unaffected."));
    }
    if !run.tuned.is_empty() {
        sentences.push(format!("Tuned while it lasted: {}.", run.tuned.join("; ")));
    }
    sentences.extend(run.imposed.iter().map(|what| ended(format!("Imposed on it: {what}"))));
    sentences.extend(run.notes.iter().map(|note| ended(format!("Note: {note}"))));
    sentences
}

fn duration(ns: f64) -> String {
    let seconds = ns / 1e9;
    let whole = seconds.round() as u64;
    glued(&match whole {
        0..10 => format!("{seconds:.1} s"),
        10..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
    })
}
