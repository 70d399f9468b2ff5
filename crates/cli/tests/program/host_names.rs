//! `--host-name` and FATHOM_HOST, and hosts that share a machine-id.

use fathom_record::{Document, Host};
use serde_json::Value;

use crate::test_env::{assert_contains, json, stored_run, text};
use crate::{ProgramTestEnv, assert_usage_error};

/// This host, as the option and the variable name it.
fn host(env: &ProgramTestEnv, option: Option<&str>, variable: Option<&str>) -> Host {
    let mut command = env.command("doctor --only host-id --json");
    command.args(option.map(|name| format!("--host-name={name}")));
    command.env("FATHOM_HOST", variable.unwrap_or_default());
    let diagnosis: Value = json(&command.output().expect("it starts"));
    serde_json::from_value(diagnosis["host"].clone()).expect("a host")
}

#[test]
fn named_host_has_an_id_of_its_own() {
    let env = ProgramTestEnv::new();
    let [own, a, b] = [None, Some("a"), Some("b")].map(|name| host(&env, name, None));
    assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
    assert!(a.id.is_some() && a.id != b.id && a.id != own.id, "{a:?}");
    for (option, variable) in [(None, Some("a")), (Some("a"), Some("b"))] {
        let again = host(&env, option, variable);
        assert_eq!((again.name, again.id), (a.name.clone(), a.id.clone()), "{option:?}");
    }
}

#[test]
fn wrong_host_name_is_a_usage_error() {
    let env = ProgramTestEnv::new();
    assert_usage_error(&env.run(&["doctor", "--host-name", ""]), &["--host-name", "253 printable"]);
    let mut by_variable = env.command("list");
    let output = by_variable.env("FATHOM_HOST", "a\nb").output().expect("it starts");
    assert_usage_error(&output, &["FATHOM_HOST", r"`a\nb`", "253 printable"]);
}

#[test]
fn run_of_a_clone_is_warned_of_once() {
    let env = ProgramTestEnv::new();
    let of = |number: usize, name: &str| {
        let mut document: Document = stored_run(number);
        document.host.name = name.to_owned();
        env.write_document(&format!("{number}.json"), &document);
    };
    [(1, "a"), (2, "b"), (3, "b")].iter().for_each(|(number, name)| of(*number, name));
    let warned = |line: &str| {
        let output = env.succeed(line);
        text(&output.stderr)
    };
    assert_eq!(warned("import 1.json"), "");
    let warning = "b has the machine-id and hardware of a in the store";
    assert_contains(&warned("import 2.json 1.json"), &[warning, "--host-name or FATHOM_HOST"]);
    assert_eq!(warned("import 2.json 3.json"), "", "known");
    // This machine has the id, and another name.
    let own = fathom_measure::host::read().name;
    let run = "run cpu.clock.resolution --only --quick --json";
    assert_contains(&warned(run), &[&format!("{own} has the machine-id and hardware of b")]);
    assert!(!warned(&format!("{run} --host-name a")).contains("machine-id"), "named");
}
