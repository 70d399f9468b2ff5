//! `fathom export --format openmetrics`, and the rules and the dashboard in docs/recipes.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fathom_record::{NotSelected, Prediction};
use serde_json::Value;

use crate::group::skipped;
use crate::test_env::{assert_failure, canned};
use crate::{ProgramTestEnv, assert_usage_error, text};

/// The output of a program that reads this; `None` if it is not installed.
fn answer(program: &str, arguments: &[&str], input: &[u8]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    // A program that does not read its input is judged by its output.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().ok()
}

/// Everything that can be exported: a run of this host with a label, the answers to limits, and the
/// doctor's findings.
fn whole_export() -> String {
    let (env, mut document) = (ProgramTestEnv::new(), canned());
    document.host = fathom_measure::host::read();
    document.run.label = Some("a\"b\\c".to_owned());
    let call = document.records.iter_mut().find(|it| it.metric.as_str() == "os.syscall");
    let call = call.expect("a system call");
    call.prediction = Some(Prediction::sum(60.0, 45.0, 0.3, "", ""));
    call.summary.as_mut().expect("a summary").not_selected = Some(NotSelected::Device);
    env.store_run(&document);
    std::fs::write(env.file("limits.toml"), LIMITS).expect("a file");
    let [limits, doctor] = ["limits.toml", "doctor.json"].map(|name| env.path_text(name));
    env.exec(&format!("doctor -o {doctor}"));
    let options = format!("--limits {limits} --doctor {doctor}");
    env.stdout(&format!("export --format openmetrics {options}"))
}

const LIMITS: &str = "\"os.syscall\" = \"90 ns..130 ns\"\n\"os.process.fork\" = \"..1 s\"\n";

#[test]
fn openmetrics_pass_the_parsers_of_prometheus() {
    let parse = "import sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
text = sys.stdin.read()
counts = [sum(len(one.samples) for one in kind.text_string_to_metric_families(text))
          for kind in (parser, openmetrics)]
print(*counts)";
    // The Debian package belongs to it, not to another one that PATH may name.
    let python = |script: &str, input: &[u8]| answer("/usr/bin/python3", &["-c", script], input);
    let known = python("import prometheus_client", b"");
    if known.is_none_or(|output| !output.status.success()) {
        return skipped("python3-prometheus-client is not installed");
    }
    let exported = whole_export();
    let parsed = python(parse, exported.as_bytes()).expect("python3");
    let samples = exported.lines().filter(|line| !line.starts_with('#')).count();
    assert!(samples > 50, "{exported}");
    assert_eq!(text(&parsed.stdout).trim(), format!("{samples} {samples}"), "{parsed:?}");
}

/// The answer of promtool, which must be installed; `None` and a note if it is not.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let output = answer("promtool", arguments, input.as_bytes());
    if output.is_none() {
        skipped("promtool is not installed (package prometheus)");
    }
    output
}

#[test]
fn promtool_has_no_remarks_on_metrics() {
    let Some(checked) = promtool(&["check", "metrics"], &whole_export()) else { return };
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    let unclean = "# TYPE a_milliseconds gauge\na_milliseconds 1\n";
    let refused = promtool(&["check", "metrics"], unclean).expect("promtool");
    assert!(!refused.status.success(), "a wrong unit passes: {refused:?}");
}

fn recipe(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes").join(name)
}

/// A file of docs/recipes.
fn recipe_text(name: &str) -> String {
    std::fs::read_to_string(recipe(name)).expect("a file")
}

#[test]
fn alerts_fire_where_they_should_only() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/prometheus-rules-test.yml");
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let Some(tested) = promtool(&["test", "rules", &path(&cases)], "") else { return };
    assert!(tested.status.success(), "{}{}", text(&tested.stdout), text(&tested.stderr));
    let config = promtool(&["check", "config", &path(&recipe("prometheus.yml"))], "");
    let config = config.expect("promtool");
    assert!(config.status.success(), "{}{}", text(&config.stdout), text(&config.stderr));
    // Every alert has a case in which it fires.
    let cases = std::fs::read_to_string(cases).expect("a file");
    let rules = recipe_text("prometheus-rules.yml");
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 8, "{alerts:?}");
    for alert in alerts {
        let fires = format!("alertname: {alert}\n    exp_alerts:");
        let silent = format!("alertname: {alert}}}");
        assert!(cases.contains(&fires) && cases.contains(&silent), "{alert}");
    }
}

