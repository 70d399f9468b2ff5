//! `fathom compare`: the gate of `--fail-on`, and run-to-run noise.

use fathom_record::{Document, MetricId, Params, Stratum, Verdict};

use crate::ProgramTestEnv;
use crate::test_env::{canned, json, stored_run};

/// A run of a metric of which a smaller value is better: ten process medians around a headline.
fn run(number: usize, headline: f64) -> Document {
    let mut document = stored_run(number);
    document.records = canned().records.drain(2..3).collect();
    let record = &mut document.records[0];
    record.samples = None;
    record.verdict = Verdict::default();
    let summary = record.summary.as_mut().expect("a summary");
    summary.median = headline;
    // Without the disturbances of the real run.
    (summary.stratum, summary.in_state, summary.as_found) = (Stratum::AsFound, None, None);
    summary.process_medians =
        (0..10).map(|at| headline * (1.0 + 0.001 * (f64::from(at) - 4.5))).collect();
    document
}

fn write(env: &ProgramTestEnv, document: &Document) -> String {
    env.write_document(&format!("{}.json", document.run.id), document)
}

#[test]
fn change_within_run_to_run_noise_is_unchanged() {
    let (env, other) = (ProgramTestEnv::new(), ProgramTestEnv::new());
    let (before, after) = (run(1, 100.0), run(2, 104.0));
    let names = [write(&env, &before), write(&env, &after)];
    let compared = || {
        let output = other.run(&["compare", &names[0], &names[1], "--fail-on", "1%", "--json"]);
        let comparison: serde_json::Value = json(&output);
        (output.status.code(), comparison["rows"][0].clone())
    };
    let (status, row) = compared();
    assert_eq!((status, row["word"].as_str()), (Some(3), Some("slower")), "{row}");
    // Stored runs of this host that alternate by 6 % teach the noise.
    for number in 0..8 {
        let like = run(10 + number, if number % 2 == 0 { 100.0 } else { 106.0 });
        other.store_run(&like);
    }
    let (status, row) = compared();
    // The case is too noisy for 1 %: nothing can be decided.
    assert_eq!((status, row["word"].as_str()), (Some(5), Some("unchanged")), "{row}");
    let noise = row["noise"].as_f64().expect("a noise");
    assert!((noise - 0.06).abs() < 1e-6, "{noise}");
    assert_eq!(row["unchanged_within"].as_f64(), Some(noise), "{row}");
}

/// Who looks at one system call sees that all of its class moved at the same time.
#[test]
fn history_says_what_else_moved_at_its_change() {
    const CALLS: [&str; 6] = ["getppid", "invalid", "read1", "write1", "stat", "fstat"];
    let env = ProgramTestEnv::new();
    let of = |number: usize, slower: f64, metric: &str| {
        let mut document = run(number, 100.0 * slower * (1.0 + 0.0005 * number as f64));
        let template = document.records[0].clone();
        let record = |metric: &str, params: Params| {
            let (visit, metric) = (format!("run/{metric}"), MetricId::new(metric));
            fathom_record::Record { metric, params, visit, ..template.clone() }
        };
        let calls = CALLS.into_iter().map(|call| record(metric, Params::one("call", call)));
        // A class has cases of several visits.
        let others = ["os.poll", "os.select", "os.epoll"].into_iter();
        let others = others.map(|other| record(other, Params::one("fds", 10)));
        document.records = calls.chain(others).collect();
        document
    };
    for number in 1..=10 {
        env.store_run(&of(number, if number <= 6 { 1.0 } else { 1.1 }, "os.syscall"));
    }
    let output = env.run(&["history", "os.syscall{call=getppid}"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (own, moved) = text.split_once("At the newest change more moved").expect("a change");
    assert!(own.contains("1 lasting change"), "{text}");
    assert!(moved.contains("kernel entry") && moved.contains("% slower"), "{text}");
}
