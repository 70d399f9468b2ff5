//! `fathom crosscheck` with programs that are not there, talk rubbish, hang, or do their work.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use fathom_record::{CrossOutcome, Crosscheck, State};
use rustix::process::Signal;

use crate::children::{eventually, piped, send};
use crate::group::skipped;
use crate::place::{ends_with, fits_schema, json, left, text_of};
use crate::{Place, text};

/// What a child's environment holds, so that it is found again.
const MARK: &str = "CROSSCHECK_TEST";

/// The program with a PATH that holds only a folder of these scripts, each with its name.
fn fathom(place: &Place, scripts: &[(&str, &str)], arguments: &[&str]) -> Command {
    let folder = place.path().join("bin");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, script) in scripts {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a program");
    }
    let mut command = place.fathom(&[&["crosscheck"], arguments].concat());
    command.env("PATH", folder);
    command
}

/// A perf that tells its version, and does something when it is to measure.
fn perf(what: &str) -> String {
    format!("case \"$1\" in --version) echo perf version 9.8.7;; *) {what};; esac")
}

fn files(place: &Place) -> PathBuf {
    let folder = place.path().join("files");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn document(output: &Output) -> Crosscheck {
    json(output)
}

#[test]
fn a_program_that_is_not_installed_is_one_line_with_its_package() {
    let place = Place::new();
    let folder = files(&place);
    let words = ["--folder", text_of(&folder)];
    let output = fathom(&place, &[], &words).output().expect("it starts");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}{}", text(&output.stderr));
    assert!(said.contains("\nNothing was compared, "), "{said}");
    assert!(!said.contains("ratio"), "a table of nothing:\n{said}");
    for (peer, package) in [
        ("perf", "linux-perf"),
        ("sysbench", "sysbench"),
        ("google-benchmark", "g++"),
        ("fio", "fio"),
        ("dd", "coreutils"),
        ("xxhsum", "xxhash"),
    ] {
        let line = format!("{peer} is not installed: sudo apt-get install {package}");
        assert_eq!(said.lines().filter(|it| **it == line).count(), 1, "`{line}`:\n{said}");
    }
    assert!(said.contains("None of the programs is installed"), "{said}");
    assert!(left(&folder).is_empty(), "nothing is made for programs that are not there");
    let list = text(&fathom(&place, &[], &["--list"]).output().expect("it starts").stdout);
    assert!(list.contains("mbw (not installed: sudo apt-get install mbw)"), "{list}");
}

#[test]
fn a_compiler_without_the_library_names_the_library() {
    let place = Place::new();
    let compiler = [("c++", "echo 'fatal error: benchmark/benchmark.h' >&2; exit 1")];
    let output = fathom(&place, &compiler, &["google-benchmark", "--json"]).output();
    let document = document(&output.expect("it starts"));
    assert!(document.rows.iter().all(|row| row.outcome == CrossOutcome::Missing));
    assert_eq!(document.rows[0].package, "libbenchmark-dev");
}

