//! `fathom export` and `fathom import`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Stdio;

use crate::group::skipped;
use crate::test_env::canned;
use crate::{TestEnv, assert_usage_error, text};

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

const UNITS: [&str; 6] = ["bytes_per_second", "per_second", "seconds", "bytes", "hertz", "ratio"];

/// Names of metrics in a text, with `UNIT` for the unit of one that has several.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    let ours =
        words.filter(|word| word.starts_with("fathom_case_") || word.starts_with("fathom_run_"));
    let general = |name: &str| {
        let unit = UNITS.iter().find(|unit| name.ends_with(&format!("_{unit}")));
        let ends = ["fathom_case_low_", "fathom_case_high_"];
        match (unit, ends.iter().find(|start| name.starts_with(**start))) {
            (Some(_), Some(start)) => format!("{start}UNIT"),
            _ => name.to_owned(),
        }
    };
    ours.map(general).collect()
}

#[test]
fn metrics_for_prometheus_are_those_of_the_documents() {
    let env = TestEnv::new();
    env.store_run(&canned());
    let exported = text(&env.run(&["export", "--format", "openmetrics"]).stdout);
    let lines = exported.lines().filter(|line| !line.starts_with('#'));
    let exported = names(&lines.collect::<Vec<_>>().join("\n"));
    let documented = names(include_str!("../../../../docs/USAGE.md"));
    let refused = env.exec("export --format csv --headline");
    assert_usage_error(&refused, &["--headline", "--format openmetrics"]);
    // The canned machine is of no published type.
    let (typical, others): (BTreeSet<String>, BTreeSet<String>) =
        documented.iter().cloned().partition(|name| name.contains("typical"));
    assert_eq!((exported, typical.len()), (others, 2));
    let alerts = names(include_str!("../../../../docs/recipes/canary.md"));
    assert!(alerts.len() > 4 && alerts.is_subset(&documented), "{alerts:?}");
}
