//! The output of `run`, `show`, `list`, `explain` and `history`.

use std::collections::BTreeMap;

use fathom_record::{Document, Record, RunState, SCHEMA_VERSION};
use serde_json::Value;

use crate::test_env::{assert_contains, assert_message, assert_status, json};
use crate::{ProgramTestEnv, SHORT, assert_failure, text};

#[test]
fn show_repeats_the_run() {
    let env = ProgramTestEnv::new();
    let output = env.exec(&format!("run --quick --only {} {}", SHORT[0], SHORT[1]));
    let (printed, warned) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(printed, text(&env.run(&["show"]).stdout));
    assert!(SHORT.iter().all(|name| printed.contains(name)), "{printed}");
    assert!(warned.contains("2 results of 2 metrics"), "{warned}");
    // A pipe gets 80 columns without colour.
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    assert!(!printed.contains('\u{1b}'));
}

#[test]
fn json_is_a_document_and_jsonl_is_lines() {
    let env = ProgramTestEnv::new();
    let run = |form: &str, more: &[&str]| {
        env.stdout(
            &[&["run", "--quick", "--processes", "3", "--only", form], more, &SHORT[..1]]
                .concat()
                .join(" "),
        )
    };
    let document: Document =
        serde_json::from_str(&run("--json", &["--seed", "42"])).expect("a document");
    assert_eq!((document.schema, document.run.state), (SCHEMA_VERSION, RunState::Complete));
    assert_eq!(document.run.seed, 42);
    assert!(document.records.iter().all(|record| record.is_intact() && record.samples.is_none()));
    let lines = run("--jsonl", &["--samples"]);
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let (visits, records): (Vec<Value>, Vec<Value>) =
        lines.partition(|line: &Value| line.get("verdict").is_none());
    let records: Vec<Record> =
        records.into_iter().map(|one| serde_json::from_value(one).expect("a record")).collect();
    // The end of the run may print a record again.
    assert!(!records.is_empty());
    // A line for each case of each visit, while the run goes on.
    for record in &records {
        let samples = record.samples.as_ref().expect("samples");
        assert!(samples.len() >= 3);
        for sample in samples {
            let is_of = |line: &&Value| {
                line["params"] == serde_json::json!(record.params)
                    && line["process"] == sample.process
            };
            let line = visits.iter().find(is_of).expect("its visit");
            // A visit that waited for full speed in vain has none.
            let values = line.get("values").cloned().unwrap_or(serde_json::json!([]));
            assert_eq!(values, serde_json::json!(sample.values), "{line}");
            assert_eq!(line["started_ns"], serde_json::json!(sample.started_ns), "{line}");
        }
    }
}

#[test]
fn stored_samples_reproduce_the_summary() {
    let env = ProgramTestEnv::with_run();
    for record in env.latest().records {
        let mut samples = record.samples.expect("samples");
        let kept = record.summary.and_then(|summary| summary.as_found).expect("an estimate");
        samples.sort_by_key(|sample| sample.process);
        samples.truncate(kept.visits as usize);
        let again = fathom_analysis::statistics::summarise(&samples).expect("a summary");
        assert_eq!(again.median, kept.median);
        // Recorded before intervals over processes were at least ± 1 ppm wide.
        let (again, kept) = (again.interval.expect("an interval"), kept.interval.expect("one"));
        assert_eq!((again.level, again.basis), (kept.level, kept.basis));
        for (end, other) in again.limits().into_iter().zip(kept.limits()) {
            assert!((end - other).abs() <= 1.001e-6 * end.abs(), "{end} {other}");
        }
    }
}

#[test]
fn trimmed_protocol_is_stored() {
    let env = ProgramTestEnv::new();
    env.stdout("run --quick --only --protocol trimmed cpu.frequency");
    let document = env.latest();
    assert_eq!(document.run.protocol, fathom_record::Protocol::Trimmed);
    let summary = document.records[0].summary.as_ref().expect("a summary");
    let trimmed = summary.trimmed.as_ref().expect("trimmed");
    assert!(trimmed.n > 0 && trimmed.n < trimmed.trials, "{trimmed:?}");
}

#[test]
fn every_metric_is_listed_and_explained() {
    let env = ProgramTestEnv::new();
    let listed = text(&env.run(&["list"]).stdout);
    let json: serde_json::Value = json(&env.exec("list --json"));
    let of_json = |metric: &serde_json::Value| metric["id"].as_str().expect("an id").to_owned();
    let ids: Vec<String> =
        json["metrics"].as_array().expect("a list").iter().map(of_json).collect();
    let mut groups: BTreeMap<&str, String> = BTreeMap::new();
    for entry in fathom_probes::REGISTRY.entries() {
        let id = entry.about().id;
        let group = id.split('.').next().expect("a group");
        assert!(listed.contains(&format!("{id} ")), "{id} is not listed");
        assert!(ids.iter().any(|listed| listed == id), "{id} is not in the JSON");
        let all = groups
            .entry(group)
            .or_insert_with(|| format!("\n{}", env.stdout(&format!("explain {group}"))));
        let own = all.split(&format!("\n{id}  ")).nth(1).expect("a description");
        let explained = own.split_inclusive(" measures it").next().unwrap_or_default();
        assert_contains(explained, &["timed", "model", "source", "pitfall", "no stored result"]);
        let by_hand = fathom_probes::REGISTRY.command_of(id);
        let command = by_hand.map_or(format!("fathom run {id}"), |command| command.line());
        assert!(explained.contains(&format!("`{command}` measures it")), "{explained}");
    }
}

