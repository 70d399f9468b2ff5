//! Known answers of `fathom bench`, and the recipe for CI as it is written.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::children::spawn_piped;
use crate::test_env::{ProgramTestEnv, assert_status, document, of_metric};

/// A program that counts to a number, times what the file `drift` says.
fn counting(to: u32) -> String {
    format!(
        "sh -c 'read times < drift; i=$((times * {to})); while [ $i -gt 0 ]; do i=$((i-1)); done'"
    )
}

/// The ratio of the second command to the first, with its interval.
fn ratio(
    env: &ProgramTestEnv,
    [old, new]: [u32; 2],
    time: &str,
    drift: Option<Duration>,
) -> [f64; 3] {
    fs::write(env.file("drift"), "1\n").expect("a file");
    let (old, new) = (counting(old), counting(new));
    let line = ["bench", &old, &new, "-n", "old", "-n", "new", "--time", time, "--json"];
    let child = spawn_piped(env.fathom(&line));
    if let Some(after) = drift {
        // mood: the drift is to begin in the middle of the runs
        std::thread::sleep(after);
        fs::write(env.file("drift"), "2\n").expect("a file");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_status(&output, 0);
    let document = document(&output);
    let summary = of_metric(&document, "bench.ratio")[0].summary.as_ref().expect("pairs");
    let [low, high] = summary.limits().expect("an interval");
    [low, summary.median, high]
}

/// As the screen calls them different.
fn differ([low, ratio, high]: [f64; 3]) -> bool {
    (low > 1.0 || high < 1.0) && (ratio - 1.0).abs() > 0.01
}

#[test]
#[ignore = "lab: compares times of programs"]
fn doubled_work_takes_twice_the_time() {
    let found = ratio(&ProgramTestEnv::new(), [40_000, 80_000], "10s", None);
    // The start of the shell is less than a hundredth of the shorter run.
    assert!((1.98..2.01).contains(&found[1]), "{found:?}");
}

#[test]
#[ignore = "lab: compares times of programs"]
fn equal_programs_are_not_called_different() {
    let env = ProgramTestEnv::new();
    let pairs = (0..20).map(|_| ratio(&env, [10_000, 10_000], "3s", None));
    let wrong: Vec<[f64; 3]> = pairs.filter(|found| differ(*found)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
#[ignore = "lab: compares times of programs"]
fn three_per_cent_are_found_also_in_a_drift() {
    let env = ProgramTestEnv::new();
    for drift in [None, Some(Duration::from_secs(9))] {
        let pairs = (0..10).map(|_| ratio(&env, [10_000, 10_300], "10s", drift));
        let found: Vec<[f64; 3]> = pairs.collect();
        let right = found.iter().filter(|one| differ(**one) && one[1] > 1.0).count();
        assert!(right >= 9, "drift {drift:?}: {found:.3?}");
    }
}

/// The last shell block of the recipe, from the measurement on.
fn recipe() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes/ci.md");
    let page = fs::read_to_string(page).expect("a page");
    let block = page.rsplit("```sh\n").next().and_then(|rest| rest.split("```").next());
    let block = block.expect("a block");
    let from = block.find("status=0").expect("the measurement");
    assert!(block.contains("--time 30s"));
    block[from..].replace("--time 30s", "--time 4s").replace("--warmup 3", "--warmup 1")
}

#[test]
#[ignore = "lab: compares times of programs"]
fn recipe_for_ci_passes_and_fails() {
    let env = ProgramTestEnv::new();
    let shell = |script: &str| {
        let fathom = Path::new(env!("CARGO_BIN_EXE_fathom")).parent().expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(env.path()).env("FATHOM_STORE", env.store());
        command.env("PATH", format!("{}:{path}", fathom.display()));
        command.output().expect("a shell")
    };
    let person = "-c user.name=x -c user.email=x@x";
    let made = format!("git init -q && git {person} commit -q --allow-empty -m x");
    assert_status(&shell(&made), 0);
    fs::write(env.file("drift"), "1\n").expect("a file");
    for (change, status) in [(20_000, 0), (30_000, 3)] {
        for (folder, to) in [("base/target/release", 20_000), ("target/release", change)] {
            fs::create_dir_all(env.file(folder)).expect("a folder");
            let program = env.file(folder).join("prog");
            let body = counting(to);
            fs::write(&program, format!("#!/bin/sh\n{body}\n")).expect("a file");
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&program, executable).expect("a mode");
        }
        assert_status(&shell(&recipe()), status);
        // A label names one run.
        let _ = fs::remove_file(env.store());
    }
}
