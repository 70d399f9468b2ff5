//! `fathom crosscheck` with programs that are missing, print garbage, hang, or work.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fathom_record::{CrossOutcome, Crosscheck};
use rustix::process::Signal;

use crate::children::{send, spawn_piped, wait_until};
use crate::group::skipped;
use crate::test_env::{assert_schema, assert_status, entries, json, path_text};
use crate::{ProgramTestEnv, text};

/// An environment variable by which left processes are found.
const MARK: &str = "CROSSCHECK_TEST";

/// The program with a PATH that has only these scripts.
fn fathom(env: &ProgramTestEnv, scripts: &[(&str, &str)], arguments: &[&str]) -> Command {
    let folder = env.path().join("bin");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, script) in scripts {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a program");
    }
    let mut command = env.fathom(&[&["crosscheck"], arguments].concat());
    command.env("PATH", folder);
    command
}

/// A perf with a version, and a script for measuring.
fn perf(what: &str) -> String {
    format!("case \"$1\" in --version) echo perf version 9.8.7;; *) {what};; esac")
}

fn files(env: &ProgramTestEnv) -> PathBuf {
    let folder = env.path().join("files");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn document(output: &Output) -> Crosscheck {
    json(output)
}

#[test]
fn missing_library_names_its_package() {
    let env = ProgramTestEnv::new();
    let compiler = [("c++", "echo 'fatal error: benchmark/benchmark.h' >&2; exit 1")];
    let output = fathom(&env, &compiler, &["google-benchmark", "--json"]).output();
    let document = document(&output.expect("it starts"));
    assert!(document.rows.iter().all(|row| row.outcome == CrossOutcome::Missing));
    assert_eq!(document.rows[0].package, "libbenchmark-dev");
}

#[test]
fn unparsable_output_fails_the_row() {
    let env = ProgramTestEnv::new();
    for (what, reason) in [
        ("echo garbage 42", "no `usecs/op` in the output: garbage 42"),
        ("echo broken >&2; exit 7", "perf: exited with status 7: broken"),
    ] {
        let script = perf(what);
        let words = ["os.pipe.rtt", "--pairs", "3"];
        let run = |more: &[&str]| {
            let words = [&words, more].concat();
            fathom(&env, &[("perf", &script)], &words).output().expect("it starts")
        };
        let output = run(&["--json"]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        let document = document(&output);
        let row = &document.rows[0];
        assert_eq!((row.outcome, row.reason.as_deref()), (CrossOutcome::Failed, Some(reason)));
        assert!(row.turns.is_empty() && row.ratio.is_none());
        assert_eq!(row.version.as_deref(), Some("9.8.7"));
        let message = text(&run(&[]).stdout);
        assert!(message.contains("failed: ") && message.contains("1 failed"), "{message}");
    }
}

#[test]
fn hanging_program_is_killed_at_time_limit() {
    let env = ProgramTestEnv::new();
    let value = format!("{}-hangs", std::process::id());
    let script = perf("/bin/sleep 1000 & /bin/sleep 1000");
    let words = ["os.pipe.rtt", "--json", "--limit", "1"];
    let mut command = fathom(&env, &[("perf", &script)], &words);
    let output = command.env(MARK, &value).output().expect("it starts");
    let document = document(&output);
    let reason = document.rows[0].reason.as_deref();
    assert_eq!(reason, Some("perf: timed out after 1 s, was killed"));
    let left = fathom_lab::processes::left_after(&format!("{MARK}={value}"), 10);
    assert_eq!(left, Vec::<u32>::new());
}

/// Starts a crosscheck, interrupts it once a condition holds, and asserts that nothing is left.
fn assert_interrupted(
    mut command: Command,
    side: &str,
    folder: &Path,
    is_so: impl Fn() -> bool,
) -> Crosscheck {
    let value = format!("{}-{side}", std::process::id());
    command.env(MARK, &value);
    let child = spawn_piped(command);
    wait_until(side, is_so);
    send(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_status(&output, 130);
    let left = fathom_lab::processes::left_after(&format!("{MARK}={value}"), 10);
    assert_eq!(left, Vec::<u32>::new());
    assert!(entries(folder).is_empty(), "{:?}", entries(folder));
    document(&output)
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file() {
    let env = ProgramTestEnv::new();
    let folder = files(&env);
    let started = env.path().join("started");
    let hang = format!("echo 1 > {}; /bin/sleep 1000", started.display());
    let script = format!("case \"$1\" in --version) echo 1.2;; *) {hang};; esac");
    let words = ["xxhsum", "--json", "--folder", path_text(&folder), "--allow-memory"];
    let command = fathom(&env, &[("xxhsum", &script)], &words);
    let document = assert_interrupted(command, "theirs", &folder, || started.exists());
    assert!(document.interrupted && document.rows[0].outcome == CrossOutcome::Interrupted);

    // Our side has a folder of its own beside that of the crosscheck.
    let words = ["fio", "--json", "--folder", path_text(&folder), "--allow-memory"];
    let command = fathom(&env, &[("fio", "echo fio-1.2")], &words);
    assert_interrupted(command, "ours", &folder, || entries(&folder).len() == 2);
}

#[test]
fn document_has_every_pair_and_fits_schema() {
    let env = ProgramTestEnv::new();
    let log = env.path().join("log");
    // The output of perf 6.1.187, and a line in the log for each call.
    let printed = "# Running 'sched/pipe' benchmark:\n       6.853960 usecs/op";
    let script = perf(&format!("echo \"$*\" >> {}; echo \"{printed}\"", log.display()));
    let words = ["os.pipe.rtt", "mbw", "--json"];
    let output = fathom(&env, &[("perf", &script)], &words).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = document(&output);
    let row = &document.rows[0];
    assert_eq!((row.turns.len(), row.theirs), (5, Some(6853.96)), "{row:?}");
    assert!(row.turns.iter().all(|turn| turn.ratio == turn.ours / 6853.96 && turn.ours > 0.0));
    // Both ends of the pipe share a CPU: switches between them are not preemptions.
    assert!(row.turns.iter().all(|turn| turn.peer_preempted_hz.is_none()));
    let ratio = fathom_analysis::crosscheck::pair_ratio(&row.turns).expect("pairs");
    assert!(row.ratio == Some(ratio) || row.inconclusive.is_some(), "{row:?}");
    assert!(ratio.level == Some(0.9375) && ratio.low <= ratio.median && ratio.median <= ratio.high);
    let cpu = document.cpu;
    assert_eq!(row.cpus, [cpu]);
    let command = format!("taskset -c {cpu} perf bench sched pipe --loop 100000");
    assert_eq!(row.peer_commands, [command]);
    assert!(row.our_command.contains("'os.pipe.rtt{calls=libc}'"), "{}", row.our_command);
    assert_eq!(std::fs::read_to_string(log).expect("it ran").lines().count(), 5);
    assert_eq!(document.rows[1].outcome, CrossOutcome::Missing);
    assert!(!env.store().exists(), "nothing is stored");

    let invalid = serde_json::json!({"schema": 1, "rows": [{"peer": 7}]});
    assert_schema(&output, include_str!("../../../../docs/crosscheck.schema.json"), &invalid);
}

#[test]
fn dd_is_compared_and_leaves_no_file() {
    let env = ProgramTestEnv::new();
    if !fathom_peers::is_there("dd") {
        return skipped("dd is missing; install with: sudo apt-get install coreutils");
    }
    let folder = files(&env);
    let written = "file.write.throughput{file_bytes=100MiB}";
    let line = format!("crosscheck {written} --pairs 2 --json --allow-memory --folder");
    let output = env.exec(&format!("{line} {}", folder.display()));
    let reason = document(&output).rows.swap_remove(0).reason;
    if let Some(reason) = reason.filter(|reason| reason.contains("does not stay in the page cache"))
    {
        return skipped(&reason);
    }
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let announced = text(&output.stderr);
    assert!(announced.contains("384 MiB once") && announced.contains("about "), "{announced}");
    let document = document(&output);
    let [row] = document.rows.as_slice() else { panic!("one row: {:?}", document.rows) };
    assert_eq!((row.peer.as_str(), row.outcome), ("dd", CrossOutcome::Compared), "{row:?}");
    assert!(row.version.is_some() && row.turns.len() == 2);
    assert!(row.turns.iter().all(|turn| turn.peer_preempted_hz.is_some()));
    assert!(row.turns.iter().all(|turn| turn.detail.is_empty()), "{:?}", row.turns);
    assert!(entries(&folder).is_empty(), "{:?}", entries(&folder));
}

/// Peers with a server, or with a command that needs a permission, and a short case of each.
const NETWORK_PEERS: [(&str, &str); 4] = [
    ("sockperf", "network.tcp.rtt{bytes=56,cpus=1}"),
    ("iperf3", "network.tcp.bandwidth{chunk_bytes=64KiB,cpus=1}"),
    ("lmbench", "network.tcp.rtt{bytes=1,cpus=1}"),
    ("ping", "network.icmp.rtt"),
];

#[test]
#[ignore = "lab: real peers run for seconds"]
fn network_peers_are_compared_and_leave_no_server() {
    let env = ProgramTestEnv::new();
    for (program, case) in NETWORK_PEERS {
        let peer = fathom_peers::PEERS.iter().find(|peer| peer.name() == program).expect("a peer");
        if !fathom_peers::is_there(peer.program()) {
            let package = peer.package();
            let what =
                format!("{program} is missing; install with: sudo apt-get install {package}");
            skipped(&what);
            continue;
        }
        let value = format!("{}-{program}", std::process::id());
        let mut command = env.fathom(&["crosscheck", case, "--pairs", "1", "--json"]);
        let output = command.env(MARK, &value).output().expect("it starts");
        let document = document(&output);
        let [row] = document.rows.as_slice() else { panic!("one row: {:?}", document.rows) };
        // Another user than root may send no ICMP.
        if row.reason.as_ref().is_some_and(|why| why.contains("unavailable")) {
            skipped(&format!("{case}: {}", row.reason.as_deref().unwrap_or_default()));
            continue;
        }
        assert_eq!((row.peer.as_str(), row.outcome), (program, CrossOutcome::Compared), "{row:?}");
        assert!(row.version.is_some() && row.turns[0].theirs > 0.0, "{row:?}");
        assert_eq!(row.turns[0].detail.is_empty(), program == "lmbench", "{row:?}");
        let servers = row.peer_commands.iter().filter(|command| command.ends_with(" &")).count();
        assert_eq!(servers, usize::from(program != "ping"), "{row:?}");
        let left = fathom_lab::processes::left_after(&format!("{MARK}={value}"), 10);
        assert_eq!(left, Vec::<u32>::new(), "{program}");
    }
}

/// A sockperf with a server that listens for ever, and a script for its client.
fn sockperf(client: &str) -> Option<String> {
    let paths = ["/usr/bin/python3", "/usr/local/bin/python3"];
    let Some(python) = paths.into_iter().find(|path| Path::new(path).exists()) else {
        skipped("python3 is missing; install with: sudo apt-get install python3");
        return None;
    };
    let listener = "import socket, sys, time; s = socket.socket(); \
                    s.bind((\"127.0.0.1\", int(sys.argv[1]))); s.listen(); time.sleep(1000)";
    // The port is the fifth word: server --ip 127.0.0.1 --port N.
    let server = format!("exec {python} -c '{listener}' \"$5\"");
    let version = "--version) echo 3.7";
    Some(format!("case \"$1\" in {version};; server) {server};; *) {client};; esac"))
}

#[test]
fn peer_with_server_is_compared_and_its_server_ends() {
    let env = ProgramTestEnv::new();
    let recorded =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../peers/tests/outputs/sockperf-3.7-tcp.txt");
    let Some(script) = sockperf(&format!("/bin/cat '{recorded}'")) else { return };
    let words = ["network.tcp.rtt{bytes=56,cpus=1}", "--json", "--pairs", "1"];
    let value = format!("{}-ends", std::process::id());
    let mut command = fathom(&env, &[("sockperf", &script)], &words);
    let document = document(&command.env(MARK, &value).output().expect("it starts"));
    let [row] = document.rows.as_slice() else { panic!("one row: {:?}", document.rows) };
    assert_eq!(row.outcome, CrossOutcome::Compared, "{row:?}");
    // The median of the recorded halves is 2.454 µs.
    assert_eq!((row.turns.len(), row.turns[0].theirs), (1, 4908.0), "{row:?}");
    assert_eq!(row.peer_commands.iter().filter(|it| it.ends_with(" &")).count(), 1, "{row:?}");
    let left = fathom_lab::processes::left_after(&format!("{MARK}={value}"), 10);
    assert_eq!(left, Vec::<u32>::new());
}

#[test]
fn ctrl_c_and_a_failing_server_leave_no_process() {
    let env = ProgramTestEnv::new();
    let folder = files(&env);
    let words = ["network.tcp.rtt{bytes=56,cpus=1}", "--json", "--pairs", "1"];
    let failing = "case \"$1\" in --version) echo 3.7;; *) echo no socket >&2; exit 4;; esac";
    let output = fathom(&env, &[("sockperf", failing)], &words).output().expect("it starts");
    let reason = document(&output).rows[0].reason.clone();
    assert_eq!(reason.as_deref(), Some("server sockperf: exited with status 4: no socket"));

    let started = env.path().join("started");
    let hangs = format!("echo 1 > {}; /bin/sleep 1000", started.display());
    let Some(script) = sockperf(&hangs) else { return };
    let command = fathom(&env, &[("sockperf", &script)], &words);
    let document = assert_interrupted(command, "server", &folder, || started.exists());
    assert_eq!(document.rows[0].outcome, CrossOutcome::Interrupted);
}
