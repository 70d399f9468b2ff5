//! Every command that is printed, on screens and in documents, parses and can be planned.

use std::path::Path;

use clap::error::ErrorKind::MissingRequiredArgument;
use clap::{CommandFactory, Parser};
use fathom_probes::REGISTRY;
use fathom_record::{Fix, Remedy};
use fathom_report::remedy::{advice, words};
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::commands::refusal_of_plan;

/// All variants of an enum with fields, by its schema.
fn variants<T: JsonSchema + DeserializeOwned>() -> Vec<T> {
    let schema: Schema = schema_for!(T);
    let all = schema.get("oneOf").and_then(Value::as_array).expect("an enum");
    all.iter()
        .map(|variant| {
            let fields = variant["properties"].as_object().expect("fields");
            let value: Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), sample(field, &schema))).collect();
            serde_json::from_value(Value::Object(value)).expect("a variant")
        })
        .collect()
}

/// A value that a schema allows.
fn sample(field: &Value, whole: &Schema) -> Value {
    if let Some(name) = field["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let defined = &whole.get("$defs").expect("definitions")[name];
        return defined["oneOf"][0]["const"].clone();
    }
    let kind = match &field["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match (field.get("const"), kind) {
        (Some(value), _) => value.clone(),
        (_, Some("integer")) => json!(1),
        (_, Some("boolean")) => json!(true),
        (_, Some("array")) => json!(["x"]),
        _ => json!("repeat"),
    }
}

/// Why a printed command is not accepted; `None` for one of another program.
fn refusal(printed: &str) -> Option<String> {
    let line = &printed[printed.find("fathom ")?..];
    // The program of a pipe, and a placeholder as a user fills it in.
    let ends = [" | ", " &", " > ", "`", "  ", " …"];
    let end = ends.iter().filter_map(|end| line.find(end)).min().unwrap_or(line.len());
    let filled = |word: &str| match word.trim_matches('"') {
        "METRIC" => "os.syscall".to_owned(),
        "N" => "1".to_owned(),
        word => word.replace("HOST", "db2").replace(['[', ']'], ""),
    };
    // What is in single quotes is one word.
    let parts = line[..end].split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        1 => vec![filled(part)],
        _ => part.split_whitespace().map(filled).collect(),
    });
    let words: Vec<String> = words.collect();
    match Arguments::try_parse_from(&words) {
        Ok(arguments) => refusal_of_plan(&arguments).map(|why| format!("{words:?}: {why}")),
        Err(error) if !error.use_stderr() => None,
        // The name of a command alone, in a sentence about it.
        Err(error) if error.kind() == MissingRequiredArgument && words.len() <= 3 => None,
        Err(error) => Some(format!("{words:?}: {error}")),
    }
}

fn is_command(line: &str) -> bool {
    let rest = line.strip_prefix("fathom ").unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-')
}

#[test]
fn every_remedy_is_accepted_by_its_command() {
    let run = Arguments::command().find_subcommand("run").expect("run").clone();
    let is_of_run = |option: &str| {
        run.get_arguments().any(|one| one.get_long() == Some(option.trim_matches('-')))
    };
    let procedures = REGISTRY.commands().iter().map(|one| one.options());
    let is_of_procedure = |option: &str| {
        procedures.clone().any(|of| of.get_arguments().any(|one| one.get_long() == Some(option)))
    };
    for remedy in variants::<Remedy>() {
        let text = words(&remedy);
        let is_option_of_it = |part: &&str| !part.starts_with("fathom ");
        let beside = text.split('`').filter(is_option_of_it).flat_map(str::split_whitespace);
        for option in beside.filter_map(|word| word.strip_prefix("--")) {
            let option = option.trim_end_matches([',', ';', ')']);
            let is_accepted = is_of_run(option) || is_of_procedure(option);
            assert!(is_accepted, "{remedy:?}: --{option} in `{text}`");
        }
        for command in text.split('`').filter(|part| part.starts_with("fathom ")) {
            assert_eq!(refusal(command), None);
        }
    }
    for fix in variants::<Fix>() {
        let advice = advice(&fix);
        assert_eq!(advice.command.as_deref().and_then(refusal), None, "{fix:?}");
        for command in advice.words.split('`').filter(|part| part.contains("fathom ")) {
            assert_eq!(refusal(command), None, "{fix:?}");
        }
    }
}

