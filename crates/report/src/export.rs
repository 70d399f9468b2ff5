//! Runs for other programs: JSON lines, a CSV table, OpenMetrics, or the files of benchmark tools.

mod github_action;
mod go;

pub use github_action::github_action;
pub use go::go;

use fathom_analysis::limits::Limit;
use fathom_record::openmetrics::{END, family, labels, sample};
use fathom_record::quantity::percent;
use fathom_record::{
    Agreement, Document, Finding, Headline, Host, Position, Protocol, Record, State, Stratum,
    Typical, Unit,
};

use crate::overview;

/// Each document on a line of its own; `fathom import` reads it.
pub fn jsonl(documents: &[Document]) -> String {
    let line = |document: &Document| {
        serde_json::to_string(document).expect("plain data has a JSON form") + "\n"
    };
    documents.iter().map(line).collect()
}

/// The columns of [`csv`]. Values are in the base unit in `unit`. Unknown values and numbers of
/// invalid records are empty; a record with a `bound` has no other numbers.
const COLUMNS: &str = "run started host host_id kernel cpu version effort run_verdict label \
                       metric params unit better state causes values processes \
                       median low high level bound stratum clean_visits visits as_found \
                       min max mean sd p90 p99 p999 \
                       protocol trimmed_mean trimmed_sd trimmed_se trimmed_values trials \
                       hardware software predicted predicted_low predicted_high agreement \
                       typical_low typical_median typical_high typical_machines typical_better";

