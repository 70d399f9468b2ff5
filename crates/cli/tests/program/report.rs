//! `fathom report`: what the page holds, what it does not let out, and which files it leaves alone.

use fathom_analysis::reference::all;

use crate::{Place, fails, text};

#[cfg(not(feature = "page"))]
#[test]
fn without_the_page_it_says_how_to_get_it() {
    let place = Place::new();
    fails(&place.run(&["report"]), &["without the page", "Node", "make build"]);
    assert!(!place.path().join("report.html").exists());
}

#[test]
fn without_a_name_of_a_study_those_there_are_are_listed() {
    let place = Place::new();
    for words in [&["report", "--reference"][..], &["report", "latest", "--reference"]] {
        let output = place.run(words);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(all().iter().all(|one| said.contains(&one.name)), "{said}");
    }
    assert!(!place.path().join("report.html").exists());
}

#[cfg(feature = "page")]
mod page {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};

    use fathom_analysis::reference::all;
    use fathom_record::{Cause, MetricId, Params, Record, RunState, State, Unit, Verdict};
    use serde_json::{Value, json};

    use super::{Place, fails, text};
    use crate::is_refused;
    use crate::place::left;

    /// What a page of these runs may take.
    const PAGE_BYTES: u64 = 1_500_000;

    /// The program in the folder of its store, as a person is in one.
    fn report(place: &Place, arguments: &[&str]) -> Output {
        let all = [&["report"], arguments].concat();
        place.fathom(&all).current_dir(place.path()).output().expect("the program starts")
    }

    /// What the program put into a page.
    fn contents(page: &str) -> Value {
        let (_, after) = page.split_once("id=\"runs\">").expect("a place for the runs");
        let (json, _) = after.split_once("</script>").expect("its end");
        serde_json::from_str(json).expect("JSON")
    }

    fn of_file(path: &Path) -> Value {
        contents(&fs::read_to_string(path).expect("a page"))
    }

    fn names(place: &Place) -> Vec<PathBuf> {
        let mut names = left(place.path());
        names.sort();
        names
    }

    #[test]
    fn the_page_holds_the_run_as_json_prints_it_and_its_raw_values() {
        let place = Place::new();
        place.short_run();
        let output = report(&place, &[]);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(said.starts_with("Wrote report.html (") && said.contains("(2 cases)"), "{said}");
        let page = place.path().join("report.html");
        let contents = of_file(&page);
        let shown: Value =
            serde_json::from_slice(&place.run(&["show", "--json"]).stdout).expect("JSON");
        assert_eq!(contents["documents"], Value::Array(vec![shown]));
        assert_eq!(contents["comparison"], Value::Null);
        assert_eq!(contents["study"], Value::Null);
        let samples = contents["samples"][0][0].as_array().expect("processes");
        assert!(samples.len() >= 5, "{}", samples.len());
        let first = samples[0]["values"][0].as_f64().expect("a value");
        let raw = place.latest().records[0].samples.as_ref().expect("samples")[0].values[0];
        assert!((first / raw - 1.0).abs() < 0.001, "{first} {raw}");
        assert!(fs::metadata(&page).expect("a page").len() < PAGE_BYTES);
    }

    #[test]
    fn a_study_lies_under_the_run_as_compare_lays_it_beside() {
        let place = Place::new();
        place.short_run();
        let mut document = place.latest();
        let template = document.records[0].clone();
        let record = |metric: &str, params: Params, unit: Unit| {
            let (metric, samples) = (MetricId::new(metric), None);
            Record { metric, params, unit, samples, ..template.clone() }
        };
        let one = |name: &str, value: i64| Params::one(name, value);
        document.records = vec![
            record("os.switch.process", one("set_bytes", 65_536), Unit::Nanoseconds),
            record("os.switch.process", one("set_bytes", 0), Unit::Nanoseconds),
            record("cpu.call", one("args", 1).and("more", "told"), Unit::Nanoseconds),
            record("memory.latency.l1", Params::default(), Unit::Bytes),
            record("file.call", Params::one("call", "lseek"), Unit::Nanoseconds),
        ];
        let file = place.keep("run.json", &document);
        let under = |name: &str| {
            let output = report(&place, &[&file, "--reference", name, "-o", "-"]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            (contents(&text(&output.stdout))["study"].clone(), text(&output.stderr))
        };
        let (study, said) = under("2016-i5-5257u");
        assert!(!said.contains("nothing lies under"), "{said}");
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
        assert_eq!(like("os.switch.process"), [&json!([1])], "the one without a set");
        let calls = like("cpu.call");
        assert_eq!((calls.len(), calls[0], calls[1]), (8, &json!([]), &json!([2])));
        assert_eq!(like("memory.latency.l1"), [&json!([])], "of another unit");
        assert!(like("network.tcp.rtt").is_empty(), "not measured by this version");
        let fork = figures.iter().find(|figure| figure["metric"] == "os.process.fork");
        let fork = fork.expect("a fork");
        assert_eq!((&fork["measured"], &fork["unit"]), (&json!(1_325_000.0), &json!("ns")));
        assert_eq!(
            (&fork["predicted"], &fork["sd_percent"]),
            (&json!("several ms"), &json!(79.623))
        );
        let (files, _) = under("2022-files-a");
        let files = files["figures"].as_array().expect("figures");
        let seeks = files.iter().filter(|figure| figure["params"]["call"] == "lseek");
        assert_eq!(seeks.count(), 0, "a seek within a stream is other work");
        assert!(under("2020-transfer").1.contains("nothing lies under"));
    }

    #[test]
    fn an_unknown_study_is_refused_with_those_there_are() {
        let place = Place::new();
        place.short_run();
        let output = report(&place, &["--reference", "1999"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        is_refused(&output, &["report --reference 1999", "`2016-i5-5257u`", "`2020-transfer`"]);
        assert!(!place.path().join("report.html").exists());
    }

    #[test]
    fn no_text_of_a_run_becomes_a_part_of_the_page() {
        let place = Place::new();
        place.short_run();
        let mut document = place.latest();
        let evil = "</script><img src=x onerror=alert(1)><!--\u{2028}";
        document.host.name = evil.to_owned();
        document.records[0].title = evil.to_owned();
        let file = place.keep("evil.json", &document);
        let output = report(&place, &[&file, "-o", "-"]);
        let page = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(!page.contains("<img src=x") && !page.contains('\u{2028}'));
        assert_eq!(contents(&page)["documents"][0]["host"]["name"], evil);
        assert!(!place.path().join("-").exists() && !place.path().join("report.html").exists());
    }

    #[test]
    fn a_file_that_is_no_page_of_ours_is_left_alone() {
        let place = Place::new();
        place.short_run();
        let other = place.path().join("report.html");
        fs::write(&other, "precious").expect("a file");
        fails(&report(&place, &[]), &["report.html", "no page of `fathom report`", "--force"]);
        assert_eq!(fs::read_to_string(&other).expect("it"), "precious");
        assert!(report(&place, &["--force"]).status.success());
        let first = fs::metadata(&other).expect("a page").ino();
        // One of ours is replaced, and not written over.
        assert!(report(&place, &[]).status.success());
        assert_ne!(fs::metadata(&other).expect("a page").ino(), first);
        assert_eq!(of_file(&other)["documents"].as_array().map(Vec::len), Some(1));
        // And through a link, which stays one.
        std::os::unix::fs::symlink("report.html", place.path().join("link")).expect("a link");
        let second = fs::metadata(&other).expect("a page").ino();
        assert!(report(&place, &["-o", "link"]).status.success());
        assert_ne!(fs::metadata(&other).expect("a page").ino(), second);
        let link = fs::symlink_metadata(place.path().join("link")).expect("a link");
        assert!(link.is_symlink());
        let before = names(&place);
        fails(&report(&place, &["-o", "."]), &["directory"]);
        fails(&report(&place, &["-o", "none/r.html"]), &["none/r.html", "No such file"]);
        fails(&report(&place, &["-o", "/dev/null"]), &["/dev/null", "-o -"]);
        assert_eq!(names(&place), before, "something was left behind");
    }

    #[test]
    fn runs_that_are_not_there_are_refused_in_a_line() {
        let place = Place::new();
        fails(&report(&place, &[]), &["fathom.db"]);
        place.short_run();
        fails(&report(&place, &["0123456789abcdef"]), &["0123456789abcdef"]);
        fails(&report(&place, &["./none.json"]), &["./none.json", "No such file"]);
        is_refused(&report(&place, &["latest"; 7]), &["7 runs", "6 at most"]);
        assert!(!place.path().join("report.html").exists());
        let empty = Place::new();
        fs::copy(place.store(), empty.store()).expect("a copy");
        let store = rusqlite::Connection::open(empty.store()).expect("the store");
        let all = "DELETE FROM samples; DELETE FROM record; DELETE FROM run";
        store.execute_batch(all).expect("no run left");
        drop(store);
        fails(&report(&empty, &[]), &["no run"]);
    }

    #[test]
    fn a_large_file_of_another_kind_is_refused_within_little_memory() {
        let place = Place::new();
        let path = place.path().join("other.json");
        let line = "{\"kind\": [1, 2, 3], \"text\": \"what others keep\"},\n".repeat(20_000);
        let all = format!("{{\"others\": [{}0]}}", line.repeat(25));
        fs::write(&path, &all).expect("a file");
        // Half of the file, in KiB, for all data of the program.
        let script = format!("ulimit -d {}; exec \"$0\" report ./other.json", all.len() / 2048);
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_fathom")])
            .current_dir(place.path())
            .output()
            .expect("a shell");
        fails(&output, &["other.json", "holds no run", "first field"]);
    }

    #[test]
    fn two_runs_are_compared_and_what_they_do_not_share_is_said() {
        let place = Place::new();
        place.short_run();
        let mut other = place.latest();
        other.run.id = "0123456789abcdef".to_owned();
        let same = place.keep("same.json", &other);
        let output = report(&place, &["latest", &same]);
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        let page = of_file(&place.path().join("report.html"));
        assert_eq!(page["documents"].as_array().map(Vec::len), Some(2));
        assert_eq!(page["comparison"]["rows"].as_array().map(Vec::len), Some(2));
        for record in &mut other.records {
            record.metric = fathom_record::MetricId::new(format!("{}.other", record.metric));
        }
        let foreign = place.keep("foreign.json", &other);
        let output = report(&place, &["latest", &foreign]);
        assert!(text(&output.stderr).contains("no metric in common"));
        assert!(output.status.success());
        // The same run twice is one.
        let output = report(&place, &["latest", "latest~0"]);
        assert!(text(&output.stderr).contains("once more"), "{}", text(&output.stderr));
        let page = of_file(&place.path().join("report.html"));
        assert_eq!(page["documents"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_run_that_was_cut_off_or_has_no_number_is_shown_and_said() {
        let place = Place::new();
        place.short_run();
        let mut document = place.latest();
        document.run.state = RunState::Interrupted;
        for record in &mut document.records {
            record.verdict = Verdict::because(State::Invalid, Cause::Clock, "it ran backwards");
        }
        let file = place.keep("cut.json", &document);
        let output = report(&place, &[&file]);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("was interrupted") && said.contains("no number"), "{said}");
        let page = of_file(&place.path().join("report.html"));
        assert!(page["closing"][0]["progress"].as_str().expect("words").contains("interrupted"));
        let samples = page["samples"][0].as_array().expect("records");
        assert!(samples.iter().all(|record| record == &Value::Array(Vec::new())), "{samples:?}");
        assert_eq!(page["causes"][0][0]["count"], 2);
    }

    #[test]
    fn of_many_raw_values_as_many_are_kept_as_fit() {
        let place = Place::new();
        place.short_run();
        let mut document = place.latest();
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
        let file = place.keep("many.json", &document);
        assert!(fs::metadata(&file).expect("a file").len() > 2 * PAGE_BYTES);
        assert!(report(&place, &[&file]).status.success());
        let path = place.path().join("report.html");
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
    fn without_a_name_it_is_a_run_of_this_host() {
        let place = Place::new();
        place.short_run();
        let own = place.latest().run.id;
        let mut other = place.latest();
        other.host.name = "elsewhere".to_owned();
        other.host.id = Some("e".repeat(32));
        other.run.id = "fffffffffffffff0".to_owned();
        other.run.started = "2999-01-01T00:00:00Z".to_owned();
        let file = place.keep("other.json", &other);
        assert!(place.run(&["import", &file]).status.success());
        assert!(report(&place, &[]).status.success());
        let path = place.path().join("report.html");
        assert_eq!(of_file(&path)["documents"][0]["run"]["id"], own.as_str());
        assert!(report(&place, &["elsewhere"]).status.success());
        assert_eq!(of_file(&path)["documents"][0]["run"]["id"], "fffffffffffffff0");
    }
}
