//! `fathom bisect`: a real repository with a planted step, which stays as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::children::{send, spawn_piped, wait_until};
use crate::test_env::{ProgramTestEnv, assert_contains, assert_message, assert_status, text};

fn git(env: &ProgramTestEnv, words: &[&str]) -> String {
    let person = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "core.fsync=none"];
    let output = Command::new("git").args(person).args(words).current_dir(env.path()).output();
    let output = output.expect("git");
    assert!(output.status.success(), "git {words:?}: {}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// Commits of a program that is built from `time`: each sleeps so many milliseconds. `None` cannot
/// be built. Returns their ids.
fn history(env: &ProgramTestEnv, times: &[Option<u32>]) -> Vec<String> {
    git(env, &["init", "-q", "-b", "main"]);
    let commit = |(at, time): (usize, &Option<u32>)| {
        let line = match time {
            Some(ms) => format!("sleep 0.{ms:03}\n"),
            None => "if\n".to_owned(),
        };
        fs::write(env.file("time"), format!("{line}# {at}\n")).expect("a file");
        git(env, &["add", "time"]);
        git(env, &["commit", "-q", "-m", &format!("change {at}")]);
        git(env, &["rev-parse", "HEAD"])
    };
    times.iter().enumerate().map(commit).collect()
}

/// A syntax check that leaves a program.
const BUILD: &str = "git rev-parse HEAD >> \"$BUILDS\"; sh -n time && cp time prog";

/// Every file of the repository and of the folder, with its content and its time of change.
fn state(folder: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a file").map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().expect("a file"));
        let time = entry.metadata().expect("a file").modified().expect("a file");
        let content = if kind.is_file() { fs::read(&path).expect("a file") } else { Vec::new() };
        all.insert(path.display().to_string(), (content, time));
        if kind.is_dir() {
            all.append(&mut state(&path));
        }
    }
    all
}

/// A repository in which something is staged, changed and new, and a folder for what is temporary.
fn prepared(times: &[Option<u32>]) -> (ProgramTestEnv, ProgramTestEnv, Vec<String>) {
    let (env, temporary) = (ProgramTestEnv::new(), ProgramTestEnv::new());
    let ids = history(&env, times);
    fs::write(env.file("staged"), "a").expect("a file");
    git(&env, &["add", "staged"]);
    fs::write(env.file("time"), "exit 9\n").expect("a file");
    fs::write(env.file("new"), "b").expect("a file");
    (env, temporary, ids)
}

fn bisect(env: &ProgramTestEnv, temporary: &ProgramTestEnv, ends: [&str; 2]) -> Command {
    let words = ["bisect", ends[0], ends[1], "--build", BUILD, "--run", "sh ./prog"];
    let mut command = env.fathom(&[&words[..], &["--runs", "12"]].concat());
    command.env("TMPDIR", temporary.path()).env("BUILDS", env.store().with_extension("builds"));
    command
}

#[test]
fn planted_step_is_named_and_the_repository_untouched() {
    let mut times = [Some(1); 17];
    times[11..].fill(Some(100));
    times[8] = None;
    let (env, temporary, ids) = prepared(&times);
    let before = state(env.path());
    let output = bisect(&env, &temporary, [&ids[0], "main"]).output().unwrap();
    let notes = text(&output.stderr);
    assert_status(&output, 0);
    let named = format!("{} is the first commit slower than {} by more", &ids[11][..12], ids[0]);
    let shown = text(&output.stdout);
    assert_contains(&shown, &[&named, "tests of 16 commits", "change 11", "next: git show"]);
    assert_contains(&notes, &["main is slower than"]);
    let builds = fs::read_to_string(env.store().with_extension("builds")).unwrap();
    let mut builds: Vec<&str> = builds.lines().collect();
    let count = builds.len();
    builds.sort_unstable();
    builds.dedup();
    assert_eq!(builds.len(), count, "a commit is built once");
    let _ = fs::remove_file(env.store().with_extension("builds"));
    let touched = state(env.path());
    assert_eq!(before.keys().collect::<Vec<_>>(), touched.keys().collect::<Vec<_>>());
    assert!(before == touched, "a file was written");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left");
    // Four tests halve 16 commits.
    let tests: Vec<&str> = notes.lines().filter(|line| line.contains("; likeliest ")).collect();
    assert!((4..=10).contains(&tests.len()), "{notes}");
}

