//! JSON documents of runs from untrusted files: parsed and validated; errors name line and field.
//!
//! A file that is not a run is refused by its first field, without reading on. A run is limited in
//! its size and in the numbers of its texts and elements, of which each takes more memory than in
//! the file.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufReader, Read};

use anyhow::{anyhow, bail, ensure};
use fathom_import::JsonPlace;
use fathom_record::{Document, Record, Run, SCHEMA_VERSION, is_hidden, label};
use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor,
};

const FIELDS: [&str; 6] = ["schema", "tool", "run", "host", "far", "records"];
/// The size limit of a document: ten times that of a thorough run with samples.
const BYTES_MAX: u64 = 64 << 20;
/// As many as a run of that size has: texts with the names of fields, and elements of lists.
const TEXTS_MAX: u64 = 2 << 20;
const ELEMENTS_MAX: u64 = 4 << 20;
/// A text takes some times more memory than its quotes. A document has one in about 20 bytes; so
/// many more may be close together, such as the flags of a CPU.
const BYTES_A_TEXT: u64 = 8;
const TEXTS_CLOSE: u64 = 1 << 16;

/// Reads all documents, and passes on each one when it is valid.
///
/// # Errors
/// The first invalid document: line, column and field. Or an error of `each`.
pub(super) fn each(
    reader: impl Read,
    name: &str,
    each: &mut dyn FnMut(Document) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    each_limited(reader, name, BYTES_MAX, each)
}

/// All documents at once.
pub(super) fn read(reader: impl Read, name: &str) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    each(reader, name, &mut |document| {
        documents.push(document);
        Ok(())
    })?;
    Ok(documents)
}

fn each_limited(
    reader: impl Read,
    name: &str,
    limit: u64,
    each: &mut dyn FnMut(Document) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let left = Cell::new(Left::with_bytes(limit));
    let followed = RefCell::new(Followed::default());
    let limited = Limited { inner: reader, left: &left, limit, followed: &followed };
    let limited = BufReader::new(limited);
    let mut is_empty = true;
    for document in serde_json::Deserializer::from_reader(limited).into_iter::<FirstFieldChecked>()
    {
        let FirstFieldChecked(mut document) = document.map_err(|error| {
            let error = followed.take().describe(&error);
            anyhow!("{name} is not a run of `fathom export` or `fathom run --json`: {error}")
        })?;
        validate(&document, name)?;
        // Of another collection, maybe; views find it anew.
        document.records.iter_mut().for_each(|record| record.typical = None);
        each(document)?;
        is_empty = false;
        left.set(Left::with_bytes(limit));
    }
    ensure!(!is_empty, "{name} is empty; name a file of `fathom export`");
    Ok(())
}

const ID_DIGITS: usize = 16;
/// The longest host name of DNS, in bytes.
const HOST_BYTES_MAX: usize = 253;

/// The beginning of a text, for an error message.
fn shortened(text: &str) -> String {
    fathom_record::shortened(text, 40)
}

fn validate(document: &Document, name: &str) -> anyhow::Result<()> {
    check_schema(document.schema).map_err(|why| anyhow!("{name}: {why}"))?;
    let id = &document.run.id;
    if id.len() != ID_DIGITS || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
        bail!("{name}: invalid run id {:?}: must have {ID_DIGITS} digits", shortened(id));
    }
    check_times(&document.run).map_err(|why| anyhow!("{name}: run {id}: {why}"))?;
    let far = document.far.iter().flat_map(|far| [&far.name, &far.host.name]);
    for host in far.chain([&document.host.name]) {
        if host.len() > HOST_BYTES_MAX || host.chars().any(is_hidden) {
            bail!("{name}: run {id}: invalid host name {:?}", shortened(host));
        }
    }
    if let Some(Err(why)) = document.run.label.as_deref().map(label) {
        bail!("{name}: run {id}: invalid label: {why}");
    }
    if let Some(record) = document.records.iter().find(|record| !record.is_intact()) {
        let record = record.name();
        bail!("{name} is damaged: checksum mismatch of {record} in run {id}; export the run again");
    }
    for record in &document.records {
        let name_of = record.name();
        if name_of.chars().any(is_hidden) {
            bail!("{name}: run {id}: invalid name of a record {:?}", shortened(&name_of));
        }
        if let Some(what) = record.implausible() {
            bail!("{name}: run {id}: {name_of}: implausible {what}; export the run again");
        }
    }
    let mut names = BTreeSet::new();
    match document.records.iter().map(Record::name).find(|record| !names.insert(record.clone())) {
        Some(record) => bail!("{name}: run {id}: {record} is there twice"),
        None => Ok(()),
    }
}

