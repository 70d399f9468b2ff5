//! Generated documentation: docs/METRICS.md from the registry, and the JSON schemas
//! (docs/run.schema.json, docs/doctor.schema.json, docs/crosscheck.schema.json) from the types.

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

/// Writes the generated files, and returns errors.
pub(crate) fn write(root: &Path) -> Vec<String> {
    let write = |(name, text): (&str, String)| {
        fs::write(root.join(name), text).err().map(|error| format!("write {name}: {error}"))
    };
    generated().into_iter().filter_map(write).collect()
}

/// Returns the generated files that are out of date.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let stale = |(name, text): (&str, String)| {
        let current = fs::read_to_string(root.join(name)).unwrap_or_default();
        (current != text).then(|| format!("{name}: out of date; {REMEDY}"))
    };
    generated().into_iter().filter_map(stale).collect()
}

fn generated() -> [(&'static str, String); 4] {
    [
        (METRICS, metrics()),
        (RUN_SCHEMA, schema_text(schemars::schema_for!(Document))),
        (DOCTOR_SCHEMA, schema_text(schemars::schema_for!(Diagnosis))),
        (CROSSCHECK_SCHEMA, schema_text(schemars::schema_for!(Crosscheck))),
    ]
}

fn schema_text(schema: schemars::Schema) -> String {
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
         A published figure of \"2016\" is from a study of a whole system on one machine:\n\
         Intel Core i5-5257U at 2.7 GHz, DDR3-1867, SSD, OS X 10.11.2, no optimisation; the mean\n\
         of trials after the lowest and the highest 3/16 were dropped. The file\n\
         [2016-i5-5257u.toml](../data/reference/2016-i5-5257u.toml) has the study, its machine,\n\
         its protocol and all of its figures.\n\n\
         | id | parameters | unit | what is timed |\n|---|---|---|---|\n",
    );
    for about in REGISTRY.entries().iter().map(Entry::about) {
        let parameters: Vec<&str> =
            about.parameters.iter().map(|parameter| parameter.name).collect();
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
    for parameter in about.parameters {
        let (name, values, meaning) = (parameter.name, parameter.values, parameter.meaning);
        let _ = writeln!(text, "- `{name}` = {values}: {meaning}");
    }
    if !about.parameters.is_empty() {
        text.push('\n');
    }
    let mut item = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "- **{name}:** {value}.");
        }
    };
    item(if kind == "derived" { "Computed" } else { "Timed" }, about.timed);
    item("Not timed", about.not_timed);
    item("Model", about.model);
    item("Source", about.source);
    item("Needs", &about.needs.join(", "));
    item("Requires", about.requires);
    item("Published", about.published);
    about.pitfalls.iter().for_each(|pitfall| item("Pitfall", pitfall));
}
