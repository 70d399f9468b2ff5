//! Raw values as one flat table in CSV, a row for each value, for pandas, R and DuckDB.
//!
//! One run is in memory at a time.

use std::io::{self, Write};

use fathom_record::{Document, Record, Sample};

/// `params` is a JSON object: `df.params.map(json.loads).str["bytes"]` is the x axis of a curve.
/// `case` is the name that options take. `value` is in the base unit in `unit`.
const COLUMNS: [&str; 21] = [
    "run",
    "started",
    "host",
    "host_id",
    "label",
    "case",
    "metric",
    "params",
    "unit",
    "state",
    "visit",
    "process",
    "cpu",
    "visit_started_ns",
    "batch",
    "waited",
    "missed",
    "round",
    "index",
    "disturbed",
    "value",
];

/// A table that is being written.
pub struct SampleTable<W: Write>(csv::Writer<W>);

impl<W: Write> SampleTable<W> {
    /// Cells that are missing are empty; flags are `true` and `false`.
    ///
    /// # Errors
    /// Those of the output, here and below.
    pub fn csv(output: W) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(output);
        writer.write_record(COLUMNS)?;
        Ok(Self(writer))
    }

    /// Adds the values of a run, but for those of invalid and failed results; how many rows.
    ///
    /// # Errors
    /// See [`SampleTable::csv`].
    pub fn add(&mut self, document: &Document) -> io::Result<u64> {
        let mut rows = 0;
        let of_run = run_cells(document);
        for record in document.records.iter().filter(|it| it.verdict.shows_number()) {
            let of_record = record_cells(record);
            for sample in record.samples.iter().flatten() {
                let of_sample = sample_cells(sample);
                for index in 0..sample.values.len() {
                    let of_value = value_cells(sample, index);
                    let cells = of_run.iter().chain(&of_record).chain(&of_sample).chain(&of_value);
                    self.0.write_record(cells)?;
                    rows += 1;
                }
            }
        }
        Ok(rows)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// See [`SampleTable::csv`].
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Empty where there is none.
fn some<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |it| it.to_string())
}

fn run_cells(document: &Document) -> [String; 5] {
    let (run, host) = (&document.run, &document.host);
    [
        run.id.clone(),
        run.started.clone(),
        host.name.clone(),
        some(host.id.as_ref()),
        some(run.label.as_ref()),
    ]
}

fn record_cells(record: &Record) -> [String; 6] {
    let params = serde_json::to_string(&record.params).expect("plain data has a JSON form");
    [
        record.name(),
        record.metric.to_string(),
        params,
        record.unit.symbol().to_owned(),
        record.verdict.state.word().to_owned(),
        record.visit.clone(),
    ]
}

fn sample_cells(sample: &Sample) -> [String; 6] {
    [
        sample.process.to_string(),
        sample.cpu.to_string(),
        some(sample.started_ns),
        sample.batch.to_string(),
        sample.waited.to_string(),
        sample.missed.is_some().to_string(),
    ]
}

fn value_cells(sample: &Sample, index: usize) -> [String; 4] {
    let round = index.checked_div(sample.values_per_round as usize);
    let is_disturbed = sample.disturbed.iter().any(|one| *one as usize == index);
    [some(round), index.to_string(), is_disturbed.to_string(), sample.values[index].to_string()]
}

#[cfg(test)]
mod tests {
    use fathom_record::{Better, MetricId, Params, State, Unit};

    use super::*;

    fn document(values: usize) -> Document {
        let text = include_str!("../../../cli/tests/data/document.json");
        let mut document: Document = serde_json::from_str(text).expect("a document");
        let params = Params::one("call", "a\",\nb").and("bytes", 64);
        let metric = MetricId::new("os.syscall");
        let mut record = Record::new(metric, params, "", Unit::Nanoseconds, Better::Lower);
        record.visit = "os.syscall".to_owned();
        record.samples = Some(vec![
            Sample {
                values: (0..values).map(|at| at as f64 / 8.0).collect(),
                values_per_round: 2,
                disturbed: vec![1],
                batch: 1 << 40,
                started_ns: Some(5),
                ..Sample::default()
            },
            Sample { process: 1, values: vec![1e-9], ..Sample::default() },
        ]);
        let mut invalid = record.clone();
        invalid.verdict.state = State::Invalid;
        document.records = vec![record, invalid];
        document.run.label = None;
        document
    }

    fn csv_rows(documents: &[Document]) -> Vec<csv::StringRecord> {
        let mut bytes = Vec::new();
        let mut table = SampleTable::csv(&mut bytes).unwrap();
        documents.iter().for_each(|one| assert!(table.add(one).unwrap() > 0));
        table.finish().unwrap();
        csv::Reader::from_reader(bytes.as_slice()).into_records().map(Result::unwrap).collect()
    }

    #[test]
    fn csv_has_a_row_for_each_value_of_shown_results() {
        let rows = csv_rows(&[document(3)]);
        let column = |name| COLUMNS.iter().position(|it| *it == name).expect("a column");
        let cells = |name| rows.iter().map(|row| row[column(name)].to_owned()).collect::<Vec<_>>();
        assert_eq!(cells("value"), ["0", "0.125", "0.25", "0.000000001"]);
        assert_eq!(cells("index"), ["0", "1", "2", "0"]);
        assert_eq!(cells("round"), ["0", "0", "1", ""]);
        assert_eq!(cells("disturbed"), ["false", "true", "false", "false"]);
        assert_eq!(cells("process"), ["0", "0", "0", "1"]);
        assert_eq!(cells("visit_started_ns"), ["5", "5", "5", ""]);
        assert_eq!(cells("label"), ["", "", "", ""]);
        assert_eq!(cells("params")[0], r#"{"bytes":64,"call":"a\",\nb"}"#);
        assert_eq!(cells("case")[0], "os.syscall{bytes=64,call=a\",\nb}");
    }
}