#[test]
fn rubbish_is_failed_with_its_first_line_and_so_is_a_program_that_fails() {
    let place = Place::new();
    for (what, reason) in [
        ("echo rubbish 42", "no `usecs/op` in the output: rubbish 42"),
        ("echo broken >&2; exit 7", "perf: ended with status 7: broken"),
    ] {
        let script = perf(what);
        let words = ["os.pipe.rtt", "--pairs", "3"];
        let run = |more: &[&str]| {
            let words = [&words, more].concat();
            fathom(&place, &[("perf", &script)], &words).output().expect("it starts")
        };
        let output = run(&["--json"]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        let document = document(&output);
        let row = &document.rows[0];
        assert_eq!((row.outcome, row.reason.as_deref()), (CrossOutcome::Failed, Some(reason)));
        assert!(row.turns.is_empty() && row.ratio.is_none());
        assert_eq!(row.version.as_deref(), Some("9.8.7"));
        let said = text(&run(&[]).stdout);
        assert!(said.contains("failed: ") && said.contains("1 failed"), "{said}");
    }
}

#[test]
fn a_program_that_hangs_is_killed_when_its_time_is_over() {
    let place = Place::new();
    let mark = format!("{MARK}={}-hangs", std::process::id());
    let script = perf("/bin/sleep 1000 & /bin/sleep 1000");
    let words = ["os.pipe.rtt", "--json", "--limit", "1"];
    let mut command = fathom(&place, &[("perf", &script)], &words);
    let (name, value) = mark.split_once('=').expect("both");
    let output = command.env(name, value).output().expect("it starts");
    let document = document(&output);
    let reason = document.rows[0].reason.as_deref();
    assert_eq!(reason, Some("perf: did not end within 1 s, and was killed"));
    assert_eq!(fathom_lab::processes::left_after(&mark, 10), Vec::<u32>::new());
}

/// Starts a crosscheck, waits until something is so, and stops it as a person does.
fn stopped(mut command: Command, mark: &str, what: &str, is_so: impl Fn() -> bool) -> Output {
    let (name, value) = mark.split_once('=').expect("both");
    command.env(name, value);
    let child = piped(command);
    // Generous: the data of a slow disk is written first.
    let is_so = std::panic::AssertUnwindSafe(is_so);
    let came = std::panic::catch_unwind(move || {
        (0..6).any(|_| std::panic::catch_unwind(|| eventually("", &*is_so)).is_ok())
    });
    send(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(came.ok(), Some(true), "{what}: {}", text(&output.stdout));
    output
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file_whoever_is_at_work() {
    let place = Place::new();
    let folder = files(&place);
    let started = place.path().join("started");
    let hang = format!("echo 1 > {}; /bin/sleep 1000", started.display());
    let script = format!("case \"$1\" in --version) echo 1.2;; *) {hang};; esac");
    let words = ["xxhsum", "--json", "--folder", text_of(&folder), "--allow-memory"];
    let command = fathom(&place, &[("xxhsum", &script)], &words);
    let mark = format!("{MARK}={}-theirs", std::process::id());
    let output = stopped(command, &mark, "it never began", || started.exists());
    ends_with(&output, 130);
    let document = document(&output);
    assert!(document.interrupted && document.rows[0].outcome == CrossOutcome::Interrupted);
    assert_eq!(fathom_lab::processes::left_after(&mark, 10), Vec::<u32>::new());
    assert!(left(&folder).is_empty(), "{:?}", left(&folder));

    // Our own side has a folder of its own beside that of the crosscheck.
    let words = ["fio", "--json", "--folder", text_of(&folder), "--allow-memory"];
    let command = fathom(&place, &[("fio", "echo fio-1.2")], &words);
    let mark = format!("{MARK}={}-ours", std::process::id());
    let output = stopped(command, &mark, "no run", || left(&folder).len() == 2);
    ends_with(&output, 130);
    assert_eq!(fathom_lab::processes::left_after(&mark, 10), Vec::<u32>::new());
    assert!(left(&folder).is_empty(), "{:?}", left(&folder));
}

#[test]
fn a_document_has_every_turn_and_fits_its_schema() {
    let place = Place::new();
    let log = place.path().join("log");
    // What perf 6.1.187 prints, and a note that it ran.
    let said = "# Running 'sched/pipe' benchmark:\n       6.853960 usecs/op";
    let script = perf(&format!("echo \"$*\" >> {}; echo \"{said}\"", log.display()));
    let words = ["os.pipe.rtt", "mbw", "--json"];
    let output = fathom(&place, &[("perf", &script)], &words).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = document(&output);
    let row = &told.rows[0];
    assert_eq!((row.turns.len(), row.theirs), (5, Some(6853.96)), "{row:?}");
    assert!(row.turns.iter().all(|turn| turn.ratio == turn.ours / 6853.96 && turn.ours > 0.0));
    // Two ends of a pipe on one CPU take turns: that tells of nobody else.
    assert!(row.turns.iter().all(|turn| turn.peer_preempted_hz.is_none()));
    let noisy = row.turns.iter().filter(|turn| turn.our_state == State::Noisy);
    assert!(noisy.clone().all(|turn| turn.our_reason.is_some()), "{row:?}");
    let ratio = fathom_analysis::crosscheck::pair_ratio(&row.turns).expect("pairs");
    assert!(row.ratio == Some(ratio) || row.inconclusive.is_some(), "{row:?}");
    assert!(ratio.level == Some(0.9375) && ratio.low <= ratio.median && ratio.median <= ratio.high);
    let cpu = told.cpu;
    assert_eq!(row.cpus, [cpu]);
    let command = format!("taskset -c {cpu} perf bench sched pipe --loop 100000");
    assert_eq!(row.peer_commands, [command]);
    assert!(row.our_command.contains("'os.pipe.rtt{calls=libc}'"), "{}", row.our_command);
    assert_eq!(std::fs::read_to_string(log).expect("it ran").lines().count(), 5);
    assert_eq!(told.rows[1].outcome, CrossOutcome::Missing);
    assert!(!place.store().exists(), "nothing of it is kept");

    let broken = serde_json::json!({"schema": 1, "rows": [{"peer": 7}]});
    fits_schema(&output, include_str!("../../../../docs/crosscheck.schema.json"), &broken);
}

#[test]
fn a_real_program_writes_the_same_file_and_nothing_stays() {
    let place = Place::new();
    if !fathom_peers::is_there("dd") {
        return skipped("dd is missing; install with: sudo apt-get install coreutils");
    }
    let folder = files(&place);
    let written = "file.write.throughput{file_bytes=128MiB}";
    let line = format!("crosscheck {written} --pairs 2 --json --allow-memory --folder");
    let output = place.ask(&format!("{line} {}", folder.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let announced = text(&output.stderr);
    assert!(announced.contains("384 MiB once") && announced.contains("about "), "{announced}");
    let document = document(&output);
    let [row] = document.rows.as_slice() else { panic!("one row: {:?}", document.rows) };
    assert_eq!((row.peer.as_str(), row.outcome), ("dd", CrossOutcome::Compared), "{row:?}");
    assert!(row.version.is_some() && row.turns.len() == 2);
    assert!(row.turns.iter().all(|turn| turn.peer_preempted_hz.is_some()));
    assert!(row.turns.iter().all(|turn| turn.detail.is_empty()), "{:?}", row.turns);
    // One of a number that ours tells is the state that ours tells with it.
    assert!(row.turns.iter().all(|turn| turn.our_state.shows_number()), "{:?}", row.turns);
    assert!(left(&folder).is_empty(), "{:?}", left(&folder));
}

#[test]
fn words_that_name_nothing_are_refused_with_the_nearest() {
    let place = Place::new();
    let table = "sysbnch | `sysbnch` | did you mean `sysbench` | crosscheck --list
        memry | did you mean `memory`
        os.syscall{call=stat} | no such case | {call=getppid_called}
        --pairs 0 | --pairs
        --cpu 9999 perf | --cpu 9999 | may use CPU";
    place.refuses("crosscheck", table);
    place.fails("crosscheck", "dd --folder /proc | proc keeps no files");
}
