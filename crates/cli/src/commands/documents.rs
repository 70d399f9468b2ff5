//! Runs as JSON documents that somebody else may have written: read, checked, and refused with the
//! line and the field that are wrong.
//!
//! What is no run is seen by its first field, and read no further. A document that is one has a
//! largest size, since nobody but its writer knows what else is in it.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

use anyhow::{anyhow, bail, ensure};
use fathom_record::{Document, SCHEMA_VERSION, label};
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor,
};

/// The fields of a document.
const FIELDS: [&str; 6] = ["schema", "tool", "run", "host", "far", "records"];
/// The largest document that is read: some ten times what a thorough run with samples takes.
const BYTES_MAX: u64 = 64 << 20;

/// All documents, one after another, each checked as soon as it is read.
///
/// # Errors
/// What is wrong with the first that is none: where, and with which field.
pub(super) fn read(reader: impl Read, name: &str) -> anyhow::Result<Vec<Document>> {
    let left = Cell::new(BYTES_MAX);
    let limited = BufReader::new(Limited { inner: reader, left: &left });
    let mut documents = Vec::new();
    for document in serde_json::Deserializer::from_reader(limited).into_iter::<Tracked>() {
        let Tracked(document) = document.map_err(|error| {
            anyhow!("{name} holds no run of `fathom export` or `fathom run --json`: {error}")
        })?;
        checked(&document, name)?;
        documents.push(document);
        left.set(BYTES_MAX);
    }
    ensure!(!documents.is_empty(), "{name} is empty; name a file of `fathom export`");
    Ok(documents)
}

/// The digits of an id.
const ID_DIGITS: usize = 16;
/// The longest name of a host, in bytes, as DNS has it.
const HOST_MAX: usize = 253;

/// As much of a text as a message has room for.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// What a document must have for being kept or shown.
fn checked(document: &Document, name: &str) -> anyhow::Result<()> {
    check_schema(document.schema).map_err(|why| anyhow!("{name} has {why}"))?;
    let id = &document.run.id;
    if id.len() != ID_DIGITS || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
        bail!("{name}: {:?} is no id of a run, which has {ID_DIGITS} digits", shortened(id));
    }
    let started = &document.run.started;
    if started.parse::<jiff::Timestamp>().is_err() {
        let started = shortened(started);
        bail!("{name}: run {id} began at {started:?}, which is no time of RFC 3339");
    }
    let far = document.far.iter().flat_map(|far| [&far.name, &far.host.name]);
    for host in far.chain([&document.host.name]) {
        if host.len() > HOST_MAX || host.chars().any(char::is_control) {
            bail!("{name}: {:?} of run {id} is no name of a host", shortened(host));
        }
    }
    if let Some(Err(why)) = document.run.label.as_deref().map(label) {
        bail!("{name}: the label of run {id} is none: {why}");
    }
    match document.records.iter().find(|record| !record.is_intact()) {
        Some(record) => bail!(
            "{name} is damaged: the checksum of {} in run {id} does not fit its content; \
             export the run again",
            record.name()
        ),
        None => Ok(()),
    }
}

/// Documents of this schema alone are read.
fn check_schema(schema: u32) -> Result<(), SchemaError> {
    if schema == SCHEMA_VERSION { Ok(()) } else { Err(SchemaError(schema)) }
}

/// A document of a schema that this program does not know.
#[derive(Debug, thiserror::Error)]
#[error("schema {0}, and this fathom reads {SCHEMA_VERSION}; {remedy}", remedy = self.remedy())]
struct SchemaError(u32);

impl SchemaError {
    fn remedy(&self) -> &'static str {
        if self.0 > SCHEMA_VERSION { "upgrade fathom" } else { "use the fathom that made it" }
    }
}

/// A reader that gives so many bytes at most.
struct Limited<'l, R> {
    inner: R,
    left: &'l Cell<u64>,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            let mib = BYTES_MAX >> 20;
            let text = format!("a run is larger than {mib} MiB; export it without --samples");
            return Err(io::Error::other(text));
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.inner.read(&mut buffer[..most])?;
        self.left.set(left - count as u64);
        Ok(count)
    }
}

/// A document that says where it is wrong: line, column and field.
struct Tracked(Document);

impl<'de> Deserialize<'de> for Tracked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let opened: Result<Opened, _> = serde_path_to_error::deserialize(deserializer);
        opened.map(|Opened(document)| Self(document)).map_err(|error| {
            let field = error.path().to_string();
            let text = error.into_inner().to_string();
            match field.as_str() {
                "." | "?" => D::Error::custom(text),
                field => D::Error::custom(format!("{text}, in the field `{field}`")),
            }
        })
    }
}

