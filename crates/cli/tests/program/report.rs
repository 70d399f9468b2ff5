//! `fathom report`: the contents of the page, escaping, and which files are replaced.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use fathom_analysis::reference::all;
use fathom_record::{Cause, MetricId, Params, Record, RunState, State, Unit, Verdict};
use serde_json::{Value, json};

use crate::test_env::{entries, stored_run};
use crate::{ProgramTestEnv, assert_failure, text};

/// The size limit of a page of these runs.
const PAGE_BYTES: u64 = 1_500_000;

fn report(env: &ProgramTestEnv, arguments: &[&str]) -> Output {
    env.run(&[&["report"], arguments].concat())
}

/// The JSON in a page.
fn contents(page: &str) -> Value {
    let (_, after) = page.split_once("id=\"runs\">").expect("the runs");
    let (json, _) = after.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

fn of_file(path: &Path) -> Value {
    contents(&fs::read_to_string(path).expect("a page"))
}

fn names(env: &ProgramTestEnv) -> Vec<PathBuf> {
    let mut names = entries(env.path());
    names.sort();
    names
}

#[test]
fn page_has_document_and_samples() {
    let env = ProgramTestEnv::with_run();
    let output = report(&env, &[]);
    let message = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        message.starts_with("Wrote report.html (") && message.contains("(2 cases)"),
        "{message}"
    );
    let page = env.path().join("report.html");
    let contents = of_file(&page);
    let shown: Value = serde_json::from_slice(&env.run(&["show", "--json"]).stdout).expect("JSON");
    assert_eq!(contents["documents"], Value::Array(vec![shown]));
    assert_eq!(contents["comparison"], Value::Null);
    assert_eq!(contents["study"], Value::Null);
    let samples = contents["samples"][0][0].as_array().expect("processes");
    assert!(samples.len() >= 5, "{}", samples.len());
    let first = samples[0]["values"][0].as_f64().expect("a value");
    let raw = env.latest().records[0].samples.as_ref().expect("samples")[0].values[0];
    assert!((first / raw - 1.0).abs() < 0.001, "{first} {raw}");
    assert!(fs::metadata(&page).expect("a page").len() < PAGE_BYTES);
}

#[test]
fn tiles_have_history_up_to_their_run() {
    let env = ProgramTestEnv::with_run();
    env.store_run(&stored_run(2));
    let tiles = |run: &str| {
        let output = report(&env, &[run, "-o", "-"]);
        contents(&text(&output.stdout))["tiles"][0].clone()
    };
    let newest = tiles("latest");
    assert_eq!(newest[0]["title"], "Core frequency");
    let points = newest[0]["trend"]["points"].as_array().expect("points").clone();
    let runs: Vec<&Value> = points.iter().map(|point| &point["run"]).collect();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1], env.latest().run.id.as_str());
    assert_eq!(tiles("latest~1")[0]["trend"], Value::Null, "a single run is no history");
}

