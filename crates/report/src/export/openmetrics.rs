//! OpenMetrics text: gauges in seconds, bytes, bytes per second, hertz or plain ratios, with host
//! and parameters as labels. docs/USAGE.md promises the names.
//!
//! A series continues from run to run, so labels contain nothing that changes with each run. What
//! most cases are not (noisy, unfiltered, a headline) is a gauge of 1 that the others do not have,
//! and what has three answers one gauge of 1, 0 or -1: series are what monitoring pays for.
//! Samples have no time stamps, because text collectors refuse files with time stamps.

use fathom_analysis::evidence::{shown_agreement, shown_state};
use fathom_analysis::limits::{LimitAnswer, LimitJudged, LimitJudgement};
use fathom_record::openmetrics::{END, family, labels, sample};
use fathom_record::{
    Agreement, Diagnosis, Document, Headline, Host, Params, Position, Protocol, Record, State, Unit,
};

use crate::overview;
use crate::shown::is_as_found;

/// What is exported besides runs, and which cases of them.
#[derive(Clone, Copy, Default)]
pub struct Additions<'a> {
    /// Only the cases of the shortest view, and those with a limit: a dozen instead of hundreds.
    pub only_headlines: bool,
    pub diagnosis: Option<&'a Diagnosis>,
    /// Judges the newest run of a host by limits.
    pub judge: Option<&'a dyn Fn(&Document) -> LimitJudgement>,
}

/// The numbers of runs. Each series has one sample, from the newest run that has it. Only valid and
/// noisy values are exported; what has no number is counted by state.
pub fn openmetrics(documents: &[Document], additions: Additions<'_>) -> String {
    let mut newest_first: Vec<&Document> = documents.iter().collect();
    newest_first.sort_by(|a, b| b.run.id.cmp(&a.run.id));
    let (mut runs, mut cases) = (Vec::new(), Vec::new());
    for document in newest_first {
        let is_newest = add_start(document, &mut runs);
        // An older run only fills in for the newest: what it has first is not what views show.
        let headlines = if is_newest { overview::headlines(&document.records) } else { Vec::new() };
        let add = |record: &&Record| {
            let is_headline = headlines.iter().any(|one| std::ptr::eq(*one, *record));
            (is_headline || !additions.only_headlines)
                && add_record(document, record, is_headline, &mut cases)
        };
        let added = document.records.iter().filter(add).count();
        if is_newest || added > 0 {
            add_info(document, &mut runs);
        }
        if is_newest {
            add_counts(document, &mut runs);
            if let Some(judge) = additions.judge {
                judge(document).rows.iter().for_each(|row| add_limit(document, row, &mut cases));
            }
        }
    }
    if let Some(diagnosis) = additions.diagnosis {
        add_findings(diagnosis, &mut runs);
    }
    runs.iter().chain(&cases).map(Gauge::text).collect::<String>() + END
}

/// The doctor's findings alone.
pub fn findings(diagnosis: &Diagnosis) -> String {
    let mut gauges = Vec::new();
    add_findings(diagnosis, &mut gauges);
    gauges.iter().map(Gauge::text).collect::<String>() + END
}

/// A metric family: samples under one name.
struct Gauge {
    name: String,
    unit: &'static str,
    help: String,
    /// Labels and value of each sample.
    samples: Vec<(String, f64)>,
}

impl Gauge {
    fn text(&self) -> String {
        let Self { name, unit, help, samples } = self;
        let mut text = String::new();
        family(&mut text, name, "gauge", unit, help);
        samples.iter().for_each(|(labels, value)| sample(&mut text, name, labels, value));
        text
    }
}

