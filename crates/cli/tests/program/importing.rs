//! `fathom import` of files of other tools, and the views of such runs.

use std::fs;
use std::process::Command;

use fathom_analysis::compare::ComparisonAnswer;
use fathom_record::Document;
use serde_json::Value;

use crate::ProgramTestEnv;
use crate::test_env::{assert_error, assert_status, json, text};

const GO: &str = include_str!("../../../import/tests/data/go.txt");
const HYPERFINE: &str = include_str!("../../../import/tests/data/hyperfine.json");
const FIO: &str = include_str!("../../../import/tests/data/fio.json");
const CASES: &str = include_str!("../../../import/tests/data/cases.txt");

/// Nine files of one benchmark, and the same with this many times its time.
fn import_go(env: &ProgramTestEnv, label: &str, times: f64) {
    let names: Vec<String> = (0..9).map(|number| format!("{label}-{number}.txt")).collect();
    for (number, name) in (0_u32..).zip(&names) {
        let ns = times * (1140.0 + f64::from(number));
        let text = GO.replace(" 1143 ns/op", &format!(" {ns} ns/op"));
        fs::write(env.file(name), text).expect("a file");
    }
    let printed = env.stdout(&format!("import --label {label} {}", names.join(" ")));
    assert!(printed.starts_with("Imported 8 cases from 9 files of go as run "), "{printed}");
}

fn runs(env: &ProgramTestEnv) -> usize {
    let listed: Value = json(&env.exec("show --runs --json"));
    listed["runs"].as_array().expect("runs").len()
}

