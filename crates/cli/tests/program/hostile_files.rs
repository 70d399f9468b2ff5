//! Small files that would take gigabytes or hours, stores that would hang, and panics: each command
//! ends within bounds of memory and CPU time, in one line.

use std::fmt::Write as _;
use std::fs;

use fathom_measure::clock::monotonic_raw_ns;
use rustix::process::Resource;

use crate::ProgramTestEnv;
use crate::limits::{at_most, under};
use crate::test_env::{assert_contains, assert_failure, assert_status, assert_usage_error, text};

/// Seconds of CPU: a debug build takes less than a tenth; what is quadratic takes minutes.
const CPU_S: u64 = 20;
const HANGS_S: u32 = 120;

/// Runs a command whose heap is at most 64 MiB and 8 times its input.
fn bounded(env: &ProgramTestEnv, line: &str, input: usize) -> std::process::Output {
    let (mut memory, mut time) =
        (at_most(Resource::Data, (64 << 20) + 8 * input as u64), at_most(Resource::Cpu, CPU_S));
    under(env.command(line), move || {
        // SAFETY: takes a plain number. It ends what waits for ever.
        unsafe { libc::alarm(HANGS_S) };
        memory().and_then(|()| time())
    })
}

fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect()
}

fn list(count: usize, one: impl Fn(usize) -> String) -> String {
    many(count, |at| one(at) + ",").trim_end_matches(',').to_owned()
}

