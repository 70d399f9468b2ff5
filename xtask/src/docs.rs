//! Files that are generated from the code, and checked to be up to date: docs/METRICS.md from the
//! registry, and a schema for each JSON document from its types: docs/run.schema.json,
//! docs/doctor.schema.json and docs/crosscheck.schema.json.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use fathom_metric::{About, Entry};
use fathom_probes::REGISTRY;
use fathom_record::{Crosscheck, Diagnosis, Document};

const METRICS: &str = "docs/METRICS.md";
const RUN_SCHEMA: &str = "docs/run.schema.json";
const DOCTOR_SCHEMA: &str = "docs/doctor.schema.json";
const CROSSCHECK_SCHEMA: &str = "docs/crosscheck.schema.json";
const REMEDY: &str = "run `make docs` and commit the result";

/// Writes all generated files; the problems met.
pub(crate) fn write(root: &Path) -> Vec<String> {
    let write = |(name, text): (&str, String)| {
        fs::write(root.join(name), text).err().map(|error| format!("write {name}: {error}"))
    };
    generated().into_iter().filter_map(write).collect()
}

/// The generated files that are not up to date.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let stale = |(name, text): (&str, String)| {
        let there = fs::read_to_string(root.join(name)).unwrap_or_default();
        (there != text).then(|| format!("{name}: is not up to date; {REMEDY}"))
    };
    generated().into_iter().filter_map(stale).collect()
}

fn generated() -> [(&'static str, String); 4] {
    [
        (METRICS, metrics()),
        (RUN_SCHEMA, as_text(schemars::schema_for!(Document))),
        (DOCTOR_SCHEMA, as_text(schemars::schema_for!(Diagnosis))),
        (CROSSCHECK_SCHEMA, as_text(schemars::schema_for!(Crosscheck))),
    ]
}

fn as_text(schema: schemars::Schema) -> String {
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    format!("{text}\n")
}

fn metrics() -> String {
    let mut text = String::from(
        "# The metrics\n\n\
         <!-- Generated from the code by `make docs`; edit the probe's `About` instead. -->\n\n\
         Ids and parameters are stable: renaming one is a change of the schema. Times are in\n\
         nanoseconds, sizes in bytes, frequencies in Hz. How they are measured is in\n\
         [METHOD.md](METHOD.md), the words are in [GLOSSARY.md](GLOSSARY.md).\n\n\
         | id | parameters | unit | what is timed |\n|---|---|---|---|\n",
    );
    for about in REGISTRY.entries().iter().map(Entry::about) {
        let parameters: Vec<&str> = about.parameters.iter().map(|one| one.name).collect();
        let _ = writeln!(
            text,
            "| [{id}](#{anchor}) | {parameters} | {unit} | {title} |",
            id = about.id,
            anchor = about.id.replace('.', ""),
            parameters = parameters.join(", "),
            unit = about.unit.symbol(),
            title = about.title,
        );
    }
    REGISTRY.entries().iter().for_each(|entry| section(&mut text, entry));
    text
}

fn section(text: &mut String, entry: &Entry) {
    let about: &About = entry.about();
    let kind = match entry {
        Entry::Probe(_) => "measured".to_owned(),
        Entry::Derived(_) => "derived".to_owned(),
        Entry::ByHand(_) => {
            let path = REGISTRY.command_of(about.id).map_or("", |command| command.path);
            format!("fathom {path}")
        }
    };
    let _ =
        write!(text, "\n## {}\n\n{} ({kind}, {}).\n\n", about.id, about.title, about.unit.symbol());
    for one in about.parameters {
        let _ = writeln!(text, "- `{}` = {}: {}", one.name, one.values, one.meaning);
    }
    if !about.parameters.is_empty() {
        text.push('\n');
    }
    let mut item = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "- **{name}:** {value}.");
        }
    };
    item("Timed", about.timed);
    item("Not timed", about.not_timed);
    item("Model", about.model);
    item("Source", about.source);
    item("Needs", &about.needs.join(", "));
    item("Requires", about.requires);
    item("Published", about.published);
    about.pitfalls.iter().for_each(|pitfall| item("Pitfall", pitfall));
}
