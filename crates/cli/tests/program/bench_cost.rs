//! `fathom bench --cost`: what is counted, what it should cost, and what a missing price says.

use std::fs;

use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_status, document, json, text, unwrapped_stdout,
};

#[test]
fn command_is_counted_and_missing_prices_are_named() {
    let env = ProgramTestEnv::new();
    fs::write(env.file("data"), vec![b'x'; 1 << 20]).expect("a file");
    let line = ["bench", "--cost", "--runs", "2", "dd if=data of=copy bs=4096"];
    let output = env.run(&[&line[..], &["--json"]].concat());
    assert_status(&output, 0);
    let document = document(&output);
    let cost = document.records[0].cost.as_ref().expect("counts");
    assert!(cost.calls["read"] >= 256 && cost.calls["write"] >= 256, "{:?}", cost.calls);
    let of_size = |operation: &str| {
        let is = |term: &&fathom_record::CostTerm| {
            term.operation == operation && term.size == Some(4096.0)
        };
        cost.terms.iter().find(is).map(|term| term.count)
    };
    assert_eq!(of_size("write, file"), Some(256));
    assert!(of_size("read, file").is_some_and(|count| count >= 256));
    // No price is known yet: all system time is unexplained.
    assert!(cost.terms.iter().all(|term| term.price.is_none() && term.time.is_none()));
    assert_eq!((cost.expected.ns, cost.unexplained), (0.0, cost.system));
    assert!(cost.missing.contains(&"file.path{call=open_close}".to_owned()), "{cost:?}");
    let screen = env.run(&line);
    assert_status(&screen, 0);
    let parts = ["rice is known", "measured system time", "without a price", "add --measure"];
    assert_contains(&unwrapped_stdout(&screen), &parts);
    assert_contains(&unwrapped_stdout(&screen), &["not counted: interrupts, vDSO calls"]);
    let shown = env.run(&["show", "latest:bench"]);
    assert_contains(&unwrapped_stdout(&shown), &parts);
}

#[test]
fn measured_price_is_multiplied_and_explained() {
    let env = ProgramTestEnv::new();
    assert_status(&env.run(&["run", "os.syscall", "file.path", "--quick", "--time", "15s"]), 0);
    let output = env.run(&["bench", "--cost", "--runs", "1", "stat /", "--json"]);
    assert_status(&output, 0);
    let document = document(&output);
    let cost = document.records[0].cost.as_ref().expect("counts");
    let priced = cost.terms.iter().filter_map(|term| Some((term, term.price.as_ref()?)));
    let mut count = 0;
    for (term, price) in priced {
        count += 1;
        let time = term.time.expect("count times price");
        assert!((time.ns - term.count as f64 * price.time.ns).abs() <= 1e-6 * time.ns, "{term:?}");
        assert!(time.low_ns <= time.ns && time.ns <= time.high_ns, "{term:?}");
        let is_measured =
            |name: &str| name.starts_with("os.syscall{") || name.starts_with("file.path{");
        assert!(price.from.iter().all(|name| is_measured(name)), "{term:?}");
    }
    assert!(count >= 3, "{:?}", cost.terms);
    for (metric, operation) in [("os.syscall", "short calls"), ("file.path", "open and close")] {
        let explained = env.run(&["explain", metric]);
        assert_contains(&unwrapped_stdout(&explained), &["price of", operation]);
    }
}

#[test]
fn command_that_cannot_be_counted_keeps_its_time_and_fails() {
    let env = ProgramTestEnv::new();
    // It runs twice only: the third run is sampled, or counted where that is not permitted.
    let script = "test $(wc -l < log) -lt 2 && echo run >> log";
    fs::write(env.file("log"), "").expect("a file");
    let output = env.run(&["bench", "--cost", "--runs", "2", "--shell", "sh", script, "--json"]);
    assert_status(&output, 1);
    let document: fathom_record::Document = json(&output);
    assert_eq!(document.records[0].cost, None);
    assert!(document.records[0].shown_summary().is_some());
    assert_contains(
        &text(&output.stderr),
        &["run besides the timed ones: `test", "exited with status 1"],
    );
}