/// Adds a sample unless its series has one already; whether it was added.
fn add(
    gauges: &mut Vec<Gauge>,
    (name, unit, help): (&str, &'static str, &str),
    labels: &str,
    value: f64,
) -> bool {
    let at = gauges.iter().position(|one| one.name == name).unwrap_or_else(|| {
        let (name, help) = (name.to_owned(), help.to_owned());
        gauges.push(Gauge { name, unit, help, samples: Vec::new() });
        gauges.len() - 1
    });
    let samples = &mut gauges[at].samples;
    let is_new = samples.iter().all(|(other, _)| other != labels);
    if is_new {
        samples.push((labels.to_owned(), value));
    }
    is_new
}

/// The info metric of a run.
fn add_info(document: &Document, gauges: &mut Vec<Gauge>) {
    let (run, host) = (&document.run, &document.host);
    let info = [
        ("run", run.id.as_str()),
        ("effort", run.effort.word()),
        ("verdict", shown_state(document).word()),
        ("kernel", &host.kernel),
        ("version", &document.tool.version),
    ];
    let label = run.label.as_deref().map(|label| ("label", label));
    let pairs = info.into_iter().chain(label).map(|(name, value)| (name, value.to_owned()));
    let help = "A run that samples come from, or the newest of its host; always 1";
    add(gauges, ("fathom_run_info", "", help), &labels(of_host(host).chain(pairs)), 1.0);
}

/// Adds the start of a run; whether it is the newest of its host.
fn add_start(document: &Document, gauges: &mut Vec<Gauge>) -> bool {
    let help = "Start of the newest run of the host, in seconds since 1970";
    let start = ("fathom_run_started_seconds", "seconds", help);
    since_1970(&document.run.started)
        .is_some_and(|seconds| add(gauges, start, &labels(of_host(&document.host)), seconds))
}

/// Adds the number of cases in each state.
fn add_counts(document: &Document, gauges: &mut Vec<Gauge>) {
    let states = [State::Valid, State::Noisy, State::Unavailable, State::Invalid, State::Failed];
    for state in states {
        let in_state = document.records.iter().filter(|record| record.verdict.state == state);
        let state = ("state", state.word().to_owned());
        let labels = labels(of_host(&document.host).chain([state]));
        let help = "Cases of the newest run of the host by state; only valid and noisy ones have \
                    a value";
        add(gauges, ("fathom_run_cases", "", help), &labels, in_state.count() as f64);
    }
}

/// Adds when the machine was examined, and the severity of each rule.
fn add_findings(diagnosis: &Diagnosis, gauges: &mut Vec<Gauge>) {
    let when = "When fathom doctor examined the host, in seconds since 1970";
    if let Some(seconds) = since_1970(&diagnosis.examined) {
        let examined = ("fathom_doctor_examined_seconds", "seconds", when);
        add(gauges, examined, &labels(of_host(&diagnosis.host)), seconds);
    }
    let help = "Severity of a finding of fathom doctor: 0 good, 1 note, 2 warning, 3 severe";
    for finding in &diagnosis.findings {
        let rule = ("rule", finding.id.clone());
        let labels = labels(of_host(&diagnosis.host).chain([rule]));
        let severity = f64::from(finding.severity as u8);
        add(gauges, ("fathom_doctor_severity", "", help), &labels, severity);
    }
}

/// Adds a case, unless it has no number or a newer run has the case; whether it was added.
fn add_record(
    document: &Document,
    record: &Record,
    is_headline: bool,
    gauges: &mut Vec<Gauge>,
) -> bool {
    let protocol = document.run.protocol;
    let Some(value) = record.number(protocol) else { return false };
    let interval = Headline::from(record).interval;
    let (unit, factor) = base_unit(record.unit);
    let name = value_name(record.metric.as_str(), unit);
    let case = of_case(&document.host, record.metric.as_str(), &record.params);
    if !add(gauges, (&name, unit, &record.title), &case, value * factor) {
        return false;
    }
    // The interval is that of the median.
    if let Some([low, high]) = interval.filter(|_| protocol == Protocol::Median) {
        let ends = [Some(low), Some(high)];
        add_ends(gauges, ("", "of the confidence interval of a value"), record.unit, &case, ends);
    }
    // A bound that is far away says nothing about the machine.
    if let Some(prediction) = record.prediction.as_ref().filter(|_| !record.is_loosely_bound()) {
        let ends = [prediction.low, prediction.high];
        add_ends(gauges, ("prediction_", "of what a value should be"), record.unit, &case, ends);
    }
    if let Some(agreement) = shown_agreement(record) {
        let help = "1 where a value is within its prediction or meets its bound, -1 where it is \
                    outside or violates it, 0 where that is inconclusive";
        let answer = match agreement {
            Agreement::Within | Agreement::Met => 1.0,
            Agreement::Inconclusive => 0.0,
            Agreement::Outside | Agreement::Violated => -1.0,
        };
        add(gauges, ("fathom_case_agreement", "", help), &case, answer);
    }
    for (flag, help, holds) in [
        ("fathom_case_headline", "1 where a value is of the shortest view", is_headline),
        ("fathom_case_noisy", "1 where a value is noisy", record.verdict.state == State::Noisy),
        (
            "fathom_case_unfiltered",
            "1 where a value is over all processes, in any state of the core",
            is_as_found(record),
        ),
    ] {
        if holds {
            add(gauges, (flag, "", help), &case, 1.0);
        }
    }
    add_typical(record, &case, gauges);
    true
}

fn add_typical(record: &Record, case: &str, gauges: &mut Vec<Gauge>) {
    let Some(typical) = &record.typical else { return };
    let help = "-1 where a value is worse than the range of such machines, 0 in it, 1 better";
    let position = match typical.position {
        Position::Worse => -1.0,
        Position::Typical | Position::NotJudged => 0.0,
        Position::Better => 1.0,
    };
    add(gauges, ("fathom_case_typical_position", "", help), case, position);
    let of_share = "Share of published machine types of this CPU whose value is better";
    let share = f64::from(typical.better) / f64::from(typical.n.max(1));
    add(gauges, ("fathom_case_typical_better_ratio", "ratio", of_share), case, share);
}

/// Adds the answer to a limit, and its ends.
fn add_limit(document: &Document, row: &LimitJudged, gauges: &mut Vec<Gauge>) {
    let record = document.records.iter().find(|record| record.name() == row.name);
    // What was not measured is undecided, under the name in the file.
    let case = match record {
        Some(record) => of_case(&document.host, record.metric.as_str(), &record.params),
        None => of_case(&document.host, &row.name, &Params::none()),
    };
    let help = "1 where a value keeps its limit, -1 where it does not, 0 where that is undecided";
    let answer = match row.answer {
        LimitAnswer::Kept => 1.0,
        LimitAnswer::Undecided => 0.0,
        LimitAnswer::NotKept => -1.0,
    };
    add(gauges, ("fathom_case_limit_answer", "", help), &case, answer);
    let ends = [row.limit.low, row.limit.high];
    add_ends(gauges, ("limit_", "of the limit of a value"), row.unit, &case, ends);
}

/// Adds the ends of a range that are known: `fathom_case_prediction_low_seconds`.
fn add_ends(
    gauges: &mut Vec<Gauge>,
    (kind, help): (&str, &str),
    unit: Unit,
    case: &str,
    ends: [Option<f64>; 2],
) {
    let (unit, factor) = base_unit(unit);
    for (end, value) in ["low", "high"].into_iter().zip(ends) {
        if let Some(value) = value {
            let name = format!("fathom_case_{kind}{end}_{unit}");
            let help = format!("The {end} end {help}");
            add(gauges, (&name, unit, &help), case, value * factor);
        }
    }
}

/// With the id, so that hosts with the same name have separate series.
fn of_host<'a>(host: &Host) -> impl Iterator<Item = (&'a str, String)> + use<'a> {
    let Host { name, id, .. } = host;
    let id = id.clone().map(|id| ("host_id", id));
    [("host", name.clone())].into_iter().chain(id)
}

