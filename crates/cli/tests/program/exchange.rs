//! `fathom export` and `fathom import`.

use std::io::Write as _;
use std::process::{Output, Stdio};

use fathom_record::{Document, Record};

use crate::group::skipped;
use crate::test_env::{canned, stored_run};
use crate::{TestEnv, assert_failure, text};

/// Imports a standard input.
fn import(env: &TestEnv, input: &[u8]) -> Output {
    let mut command = env.command("import -");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    // An input that is refused is not read to its end.
    let _ = pipe.write_all(input);
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

/// The line of a run with a change, and with its former checksums.
fn changed(line: &[u8], change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut value = serde_json::from_slice(line).expect("JSON");
    change(&mut value);
    serde_json::to_vec(&value).expect("JSON")
}

#[test]
fn export_and_import_round_trip() {
    let (here, there) = (TestEnv::new(), TestEnv::new());
    here.store_run(&stored_run(1));
    here.store_run(&stored_run(2));
    let exported = here.run(&["export", "--all", "--samples"]);
    assert_eq!(text(&exported.stdout).lines().count(), 2);
    let output = import(&there, &exported.stdout);
    assert!(text(&output.stdout).contains("Imported 2 runs"), "{}", text(&output.stderr));
    assert_eq!(there.latest(), here.latest());
    let again = import(&there, &exported.stdout);
    assert!(text(&again.stdout).contains("Imported 0 runs; skipped 2"), "{}", text(&again.stdout));
    assert_eq!(there.run(&["show"]).stdout, here.run(&["show"]).stdout);
}

#[test]
fn invalid_import_stores_nothing() {
    let (here, env) = (TestEnv::new(), TestEnv::new());
    here.store_run(&stored_run(1));
    let good = here.run(&["export"]).stdout;
    let version = changed(&good, |run| run["tool"]["version"] = 3.into());
    let schema = changed(&good, |run| run["schema"] = 99.into());
    let id = changed(&good, |run| run["run"]["id"] = "../x".into());
    let median = changed(&good, |run| run["records"][0]["summary"]["median"] = 1.5.into());
    let sampled = here.run(&["export", "--samples"]).stdout;
    let sample = changed(&sampled, |run| run["records"][0]["samples"][0]["batch"] = 7.into());
    let half = &good[..good.len() / 2];
    let second = [&good[..], b"{\"schema\":3}\n"].concat();
    let cases: [(&[u8], &[&str]); 9] = [
        (b"", &["empty"]),
        (b"hello", &["line 1"]),
        (half, &["EOF"]),
        (&version, &["line 1", "tool.version"]),
        (&schema, &["schema 99", "reads 3"]),
        (&id, &["../x", "invalid run id"]),
        (&median, &["damaged", "checksum"]),
        (&sample, &["damaged", "checksum"]),
        (&second, &["line 2", "missing field"]),
    ];
    for (input, parts) in cases {
        assert_failure(&import(&env, input), parts);
    }
    assert!(!env.store().exists());
}

#[test]
fn imported_running_run_is_interrupted() {
    let (here, env) = (TestEnv::new(), TestEnv::new());
    here.store_run(&stored_run(1));
    let good = here.run(&["export"]).stdout;
    let running = changed(&good, |run| {
        run["run"]["state"] = "running".into();
        run["run"]["ended"] = serde_json::Value::Null;
    });
    let output = import(&env, &running);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept: Document = env.latest();
    assert_eq!(kept.run.state, fathom_record::RunState::Interrupted);
    assert!(kept.records.iter().all(Record::is_intact));
}

#[test]
fn openmetrics_pass_the_parsers_of_prometheus() {
    let parse = "import sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
text = sys.stdin.read()
counts = [sum(len(one.samples) for one in kind.text_string_to_metric_families(text))
          for kind in (parser, openmetrics)]
print(*counts)";
    let python = |script: &str, input: &[u8]| {
        // The Debian package belongs to it, not to another one that PATH may name.
        let mut command = std::process::Command::new("/usr/bin/python3");
        command.args(["-c", script]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
        // A script that does not read its input is judged by its output.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().ok()
    };
    let known = python("import prometheus_client", b"");
    if known.is_none_or(|output| !output.status.success()) {
        return skipped("python3-prometheus-client is not installed");
    }
    let (env, mut document) = (TestEnv::new(), canned());
    document.run.label = Some("a\"b\\c".to_owned());
    env.store_run(&document);
    let exported = env.run(&["export", "--format", "openmetrics"]).stdout;
    let parsed = python(parse, &exported).expect("python3");
    let samples = text(&exported).lines().filter(|line| !line.starts_with('#')).count();
    assert!(samples > 10, "{}", text(&exported));
    assert_eq!(text(&parsed.stdout).trim(), format!("{samples} {samples}"), "{parsed:?}");
}

#[test]
fn exported_json_and_markdown_have_every_record() {
    let (here, there) = (TestEnv::new(), TestEnv::new());
    here.store_run(&stored_run(1));
    here.store_run(&stored_run(2));
    let json = here.run(&["export", "--all", "--samples", "--format", "json"]).stdout;
    assert!(text(&import(&there, &json).stdout).contains("Imported 2 runs"));
    assert_eq!(there.latest(), here.latest());
    let records = here.latest().records;
    let table = here.stdout("export --format markdown");
    assert_eq!(table.lines().filter(|line| line.starts_with("| c")).count(), records.len() + 1);
    assert_eq!(table, here.stdout("show --markdown"));
}
