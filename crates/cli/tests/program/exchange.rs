//! `fathom export` and `fathom import`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::Path;
use std::process::{Output, Stdio};

use fathom_record::{Document, Record};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use crate::group::skipped;
use crate::test_env::{canned, entries, stored_run};
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
fn csv_has_no_number_for_invalid_results() {
    let (env, document) = (TestEnv::new(), canned());
    env.store_run(&document);
    let exported = text(&env.run(&["export", "--format", "csv"]).stdout);
    let mut reader = csv::Reader::from_reader(exported.as_bytes());
    let names = reader.headers().expect("a header").clone();
    let at = |name: &str| names.iter().position(|one| one == name).expect("a column");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), document.records.len());
    for (row, record) in rows.iter().zip(&document.records) {
        assert_eq!(&row[at("metric")], record.metric.as_str());
        let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number());
        match summary {
            Some(summary) if summary.bound.is_none() => {
                assert_eq!(row[at("median")].parse(), Ok(summary.median));
            }
            _ => assert_eq!(&row[at("median")], ""),
        }
    }
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
fn path_errors_are_one_line() {
    let env = TestEnv::with_run();
    let folder = env.path().to_str().expect("a name").to_owned();
    let nowhere = format!("{folder}/no/where");
    let before = entries(env.path()).len();
    assert_failure(&env.run(&["export", "-o", &nowhere]), &["write", "No such file"]);
    let below_a_file = format!("{folder}/fathom.db/x");
    assert_failure(&env.run(&["export", "-o", &below_a_file]), &["write", &below_a_file]);
    assert_eq!(entries(env.path()).len(), before);
}

/// Creates a special file; false if that is not permitted.
fn create_node(path: &Path, kind: FileType, device: u64) -> bool {
    let created = mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device);
    let skip = |error: &Errno| skipped(&format!("{}: {error}", path.display()));
    created.inspect_err(skip).is_ok()
}

#[test]
fn export_replaces_only_with_force() {
    let env = TestEnv::with_run();
    fs::write(env.file("text"), "precious").expect("a file");
    env.assert_failures("export -o", "text | write text | --force\n . --force | directory");
    assert_eq!(fs::read_to_string(env.file("text")).expect("a file"), "precious");
    let full = makedev(1, 7);
    for (name, kind, device) in
        [("pipe", FileType::Fifo, 0), ("full", FileType::CharacterDevice, full)]
    {
        let path = env.file(name);
        if create_node(&path, kind, device) {
            for option in ["", "--force"] {
                let table = format!("{name} {option} | not a regular file | -o -");
                env.assert_failures("export -o", &table);
            }
            let kind = fs::symlink_metadata(path).expect("a node").file_type();
            assert!(kind.is_fifo() || kind.is_char_device(), "{name} became {kind:?}");
        }
    }
    fs::write(env.file("empty"), "").expect("a file");
    let whole = env.stdout("export");
    for (name, option) in [("new", ""), ("empty", ""), ("text", "--force")] {
        env.stdout(&format!("export -o {name} {option}"));
        assert_eq!(fs::read_to_string(env.file(name)).expect("a file"), whole, "{name}");
    }
}

#[test]
fn export_follows_symlinks() {
    let env = TestEnv::with_run();
    fs::create_dir(env.file("within")).expect("a folder");
    fs::write(env.file("within/target"), "old").expect("a file");
    symlink("within/target", env.file("link")).expect("a link");
    symlink("nothing", env.file("dangling")).expect("a link");
    let table = "link | write link | --force\n dangling --force | dangling | dangling symlink";
    env.assert_failures("export -o", table);
    env.stdout("export -o link --force");
    assert!(fs::symlink_metadata(env.file("link")).expect("a file").is_symlink());
    let whole = env.stdout("export");
    assert_eq!(fs::read_to_string(env.file("within/target")).expect("a file"), whole);
    assert_eq!(env.stdout("export -o -"), whole);
    assert!(!env.file("-").exists());
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