#[test]
fn bash_completes_metric_names() {
    let script = r#"source <(fathom completions bash)
        complete_words() {
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _fathom fathom "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            echo "${COMPREPLY[@]}"
        }
        complete_words fathom run memory.l
        complete_words fathom run os cpu.fr
        complete_words fathom history os.sysc"#;
    let mut bash = std::process::Command::new("bash");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_fathom"));
    let path = format!("{}:/usr/bin:/bin", program.parent().expect("a folder").display());
    let output = bash.args(["-c", script]).env("PATH", path).output().expect("bash starts");
    let printed = text(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines.len() == 3, "{printed}{}", text(&output.stderr));
    assert_contains(lines[0], &["memory.latency.l1", "memory.latency.dram"]);
    assert!(lines[0].split(' ').all(|word| word.starts_with("memory.l")), "{}", lines[0]);
    assert_eq!(lines[1], "cpu.frequency");
    assert_contains(lines[2], &["os.syscall"]);
}

#[test]
fn quiet_run_writes_its_document_and_repeats() {
    let env = ProgramTestEnv::new();
    let line = "run --quick --only --quiet --processes 3 --output run.json cpu.frequency";
    assert_eq!(env.stdout(line), "");
    let written = std::fs::read(env.file("run.json")).expect("a file");
    let document: Document = serde_json::from_slice(&written).expect("a document");
    let stored: Document = json(&env.exec("show --json"));
    assert_eq!(document, stored);
    let summary = document.records[0].summary.as_ref().expect("a summary");
    assert_eq!(summary.process_medians.len(), 3);
    assert_failure(&env.exec(line), &["write run.json: file exists", "--force"]);
    let output =
        env.succeed("run --quick --only --processes 3 --repeat 2 --label twice cpu.frequency");
    assert_contains(&text(&output.stderr), &["run 1 of 2", "run 2 of 2"]);
    let list = env.stdout("show --runs");
    assert_eq!(list.matches("  cpu.frequency; label twice").count(), 2, "{list}");
}

#[test]
fn every_json_names_its_schema_and_tool() {
    let env = ProgramTestEnv::with_run();
    for line in [
        "show --json",
        "show --runs --json",
        "list cpu --json",
        "list types c3d --json",
        "explain cpu.frequency --json",
        "history cpu.frequency --json",
        "compare latest latest --json",
        "fleet judge latest --json",
        "check --against latest --json",
        "crosscheck --list --json",
        "doctor --json",
        "store check --json",
        "store prune --keep 1 --json",
    ] {
        let output = env.exec(line);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect(line);
        assert!(json["schema"].is_u64() && json["tool"]["name"] == "fathom", "{line}");
    }
    let explained: serde_json::Value = json(&env.exec("explain cpu.frequency --json"));
    assert_eq!(explained["metrics"][0]["results"][0]["metric"], "cpu.frequency");
}

#[test]
fn printed_result_goes_to_the_file_that_is_named() {
    let env = ProgramTestEnv::with_run();
    let shown = env.stdout("list cpu.frequency");
    assert_eq!(env.stdout("list cpu.frequency -o list.txt"), "");
    let written = || std::fs::read_to_string(env.file("list.txt")).expect("a file");
    assert_eq!(written(), shown);
    assert_failure(&env.exec("history cpu.frequency -o list.txt"), &["file exists", "--force"]);
    env.succeed("history cpu.frequency -o list.txt --force");
    assert!(written().contains("cpu.frequency") && written() != shown);
    for line in ["fleet judge latest", "check --against latest"] {
        std::fs::remove_file(env.file("list.txt")).expect("a file");
        env.exec(&format!("{line} -o list.txt"));
        assert!(!written().contains("history") && written().contains("host"), "{line}");
    }
    let output = env.exec("check --against latest -o list.txt");
    assert_status(&output, 3);
    assert_contains(&text(&output.stdout), &["FATHOM UNKNOWN - ", "file exists"]);
    let mut report = env.command("report --open -o page.html");
    let report = report.env("PATH", env.path()).output().expect("it starts");
    assert_message(&report, 0, &["--open: xdg-open", "page.html in a browser"]);
}

#[test]
fn one_run_is_relabelled_or_deleted() {
    let env = ProgramTestEnv::with_run();
    assert!(env.stdout("store edit latest --label kept").ends_with("has the label kept.\n"));
    assert_eq!(env.document_of("kept").run.label.as_deref(), Some("kept"));
    env.succeed("store edit kept --no-label");
    assert_failure(&env.exec("show kept"), &["no stored run"]);
    assert!(env.stdout("store check").contains("no damage"));
    env.succeed("store edit latest --delete");
    assert_failure(&env.exec("show latest"), &["no"]);
}
