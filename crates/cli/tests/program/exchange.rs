//! `fathom export` and `fathom import`.

use std::io::Write as _;
use std::process::Stdio;

use crate::group::skipped;
use crate::test_env::canned;
use crate::{TestEnv, text};

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
