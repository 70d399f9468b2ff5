//! Programs that behave in every way.

use std::os::fd::AsFd as _;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A shell's script, with a limit.
fn run_within(script: &str, limit_ns: u64) -> Result<Output, RunError> {
    let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
    let cpus = fathom_measure::affinity::allowed();
    let runner = Runner { stop: stop.as_fd(), limit_ns, cpus };
    runner.run(&Invocation::new("sh", ["-c", script]))
}

fn run(script: &str) -> Result<Output, RunError> {
    run_within(script, 20 * SECOND)
}

fn reason(ended: Result<Output, RunError>) -> String {
    match ended {
        Err(RunError::Failed(why)) => why,
        other => panic!("it did not fail: {other:?}"),
    }
}

/// Whether a process with this number runs; one that nobody has reaped yet does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn what_a_program_says_is_heard_whole_in_the_language_c() {
    let output = run("echo $LC_ALL; echo more >&2; sleep 0.05").unwrap();
    assert_eq!((output.out.as_str(), output.err.as_str()), ("C\n", "more\n"));
    assert!(output.ns > 50e6, "its whole time: {}", output.ns);
}

#[test]
fn a_program_reads_what_it_is_given_and_sees_no_variable_that_is_kept_from_it() {
    let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
    let cpus = fathom_measure::affinity::allowed();
    let runner = Runner { stop: stop.as_fd(), limit_ns: 20 * SECOND, cpus };
    let mut invocation = Invocation::new("sh", ["-c", "cat; echo ${PATH-none}"]);
    invocation.program = "/bin/sh".to_owned();
    invocation.arguments = vec!["-c".to_owned(), "read a; echo $a ${HOME-none}".to_owned()];
    invocation.input = "given\n";
    invocation.without = &["HOME"];
    assert_eq!(runner.run(&invocation).unwrap().out, "given none\n");
}

#[test]
fn a_program_runs_where_it_may() {
    let one = fathom_measure::affinity::allowed()[0];
    let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
    let runner = Runner { stop: stop.as_fd(), limit_ns: 20 * SECOND, cpus: vec![one] };
    let list = Invocation::new("grep", ["Cpus_allowed_list", "/proc/self/status"]);
    let output = runner.run(&list).unwrap().out;
    assert_eq!(output.split_whitespace().last(), Some(one.to_string().as_str()), "{output}");
}

#[test]
fn failures_come_with_the_last_words() {
    assert_eq!(
        reason(run("echo no such benchmark >&2; exit 3")),
        "sh: exited with status 3: no such benchmark"
    );
    assert_eq!(reason(run("kill -SEGV $$")), "sh: was killed by signal 11 (segmentation fault)");
    assert!(reason(run("head -c 9000000 /dev/zero")).contains("wrote more than 4 MiB"));
    let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
    let runner = Runner { stop: stop.as_fd(), limit_ns: SECOND, cpus: vec![0] };
    let why = reason(runner.run(&Invocation::new("no-such-program", ["x"])));
    assert!(why.starts_with("no-such-program: start it: "), "{why}");
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children_wherever_they_went() {
    let folder = tempfile::tempdir().expect("a folder");
    let pids = folder.path().join("pids");
    // One in its group, one in a session of its own; neither heeds SIGTERM.
    let script = format!(
        "trap '' TERM; echo $$ > {0}; sh -c 'trap \"\" TERM; echo $$ >> {0}; sleep 100; :' & \
         setsid sh -c 'trap \"\" TERM; echo $$ >> {0}; sleep 100; :' & sleep 100; :",
        pids.display()
    );
    let why = reason(run_within(&script, SECOND / 2));
    assert!(why.contains("timed out after 0.5 s"), "{why}");
    let list = std::fs::read_to_string(&pids).expect("they began");
    assert_eq!(list.lines().count(), 3, "{list}");
    let left: Vec<&str> = list
        .lines()
        .filter(|pid| {
            (0..500).all(|_| {
                std::thread::sleep(std::time::Duration::from_millis(2));
                runs(pid)
            })
        })
        .collect();
    assert!(left.is_empty(), "still there: {left:?}");
}

#[test]
fn a_child_that_outlives_its_program_is_ended() {
    let output = run("sleep 100 > /dev/null 2>&1 & echo $!").unwrap();
    let pid = output.out.trim();
    let gone = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        !runs(pid)
    });
    assert!(gone, "{pid} is still there");
}

#[test]
fn who_shares_a_cpu_loses_it_and_is_counted() {
    let one = fathom_measure::affinity::allowed()[0];
    let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
    let runner = Runner { stop: stop.as_fd(), limit_ns: 60 * SECOND, cpus: vec![one] };
    // Two that count on one CPU take turns.
    let count = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let script = format!("({count}) & {count}; wait");
    let output = runner.run(&Invocation::new("sh", ["-c", &script])).unwrap();
    assert!(output.preempted > 5, "{output:?}");
    // Both are its own.
    let own = run("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done").unwrap();
    let share =
        |output: &Output, cpus: usize| output.lost_ns.map(|ns| ns / output.ns / cpus as f64);
    for share in [share(&output, 1), share(&own, fathom_measure::affinity::allowed().len())] {
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{share:?}");
    }
}

#[test]
fn a_person_stops_a_program() {
    let (stop, ask) = rustix::pipe::pipe().expect("a pipe");
    rustix::io::write(&ask, b"!").expect("there is room");
    let runner = Runner { stop: stop.as_fd(), limit_ns: 100 * SECOND, cpus: vec![0] };
    let cpus = fathom_measure::affinity::allowed();
    let runner = Runner { cpus, ..runner };
    let ended = runner.run(&Invocation::new("sleep", ["100"]));
    assert_eq!(ended, Err(RunError::Stopped));
}

#[test]
fn a_command_is_shown_as_a_shell_takes_it() {
    let invocation = Invocation::new("fathom", ["run", "os.syscall{call=stat}", "it's", ""]);
    assert_eq!(invocation.to_string(), r"fathom run 'os.syscall{call=stat}' 'it'\''s' ''");
}

#[test]
fn programs_are_looked_for_as_they_are_started() {
    assert!(is_there("sh") && !is_there("no-such-program"));
}