/// The labels that all series of a case have, so that queries join them without `on`.
fn of_case(host: &Host, metric: &str, params: &Params) -> String {
    let params: Vec<(String, String)> =
        params.0.iter().map(|(name, value)| (label_name(name), value.to_string())).collect();
    let pairs = params.iter().map(|(name, value)| (name.as_str(), value.clone()));
    labels(of_host(host).chain([("metric", metric.to_owned())]).chain(pairs))
}

/// A parameter as a label: those of imported results may have any name.
fn label_name(parameter: &str) -> String {
    let name = plain(parameter);
    let is_taken = ["host", "host_id", "metric"].contains(&name.as_str());
    let is_label = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_label && !is_taken { name } else { format!("param_{name}") }
}

/// The base unit in OpenMetrics, and the factor from ours.
fn base_unit(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Nanoseconds => ("seconds", 1e-9),
        Unit::Bytes => ("bytes", 1.0),
        Unit::BytesPerSecond => ("bytes_per_second", 1.0),
        Unit::PerSecond => ("per_second", 1.0),
        Unit::Hertz => ("hertz", 1.0),
        Unit::Ratio => ("ratio", 1.0),
    }
}

/// `fathom_os_syscall_seconds`: the name of a gauge ends with its unit.
fn value_name(metric: &str, unit: &str) -> String {
    format!("fathom_{}_{unit}", plain(metric))
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// An RFC 3339 time in seconds since 1970.
fn since_1970(time: &str) -> Option<f64> {
    Some(time.parse::<jiff::Timestamp>().ok()?.as_millisecond() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_times() {
        assert_eq!(value_name("os.switch.process", "seconds"), "fathom_os_switch_process_seconds");
        let params = Params::one("host", 1).and("2way", 2).and("b-c", 3);
        let case = of_case(&Host { name: "db2".to_owned(), ..Host::default() }, "a.b", &params);
        let expected = r#"host="db2",metric="a.b",param_2way="2",b_c="3",param_host="1""#;
        assert_eq!(case, expected);
        assert_eq!(since_1970("1970-01-01T00:00:01.000Z"), Some(1.0));
        assert_eq!(since_1970("x"), None);
    }
}