fn check_times(run: &Run) -> Result<(), String> {
    let time = |what: &str, text: &str| {
        text.parse::<Timestamp>().map_err(|_| {
            // As jiff reads it before it looks at its own limits.
            let why = match Pieces::parse(text) {
                Ok(_) => format!("out of range, {} to {}", Timestamp::MIN, Timestamp::MAX),
                Err(_) => "not RFC 3339".to_owned(),
            };
            format!("{what} time {:?} is {why}", shortened(text))
        })
    };
    let started = time("start", &run.started)?;
    let ended = run.ended.as_deref().map(|text| time("end", text)).transpose()?;
    let was_stepped = run.clock.wall_step_ns.is_some();
    if let Some(ended) = ended.filter(|ended| *ended < started && !was_stepped) {
        return Err(format!("end time {ended} is before the start time {started}"));
    }
    match run.duration_ns {
        Some(ns) if ns < 0.0 => Err(format!("duration of {ns} ns is below 0")),
        _ => Ok(()),
    }
}

fn check_schema(schema: u32) -> Result<(), SchemaError> {
    if schema == SCHEMA_VERSION { Ok(()) } else { Err(SchemaError(schema)) }
}

#[derive(Debug, thiserror::Error)]
#[error("schema {0}, but this fathom reads {SCHEMA_VERSION}; {remedy}", remedy = self.remedy())]
struct SchemaError(u32);

impl SchemaError {
    fn remedy(&self) -> &'static str {
        if self.0 > SCHEMA_VERSION { "upgrade fathom" } else { "use the fathom that created it" }
    }
}

/// What a document may still have.
#[derive(Clone, Copy)]
struct Left {
    bytes: u64,
    quotes: u64,
    commas: u64,
}

impl Left {
    fn with_bytes(bytes: u64) -> Self {
        Self { bytes, quotes: 2 * TEXTS_MAX, commas: ELEMENTS_MAX }
    }
}

/// The bytes that were read last, and where they begin: an error is within them.
#[derive(Default)]
struct Followed {
    place: JsonPlace,
    last: Vec<u8>,
}

impl Followed {
    fn follow(&mut self, bytes: &[u8]) {
        self.place.advance(&self.last);
        self.last.clear();
        self.last.extend_from_slice(bytes);
    }

    fn describe(self, error: &serde_json::Error) -> String {
        let text = self.place.describe(error, &self.last);
        match (error.line(), error.column()) {
            (0, _) => text,
            (line, column) => format!("{text} at line {line} column {column}"),
        }
    }
}

/// A reader that fails after a document of a certain size. The caller may begin another one.
struct Limited<'l, R> {
    inner: R,
    left: &'l Cell<Left>,
    limit: u64,
    followed: &'l RefCell<Followed>,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut left = self.left.get();
        let (bytes, texts) = (self.limit - left.bytes, TEXTS_MAX - left.quotes.div_ceil(2));
        let exceeded = match left {
            _ if texts > TEXTS_CLOSE + bytes / BYTES_A_TEXT => "a text in 8 bytes".to_owned(),
            Left { bytes: 0, .. } => format!("{} MiB", self.limit >> 20),
            Left { quotes: 0, .. } => format!("{TEXTS_MAX} texts"),
            Left { commas: 0, .. } => format!("{ELEMENTS_MAX} elements"),
            _ => String::new(),
        };
        if !exceeded.is_empty() {
            let text = format!("a run exceeds {exceeded}; export it without --samples");
            return Err(io::Error::other(text));
        }
        let most = buffer.len().min(usize::try_from(left.bytes).unwrap_or(usize::MAX));
        let count = self.inner.read(&mut buffer[..most])?;
        let count_of = |byte: u8| buffer[..count].iter().filter(|it| **it == byte).count() as u64;
        left.bytes -= count as u64;
        left.quotes = left.quotes.saturating_sub(count_of(b'"'));
        left.commas = left.commas.saturating_sub(count_of(b','));
        self.left.set(left);
        self.followed.borrow_mut().follow(&buffer[..count]);
        Ok(count)
    }
}

