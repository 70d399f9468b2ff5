//! Every fact has an origin, and every origin a fact.

use fathom_measure::host;
use fathom_record::Host;
use serde_json::Value;

use crate::fixture;

/// Facts for which 0 means unknown.
const ZERO_IS_ABSENT: &[&str] = &["cpu.logical", "memory.page_bytes"];
/// Lists that are known to be empty, and parameters of which none changes performance.
const EMPTY_IS_KNOWN: &[&str] = &["cpu.isolated", "cpu.nohz_full", "kernel_command_line"];

fn absent(path: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && !EMPTY_IS_KNOWN.contains(&path),
        Value::Array(list) => list.is_empty() && !EMPTY_IS_KNOWN.contains(&path),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0) && ZERO_IS_ABSENT.contains(&path),
        Value::Bool(_) => false,
    }
}

fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
    let below = |name: &str| {
        if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
    };
    match value {
        _ if absent(path, value) => {}
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| leaves(&below(name), value, found));
        }
        Value::Array(list) => {
            let entries = list.iter().enumerate();
            entries.for_each(|(index, value)| leaves(&below(&index.to_string()), value, found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// Facts without an origin of their own or of a parent.
fn without_origin(host: &Host) -> Vec<String> {
    let mut found = Vec::new();
    let mut json = serde_json::to_value(host).unwrap();
    json.as_object_mut().unwrap().remove("origins");
    leaves("", &json, &mut found);
    let has = |path: &str| host.origins.contains_key(path);
    let ancestors = |path: &str| path.match_indices('.').any(|(end, _)| has(&path[..end]));
    found.retain(|path| !has(path) && !ancestors(path));
    found
}

/// Origins without a fact.
fn without_fact(host: &Host) -> Vec<String> {
    let json = serde_json::to_value(host).unwrap();
    let has_fact = |path: &str| {
        let value = path.split('.').try_fold(&json, |value, name| value.get(name));
        value.is_some_and(|value| !absent(path, value))
    };
    host.origins.keys().filter(|path| !has_fact(path)).cloned().collect()
}

pub(crate) fn check(name: &str, host: &Host) {
    assert_eq!(without_origin(host), Vec::<String>::new(), "{name}: facts without an origin");
    assert_eq!(without_fact(host), Vec::<String>::new(), "{name}: origins without a fact");
}

#[test]
fn every_fact_of_every_machine_has_an_origin() {
    for (name, machine) in fixture::all() {
        check(name, &machine.read());
    }
    check("this machine", &host::read());
}

#[test]
fn missing_origin_is_detected() {
    let mut host = crate::laptop::machine().read();
    for path in ["cpu.model", "disks", "aslr"] {
        assert!(host.origins.remove(path).is_some(), "{path}");
    }
    let lost = without_origin(&host);
    assert!(
        lost.contains(&"cpu.model".to_owned()) && lost.contains(&"aslr".to_owned()),
        "{lost:?}"
    );
    assert!(lost.contains(&"disks.0.rotational".to_owned()), "false is a fact: {lost:?}");
    host.origin("cpu.base_temperature", "nowhere");
    assert_eq!(without_fact(&host), ["cpu.base_temperature"]);
}
