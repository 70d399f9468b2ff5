//! Raw values as one flat table, a row for each value: CSV or Parquet, for pandas, R and DuckDB.
//!
//! One run is in memory at a time, and of Parquet one group of rows.

use std::io::{self, Write};
use std::sync::Arc;

use fathom_record::{Document, Record, Sample};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// Name, type in Parquet, and whether cells can be missing.
///
/// `params` is a JSON object: `df.params.map(json.loads).str["bytes"]` is the x axis of a curve.
/// `case` is the name that options take. `value` is in the base unit in `unit`.
const COLUMNS: [(&str, &str, bool); 21] = [
    ("run", TEXT, false),
    ("started", TEXT, false),
    ("host", TEXT, false),
    ("host_id", TEXT, true),
    ("label", TEXT, true),
    ("case", TEXT, false),
    ("metric", TEXT, false),
    ("params", TEXT, false),
    ("unit", TEXT, false),
    ("state", TEXT, false),
    ("visit", TEXT, false),
    ("process", INTEGER, false),
    ("cpu", INTEGER, false),
    ("visit_started_ns", INTEGER, true),
    ("batch", INTEGER, false),
    ("waited", FLAG, false),
    ("missed", FLAG, false),
    ("round", INTEGER, true),
    ("index", INTEGER, false),
    ("disturbed", FLAG, false),
    ("value", NUMBER, false),
];

const TEXT: &str = "BYTE_ARRAY";
const INTEGER: &str = "INT64";
const NUMBER: &str = "DOUBLE";
const FLAG: &str = "BOOLEAN";

/// Rows that are held before they are written: about 15 MB.
const ROWS_PER_GROUP: usize = 1 << 15;

enum Cell {
    Text(ByteArray),
    Integer(i64),
    Number(f64),
    Flag(bool),
    Missing,
}

/// A table that is being written.
pub struct SampleTable<W: Write + Send>(Format<W>);

enum Format<W: Write + Send> {
    Csv(csv::Writer<W>),
    Parquet { writer: SerializedFileWriter<W>, columns: Vec<Chunk> },
}

impl<W: Write + Send> SampleTable<W> {
    /// Text cells that are missing are empty, as are numbers; flags are `true` and `false`.
    ///
    /// # Errors
    /// Those of the output, here and below.
    pub fn csv(output: W) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(output);
        writer.write_record(COLUMNS.map(|(name, ..)| name)).map_err(io::Error::from)?;
        Ok(Self(Format::Csv(writer)))
    }

    /// Parquet without compression: repeated texts are in dictionaries.
    ///
    /// # Errors
    /// See [`SampleTable::csv`].
    pub fn parquet(output: W) -> io::Result<Self> {
        let properties = WriterProperties::builder()
            .set_column_dictionary_enabled("value".into(), false)
            .build();
        let schema = parse_message_type(&schema()).map_err(io_error)?;
        let writer = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties));
        let writer = writer.map_err(io_error)?;
        Ok(Self(Format::Parquet { writer, columns: COLUMNS.map(|_| Chunk::default()).into() }))
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
                    self.write([&of_run, &of_record, &of_sample, &of_value])?;
                    rows += 1;
                }
            }
        }
        Ok(rows)
    }

    fn write(&mut self, parts: [&[Cell]; 4]) -> io::Result<()> {
        let cells = parts.into_iter().flatten();
        match &mut self.0 {
            Format::Csv(writer) => {
                cells.into_iter().try_for_each(|cell| write_field(writer, cell))?;
                writer.write_record(None::<&[u8]>)?;
            }
            Format::Parquet { writer, columns } => {
                columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
                if columns[0].levels.len() == ROWS_PER_GROUP {
                    write_group(writer, columns)?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// See [`SampleTable::csv`].
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Format::Csv(mut writer) => writer.flush(),
            Format::Parquet { mut writer, mut columns } => {
                write_group(&mut writer, &mut columns)?;
                writer.finish().map(drop).map_err(io_error)
            }
        }
    }
}

fn text(text: impl AsRef<str>) -> Cell {
    Cell::Text(text.as_ref().into())
}

fn some_text(value: Option<&String>) -> Cell {
    value.map_or(Cell::Missing, text)
}

fn integer(value: impl TryInto<i64>) -> Cell {
    value.try_into().map_or(Cell::Missing, Cell::Integer)
}

fn run_cells(document: &Document) -> [Cell; 5] {
    let (run, host) = (&document.run, &document.host);
    [
        text(&run.id),
        text(&run.started),
        text(&host.name),
        some_text(host.id.as_ref()),
        some_text(run.label.as_ref()),
    ]
}

fn record_cells(record: &Record) -> [Cell; 6] {
    let params = serde_json::to_string(&record.params).expect("plain data has a JSON form");
    [
        text(record.name()),
        text(record.metric.as_str()),
        text(params),
        text(record.unit.symbol()),
        text(record.verdict.state.word()),
        text(&record.visit),
    ]
}

fn sample_cells(sample: &Sample) -> [Cell; 6] {
    [
        integer(sample.process),
        integer(sample.cpu),
        sample.started_ns.map_or(Cell::Missing, integer),
        integer(sample.batch),
        Cell::Flag(sample.waited),
        Cell::Flag(sample.missed.is_some()),
    ]
}

fn value_cells(sample: &Sample, index: usize) -> [Cell; 4] {
    let round = index.checked_div(sample.values_per_round as usize);
    let is_disturbed = sample.disturbed.iter().any(|one| *one as usize == index);
    [
        round.map_or(Cell::Missing, integer),
        integer(index),
        Cell::Flag(is_disturbed),
        Cell::Number(sample.values[index]),
    ]
}

fn write_field<W: Write>(writer: &mut csv::Writer<W>, cell: &Cell) -> io::Result<()> {
    match cell {
        Cell::Text(text) => writer.write_field(text.data()),
        Cell::Integer(value) => writer.write_field(value.to_string()),
        Cell::Number(value) => writer.write_field(value.to_string()),
        Cell::Flag(value) => writer.write_field(value.to_string()),
        Cell::Missing => writer.write_field(""),
    }
    .map_err(io::Error::from)
}

/// The values of a column in a group of rows: one of the four lists is in use.
#[derive(Default)]
struct Chunk {
    texts: Vec<ByteArray>,
    integers: Vec<i64>,
    numbers: Vec<f64>,
    flags: Vec<bool>,
    /// 0 for a row without a value, else 1.
    levels: Vec<i16>,
}

impl Chunk {
    fn push(&mut self, cell: &Cell) {
        match cell {
            Cell::Text(text) => self.texts.push(text.clone()),
            Cell::Integer(value) => self.integers.push(*value),
            Cell::Number(value) => self.numbers.push(*value),
            Cell::Flag(value) => self.flags.push(*value),
            Cell::Missing => {}
        }
        self.levels.push(i16::from(!matches!(cell, Cell::Missing)));
    }
}

fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: &mut [Chunk],
) -> io::Result<()> {
    if columns[0].levels.is_empty() {
        return Ok(());
    }
    let mut group = writer.next_row_group().map_err(io_error)?;
    for (chunk, (_, kind, is_optional)) in columns.iter_mut().zip(COLUMNS) {
        let column = group.next_column().map_err(io_error)?.expect("as many as in the schema");
        let chunk = std::mem::take(chunk);
        write_column(column, kind, &chunk, is_optional).map_err(io_error)?;
    }
    group.close().map(drop).map_err(io_error)
}