/// A document whose first field was checked before the rest was read.
struct FirstFieldChecked(Document);

impl<'de> Deserialize<'de> for FirstFieldChecked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FirstFieldVisitor)
    }
}

struct FirstFieldVisitor;

impl<'de> Visitor<'de> for FirstFieldVisitor {
    type Value = FirstFieldChecked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FirstFieldChecked, A::Error> {
        let Some(first) = map.next_key::<String>()? else {
            return Err(A::Error::missing_field("schema"));
        };
        if !FIELDS.contains(&first.as_str()) {
            let shown = shortened(&first);
            let text = format!(
                "its first field is `{shown}`, not one of a run; `fathom import --help` names the \
                 other programs whose results it reads"
            );
            return Err(A::Error::custom(text));
        }
        let mut schema = None;
        if first == FIELDS[0] {
            let version = map.next_value()?;
            check_schema(version).map_err(A::Error::custom)?;
            schema = Some(version);
        }
        let whole = Replayed { first: Some(first), schema, map };
        Document::deserialize(MapAccessDeserializer::new(whole)).map(FirstFieldChecked)
    }
}

/// A map that yields its first key, and the schema version after it, a second time.
struct Replayed<A> {
    first: Option<String>,
    schema: Option<u32>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Replayed<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(first) => seed.deserialize(first.into_deserializer()).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.schema.take() {
            Some(schema) => seed.deserialize(schema.into_deserializer()),
            None => self.map.next_value_seed(seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::fixture::WHOLE_DOCUMENT as WHOLE;
    use fathom_record::{Fact, Params, Quantile, Summary, Unit};

    use super::*;

    fn error_for(text: &str) -> String {
        read(text.as_bytes(), "x.json").map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn field_order_does_not_matter() {
        let first = read(WHOLE.as_bytes(), "x").unwrap();
        assert_eq!(first.len(), 1);
        // As a program that sorts the fields writes it: the schema is not the first then.
        let sorted: serde_json::Value = serde_json::from_str(WHOLE).unwrap();
        assert!(!sorted.to_string().starts_with("{\"schema\""));
        assert_eq!(read(sorted.to_string().as_bytes(), "x").unwrap(), first);
        let twice = format!("{WHOLE}\n{WHOLE}");
        assert_eq!(read(twice.as_bytes(), "x").unwrap().len(), 2);
    }

    #[test]
    fn other_schema_is_refused_before_reading_on() {
        let whole = |schema: &str| WHOLE.replacen("\"schema\": 3", schema, 1);
        for (other, remedy) in [
            ("{\"schema\": 4, \"tool\": \"other\"}".to_owned(), "upgrade fathom"),
            (whole("\"schema\": 99"), "upgrade fathom"),
            (whole("\"schema\": 2"), "use the fathom that created it"),
        ] {
            let text = error_for(&other);
            assert!(text.contains(&format!("this fathom reads 3; {remedy}")), "{text}");
        }
    }

    #[test]
    fn invalid_document_names_line_and_field() {
        assert!(error_for("{\"data\": [0, 0").contains("first field is `data`"));
        assert!(error_for("[1, 2]").contains("expected a run at line 1"));
        assert!(error_for("{}").contains("missing field `schema`"));
        let wrong = WHOLE.replacen("\"cpu\": 1,", "\"cpu\": \"one\",", 1);
        let text = error_for(&wrong);
        assert!(text.contains("line 2") && text.contains("field `run.cpu`"), "{text}");
        assert!(error_for(&WHOLE[..WHOLE.len() / 2]).contains("EOF"));
    }

    #[test]
    fn impossible_times_and_histograms_are_named() {
        let of = |field: &str, value: &str| {
            let (before, rest) = WHOLE.split_once(&format!("\"{field}\": ")).unwrap();
            let after = &rest[rest.find(",\n").unwrap()..];
            error_for(&format!("{before}\"{field}\": {value}{after}"))
        };
        let late = "\"9999-12-31T23:59:59.999Z\"";
        for (field, value, why) in [
            ("started", "\"today\"", "start time \"today\" is not RFC 3339"),
            ("started", late, "start time \"9999-12-31T23:59:59.999Z\" is out of range, "),
            ("ended", "\"yesterday\"", "end time \"yesterday\" is not RFC 3339"),
            ("ended", "\"2020-01-01T00:00:00Z\"", "end time 2020-01-01T00:00:00Z is before the"),
            ("duration_ns", "-5", "duration of -5 ns is below 0"),
            ("histogram", "\"!\"", "histogram that is not base64: Invalid symbol 33, offset 0"),
        ] {
            let text = of(field, value);
            assert!(text.contains(why), "{text}");
        }
        assert!(of("histogram", "\"!\"").contains(".histogram`"), "{}", of("histogram", "\"!\""));
    }

    #[test]
    fn implausible_numbers_and_names_of_records_are_refused() {
        let refused = |change: fn(&mut Record, &mut Summary), why: &str| {
            let mut document: Document = serde_json::from_str(WHOLE).unwrap();
            let mut record = document.records.remove(0);
            let mut summary = record.summary.take().unwrap();
            change(&mut record, &mut summary);
            record.summary = Some(summary);
            document.records.insert(0, record.sealed());
            let text = error_for(&serde_json::to_string(&document).unwrap());
            assert!(text.contains(why) && !text.contains('\n'), "{text}");
        };
        refused(|_, it| it.interval.as_mut().unwrap().level = 2.0, "implausible level");
        refused(|_, it| it.interval.as_mut().unwrap().level = 1e308, "implausible level");
        refused(|_, it| it.process_medians[0] = 1e308, "implausible number");
        refused(|_, it| it.n = u64::MAX, "implausible count");
        refused(|_, it| it.quantiles.push(Quantile { q: -0.5, value: 1.0 }), "implausible share");
        refused(|it, _| it.samples.as_mut().unwrap()[0].values[0] = -1e101, "implausible number");
        refused(|it, _| it.prediction.as_mut().unwrap().high = Some(1e200), "implausible number");
        refused(
            |it, _| it.facts.push(Fact::quantity("x", -1e300, Unit::Bytes)),
            "implausible number",
        );
        refused(|it, _| it.params = Params::one("x", "a\n | y=1"), "invalid name of a record");
    }

    /// An endless file that begins with a text, and how many bytes of it were read.
    struct DocumentEndless<'c> {
        begin: &'static [u8],
        then: &'static [u8],
        count: &'c Cell<u64>,
    }

    impl Read for DocumentEndless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let at = self.count.get() as usize;
            let rest = self.begin.get(at..).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            let mut next = (at + length..).map(|at| self.then[at % self.then.len()]);
            buffer[length..].fill_with(|| next.next().expect("it is endless"));
            self.count.set((at + buffer.len()) as u64);
            Ok(buffer.len())
        }
    }

