//! `fathom bench --fail-on`: the rule of the gate, what undecided is taken for, the exit statuses
//! of `--bisect`, and which commands are one case.

use std::fs;
use std::process::Output;

use fathom_record::Unit;

use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_message, assert_status, text, unwrapped_stdout,
};

/// A command with a limit between two others, by far.
const GATE: [&str; 4] = ["true", "sleep 0.1", "--fail-on", "50%"];

fn bench(env: &ProgramTestEnv, words: &[&str]) -> Output {
    env.run(&[&["bench"], words].concat())
}

#[test]
fn undecided_is_taken_for_what_the_caller_says() {
    let env = ProgramTestEnv::new();
    for (taken, status, word) in [("pass", 0, "pass"), ("fail", 3, "fail")] {
        let words = [&GATE[..], &["--runs", "3", "--undecided", taken]].concat();
        let output = bench(&env, &words);
        assert_status(&output, status);
        let parts = [&format!(": {word}, "), "undecided (--undecided): no interval"];
        assert_contains(&unwrapped_stdout(&output), &parts);
    }
    let alone = bench(&env, &["true", "--undecided", "pass"]);
    assert_message(&alone, 2, &["--undecided: is of the gate"]);
    fs::write(
        env.file("b.toml"),
        "[[command]]\nrun = \"true\"\n[[command]]\nrun = \"sleep 0.1\"\n\
         [settings]\nruns = 3\nfail_on = \"50%\"\nundecided = \"pass\"\n",
    )
    .unwrap();
    assert_status(&env.exec("bench -f b.toml"), 0);
}

#[test]
fn statuses_of_bisect_are_those_of_git() {
    let env = ProgramTestEnv::new();
    let [fast, slow, ..] = GATE;
    for (words, status) in [
        (&[slow, fast, "--runs", "9"][..], 0),
        (&[fast, slow, "--runs", "9"], 1),
        (&[fast, slow, "--runs", "3"], 125),
        (&[fast, "./not-built", "--runs", "9"], 125),
        (&[fast, "false", "--runs", "9"], 125),
        (&[fast, slow, "--runs", "0"], 128),
        (&[fast, "--runs", "9"], 128),
    ] {
        let words = [words, &["--fail-on", "50%", "--bisect"]].concat();
        assert_status(&bench(&env, &words), status);
    }
    let output = bench(&env, &[fast, slow, "--bisect"]);
    assert_status(&output, 128);
    assert_contains(&text(&output.stderr), &["--bisect: needs --fail-on"]);
    // Of a program that is measured it is an option.
    assert_status(&env.exec("bench --runs 1 -- sh -c 'exit 3' --bisect"), 1);
}

#[test]
fn command_runs_in_its_folder() {
    let env = ProgramTestEnv::new();
    for name in ["old", "new"] {
        fs::create_dir(env.file(name)).unwrap();
        let prog = env.file(name).join("prog");
        fs::write(&prog, "#!/bin/sh\npwd > where\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&prog, mode).unwrap();
    }
    let side = |name| format!("[[command]]\nrun = \"./prog\"\nfolder = \"{name}\"\n");
    fs::write(env.file("b.toml"), side("old") + &side("new")).unwrap();
    assert_status(&env.exec("bench -f b.toml --runs 1"), 0);
    for name in ["old", "new"] {
        let place = fs::read_to_string(env.file(name).join("where")).unwrap();
        assert!(place.trim().ends_with(name), "{place}");
    }
    fs::write(env.file("b.toml"), side("none")).unwrap();
    assert_message(&env.exec("bench -f b.toml"), 1, &["folder none: not a folder"]);
}

/// Names are made of letters of the command: others of the same letters are other cases.
#[test]
fn another_command_or_setting_is_another_case() {
    let env = ProgramTestEnv::new();
    let measure = |words: &[&str]| {
        assert_status(&bench(&env, &[words, &["--runs", "9"]].concat()), 0);
        let document = env.latest_bench();
        assert_eq!(document.records[0].unit, Unit::Nanoseconds);
        document.records[0].metric.as_str().to_owned()
    };
    let compared = || env.exec("compare latest:bench~1 latest:bench");
    assert_eq!([measure(&["true 'a+'"]), measure(&["true 'a*'"])], ["bench.true-a"; 2]);
    let output = compared();
    assert_status(&output, 3);
    let reason =
        "another command, `true 'a+'` in A, `true 'a*'` in B; a name that is given to both";
    assert_contains(&text(&output.stderr), &["nothing to compare", reason]);
    measure(&["true 'a*'", "--prepare", "sleep 0"]);
    let output = compared();
    assert_status(&output, 3);
    assert_contains(&text(&output.stderr), &["settings, `none` in A, `--prepare 'sleep 0'` in B"]);
    measure(&["true 'a*'", "--prepare", "sleep 0"]);
    assert_status(&compared(), 0);
    let history = unwrapped_stdout(&env.exec("history bench.true-a"));
    let changes = ["`true 'a+'` → `true 'a*'`", "settings none` → `true 'a*', settings --prepare"];
    assert_contains(&history, &changes);
    // A name that was given is one case, and what differs is said.
    measure(&["true 1", "-n", "x"]);
    measure(&["true 2", "-n", "x"]);
    let output = compared();
    assert_status(&output, 0);
    assert_contains(&unwrapped_stdout(&output), &["bench.x, another command: true 1"]);
}

/// The rounds are real, a loss that is not planted is not found.
#[test]
fn certificate_has_each_limit_and_warns_gates_below() {
    let env = ProgramTestEnv::new();
    let output = bench(&env, &["--certify", "sleep 0.002", "--runs", "9", "-n", "x", "--json"]);
    assert_status(&output, 0);
    let document = env.latest_bench();
    let [command, certificate] = document.records.as_slice() else { panic!("{document:?}") };
    assert_eq!(command.metric.as_str(), "bench.x", "the planted ones are no cases");
    assert_eq!(certificate.name(), "bench.certificate{of=x}");
    for limit in ["0.50 %", "1.0 %", "2.0 %", "3.0 %", "5.0 %"] {
        let text = certificate.text_of(limit).expect(limit);
        assert!(text.contains(" of 20 false") && text.contains(" of 20 found"), "{text}");
    }
    let shown = unwrapped_stdout(&env.exec("show latest:bench"));
    assert_contains(&shown, &["gated here", " 3.0 %: "]);
    let first = if certificate.shown_summary().is_some() { "x can be" } else { "x cannot be" };
    assert!(shown.starts_with(first) && !shown.contains("crash"), "{shown}");
    let two = bench(&env, &["--certify", "true", "false"]);
    assert_message(&two, 2, &["--certify: is of one command, here are 2"]);
    let gate = ["true", "sleep 0.002", "-n", "y", "-n", "x", "--runs", "9", "--fail-on", "0.1%"];
    let warned = text(&bench(&env, &gate).stderr);
    assert_contains(&warned, &["--fail-on 0.10 %: below what is detectable here"]);
    let other = ["true", "sleep 0.002", "-n", "y", "-n", "z", "--runs", "9", "--fail-on", "9%"];
    // Beside other work no loss may be detectable.
    let is_any = certificate.shown_summary().is_some();
    assert_eq!(!text(&bench(&env, &other).stderr).contains("below what is detect"), is_any);
}