/// A CSV table of all records of these runs.
pub fn csv(documents: &[Document]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |row: &[String]| writer.write_record(row).expect("writing to memory");
    write(&COLUMNS.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for document in documents {
        document.records.iter().for_each(|record| write(&row(document, record)));
    }
    let bytes = writer.into_inner().expect("writing to memory");
    String::from_utf8(bytes).expect("all fields are text")
}

fn row(document: &Document, record: &Record) -> Vec<String> {
    let (run, host) = (&document.run, &document.host);
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let headline = Headline::from(record);
    let summary = record.shown_summary();
    let shown = summary.filter(|_| headline.value.is_some());
    let of = |value: fn(&fathom_record::Summary) -> f64| number(shown.map(value));
    let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let quantile = |q: f64| shown?.quantiles.iter().find(|one| one.q == q).map(|one| one.value);
    let selected = shown.and_then(|summary| summary.full_speed.as_ref());
    let found = shown.and_then(|summary| summary.as_found.as_ref());
    let visits = |value: Option<u32>| count(value.map(u64::from));
    let trimmed = shown.and_then(|summary| summary.trimmed.as_ref());
    let trimmed = trimmed.filter(|_| run.protocol == Protocol::Trimmed);
    let prediction = record.prediction.as_ref();
    let mut causes: Vec<String> = Vec::new();
    for cause in record.verdict.reasons.iter().map(|one| name_of(&one.cause)) {
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    let mut row = vec![
        run.id.clone(),
        run.started.clone(),
        host.name.clone(),
        host.id.clone().unwrap_or_default(),
        host.kernel.clone(),
        host.cpu.model.clone(),
        document.tool.version.clone(),
        run.effort.word().to_owned(),
        run.verdict.state.word().to_owned(),
        run.label.clone().unwrap_or_default(),
        record.metric.to_string(),
        record.params.to_string(),
        record.unit.symbol().to_owned(),
        name_of(&record.better),
        record.verdict.state.word().to_owned(),
        causes.join(" "),
        count(summary.map(|summary| summary.n)),
        visits(summary.map(|summary| summary.processes)),
        of(|summary| summary.median),
        number(headline.interval.map(|[low, _]| low)),
        number(headline.interval.map(|[_, high]| high)),
        number(shown.and_then(|summary| summary.interval).map(|interval| interval.level)),
        number(headline.bound),
        shown.map_or_else(String::new, |summary| name_of(&summary.stratum)),
        visits(selected.map(|estimate| estimate.visits)),
        visits(selected.or(found).map(|estimate| estimate.of)),
        number(found.map(|estimate| estimate.median)),
        of(|summary| summary.min),
        of(|summary| summary.max),
        of(|summary| summary.mean),
        of(|summary| summary.sd),
        number(quantile(0.9)),
        number(quantile(0.99)),
        number(quantile(0.999)),
        name_of(&run.protocol),
        number(trimmed.map(|trimmed| trimmed.mean)),
        number(trimmed.map(|trimmed| trimmed.sd)),
        number(trimmed.map(|trimmed| trimmed.se)),
        count(trimmed.map(|trimmed| trimmed.n)),
        count(trimmed.map(|trimmed| trimmed.trials)),
        number(prediction.and_then(|prediction| prediction.hardware)),
        number(prediction.and_then(|prediction| prediction.software)),
        number(prediction.and_then(|prediction| prediction.value)),
        number(prediction.and_then(|prediction| prediction.low)),
        number(prediction.and_then(|prediction| prediction.high)),
        record.agreement.map_or_else(String::new, |agreement| name_of(&agreement)),
    ];
    row.extend(typical(record));
    row
}

/// The columns of the typical range.
fn typical(record: &Record) -> [String; 5] {
    let Some(typical) = &record.typical else { return Default::default() };
    let Typical { low, median, high, n, better, .. } = typical;
    [low.to_string(), median.to_string(), high.to_string(), n.to_string(), better.to_string()]
}

/// The limits that the valid numbers of a run keep with a margin, as a TOML file; `None` without
/// any.
pub fn limits(document: &Document, margin: f64) -> Option<String> {
    let Document { run, host, records, .. } = document;
    let line = |record: &Record| {
        let limit = Limit::around(record, margin)?;
        Some(format!("{:?} = {:?}\n", record.name(), limit.text(record.unit)))
    };
    let lines: String = records.iter().filter_map(line).collect();
    let about = format!(
        "# What each number must be: the interval of run {} on {} ({}),\n\
         # with a margin of {} on the worse side. Remove what does not matter.\n\
         # fathom show --limits FILE, fathom run --limits FILE, fathom check --limits FILE\n\n",
        run.id,
        fathom_record::escaped(host.shown_name()),
        fathom_record::escaped(&host.cpu.model),
        percent(margin)
    );
    (!lines.is_empty()).then_some(about + &lines)
}

/// The name of an enum variant in JSON.
fn name_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// OpenMetrics text: a gauge per metric, in seconds, bytes, bytes per second, hertz or plain
/// ratios, with host and parameters as labels, and an info metric for the runs. Only valid and
/// noisy values are exported; separate gauges have the ends of their intervals, and mark those
/// that are noisy, at full speed, headlines, or outside their predictions. What has no number is
/// counted by state. docs/USAGE.md promises the names.
///
/// A series continues from run to run, so labels contain nothing that changes with each run.
/// Samples have no time stamps, because collectors refuse files with time stamps. Each series has
/// one sample, from the newest run. `only_headlines` leaves out the other cases: a dozen instead
/// of hundreds.
pub fn openmetrics(documents: &[Document], only_headlines: bool) -> String {
    let mut newest_first: Vec<&Document> = documents.iter().collect();
    newest_first.sort_by(|a, b| b.run.id.cmp(&a.run.id));
    let (mut runs, mut cases) = (Vec::new(), Vec::new());
    for document in newest_first {
        let is_newest = add_start(document, &mut runs);
        // An older run only fills in for the newest: what it has first is not what views show.
        let headlines = if is_newest { overview::headlines(&document.records) } else { Vec::new() };
        let add = |record: &&Record| {
            let is_headline = headlines.iter().any(|one| std::ptr::eq(*one, *record));
            (is_headline || !only_headlines)
                && add_record(document, record, is_headline, &mut cases)
        };
        let added = document.records.iter().filter(add).count();
        if is_newest || added > 0 {
            add_info(document, &mut runs);
        }
        if is_newest {
            add_counts(document, &mut runs);
        }
    }
    runs.iter().chain(&cases).map(Gauge::text).collect::<String>() + END
}

/// OpenMetrics text of the doctor's findings: a gauge with a sample for each rule, 0 for good to 3
/// for severe.
pub fn findings(host: &Host, findings: &[Finding]) -> String {
    let mut gauges = Vec::new();
    let help = "Severity of a finding of fathom doctor: 0 good, 1 note, 2 warning, 3 severe";
    for finding in findings {
        let rule = ("rule", finding.id.clone());
        let labels = labels(of_host(host).chain([rule]));
        let severity = f64::from(finding.severity as u8);
        add(&mut gauges, ("fathom_doctor_severity".to_owned(), "", help), labels, severity);
    }
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
    gauge: (String, &'static str, &str),
    labels: String,
    value: f64,
) -> bool {
    let (name, unit, help) = gauge;
    let at = gauges.iter().position(|one| one.name == name).unwrap_or_else(|| {
        gauges.push(Gauge { name, unit, help: help.to_owned(), samples: Vec::new() });
        gauges.len() - 1
    });
    let samples = &mut gauges[at].samples;
    let is_new = samples.iter().all(|(other, _)| *other != labels);
    if is_new {
        samples.push((labels, value));
    }
    is_new
}

/// The info metric of a run.
fn add_info(document: &Document, gauges: &mut Vec<Gauge>) {
    let (run, host) = (&document.run, &document.host);
    let info = [
        ("run", run.id.as_str()),
        ("effort", run.effort.word()),
        ("verdict", run.verdict.state.word()),
        ("kernel", &host.kernel),
        ("version", &document.tool.version),
    ];
    let label = run.label.as_deref().map(|label| ("label", label));
    let pairs = info.into_iter().chain(label).map(|(name, value)| (name, value.to_owned()));
    let help = "A run that samples come from, or the newest of its host; always 1";
    add(
        gauges,
        ("fathom_run_info".to_owned(), "", help),
        labels(of_host(&document.host).chain(pairs)),
        1.0,
    );
}

/// Adds the start of a run; whether it is the newest of its host.
fn add_start(document: &Document, gauges: &mut Vec<Gauge>) -> bool {
    let name = "fathom_run_started_seconds".to_owned();
    let help = "Start of the newest run of the host, in seconds since 1970";
    let seconds = began(&document.run.started);
    seconds.is_some_and(|seconds| {
        add(gauges, (name, "seconds", help), labels(of_host(&document.host)), seconds)
    })
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
        add(gauges, ("fathom_run_cases".to_owned(), "", help), labels, in_state.count() as f64);
    }
}

/// Adds the value of a record, its interval and its flags; whether it was added.
fn add_record(
    document: &Document,
    record: &Record,
    is_headline: bool,
    gauges: &mut Vec<Gauge>,
) -> bool {
    let protocol = document.run.protocol;
    let Some(value) = record.number(protocol) else { return false };
    let Headline { stratum, interval, .. } = Headline::from(record);
    let (unit, factor) = base_unit(record.unit);
    let params = || record.params.0.iter().map(|(name, value)| (name.as_str(), value.to_string()));
    let name = (gauge(record.metric.as_str(), unit), unit, record.title.as_str());
    let case = labels(of_host(&document.host).chain(params()));
    let is_new = add(gauges, name, case, value * factor);
    let metric = ("metric", record.metric.to_string());
    let case = labels(of_host(&document.host).chain([metric]).chain(params()));
    // The interval is that of the median.
    if let Some([low, high]) = interval.filter(|_| protocol == Protocol::Median) {
        for (end, limit) in [("low", low), ("high", high)] {
            let name = format!("fathom_case_{end}_{unit}");
            let help = format!("The {end} end of the confidence interval of a value");
            add(gauges, (name, unit, &help), case.clone(), limit * factor);
        }
    }
    let is_noisy = record.verdict.state == State::Noisy;
    let fails = record.agreement.filter(|it| *it != Agreement::Inconclusive).map(Agreement::fails);
    if let Some(fails) = fails {
        let name = "fathom_case_outside".to_owned();
        let help = "1 where a value is outside its prediction or violates its bound, 0 where not";
        add(gauges, (name, "", help), case.clone(), f64::from(u8::from(fails)));
    }
    for (name, help, holds) in [
        ("fathom_case_headline", "1 where a value is of the shortest view, else 0", is_headline),
        ("fathom_case_noisy", "1 where a value is noisy, 0 where it is valid", is_noisy),
        (
            "fathom_case_full_speed",
            "1 where a value rests on undisturbed processes only, 0 where it is unfiltered",
            stratum != Stratum::AsFound,
        ),
    ] {
        add(gauges, (name.to_owned(), "", help), case.clone(), f64::from(u8::from(holds)));
    }
    if let Some(typical) = &record.typical {
        let name = "fathom_case_typical_position".to_owned();
        let help = "-1 where a value is worse than the range of such machines, 0 in it, 1 better";
        let position = match typical.position {
            Position::Worse => -1.0,
            Position::Typical => 0.0,
            Position::Better => 1.0,
        };
        add(gauges, (name, "", help), case.clone(), position);
        let name = "fathom_case_typical_better_ratio".to_owned();
        let help = "Share of published machine types of this CPU whose value is better";
        let share = f64::from(typical.better) / f64::from(typical.n.max(1));
        add(gauges, (name, "ratio", help), case, share);
    }
    is_new
}

/// With the id, so that hosts with the same name have separate series.
fn of_host<'a>(host: &Host) -> impl Iterator<Item = (&'a str, String)> + use<'a> {
    let Host { name, id, .. } = host;
    let id = id.clone().map(|id| ("host_id", id));
    [("host", name.clone())].into_iter().chain(id)
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
fn gauge(metric: &str, unit: &str) -> String {
    let plain: String =
        metric.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("fathom_{plain}_{unit}")
}

/// The start of a run in seconds since 1970.
fn began(started: &str) -> Option<f64> {
    Some(started.parse::<jiff::Timestamp>().ok()?.as_millisecond() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use fathom_record::Severity;

    use super::*;

    #[test]
    fn findings_are_samples_of_one_gauge() {
        let finding =
            |id: &str, severity| Finding { id: id.to_owned(), severity, ..Finding::default() };
        let host = Host { name: "db2".to_owned(), ..Host::default() };
        let both = [finding("a", Severity::Severe), finding("b", Severity::Good)];
        let text = findings(&host, &both);
        assert!(text.contains("fathom_doctor_severity{host=\"db2\",rule=\"a\"} 3\n"), "{text}");
        assert!(text.contains("rule=\"b\"} 0\n") && text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn gauge_names_and_times() {
        assert_eq!(gauge("os.switch.process", "seconds"), "fathom_os_switch_process_seconds");
        assert_eq!(began("1970-01-01T00:00:01.000Z"), Some(1.0));
        assert_eq!(began("x"), None);
    }
}