    #[test]
    fn foreign_file_is_not_read_to_its_end() {
        const LIMIT: u64 = 1 << 20;
        let buffer = 64 << 10;
        let count = Cell::new(0);
        for (begin, most, why) in [
            (&b"{\"data\": \""[..], buffer, "first field is `data`"),
            (b"[1, ", buffer, "expected a run at line 1"),
            (b"{\"host\": [0, ", buffer, "field `host"),
            (b"\"", LIMIT, "exceeds 1 MiB"),
            (b"{\"", LIMIT, "exceeds 1 MiB"),
            (b"{\"schema\": 3, \"tool\": \"", LIMIT, "exceeds 1 MiB"),
            (b"1", LIMIT, "line 1"),
        ] {
            count.set(0);
            let endless = DocumentEndless { begin, then: b"1", count: &count };
            let text = each_limited(endless, "x", LIMIT, &mut |_| Ok(())).unwrap_err().to_string();
            assert!(count.get() <= most, "{} bytes were read: {text}", count.get());
            assert!(text.contains(why), "{text}");
        }
        // Their strings and numbers would take some times the memory of the text.
        for (begin, then, why) in [
            (&br#"{"schema": 3, "tool": ["#[..], &br#""","#[..], "exceeds a text in 8 bytes"),
            (br#"{"schema": 3, "tool": ["#, b"1,", "exceeds 4194304 elements"),
        ] {
            count.set(0);
            let endless = DocumentEndless { begin, then, count: &count };
            let mut limited = Limited {
                inner: endless,
                left: &Cell::new(Left::with_bytes(BYTES_MAX)),
                limit: BYTES_MAX,
                followed: &RefCell::default(),
            };
            let error = io::copy(&mut limited, &mut io::sink()).unwrap_err().to_string();
            assert!(error.contains(why) && count.get() < BYTES_MAX / 4, "{error}");
        }
        assert_eq!(BYTES_MAX, 64 << 20);
    }
}