#[test]
fn commits_that_cannot_be_built_stay_suspects() {
    let mut times = [Some(1), Some(1), None, None, Some(100), Some(100)];
    let (env, temporary, ids) = prepared(&times);
    let output = bisect(&env, &temporary, [&ids[0], "main"]).arg("--json").output().unwrap();
    assert_status(&output, 0);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = json["first_bad"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap());
    assert_eq!(named.collect::<Vec<_>>(), ids[2..=4].iter().collect::<Vec<_>>());
    assert!(json["tests"].as_array().unwrap().iter().any(|it| it["answer"] == "not testable"));
    let output = bisect(&env, &temporary, [&ids[0], "main"]).output().unwrap();
    assert_status(&output, 0);
    let shown = text(&output.stdout);
    let parts = [
        "one of 3 commits is the first one slower",
        "change 2",
        "change 4",
        "can be built and run",
    ];
    assert_contains(&shown, &parts);
    assert_contains(&text(&output.stderr), &["not testable: --build exited with status 2"]);
    // The ends have to be built.
    times.reverse();
    assert_message(
        &bisect(&env, &temporary, [&ids[0], &ids[2]]).output().unwrap(),
        1,
        &["cannot be measured: --build exited with status 2"],
    );
}

#[test]
fn equal_ends_and_wrong_names_are_said() {
    let (env, temporary, ids) = prepared(&[Some(1); 3]);
    let output = bisect(&env, &temporary, [&ids[0], "main"]).output().unwrap();
    // By chance an interval may exclude no change.
    assert!([Some(0), Some(5)].contains(&output.status.code()), "{}", text(&output.stderr));
    let tree = git(&env, &["rev-parse", "HEAD^{tree}"]);
    let on = ["commit-tree", &tree, "-m", "side", "-p", &ids[1]];
    for (branch, words) in [("side", &on[..]), ("alone", &on[..4])] {
        git(&env, &["branch", branch, &git(&env, words)]);
    }
    for (ends, part) in [
        (["main", "nothing"], "nothing is no commit"),
        (["main", "main"], "main and main are one commit"),
        (["main", &ids[0]], &format!("main is after {}: GOOD comes first", ids[0])),
        (["side", "main"], &format!("side is no ancestor of main; give {}", &ids[1][..12])),
        (["alone", "main"], "alone and main have no common ancestor"),
    ] {
        let output = bisect(&env, &temporary, ends).output().unwrap();
        assert_status(&output, 2);
        assert_contains(&text(&output.stderr), &[part]);
    }
    let elsewhere = ProgramTestEnv::new();
    let mut outside = bisect(&elsewhere, &temporary, ["a", "b"]);
    let outside = outside.env("GIT_CEILING_DIRECTORIES", elsewhere.path()).output().unwrap();
    assert_message(&outside, 1, &["git rev-parse: ", "not a git repository"]);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    for build in [true, false] {
        let (env, temporary, ids) = prepared(&[Some(1), Some(900), Some(900)]);
        let before = state(env.path());
        let mut command = bisect(&env, &temporary, [&ids[0], "main"]);
        if build {
            let words = ["bisect", &ids[0], "main", "--build", "sleep 600", "--run", "true"];
            command = env.fathom(&words);
            command.env("TMPDIR", temporary.path());
        }
        let child = spawn_piped(command);
        let is_begun = || {
            let inside = |name: &str| {
                let folders = fs::read_dir(temporary.path()).unwrap().map(Result::unwrap);
                folders.map(|one| one.path().join(name)).any(|path| path.exists())
            };
            inside(if build { "builds" } else { "bench.toml" })
        };
        wait_until("it does not begin", is_begun);
        send(&child, Signal::INT);
        assert_status(&child.wait_with_output().unwrap(), 130);
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "nothing is left");
        let _ = fs::remove_file(env.store().with_extension("builds"));
        assert!(before == state(env.path()), "a file was written");
    }
}