/// The panels of the dashboard with their queries.
fn queries(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().expect("a query")).collect()
}

#[test]
fn dashboard_has_own_ids_places_and_variables() {
    let dashboard: Value =
        serde_json::from_str(&recipe_text("grafana-dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().map(|it| it["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let side = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
        assert!(side("x") + side("w") <= 24, "{panel}");
        for x in side("x")..side("x") + side("w") {
            for y in side("y")..side("y") + side("h") {
                assert!(taken.insert((x, y)), "two panels at {x}, {y}: {}", panel["title"]);
            }
        }
    }
    let variables: BTreeSet<&str> = dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|it| it["name"].as_str().expect("a name"))
        .collect();
    let queries = queries(&dashboard);
    assert!(queries.len() > 20, "{queries:?}");
    for query in queries {
        for part in query.split('$').skip(1) {
            let name: String = part.chars().take_while(char::is_ascii_alphanumeric).collect();
            assert!(variables.contains(name.as_str()), "${name} in {query}");
        }
    }
}

const UNITS: [&str; 6] = ["bytes_per_second", "per_second", "seconds", "bytes", "hertz", "ratio"];

/// Names of metrics in a text, with `UNIT` for the unit of one that has several.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let ours = ["fathom_case_", "fathom_run_", "fathom_doctor_"];
    let words = text.split(|c| !is_part(c));
    // `fathom_case_.+` is a pattern.
    let words = words.filter(|word| !word.ends_with('_'));
    let words = words.filter(|word| ours.iter().any(|start| word.starts_with(start)));
    let general = |name: &str| {
        let end = UNITS.iter().find_map(|unit| name.strip_suffix(&format!("_{unit}")));
        let is_end = |it: &&str| it.ends_with("_low") || it.ends_with("_high");
        end.filter(is_end).map_or_else(|| name.to_owned(), |start| format!("{start}_UNIT"))
    };
    words.map(general).collect()
}

#[test]
fn metrics_for_prometheus_are_those_of_the_documents() {
    let exported = whole_export();
    let lines = exported.lines().filter(|line| !line.starts_with('#'));
    let exported = names(&lines.collect::<Vec<_>>().join("\n"));
    let documented = names(include_str!("../../../../docs/USAGE.md"));
    // The canned numbers are of no metric with a typical range.
    let (typical, others): (BTreeSet<String>, BTreeSet<String>) =
        documented.iter().cloned().partition(|name| name.contains("typical"));
    assert_eq!((exported, typical.len()), (others, 2));
    for name in ["prometheus-rules.yml", "grafana-dashboard.json"] {
        let named = names(&recipe_text(name));
        assert!(!named.is_empty() && named.is_subset(&documented), "{name}: {named:?}");
    }
}

#[test]
fn additions_to_metrics_need_their_format_and_host() {
    let env = ProgramTestEnv::new();
    env.store_run(&canned());
    let refused = env.exec("export --format csv --headline");
    assert_usage_error(&refused, &["--headline", "--format openmetrics"]);
    let refused = env.exec("export --limits limits.toml");
    assert_usage_error(&refused, &["--limits", "--format openmetrics"]);
    let doctor = env.path_text("doctor.json");
    let export = format!("export 01a210e795096169 --format openmetrics --doctor {doctor}");
    assert_failure(&env.exec(&export), &["open", "doctor.json", "`fathom doctor -o FILE`"]);
    std::fs::write(&doctor, "{}").expect("a file");
    assert_failure(&env.exec(&export), &["doctor.json is not", "missing field"]);
    env.exec(&format!("doctor --force -o {doctor}"));
    assert_failure(&env.exec(&export), &["--doctor: examined", "no run"]);
}
