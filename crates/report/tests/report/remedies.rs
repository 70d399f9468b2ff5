//! The words and the command of every remedy and every fix that a document can have.

use std::fmt::Write as _;

use fathom_record::{Fix, Remedy};
use fathom_report::remedy::{Advice, advice, words};
use serde_json::{Map, Value, json};

use crate::assert_snapshot;

/// Each variant of an enum of a schema as a document has it: with every field, and, where a field
/// may be missing, without it.
fn variants(schema: &str, name: &str) -> Vec<Value> {
    let schema: Value = serde_json::from_str(schema).expect("a schema");
    let of = &schema["$defs"][name]["oneOf"];
    let mut found = Vec::new();
    for variant in of.as_array().expect("variants") {
        let mut values = vec![Map::new()];
        for (field, of) in variant["properties"].as_object().expect("fields") {
            let choices = choices(of, &schema);
            let each = values.iter().flat_map(|value| {
                choices.iter().map(move |choice| {
                    let mut value = value.clone();
                    value.insert(field.clone(), choice.clone());
                    value
                })
            });
            values = each.collect();
        }
        found.extend(values.into_iter().map(Value::Object));
    }
    found
}

/// Values of a field.
fn choices(of: &Value, schema: &Value) -> Vec<Value> {
    if let Some(constant) = of.get("const") {
        return vec![constant.clone()];
    }
    if let Some(name) = of["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
        let words = schema["$defs"][name]["oneOf"].as_array().expect("words");
        return words.iter().map(|word| word["const"].clone()).collect();
    }
    let types = match &of["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    let value = |kind: &Value| match kind.as_str() {
        Some("string") => vec![json!("/sys/fs/cgroup/x")],
        Some("integer") => vec![json!(7)],
        Some("boolean") => vec![json!(false), json!(true)],
        Some("array") => vec![json!(["ulimit -n"]), json!(["tso", "net.core.rmem_max"])],
        Some("null") => vec![Value::Null],
        other => panic!("no value of the type {other:?}"),
    };
    types.iter().flat_map(value).collect()
}

#[test]
fn every_remedy_and_fix_has_its_words() {
    let mut text = "Remedies of results\n\n".to_owned();
    for value in variants(include_str!("../../../../docs/run.schema.json"), "Remedy") {
        let remedy: Remedy = serde_json::from_value(value.clone()).expect("a remedy");
        writeln!(text, "{value}\n  {}", words(&remedy)).expect("text");
    }
    text += "\nFixes of `fathom doctor`\n\n";
    for value in variants(include_str!("../../../../docs/doctor.schema.json"), "Fix") {
        let fix: Fix = serde_json::from_value(value.clone()).expect("a fix");
        let Advice { words, command } = advice(&fix);
        writeln!(text, "{value}\n  {words}").expect("text");
        command.iter().for_each(|command| writeln!(text, "  $ {command}").expect("text"));
    }
    assert_snapshot("remedies.txt", &text);
}