#[test]
fn remedy_of_a_procedure_names_its_own_option() {
    for command in REGISTRY.commands() {
        let option = command.repeat_option();
        let remedy = Remedy::MeasureLonger.for_procedure(option.as_deref());
        let text = words(&remedy);
        assert!(!text.contains("--thorough"), "{}: {text}", command.path);
        let options = command.options();
        let takes = |rest: &str| {
            let name = rest.split(|it: char| !it.is_ascii_lowercase()).next();
            options.get_arguments().any(|one| one.get_long() == name)
        };
        assert!(text.split("--").skip(1).all(takes), "{}: {text}", command.path);
    }
}

/// The examples of every command's help.
#[test]
fn every_example_is_accepted() {
    fn check(command: &clap::Command, refused: &mut Vec<String>) -> usize {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.lines().map(str::trim_start).filter(|line| is_command(line));
        let examples: Vec<&str> = examples.collect();
        refused.extend(examples.iter().filter_map(|line| refusal(line)));
        let below = command.get_subcommands().map(|one| check(one, refused));
        examples.len() + below.sum::<usize>()
    }
    let mut refused = Vec::new();
    let count = check(&Arguments::command(), &mut refused);
    assert!(count > 50, "{count} examples");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// The commands in messages of the sources, outside of tests.
#[test]
fn every_command_in_a_message_is_accepted() {
    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                sources(&path, found);
            } else if name.ends_with(".rs") && !name.contains("test") && name != "printed.rs" {
                let text = std::fs::read_to_string(&path).expect("a source");
                found.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
            }
        }
    }
    let mut texts = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the crates");
    for name in ["cli", "report", "load", "transfer", "fetch", "probes", "service"] {
        sources(&crates.join(name).join("src"), &mut texts);
    }
    let (mut refused, mut count) = (Vec::new(), 0);
    for text in texts {
        let literal = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let joined = literal.map(str::trim).collect::<Vec<_>>().join("\n").replace("\\\n", "");
        for part in joined.split('`').filter(|part| part.starts_with("fathom ")) {
            // Values that are known only when it is printed.
            if part.contains(['{', '\n']) || !part.contains(' ') {
                continue;
            }
            count += 1;
            refused.extend(refusal(part));
        }
    }
    assert!(count > 20, "{count} commands");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// What the documents tell a reader to type.
#[test]
fn every_command_of_the_documents_is_accepted() {
    fn documents(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                documents(&path, found);
            } else if path.extension().is_some_and(|it| it == "md") {
                let text = std::fs::read_to_string(&path).expect("a document");
                found.push((path.display().to_string(), text));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    documents(&root.join("docs"), &mut all);
    all.push(("README".to_owned(), std::fs::read_to_string(root.join("README.md")).expect("it")));
    let (mut refused, mut count) = (Vec::new(), 0);
    for (name, text) in all {
        // A line may go on in the next.
        let joined = text.replace("\\\n", "");
        let typed = |line: &str| {
            let line = line.trim_start().strip_prefix("$ ").unwrap_or(line);
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            // A script has its own arguments.
            (is_command(line) && !line.contains('$'))
                .then(|| line.split(" #").next().unwrap_or(line).to_owned())
        };
        for line in joined.lines().filter_map(typed) {
            count += 1;
            refused.extend(refusal(&line).map(|why| format!("{name}: {why}")));
        }
    }
    assert!(count > 50, "{count} commands");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