#[test]
fn page_has_study_figures() {
    let (env, mut document) = (ProgramTestEnv::new(), stored_run(1));
    let template = document.records[0].clone();
    let record = |metric: &str, params: Params, unit: Unit| {
        let (metric, samples) = (MetricId::new(metric), None);
        Record { metric, params, unit, samples, ..template.clone() }
    };
    let one = |name: &str, value: i64| Params::one(name, value);
    document.records = vec![
        record("os.switch.process", one("set_bytes", 65_536), Unit::Nanoseconds),
        record("os.switch.process", one("set_bytes", 0), Unit::Nanoseconds),
        record("cpu.call", one("args", 1).and("more", "text"), Unit::Nanoseconds),
        record("memory.latency.l1", Params::default(), Unit::Bytes),
        record("file.call", Params::one("call", "lseek"), Unit::Nanoseconds),
    ];
    let file = env.write_document("run.json", &document);
    let under = |name: &str| {
        let output = report(&env, &[&file, "--reference", name, "-o", "-"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        (contents(&text(&output.stdout))["study"].clone(), text(&output.stderr))
    };
    let (study, message) = under("2016-i5-5257u");
    assert!(!message.contains("no figure"), "{message}");
    let published = all().into_iter().find(|one| one.name == "2016-i5-5257u");
    let published = published.expect("the study");
    assert_eq!(study["name"], published.name);
    assert_eq!(study["machine"], published.machine);
    assert_eq!(study["protocol"], published.protocol);
    let figures = study["figures"].as_array().expect("figures");
    let like = |metric: &str| -> Vec<&Value> {
        let of = figures.iter().filter(|figure| figure["metric"] == metric);
        of.map(|figure| &figure["like"][0]).collect()
    };
    assert_eq!(like("os.switch.process"), [&json!([1])], "the one without a working set");
    let calls = like("cpu.call");
    assert_eq!((calls.len(), calls[0], calls[1]), (8, &json!([]), &json!([2])));
    assert_eq!(like("memory.latency.l1"), [&json!([])], "another unit");
    assert_eq!(like("network.tcp.transfer"), [&json!([]); 2], "not in this run");
    let fork = figures.iter().find(|figure| figure["metric"] == "os.process.fork");
    let fork = fork.expect("a fork");
    assert_eq!((&fork["measured"], &fork["unit"]), (&json!(1_325_000.0), &json!("ns")));
    assert_eq!((&fork["predicted"], &fork["sd_percent"]), (&json!("several ms"), &json!(79.623)));
    let (files, _) = under("2022-files-a");
    let files = files["figures"].as_array().expect("figures");
    let seeks = files.iter().filter(|figure| figure["params"]["call"] == "lseek");
    assert_eq!(seeks.count(), 0, "a seek within a stream is another operation");
    assert!(under("2020-transfer").1.contains("no figure"));
}

#[test]
fn text_of_a_run_is_escaped() {
    let (env, mut document) = (ProgramTestEnv::new(), stored_run(1));
    let evil = "</script><img src=x onerror=alert(1)><!--\u{2028}";
    document.host.name = evil.to_owned();
    document.records[0].title = evil.to_owned();
    let file = env.write_document("evil.json", &document);
    let output = report(&env, &[&file, "-o", "-"]);
    let page = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!page.contains("<img src=x") && !page.contains('\u{2028}'));
    assert_eq!(contents(&page)["documents"][0]["host"]["name"], evil);
    assert!(!env.path().join("-").exists() && !env.path().join("report.html").exists());
}

#[test]
fn report_replaces_only_its_own_pages() {
    let env = ProgramTestEnv::with_run();
    let other = env.path().join("report.html");
    fs::write(&other, "precious").expect("a file");
    let parts = ["report.html", "not a page of `fathom report`", "--force"];
    assert_failure(&report(&env, &[]), &parts);
    assert_eq!(fs::read_to_string(&other).expect("a file"), "precious");
    assert!(report(&env, &["--force"]).status.success());
    let first = fs::metadata(&other).expect("a page").ino();
    // One of ours is replaced atomically, as a new file.
    assert!(report(&env, &[]).status.success());
    assert_ne!(fs::metadata(&other).expect("a page").ino(), first);
    assert_eq!(of_file(&other)["documents"].as_array().map(Vec::len), Some(1));
    // Through a symlink, which stays one.
    std::os::unix::fs::symlink("report.html", env.path().join("link")).expect("a link");
    let second = fs::metadata(&other).expect("a page").ino();
    assert!(report(&env, &["-o", "link"]).status.success());
    assert_ne!(fs::metadata(&other).expect("a page").ino(), second);
    let link = fs::symlink_metadata(env.path().join("link")).expect("a link");
    assert!(link.is_symlink());
    let before = names(&env);
    assert_failure(&report(&env, &["-o", "."]), &["directory"]);
    assert_failure(&report(&env, &["-o", "none/r.html"]), &["none/r.html", "No such file"]);
    assert_failure(&report(&env, &["-o", "/dev/null"]), &["/dev/null", "-o -"]);
    assert_eq!(names(&env), before, "a file is left");
}

#[test]
fn two_runs_are_compared_on_the_page() {
    let env = ProgramTestEnv::with_run();
    let mut other = stored_run(1);
    other.run.id = "0123456789abcdef".to_owned();
    let same = env.write_document("same.json", &other);
    let output = report(&env, &["latest", &same]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let page = of_file(&env.path().join("report.html"));
    assert_eq!(page["documents"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["comparison"]["rows"].as_array().map(Vec::len), Some(2));
    for record in &mut other.records {
        record.metric = fathom_record::MetricId::new(format!("{}.other", record.metric));
    }
    let foreign = env.write_document("foreign.json", &other);
    let output = report(&env, &["latest", &foreign]);
    assert!(text(&output.stderr).contains("no common metric"));
    assert!(output.status.success());
    // The same run twice is shown once.
    let output = report(&env, &["latest", "latest~0"]);
    assert!(text(&output.stderr).contains("named twice"), "{}", text(&output.stderr));
    let page = of_file(&env.path().join("report.html"));
    assert_eq!(page["documents"].as_array().map(Vec::len), Some(1));
}

#[test]
fn incomplete_run_is_shown_with_warning() {
    let (env, mut document) = (ProgramTestEnv::new(), stored_run(1));
    document.run.state = RunState::Interrupted;
    for record in &mut document.records {
        record.verdict = Verdict::because(State::Invalid, Cause::Clock, "it ran backwards");
    }
    let file = env.write_document("cut.json", &document);
    let output = report(&env, &[&file]);
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("was interrupted") && message.contains("no valid number"),
        "{message}"
    );
    let page = of_file(&env.path().join("report.html"));
    assert!(page["closing"][0]["progress"].as_str().expect("a text").contains("ended early"));
    let samples = page["samples"][0].as_array().expect("records");
    assert!(samples.iter().all(|record| record == &Value::Array(Vec::new())), "{samples:?}");
    let ignored = page["answers"][0]["ignore"][0]["text"].as_str().expect("a text");
    assert!(ignored.starts_with("2 invalid: "), "{ignored}");
}

#[test]
fn many_samples_are_thinned_to_fit() {
    let (env, mut document) = (ProgramTestEnv::new(), stored_run(1));
    document.records[0].verdict = Verdict::default();
    let samples = document.records[0].samples.as_mut().expect("samples");
    let sample = samples[0].clone();
    *samples = (0..250)
        .map(|process| {
            let mut sample = sample.clone();
            sample.process = process;
            sample.disturbed = vec![0];
            sample.values = (0..2_000).map(|at| 1.0 + f64::from(at) / 2_000.0).collect();
            sample
        })
        .collect();
    let file = env.write_document("many.json", &document);
    assert!(fs::metadata(&file).expect("a file").len() > 2 * PAGE_BYTES);
    assert!(report(&env, &[&file]).status.success());
    let path = env.path().join("report.html");
    assert!(fs::metadata(&path).expect("a page").len() < PAGE_BYTES);
    let page = of_file(&path);
    assert_eq!(page["left_out"], false);
    let processes = page["samples"][0][0].as_array().expect("processes");
    assert_eq!(processes.len(), 250);
    let values = processes[249]["values"].as_array().expect("values");
    let every = processes[249]["every"].as_u64().expect("a number") as usize;
    assert_eq!(values.len(), 2_000usize.div_ceil(every));
    assert!(values.len() > 200, "{}", values.len());
    assert_eq!(processes[249]["disturbed"], serde_json::json!([0]));
    // From the beginning to the end of the process.
    let last = values.last().and_then(Value::as_f64).expect("a value");
    assert!(last > 1.99, "{last}");
}

#[test]
fn default_is_latest_run_of_this_host() {
    let env = ProgramTestEnv::with_run();
    let own = stored_run(1).run.id;
    let mut other = stored_run(1);
    other.host.name = "elsewhere".to_owned();
    other.host.id = Some("e".repeat(32));
    other.run.id = "fffffffffffffff0".to_owned();
    other.run.started = "2999-01-01T00:00:00Z".to_owned();
    env.store_run(&other);
    assert!(report(&env, &[]).status.success());
    let path = env.path().join("report.html");
    assert_eq!(of_file(&path)["documents"][0]["run"]["id"], own.as_str());
    assert!(report(&env, &["elsewhere"]).status.success());
    assert_eq!(of_file(&path)["documents"][0]["run"]["id"], "fffffffffffffff0");
}