fn write_column(
    mut column: SerializedColumnWriter<'_>,
    kind: &str,
    chunk: &Chunk,
    is_optional: bool,
) -> Result<(), ParquetError> {
    let levels = is_optional.then_some(chunk.levels.as_slice());
    match kind {
        TEXT => column.typed::<ByteArrayType>().write_batch(&chunk.texts, levels, None)?,
        INTEGER => column.typed::<Int64Type>().write_batch(&chunk.integers, levels, None)?,
        NUMBER => column.typed::<DoubleType>().write_batch(&chunk.numbers, levels, None)?,
        _ => column.typed::<BoolType>().write_batch(&chunk.flags, levels, None)?,
    };
    column.close()
}

fn schema() -> String {
    let column = |(name, kind, is_optional): (&str, &str, bool)| {
        let presence = if is_optional { "optional" } else { "required" };
        let annotation = if kind == TEXT { " (STRING)" } else { "" };
        format!("{presence} {kind} {name}{annotation};\n")
    };
    format!("message samples {{\n{}}}", COLUMNS.map(column).concat())
}

/// The error of the output, if it was one: a closed pipe must be recognised.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Better, MetricId, Params, State, Unit};
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

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
        let column = |name| COLUMNS.iter().position(|(it, ..)| *it == name).expect("a column");
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

    #[test]
    fn parquet_has_the_cells_of_csv_over_several_groups() {
        let documents = [document(ROWS_PER_GROUP + 7), document(3)];
        let file = tempfile::tempfile().unwrap();
        let mut table = SampleTable::parquet(&file).unwrap();
        let added = documents.iter().map(|one| table.add(one).unwrap()).sum::<u64>();
        table.finish().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let cell = |(_, field): (&String, &Field)| match field {
            Field::Null => String::new(),
            Field::Str(text) => text.clone(),
            Field::Bool(value) => value.to_string(),
            Field::Long(value) => value.to_string(),
            Field::Double(value) => value.to_string(),
            other => panic!("{other:?}"),
        };
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        let rows: Vec<Vec<String>> =
            rows.map(|row| row.get_column_iter().map(cell).collect()).collect();
        let expected: Vec<Vec<String>> = csv_rows(&documents)
            .iter()
            .map(|row| row.iter().map(str::to_owned).collect())
            .collect();
        assert_eq!(added as usize, expected.len());
        assert!(rows == expected, "the first rows: {:?} {:?}", rows[0], expected[0]);
    }
}