/// A document whose first field was looked at before the rest was read.
struct Opened(Document);

impl<'de> Deserialize<'de> for Opened {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Opening)
    }
}

struct Opening;

impl<'de> Visitor<'de> for Opening {
    type Value = Opened;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Opened, A::Error> {
        let Some(first) = map.next_key::<String>()? else {
            return Err(A::Error::missing_field("schema"));
        };
        if !FIELDS.contains(&first.as_str()) {
            let shown = shortened(&first);
            let text = format!("its first field, `{shown}`, is none of a run (missing field)");
            return Err(A::Error::custom(text));
        }
        let mut schema = None;
        if first == FIELDS[0] {
            let theirs = map.next_value()?;
            check_schema(theirs).map_err(A::Error::custom)?;
            schema = Some(theirs);
        }
        let rest = Resumed { first: Some(first), schema, map };
        Document::deserialize(MapAccessDeserializer::new(rest)).map(Opened)
    }
}

/// A map from its beginning, although its first key, and the schema after it, were read.
struct Resumed<A> {
    first: Option<String>,
    schema: Option<u32>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Resumed<A> {
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
    use super::*;

    /// A document in which every field has a value.
    pub(super) const WHOLE: &str = include_str!("../../../store/tests/golden/document.json");

    fn refused(text: &str) -> String {
        read(text.as_bytes(), "x.json").map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn document_is_read_in_any_order_of_its_fields() {
        let first = read(WHOLE.as_bytes(), "x").unwrap();
        assert_eq!(first.len(), 1);
        // As a program writes it that sorts the fields: the schema is not the first then.
        let sorted: serde_json::Value = serde_json::from_str(WHOLE).unwrap();
        assert!(!sorted.to_string().starts_with("{\"schema\""));
        assert_eq!(read(sorted.to_string().as_bytes(), "x").unwrap(), first);
        let twice = format!("{WHOLE}\n{WHOLE}");
        assert_eq!(read(twice.as_bytes(), "x").unwrap().len(), 2);
    }

    #[test]
    fn other_schema_is_refused_before_the_rest_is_read() {
        let whole = |schema: &str| WHOLE.replacen("\"schema\": 3", schema, 1);
        for (other, remedy) in [
            ("{\"schema\": 4, \"tool\": \"other\"}".to_owned(), "upgrade fathom"),
            (whole("\"schema\": 99"), "upgrade fathom"),
            (whole("\"schema\": 2"), "use the fathom that made it"),
            (whole("\"schema\": 0"), "use the fathom that made it"),
        ] {
            let text = refused(&other);
            assert!(text.contains(&format!("this fathom reads 3; {remedy}")), "{text}");
        }
    }

    #[test]
    fn another_file_is_refused_by_its_first_field_and_a_broken_one_by_line_and_field() {
        assert!(refused("{\"data\": [0, 0").contains("`data`, is none of a run"));
        assert!(refused("[1, 2]").contains("expected a run at line 1"));
        assert!(refused("{}").contains("missing field `schema`"));
        let wrong = WHOLE.replacen("\"cpu\": 1,", "\"cpu\": \"one\",", 1);
        let text = refused(&wrong);
        assert!(text.contains("line 2") && text.contains("field `run.cpu`"), "{text}");
        assert!(refused(&WHOLE[..WHOLE.len() / 2]).contains("EOF"));
    }

    /// Gives so many bytes of a text without an end, and counts them.
    struct Endless<'c> {
        begin: &'static [u8],
        given: &'c Cell<u64>,
    }

    impl Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let begun = self.given.get() as usize;
            let rest = self.begin.get(begun..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            buffer[count..].fill(b'1');
            self.given.set((begun + buffer.len()) as u64);
            Ok(buffer.len())
        }
    }

    #[test]
    fn no_more_is_read_than_it_takes_to_know() {
        let given = Cell::new(0);
        let foreign = Endless { begin: b"{\"data\": \"", given: &given };
        assert!(read(foreign, "x").is_err());
        assert!(given.get() < 1 << 20, "{} bytes were read", given.get());
        for begin in [&b"\""[..], b"{\"schema\": 3, \"tool\": \"", b"{\"", b"1"] {
            given.set(0);
            let text = read(Endless { begin, given: &given }, "x").unwrap_err().to_string();
            assert!(given.get() <= BYTES_MAX + (1 << 20), "{} bytes were read", given.get());
            assert!(text.contains("64 MiB") || text.contains("line 1"), "{text}");
        }
    }
}
