//! Runs for other programs: documents line by line, one tidy table, or the format of monitoring.

use fathom_record::{Document, Params, Record, Unit};

/// Each document in a line of its own: what `fathom import` reads.
///
/// # Panics
/// Never in practice: a document is plain data and always has a JSON form.
pub fn jsonl(documents: &[Document]) -> String {
    let line = |document: &Document| {
        serde_json::to_string(document).expect("a document is plain data") + "\n"
    };
    documents.iter().map(line).collect()
}

/// The columns of [`csv`]. Values are in base units, as `unit` names them; what is not known, and
/// each number that must not be believed, is empty.
const COLUMNS: [&str; 29] = [
    "run",
    "started",
    "host",
    "kernel",
    "cpu",
    "version",
    "effort",
    "metric",
    "params",
    "unit",
    "better",
    "state",
    "causes",
    "values",
    "processes",
    "median",
    "low",
    "high",
    "level",
    "min",
    "max",
    "mean",
    "sd",
    "hardware",
    "software",
    "predicted",
    "predicted_low",
    "predicted_high",
    "agreement",
];

/// One tidy table of all records of these runs: a row for each.
///
/// # Panics
/// Never in practice: a table in memory can always be written.
pub fn csv(documents: &[Document]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |row: &[String]| writer.write_record(row).expect("memory takes a row");
    write(&COLUMNS.map(str::to_owned));
    for document in documents {
        document.records.iter().for_each(|record| write(&row(document, record)));
    }
    let bytes = writer.into_inner().expect("memory takes a table");
    String::from_utf8(bytes).expect("it was made of text")
}

fn row(document: &Document, record: &Record) -> Vec<String> {
    let (run, host) = (&document.run, &document.host);
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number());
    let of = |value: fn(&fathom_record::Summary) -> f64| number(summary.map(value));
    let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let prediction = record.prediction.as_ref();
    let causes: Vec<String> =
        record.verdict.reasons.iter().map(|one| name_of(&one.cause)).collect();
    vec![
        run.id.clone(),
        run.started.clone(),
        host.name.clone(),
        host.kernel.clone(),
        host.cpu.model.clone(),
        document.tool.version.clone(),
        run.effort.word().to_owned(),
        record.metric.to_string(),
        pairs(&record.params),
        record.unit.symbol().to_owned(),
        name_of(&record.better),
        record.verdict.state.word().to_owned(),
        causes.join(" "),
        count(summary.map(|summary| summary.n)),
        count(summary.map(|summary| u64::from(summary.processes))),
        of(|summary| summary.median),
        number(summary.and_then(|summary| summary.ci95).map(|[low, _]| low)),
        number(summary.and_then(|summary| summary.ci95).map(|[_, high]| high)),
        number(summary.and_then(|summary| summary.ci_level)),
        of(|summary| summary.min),
        of(|summary| summary.max),
        of(|summary| summary.mean),
        of(|summary| summary.sd),
        number(prediction.and_then(|prediction| prediction.hardware)),
        number(prediction.and_then(|prediction| prediction.software)),
        number(prediction.and_then(|prediction| prediction.value)),
        number(prediction.and_then(|prediction| prediction.low)),
        number(prediction.and_then(|prediction| prediction.high)),
        record.agreement.map_or_else(String::new, |agreement| name_of(&agreement)),
    ]
}

/// The name that JSON has for it.
fn name_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// `call=stat;size=4096`.
fn pairs(params: &Params) -> String {
    let pairs: Vec<String> =
        params.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(";")
}

/// OpenMetrics text: a gauge for each metric, in seconds, bytes, bytes a second, hertz or plain
/// ratios, with the parameters, the host and the run as labels and the run's time as that of the
/// value. Only what may be believed is in it.
pub fn openmetrics(documents: &[Document]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for record in documents.iter().flat_map(|document| &document.records) {
        if believed(record).is_some() && !names.contains(&record.metric.as_str()) {
            names.push(record.metric.as_str());
        }
    }
    let mut text = String::new();
    for name in names {
        let of_name = documents.iter().flat_map(|document| {
            let records = document.records.iter().filter(|one| one.metric.as_str() == name);
            records.filter_map(move |record| Some((document, record, believed(record)?)))
        });
        for (at, (document, record, value)) in of_name.enumerate() {
            let (unit, factor) = base_unit(record.unit);
            let gauge = gauge(name, unit);
            if at == 0 {
                let title = escaped(&record.title);
                text += &format!("# TYPE {gauge} gauge\n");
                text += &if unit.is_empty() {
                    String::new()
                } else {
                    format!("# UNIT {gauge} {unit}\n")
                };
                text += &format!("# HELP {gauge} {title}\n");
            }
            let labels = labels(document, record);
            let when = seconds(&document.run.id);
            text += &format!("{gauge}{{{labels}}} {}{when}\n", value * factor);
        }
    }
    text + "# EOF\n"
}

fn believed(record: &Record) -> Option<f64> {
    let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number())?;
    summary.median.is_finite().then_some(summary.median)
}

/// The unit in which monitoring wants it, and how many of them one of ours is.
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

/// `fathom_os_syscall_seconds`: a gauge's name ends with its unit.
fn gauge(metric: &str, unit: &str) -> String {
    let plain: String =
        metric.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("fathom_{plain}_{unit}")
}

fn labels(document: &Document, record: &Record) -> String {
    let own = [
        ("host", document.host.name.clone()),
        ("run", document.run.id.clone()),
        ("verdict", record.verdict.state.word().to_owned()),
    ];
    let params = record.params.0.iter().map(|(name, value)| (name.as_str(), value.to_string()));
    let label = |(name, value): (&str, String)| format!("{name}=\"{}\"", escaped(&value));
    let labels: Vec<String> = own.into_iter().chain(params).map(label).collect();
    labels.join(",")
}

/// When a run began, by its id, whose first 12 digits are milliseconds since 1970.
fn seconds(id: &str) -> String {
    let ms = id.get(..12).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    ms.map_or_else(String::new, |ms| format!(" {}.{:03}", ms / 1000, ms % 1000))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_have_names_units_and_times_of_their_own() {
        assert_eq!(gauge("os.switch.process", "seconds"), "fathom_os_switch_process_seconds");
        assert_eq!(seconds("0000000003e8abcd"), " 1.000");
        assert_eq!(seconds("x"), "");
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