/// The worst of each format: its tool, the text, and whether it is imported.
fn worst() -> Vec<(&'static str, String, bool)> {
    let zeros = list(500_000, |_| "0".to_owned());
    let google = |rows: &str| format!(r#"{{"context":{{"x":[{zeros}]}},"benchmarks":[{rows}]}}"#);
    let row = |at| format!(r#"{{"name":"b{at}","real_time":1}}"#);
    let counters = list(90_000, |at| format!(r#""c{at}":1"#));
    let counters = format!(r#"{{"name":"{}","real_time":1,{counters}}}"#, "a/1".repeat(99_000));
    let hyperfine = |commands: &str| format!(r#"{{"results":[{commands}]}}"#);
    let command = |at| format!(r#"{{"command":"{at}","median":1}}"#);
    let times = format!(r#"{{"command":"x","times":[{zeros}]}}"#);
    let pyperf = |more: &str, runs: &str| {
        let metadata = format!(r#""metadata":{{"name":"x","y":[{more}]}}"#);
        format!(r#"{{"benchmarks":[{{{metadata},"runs":[{runs}]}}],"version":"1.0"}}"#)
    };
    let runs = |count| list(count, |_| r#"{"values":[1]}"#.to_owned());
    let fio = |options: usize, jobs: usize| {
        let read = r#"{"total_ios":1,"bw_bytes":1,"iops":1,"lat_ns":{"mean":1}}"#;
        let jobs = list(jobs, |at| format!(r#"{{"jobname":"j{at}","read":{read}}}"#));
        let options = list(options, |at| format!(r#""o{at}":"{}""#, "x".repeat(1_000)));
        let version = r#""fio version":"fio-3.1""#;
        format!(r#"{{{version},"global options":{{{options}}},"jobs":[{jobs}]}}"#)
    };
    let go = |at| format!("BenchmarkB{at} 1 1 ns/op\n");
    vec![
        ("go", many(5_000, |at| format!("goos: linux\n{}", go(at))), true),
        ("go", many(40_000, go), false),
        ("go", format!("BenchmarkA 1{}\n", " 1 a".repeat(250_000)), false),
        ("go", format!("BenchmarkA{} 1 1 ns/op\n", "/a=1".repeat(250_000)), true),
        ("google-benchmark", google(&row(0)), true),
        ("google-benchmark", google(&list(5_000, row)), true),
        ("google-benchmark", google(&counters), false),
        ("hyperfine", hyperfine(&times), true),
        ("hyperfine", hyperfine(&list(40_000, command)), false),
        ("pyperf", pyperf(&zeros, &runs(1)), true),
        ("pyperf", pyperf("", &runs(15_000)), true),
        ("pyperf", pyperf("", &runs(20_000)), false),
        ("pyperf", pyperf("", &runs(100_000)), false),
        ("fio", fio(900, 900), true),
        ("fio", fio(0, 9_000), false),
    ]
}

#[test]
#[expect(clippy::print_stdout, reason = "times for `make bench-import`")]
fn import_is_bounded_by_the_size_of_its_file() {
    let env = ProgramTestEnv::new();
    for (at, (tool, file, is_imported)) in worst().into_iter().enumerate() {
        fs::write(env.file("worst"), &file).expect("a file");
        let begun = monotonic_raw_ns();
        let output = bounded(&env, &format!("import --format {tool} worst"), file.len());
        // mood: printed for `make bench-import`, never judged
        let (s, mb) = ((monotonic_raw_ns() - begun) as f64 / 1e9, file.len() as f64 / 1e6);
        println!("{at:2} {tool:16} {mb:6.3} MB {s:6.3} s {:6.2} s/MB", s / mb);
        let said = text(&output.stdout) + &text(&output.stderr);
        let expected = if is_imported { "Imported" } else { "worst is no result of" };
        assert!(output.status.code() == Some(i32::from(!is_imported)), "{at}: {tool}: {said}");
        assert_contains(&said, &[expected]);
        assert!(output.stderr.len() < 2_000, "{at}: {}", output.stderr.len());
    }
}

#[test]
fn products_of_small_texts_are_counted_first() {
    let env = ProgramTestEnv::new();
    let mut file = "[[command]]\nrun = \"true {a} {b} {c} {d}\"\n[parameters]\n".to_owned();
    for name in ["a", "b", "c", "d"] {
        let _ = writeln!(file, "{name} = [{}]", list(100, |at| at.to_string()));
    }
    fs::write(env.file("bench.toml"), file).expect("a file");
    let output = bounded(&env, "bench -f bench.toml", 0);
    assert_usage_error(&output, &["100000000 commands with their parameters, at most 100"]);
    let urls = format!("/f{{0{}..1048575}}", "0".repeat(16_000));
    let output = bounded(&env, &format!("load http://127.0.0.1:1/ --urls {urls}"), 0);
    assert!(!output.status.success() && output.stderr.len() < 1_000, "{}", text(&output.stderr));
}

#[test]
fn twenty_thousand_limits_are_read_at_once() {
    let env = ProgramTestEnv::with_run();
    let line = |at| format!("\"os.syscall{{call=c{at}}}\" = \"..1 s\"\n");
    fs::write(env.file("limits"), many(20_000, line)).expect("a file");
    let output = bounded(&env, "show --limits limits", 1 << 20);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    fs::write(env.file("limits"), "\"os.syscall{call=\\u001b[2J}\" = \"..1 s\"\n").expect("a file");
    let output = bounded(&env, "check --limits limits", 0);
    assert!(!text(&output.stdout).contains('\u{1b}'), "{}", text(&output.stdout));
}

#[test]
fn store_of_views_or_pipes_ends_in_one_line() {
    let env = ProgramTestEnv::with_run();
    let store = rusqlite::Connection::open(env.store()).expect("a store");
    let endless = "ALTER TABLE run RENAME TO other;
        CREATE VIEW run AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
            SELECT other.* FROM other, n";
    store.execute_batch(endless).expect("a view");
    drop(store);
    for line in ["list --runs", "show", "check --against x", "export latest"] {
        let output = bounded(&env, line, 0);
        assert!(output.status.code().is_some_and(|it| it > 0), "{line}: {}", text(&output.stdout));
    }
    assert_failure(&bounded(&env, "show", 0), &["a view or a trigger", "left unchanged"]);
    for suffix in ["-journal", "-wal"] {
        let env = ProgramTestEnv::with_run();
        let path = env.file(&format!("fathom.db{suffix}"));
        let _ = fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        for line in ["show", "check --against x", "export latest"] {
            let output = bounded(&env, line, 0);
            let said = text(&output.stdout) + &text(&output.stderr);
            assert!(output.status.code().is_some_and(|it| it > 0), "{line}: {said}");
            assert_contains(&said, &["not a regular file"]);
        }
    }
}

#[test]
fn pipes_and_second_names_are_refused() {
    let env = ProgramTestEnv::with_run();
    let made = std::process::Command::new("mkfifo").arg(env.file("fifo")).status();
    assert!(made.expect("mkfifo").success());
    for line in ["bench true --output fifo", "bench true --input fifo", "bench -f fifo"] {
        assert_failure(&bounded(&env, line, 0), &["fifo: a pipe", "name a file"]);
    }
    let log = env.file("fathom.db-shm");
    let _ = fs::remove_file(&log);
    fs::write(env.file("victim"), "victim").expect("a file");
    fs::hard_link(env.file("victim"), log).expect("a link");
    assert_failure(&bounded(&env, "show", 0), &["another name in the place of a log"]);
    assert_eq!(fs::read_to_string(env.file("victim")).expect("a file"), "victim");
}

#[test]
fn panic_is_one_line_with_its_remedy() {
    let env = ProgramTestEnv::new();
    for (line, status) in [("list", 101), ("check --limits x", 3)] {
        let output = env.command(line).env("FATHOM_PANIC", "command").output().expect("it starts");
        assert_status(&output, status);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(stdout.starts_with("FATHOM UNKNOWN - a defect of fathom"), status == 3);
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_contains(&stderr, &["panicked at", "a defect of fathom: report it with"]);
    }
}
