use std::os::fd::AsFd as _;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Runs a command on these CPUs, or on all.
fn run_on(cpus: Option<u32>, invocation: &Invocation, limit_ns: u64) -> Result<Output, RunError> {
    let (stop, _writer) = rustix::pipe::pipe().expect("a pipe");
    let cpus = cpus.map_or_else(fathom_measure::affinity::allowed, |cpu| vec![cpu]);
    Runner { stop: stop.as_fd(), limit_ns, cpus }.run(invocation)
}

fn shell(script: &str) -> Invocation {
    Invocation::new("sh", ["-c", script])
}

fn run(script: &str) -> Result<Output, RunError> {
    run_on(None, &shell(script), 20 * SECOND)
}

fn reason(outcome: Result<Output, RunError>) -> String {
    match outcome {
        Err(RunError::Failed(why)) => why,
        other => panic!("it did not fail: {other:?}"),
    }
}

/// Whether a process exists and is no zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Whether a process ends within a second.
fn ends(pid: &str) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        !runs(pid)
    })
}

#[test]
fn output_is_complete_and_in_the_c_locale() {
    let output = run("echo $LC_ALL; echo more >&2; sleep 0.05").unwrap();
    assert_eq!((output.out.as_str(), output.err.as_str()), ("C\n", "more\n"));
    assert!(output.ns > 50e6, "wall time: {}", output.ns);
}

#[test]
fn input_and_removed_variables_reach_the_program() {
    let mut invocation = Invocation::new("/bin/sh", ["-c", "read a; echo $a ${HOME-none}"]);
    invocation.input = "given\n";
    invocation.without = &["HOME"];
    assert_eq!(run_on(None, &invocation, 20 * SECOND).unwrap().out, "given none\n");
}

#[test]
fn program_runs_on_the_given_cpus() {
    let one = fathom_measure::affinity::allowed()[0];
    let list = Invocation::new("grep", ["Cpus_allowed_list", "/proc/self/status"]);
    let output = run_on(Some(one), &list, 20 * SECOND).unwrap().out;
    assert_eq!(output.split_whitespace().last(), Some(one.to_string().as_str()), "{output}");
}

#[test]
fn failure_quotes_the_last_line() {
    let why = reason(run("echo no such benchmark >&2; exit 3"));
    assert!(why.starts_with("sh: ") && why.ends_with("status 3: no such benchmark"), "{why}");
    assert!(reason(run("kill -SEGV $$")).contains("signal 11"));
    assert!(reason(run("head -c 9000000 /dev/zero")).contains("4 MiB"));
    let why = reason(run_on(None, &Invocation::new("no-such-program", ["x"]), SECOND));
    assert!(why.starts_with("no-such-program: cannot start: "), "{why}");
}

#[test]
fn hanging_program_is_killed_with_all_children() {
    let folder = tempfile::tempdir().expect("a folder");
    let pids = folder.path().join("pids");
    // One child in its process group, one in another session; all ignore SIGTERM.
    let script = format!(
        "trap '' TERM; echo $$ > {0}; sh -c 'trap \"\" TERM; echo $$ >> {0}; sleep 100; :' & \
         setsid sh -c 'trap \"\" TERM; echo $$ >> {0}; sleep 100; :' & sleep 100; :",
        pids.display()
    );
    let why = reason(run_on(None, &shell(&script), SECOND / 2));
    assert!(why.contains("0.5 s"), "{why}");
    let list = std::fs::read_to_string(&pids).expect("they started");
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.lines().all(ends), "still running, some of {list}");
}

#[test]
fn child_that_outlives_its_program_is_killed() {
    let output = run("sleep 100 > /dev/null 2>&1 & echo $!").unwrap();
    assert!(ends(output.out.trim()));
}

#[test]
fn preemption_and_lost_time_are_counted() {
    let one = fathom_measure::affinity::allowed()[0];
    // Two CPU-bound processes on one CPU.
    let count = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let script = format!("({count}) & {count}; wait");
    let output = run_on(Some(one), &shell(&script), 60 * SECOND).unwrap();
    assert!(output.preempted > 5, "{output:?}");
    let share = output.lost_ns.map(|ns| ns / output.ns);
    assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{share:?}");
}

#[test]
fn user_stops_a_program() {
    let (stop, writer) = rustix::pipe::pipe().expect("a pipe");
    rustix::io::write(&writer, b"!").expect("space in the pipe");
    let cpus = fathom_measure::affinity::allowed();
    let runner = Runner { stop: stop.as_fd(), limit_ns: 100 * SECOND, cpus };
    let outcome = runner.run(&Invocation::new("sleep", ["100"]));
    assert_eq!(outcome, Err(RunError::Stopped));
}

#[test]
fn command_is_quoted_for_a_shell() {
    let invocation = Invocation::new("fathom", ["run", "os.syscall{call=stat}", "it's", ""]);
    assert_eq!(invocation.to_string(), r"fathom run 'os.syscall{call=stat}' 'it'\''s' ''");
}