#[test]
fn imported_runs_are_shown_compared_and_gated() {
    let env = ProgramTestEnv::new();
    import_go(&env, "old", 1.0);
    import_go(&env, "new", 1.1);
    import_go(&env, "again", 1.0001);
    let shown = env.stdout("show old");
    for part in ["measured by go", "AMD EPYC", "import.go.sums.Sort.B_op", "9 processes"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let foreign = ["without a model", "seed", "clock", "fathom explain"];
    assert!(foreign.iter().all(|part| !shown.contains(part)), "{shown}");
    let slower = env.exec("compare old new --fail-on 5% --json");
    assert_status(&slower, 3);
    let compared: Value = json(&slower);
    let of_sum = |row: &&Value| row["metric"] == "import.go.sums.Sum";
    let row = compared["rows"].as_array().and_then(|rows| rows.iter().find(of_sum));
    assert_eq!(row.expect("the case")["word"], "slower");
    assert_eq!(
        serde_json::to_value(ComparisonAnswer::Fail).expect("JSON"),
        compared["gate"]["answer"]
    );
    assert_status(&env.exec("compare old again --fail-on 5%"), 0);
    // The host is not this one, and is found all the same.
    let history = env.stdout("history import.go.sums.Sum{procs=2}");
    assert!(history.contains("on unknown") && history.contains("3 runs"), "{history}");
    let shown = env.stdout("show import.go.sums.Sum");
    assert!(shown.contains("(again)"), "{shown}");
    for (name, label) in [("latest:import", "again"), ("latest:import~2", "old")] {
        let document: Document = json(&env.run(&["show", name, "--json"]));
        assert_eq!(document.run.label.as_deref(), Some(label), "{name}");
        assert_eq!((document.host.name.as_str(), document.host.id), ("unknown", None));
    }
    let limits = env.stdout("export old --format limits");
    fs::write(env.file("limits.toml"), limits).expect("a file");
    assert_status(&env.exec("show new --limits limits.toml"), 3);
    env.stdout("report old -o page.html");
}

#[test]
fn configuration_that_differs_is_a_recorded_difference() {
    let env = ProgramTestEnv::new();
    for commit in ["aaaa", "bbbb"] {
        let lines = "BenchmarkA-2 9 200 ns/op\nBenchmarkB-2 9 200 ns/op 7 B/op\n";
        let text = format!("goos: linux\ncommit: {commit}\nnote: a desk\n{lines}");
        fs::write(env.file("go.txt"), text).expect("a file");
        env.stdout(&format!("import go.txt --label {commit}"));
    }
    let compared = env.stdout("compare aaaa bbbb");
    let difference = "configuration: commit=aaaa note=a desk → commit=bbbb note=a desk";
    assert_eq!(compared.matches(difference).count(), 1, "{compared}");
    assert!(!compared.contains("no recorded differences"), "{compared}");
    let same = env.stdout("compare aaaa aaaa");
    assert!(!same.contains("configuration"), "{same}");
    fs::write(env.file("go.txt"), "BenchmarkA-2 9 200 ns/op\n").expect("a file");
    env.stdout("import go.txt --label few");
    assert_eq!(env.stdout("show few").matches("import.go.A{procs=2}: 200.0 ns.").count(), 1);
}

#[test]
fn estimates_of_criterion_have_their_neighbours() {
    let env = ProgramTestEnv::new();
    let section = CASES.split("=== criterion-files.json\n").nth(1).expect("the case");
    let files = ["benchmark.json", "sample.json", "estimates.json"];
    for (name, line) in files.iter().zip(section.lines()) {
        fs::write(env.file(name), line).expect("a file");
    }
    let printed = env.stdout("import --label all estimates.json");
    assert!(printed.starts_with("Imported 1 case from 1 file of criterion"), "{printed}");
    let document = env.document_of("all");
    assert_eq!(document.records[0].name(), "import.criterion.sum.iter{arg=100}");
    assert_eq!(document.records[0].summary.as_ref().map(|it| it.n), Some(10));
    fs::remove_file(env.file("benchmark.json")).expect("a file");
    let refused = "estimates.json | no result of criterion: line 1: no name: benchmark.json";
    env.assert_failures("import", refused);
}

#[test]
fn same_files_are_imported_once() {
    let env = ProgramTestEnv::new();
    fs::write(env.file("a.json"), FIO).expect("a file");
    assert!(
        env.stdout("import a.json --host db2").starts_with("Imported 12 cases from 1 file of fio")
    );
    let again = env.stdout("import --format fio a.json");
    assert!(again.starts_with("Skipped 1 file of fio: the store already has run "), "{again}");
    assert_eq!(runs(&env), 1);
    let history = env.stdout("history import.fio.rand.iops");
    assert!(history.contains("on db2") && history.contains("17.10 kops/s"), "{history}");
    // As Fathom's own run it is one of the same host and tool.
    let exported = env.stdout("export latest:import --samples");
    fs::write(env.file("run.jsonl"), exported).expect("a file");
    let other = ProgramTestEnv::new();
    let imported = other.stdout(&format!("import {}", env.path_text("run.jsonl")));
    assert!(imported.starts_with("Imported 1 run."), "{imported}");
    let document = other.document_of("latest:import");
    let by = document.records[0].measured_by.as_ref().expect("the tool");
    assert_eq!(by.words(), "fio 3.33 on db2, 2026-11-27T18:46:49.668Z");
}

#[test]
fn own_exports_are_read_as_files_of_other_tools_are() {
    let from = ProgramTestEnv::new();
    fs::write(from.file("a.json"), FIO).expect("a file");
    from.stdout("import a.json");
    let exported = from.stdout("export latest:import --samples");
    let utf16: Vec<u8> =
        format!("\u{feff}{exported}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(from.file("run.jsonl"), &exported).expect("a file");
    let zip = Command::new("gzip").arg("-k").arg(from.file("run.jsonl")).status();
    assert!(zip.expect("gzip").success());
    fs::write(from.file("16.jsonl"), utf16).expect("a file");
    fs::write(from.file("bom.jsonl"), format!("\u{feff}{exported}")).expect("a file");
    for name in ["run.jsonl.gz", "16.jsonl", "bom.jsonl"] {
        let env = ProgramTestEnv::new();
        let printed = env.stdout(&format!("import {}", from.path_text(name)));
        assert!(printed.starts_with("Imported 1 run."), "{name}: {printed}");
        assert_eq!(env.stdout("export latest:import --samples"), exported, "{name}");
    }
}

#[test]
fn file_that_nobody_reads_is_named() {
    let env = ProgramTestEnv::new();
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
    // A stored block of gzip that has the beginning of a gzip file.
    let block = [&b"\x01\x04\0\xfb\xff"[..], &gzip[..4], &0_u64.to_le_bytes()].concat();
    for (name, bytes) in [
        ("a.xz", &b"\xfd7zXZ\0 "[..]),
        ("a.zst", b"\x28\xb5\x2f\xfd "),
        ("a.bz2", b"BZh91AY"),
        ("a.gz", &[&gzip[..], &block].concat()),
        ("a.html", b"<!DOCTYPE html>\n<html>"),
        ("a.txt", b"sysbench 1.0.20\n\nCPU speed:\n"),
        ("a.bin", &[0; 100]),
    ] {
        fs::write(env.file(name), bytes).expect("a file");
    }
    env.assert_failures(
        "import",
        "a.xz | a.xz is compressed with xz; import its text: `xz -dc` writes it
         --format go a.zst | a.zst is compressed with zstd; import its text
         a.bz2 | a.bz2 is compressed with bzip2; import its text
         a.gz | a.gz is compressed with gzip twice; import its text
         a.html | a.html is a page of HTML; runs of `fathom export` and results of | hyperfine, go
         a.txt | a.txt is text that begins with `sysbench 1.0.20`; runs of | jmh are read
         a.bin | a.bin is no text; runs of",
    );
    assert_error(&env.exec("import - -"), 2, &["standard input is named twice"]);
}

#[test]
fn broken_file_of_a_tool_stores_nothing() {
    let env = ProgramTestEnv::new();
    for (name, text) in [
        ("a.json", HYPERFINE.to_owned()),
        ("b.json", HYPERFINE.replace("0.011881852", "fast")),
        ("go.txt", GO.to_owned()),
        ("c.json", "{\"tests\": []}".to_owned()),
    ] {
        fs::write(env.file(name), text).expect("a file");
    }
    fs::write(env.file("d.txt"), b"goos: linux\nBenchmark\xff 1 1 ns/op\n").expect("a file");
    env.assert_failures(
        "import",
        "a.json b.json | b.json is no result of hyperfine: line 16: text within the JSON, `fast,`
         --format fio a.json | a.json is no result of fio: line | missing field `fio version`
         --format go c.json | c.json is no result of go: line 1: no result of go
         d.txt | d.txt is no result of go: line 2: not UTF-8
         c.json | c.json is not a run of `fathom export`",
    );
    for (line, part) in [
        ("a.json go.txt", "a.json is of hyperfine and go.txt of go; import them apart"),
        ("a.json c.json", "a.json is of hyperfine and c.json of no other tool"),
        ("--label x c.json", "--label and --host are of files of another tool"),
    ] {
        assert_error(&env.exec(&format!("import {line}")), 2, &[part]);
    }
    assert!(!env.store().exists());
}

#[test]
fn go_text_and_action_json_have_the_numbers() {
    let env = ProgramTestEnv::new();
    import_go(&env, "old", 1.0);
    let exported = env.stdout("export old --format go");
    let times = exported.lines().filter(|line| line.contains("Sum/procs=2 1 ")).count();
    assert_eq!(times, 9, "a line for each process: {exported}");
    assert!(exported.contains("\ngoarch: amd64\ncpu: AMD EPYC\n"), "{exported}");
    fs::write(env.file("back.txt"), exported).expect("a file");
    let back = env.stdout("import --label back back.txt");
    assert!(back.starts_with("Imported 8 cases from 1 file of go"), "{back}");
    for (direction, names) in [("lower", 7), ("higher", 1)] {
        let output =
            env.succeed(&format!("export old --format github-action --better {direction}"));
        let rows: Vec<Value> = json(&output);
        assert_eq!(rows.len(), names);
        let left = format!("left out {} number", 8 - names);
        assert!(text(&output.stderr).contains(&left), "{}", text(&output.stderr));
        let is_row = |row: &Value| row["value"].is_f64() && row["unit"].is_string();
        assert!(rows.iter().all(is_row), "{rows:?}");
        assert!(rows[0]["extra"].as_str().is_some_and(|it| it.contains("measured by go")));
    }
}
